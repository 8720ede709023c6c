// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { AnswerKindJson, ApprovalAnswerJson, ApprovalJson, QuestionAnswerJson, QuestionJson } from "./gen/toolserver/v1/approval_pb";
import type { ListApprovalsResponseJson, ResolveApprovalRequestJson, ResolveApprovalResponseJson, WatchApprovalsResponseJson } from "./gen/toolserver/v1/approval_service_pb";
import * as api from "./api";
import { hasRole, say, sayError, server, Store, useKeys } from "./store";
import { Effects, Preview, Tiers, VerdictBadge } from "./judged";
import { answerText, approvalText, caller, jail, size, span, visible } from "./words";
import { alarms, announce } from "./alarm";

// State is what waits, and what no longer does.
interface State {
  approvals: ApprovalJson[];
  ended: Map<string, ApprovalAnswerJson | undefined>; // of those that this page has shown
  link: api.Link;
  choosing: boolean; // a number is the number of a tier, and not of a page
}

export const inbox = new Store<State>({ approvals: [], ended: new Map(), link: "connecting", choosing: false });

const update = (change: Partial<State>) => inbox.set({ ...inbox.value, ...change });

// watchInbox follows what waits as long as the page is open.
export function watchInbox(): () => void {
  const stop = api.keep(async (signal, connected) => {
    for await (const change of api.lines<WatchApprovalsResponseJson>("GET", "approvals/changes", { signal })) {
      connected();
      if (change.snapshot) replace(change.snapshot.approvals ?? []);
      if (change.asked) {
        const asked = change.asked;
        announce(asked);
        update({ approvals: [...inbox.value.approvals.filter((a) => a.approvalId !== asked.approvalId), asked] });
      }
      if (change.ended) end(change.ended.approvalId!, change.ended.answer);
    }
    return false;
  }, (link) => update({ link }));
  // A hidden page has no stream, and asks from time to time.
  const timer = setInterval(async () => {
    if (!document.hidden) return;
    const list = await api.get<ListApprovalsResponseJson>("approvals").catch(() => undefined);
    if (!list || !document.hidden) return;
    const known = new Set(inbox.value.approvals.map((a) => a.approvalId));
    for (const a of list.approvals ?? []) if (!known.has(a.approvalId)) announce(a);
    replace(list.approvals ?? []);
  }, 5000);
  return () => {
    stop();
    clearInterval(timer);
  };
}

function replace(approvals: ApprovalJson[]) {
  const ended = new Map(inbox.value.ended);
  const still = new Set(approvals.map((a) => a.approvalId));
  for (const a of inbox.value.approvals) if (!still.has(a.approvalId) && !ended.has(a.approvalId!)) ended.set(a.approvalId!, undefined);
  update({ approvals, ended });
}

function end(id: string, answer: ApprovalAnswerJson | undefined) {
  const ended = new Map([...inbox.value.ended].slice(-200));
  ended.set(id, answer);
  update({ approvals: inbox.value.approvals.filter((a) => a.approvalId !== id), ended });
}

async function resolve(a: ApprovalJson, request: ResolveApprovalRequestJson) {
  const response = await api.post<ResolveApprovalResponseJson, ResolveApprovalRequestJson>(`approvals/${api.id(a.approvalId)}/answer`, { digest: a.digest, ...request });
  end(a.approvalId!, response.answer);
}

// armedAfter is how long a card is there before a key answers it: what has just moved under
// a finger is not what the finger meant.
const armedAfter = 350; // ms

export function Inbox({ parts }: { parts: string[] }) {
  const { approvals, ended } = inbox.use();
  const [shown, show] = useState<ApprovalJson | undefined>();
  const [selected, select] = useState<Set<string>>(new Set());
  const [always, setAlways] = useState<"allow" | "deny" | undefined>();
  const [tier, setTier] = useState(0);
  const [comment, setComment] = useState("");
  const [busy, setBusy] = useState(false);
  const [armedFor, arm] = useState<string | undefined>(); // the card that keys answer
  const sounds = alarms.use();
  const writing = useRef<HTMLInputElement>(null);
  const card = useRef<HTMLElement>(null);

  // What is shown stays when somebody else answers it, until one moves on: or a key that is
  // meant for it would answer the next.
  const over = shown !== undefined && !approvals.some((a) => a.approvalId === shown.approvalId);
  useEffect(() => {
    if (shown || approvals.length === 0) return;
    show(approvals.find((a) => a.approvalId === parts[0]) ?? approvals[0]);
  }, [approvals, shown, parts[0]]);
  const armed = shown !== undefined && armedFor === shown.approvalId;
  useLayoutEffect(() => {
    setAlways(undefined);
    setTier(0);
    setComment("");
    const timer = setTimeout(() => arm(shown?.approvalId), armedAfter);
    return () => clearTimeout(timer);
  }, [shown?.approvalId]);
  useLayoutEffect(() => {
    update({ choosing: always !== undefined });
    return () => update({ choosing: false });
  }, [always]);

  const at = approvals.findIndex((a) => a.approvalId === shown?.approvalId);
  const move = (by: number) => {
    const next = at < 0 ? approvals[0] : approvals[Math.max(0, Math.min(approvals.length - 1, at + by))];
    show(next);
    if (next) document.getElementById(`a-${next.approvalId}`)?.scrollIntoView({ block: "nearest" });
  };
  const chosen = approvals.filter((a) => selected.has(a.approvalId!));
  const toggle = (id: string) => select((s) => (s.has(id) ? new Set([...s].filter((x) => x !== id)) : new Set(s).add(id)));

  const answer = async (kind: AnswerKindJson, more: ResolveApprovalRequestJson = {}) => {
    const to = chosen.length > 0 && !kind.endsWith("ALWAYS") ? chosen : shown && !over ? [shown] : [];
    if (to.length === 0 || busy || (!armed && chosen.length === 0)) return;
    setBusy(true);
    const ids = new Set(to.map((a) => a.approvalId));
    select((s) => new Set([...s].filter((id) => !ids.has(id))));
    let done = 0;
    for (const a of to) {
      try {
        await resolve(a, { kind, comment, ...more });
        done++;
      } catch (err) {
        sayError(err);
      }
    }
    setBusy(false);
    if (done > 0) say(`${answerText({ kind })}: ${to.length === 1 ? to[0]!.tool : `${done} calls`}`);
    const rest = inbox.value.approvals;
    if (done > 0) show(rest[Math.min(Math.max(at, 0), rest.length - 1)]);
  };
  const askTier = (what: "allow" | "deny") => {
    if (!shown || over || chosen.length > 0) return;
    if (!shown.tiers?.length) return say("This can be answered for one time only.", true);
    setAlways(what);
    requestAnimationFrame(() => card.current?.querySelector<HTMLElement>(".tiers input:checked")?.focus());
  };
  const confirm = (number = tier) => {
    const id = shown?.tiers?.[number]?.tierId;
    if (always && id !== undefined) answer(always === "allow" ? "ANSWER_KIND_ALLOW_ALWAYS" : "ANSWER_KIND_DENY_ALWAYS", { tierId: id });
  };
  const asks = Boolean(shown?.questions?.length);
  const keys: Record<string, (() => void) | undefined> = {
    y: asks && chosen.length === 0 ? () => card.current?.querySelector<HTMLElement>("input, textarea")?.focus() : () => answer("ANSWER_KIND_ALLOW_ONCE"),
    n: () => answer("ANSWER_KIND_DENY_ONCE"),
    a: () => !asks && askTier("allow"),
    N: () => askTier("deny"),
    c: () => writing.current?.focus(),
    x: () => shown && !over && toggle(shown.approvalId!),
    X: () => select(chosen.length === approvals.length ? new Set() : new Set(approvals.map((a) => a.approvalId!))),
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: always ? undefined : () => move(1),
    ArrowUp: always ? undefined : () => move(-1),
    Enter: () => (always ? confirm() : over ? move(1) : card.current?.focus()),
    Escape: () => (always ? setAlways(undefined) : selected.size > 0 ? select(new Set()) : (document.activeElement as HTMLElement)?.blur()),
  };
  if (always) shown?.tiers?.forEach((_, i) => i < 9 && (keys[`${i + 1}`] = () => (setTier(i), confirm(i))));
  useKeys(keys);

  return (
    <>
      <div class="title">
        <h1>Inbox</h1>
        <p class="dim">{approvals.length === 0 ? "Nothing waits for an answer." : `${approvals.length} waiting`}</p>
        <span class="grow" />
        <button class="quiet" aria-pressed={sounds.sound} onClick={() => alarms.set({ ...alarms.value, sound: !sounds.sound })}>
          Sound {sounds.sound ? "on" : "off"}
        </button>
        <button class="quiet" aria-pressed={sounds.desktop} onClick={() => toggleDesktop()}>
          Notifications {sounds.desktop ? "on" : "off"}
        </button>
      </div>
      {approvals.length === 0 && !shown ? (
        <Empty />
      ) : (
        <div class="two">
          <ul class="list" aria-label="Waiting approvals">
            {approvals.map((a) => (
              <li id={`a-${a.approvalId}`} class={a.approvalId === shown?.approvalId ? "current" : ""}>
                <input type="checkbox" aria-label={`Select ${a.tool}`} checked={selected.has(a.approvalId!)} onChange={() => toggle(a.approvalId!)} />
                <button aria-current={a.approvalId === shown?.approvalId ? "true" : undefined} onClick={() => show(a)}>
                  <b>{visible(a.tool)}</b> <Expires at={a.expireTime} />
                  <span class="line">{approvalText(a)}</span>
                  <span class="dim line">{caller(a.tenant, a.principal, a.onBehalfOf)} · {visible(a.chain?.at(-1)?.agent ?? a.sessionId)}</span>
                </button>
              </li>
            ))}
          </ul>
          {shown && (
            <article class="card" ref={card} tabIndex={-1} aria-label={`Approval of ${shown.tool}`} data-id={shown.approvalId} data-armed={armed && !over}>
              <About a={shown} />
              {over ? (
                <p class="over" role="status">
                  {ended.get(shown.approvalId!) ? `Somebody answered: ${answerText(ended.get(shown.approvalId!))}` : "It no longer waits."}{" "}
                  <button onClick={() => (approvals.length ? move(1) : show(undefined))}>
                    Go on <kbd>Enter</kbd>
                  </button>
                </p>
              ) : asks ? (
                <Questions a={shown} send={(answers) => answer("ANSWER_KIND_ANSWERED", { answers })} deny={() => answer("ANSWER_KIND_DENY_ONCE")} />
              ) : (
                <>
                  <Tiers tiers={shown.tiers ?? []} chosen={tier} choose={setTier} asking={always} />
                  <label class="comment">
                    <span>Comment for the model</span>
                    <input ref={writing} value={comment} maxLength={1000} onInput={(e) => setComment(e.currentTarget.value)} onKeyDown={(e) => e.key === "Enter" && e.currentTarget.blur()} />
                  </label>
                  <div class="answers">
                    {always ? (
                      <>
                        <button class={always === "allow" ? "allow" : "deny"} disabled={busy} onClick={() => confirm()}>
                          {always === "allow" ? "Always allow" : "Never allow"} what is chosen <kbd>Enter</kbd>
                        </button>
                        <button onClick={() => setAlways(undefined)}>
                          Back <kbd>Esc</kbd>
                        </button>
                      </>
                    ) : (
                      <>
                        <button class="allow" disabled={busy} onClick={() => answer("ANSWER_KIND_ALLOW_ONCE")}>
                          Allow {chosen.length > 0 ? chosen.length : "once"} <kbd>y</kbd>
                        </button>
                        <button class="deny" disabled={busy} onClick={() => answer("ANSWER_KIND_DENY_ONCE")}>
                          Deny {chosen.length > 0 ? chosen.length : "once"} <kbd>n</kbd>
                        </button>
                        {chosen.length === 0 && shown.tiers?.length && (
                          <>
                            <button disabled={busy} onClick={() => askTier("allow")}>
                              Always… <kbd>a</kbd>
                            </button>
                            <button disabled={busy} onClick={() => askTier("deny")}>
                              Never… <kbd>N</kbd>
                            </button>
                          </>
                        )}
                      </>
                    )}
                    {chosen.length > 0 && <span class="dim">{chosen.length} selected</span>}
                    {!mayAnswer(shown) && <span class="dim">Whoever made a call cannot approve it.</span>}
                  </div>
                </>
              )}
            </article>
          )}
        </div>
      )}
    </>
  );
}

function mayAnswer(a: ApprovalJson): boolean {
  return server.value?.selfApproval || a.principal !== server.value?.principal || !hasRole("agent", "approver");
}

async function toggleDesktop() {
  const on = !alarms.value.desktop && (await Notification.requestPermission()) === "granted";
  if (!on && !alarms.value.desktop) say("The browser does not allow notifications of this page.", true);
  alarms.set({ ...alarms.value, desktop: on });
}

function Empty() {
  return (
    <div class="empty">
      <p>When a call needs a person, it is here at once: what it would do, what the policy matched, and who asks.</p>
      <p class="dim">
        Answer with <kbd>y</kbd> <kbd>a</kbd> <kbd>n</kbd> <kbd>N</kbd>. <kbd>?</kbd> shows all keys.
      </p>
    </div>
  );
}

// Expires counts down to when no answer is a denial.
function Expires({ at }: { at?: string | undefined }) {
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => tick(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const left = new Date(at ?? 0).getTime() - now;
  return <span class={`expires ${left < 30_000 ? "soon" : ""}`}>{left > 0 ? span(Math.ceil(left / 1000) * 1000) : "over"}</span>;
}

// About is all that a person sees of an approval.
function About({ a }: { a: ApprovalJson }) {
  const more = [a.moreEffects && `${a.moreEffects} effects`, a.preview?.hiddenBytes && `${size(Number(a.preview.hiddenBytes))} of the preview's end`].filter(Boolean);
  return (
    <>
      <h2>
        {visible(a.tool)} {a.questions?.length ? "wants to know" : <span class="does">{approvalText(a)}</span>}
      </h2>
      {a.calledAs && <p class="dim">called as {visible(a.calledAs)}</p>}
      {!a.questions?.length && (
        <p class="why">
          <VerdictBadge verdict={a.verdict} /> by <b>{visible(a.verdict?.rule)}</b>: {visible(a.verdict?.reason)}
        </p>
      )}
      <dl class="facts">
        {a.purpose && (
          <>
            <dt>purpose</dt>
            <dd>
              <q>{visible(a.purpose)}</q> <span class="dim">as the caller tells it</span>
            </dd>
          </>
        )}
        <dt>asked by</dt>
        <dd>
          <ol class="chain">
            <li>{caller(a.tenant, a.principal, a.onBehalfOf)}</li>
            <li>session {visible(a.chain?.[0]?.parentSessionId ?? a.sessionId)}</li>
            {a.chain?.map((link) => (
              <li>
                agent <b>{visible(link.agent)}</b>
              </li>
            ))}
          </ol>
        </dd>
        <dt>expires</dt>
        <dd>
          in <Expires at={a.expireTime} />
        </dd>
        {jail(a.verdict?.rights) && (
          <>
            <dt>jail</dt>
            <dd>{jail(a.verdict?.rights)}</dd>
          </>
        )}
      </dl>
      {a.changedByHooks?.length && <p class="alarm">The input was changed by {visible(a.changedByHooks.join(", "))}: what is shown is what they made of it.</p>}
      {more.length > 0 && <p class="alarm">Not shown: {more.join(" and ")}.</p>}
      <Effects effects={a.effects ?? []} more={a.moreEffects ?? 0} />
      <Preview preview={a.preview} />
    </>
  );
}

// Questions asks what a tool wants to know.
function Questions({ a, send, deny }: { a: ApprovalJson; send: (answers: QuestionAnswerJson[]) => void; deny: () => void }) {
  const form = useRef<HTMLFormElement>(null);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(form.current!);
    send(a.questions!.map((_, i) => ({ chosen: data.getAll(`o${i}`).map(String), text: String(data.get(`t${i}`) ?? "") })));
  };
  return (
    <form ref={form} class="questions" onSubmit={submit}>
      {a.questions!.map((q, i) => (
        <fieldset>
          <legend>
            {q.header && <span class="dim">{visible(q.header)} </span>}
            {visible(q.text)}
          </legend>
          {q.options?.map((option) => (
            <label class="option">
              <input type={q.multiple ? "checkbox" : "radio"} name={`o${i}`} value={option.label} />
              <span>
                <b>{visible(option.label)}</b> <span class="dim">{visible(option.description)}</span>
              </span>
            </label>
          ))}
          {takesText(q) && <input name={`t${i}`} maxLength={4000} aria-label={`${q.text}: in your own words`} placeholder="in your own words" />}
        </fieldset>
      ))}
      <div class="answers">
        <button class="allow">
          Answer <kbd>Enter</kbd>
        </button>
        <button class="deny" type="button" onClick={deny}>
          Decline <kbd>n</kbd>
        </button>
      </div>
    </form>
  );
}

const takesText = (q: QuestionJson) => !q.optionsOnly || !q.options?.length;
