// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef, useState } from "preact/hooks";
import type { ContentJson } from "./gen/toolserver/v1/content_pb";
import type { EventJson, FinishedJson, NestedJson, ProgressJson } from "./gen/toolserver/v1/event_pb";
import type { ExecutionJson } from "./gen/toolserver/v1/execution_pb";
import type { CancelResponseJson, GetExecutionResponseJson, WatchExecutionResponseJson } from "./gen/toolserver/v1/tool_service_pb";
import * as api from "./api";
import { hasRole, sayError, server } from "./store";
import { Effects, VerdictBadge } from "./judged";
import { exportExecution } from "./recording";
import { answerText, caller, clock, jail, seconds, size, span, state, visible, word } from "./words";
import type { Screen } from "./terminal";

const maxEvents = 500; // that are shown
const maxHeld = 1 << 20; // bytes of output until the terminal is there

// useExecution follows the events of an execution, from the first on and over reconnects.
export function useExecution(id: string | undefined) {
  const [events, setEvents] = useState<EventJson[]>([]);
  const [progress, setProgress] = useState<ProgressJson | undefined>();
  const [finished, setFinished] = useState<FinishedJson | undefined>();
  const [link, setLink] = useState<{ link: api.Link; why?: string | undefined }>({ link: "connecting" });
  const [output, setOutput] = useState(false);
  const sink = useRef<((data: Uint8Array, terminal: boolean) => void) | undefined>(undefined);
  const held = useRef<{ data: Uint8Array; terminal: boolean }[]>([]);
  useEffect(() => {
    if (!id) return;
    let last = "";
    let bytes = 0;
    held.current = [];
    setEvents([]);
    setProgress(undefined);
    setFinished(undefined);
    setOutput(false);
    return api.keep(
      async (signal, connected) => {
        for await (const { event } of api.lines<WatchExecutionResponseJson>("GET", `executions/${api.id(id)}/events`, { signal, after: last })) {
          connected();
          if (!event || event.heartbeat) continue;
          last = String(event.sequence ?? last);
          if (event.output) {
            const terminal = event.output.stream === "OUTPUT_STREAM_TERMINAL";
            const data = api.bytes(event.output.data);
            setOutput(true);
            if (sink.current) sink.current(data, terminal);
            else if ((bytes += data.length) < maxHeld) held.current.push({ data, terminal });
            continue;
          }
          if (event.progress) {
            setProgress(event.progress);
            continue;
          }
          setEvents((before) => [...before, event].slice(-maxEvents));
          if (event.finished) {
            setFinished(event.finished);
            return true;
          }
        }
        return false;
      },
      (now, why) => setLink({ link: now, why }),
    );
  }, [id]);
  const attach = (screen: Screen | undefined) => {
    sink.current = screen && ((data, terminal) => screen.write(data, terminal));
    if (screen) for (const piece of held.current.splice(0)) screen.write(piece.data, piece.terminal);
  };
  return { events, progress: finished ? undefined : progress, finished, link, output, attach };
}

// Execution shows one execution: what it may, what it does while it does it, and its end.
export function Execution({ id, listed, changed }: { id: string; listed?: ExecutionJson | undefined; changed: (e: ExecutionJson) => void }) {
  const followed = useExecution(id);
  const [details, setDetails] = useState<ExecutionJson | undefined>();
  const { finished, events } = followed;
  useEffect(() => {
    api.get<GetExecutionResponseJson>(`executions/${api.id(id)}`).then(
      (r) => (setDetails(r.execution), r.execution && changed(r.execution)),
      () => {}, // the stream tells why
    );
  }, [id, finished !== undefined, events.length > 1]);
  const e = details ?? listed;
  const over = finished !== undefined || Boolean(e?.outcome);
  const cancel = () => api.post<CancelResponseJson>(`executions/${api.id(id)}/cancel`, { reason: "cancelled in the console" }).then((r) => r.execution && changed(r.execution), sayError);
  if (!e) return <section class="card">{followed.link.why ? <p class="wrong">{visible(followed.link.why)}</p> : <p class="dim">…</p>}</section>;
  return (
    <section class="card" aria-label={`Execution of ${e.tool}`} data-id={id}>
      <div class="head">
        <h2>{visible(e.tool)}</h2>
        <span class={`badge ${state(e)}`}>{state(e)}</span>
        {followed.link.link === "lost" && !over && <span class="dim">{followed.link.why ? visible(followed.link.why) : "connection lost, trying again…"}</span>}
        <span class="grow" />
        <Export what={() => exportExecution(e)} />
        {!over && hasRole("agent", "operator") && (
          <button class="deny" onClick={cancel}>
            Cancel
          </button>
        )}
      </div>
      <Facts e={e} over={over} />
      <Running {...followed} id={id} input={!over && e.principal === server.value?.principal && (e.tenant ?? "") === (server.value?.tenant ?? "")} />
      {(e.effects?.length ?? 0) > 0 && (
        <details>
          <summary>Effects ({e.effects!.length + (e.moreEffects ?? 0)})</summary>
          <Effects effects={e.effects!} more={e.moreEffects ?? 0} />
        </details>
      )}
    </section>
  );
}

// Export is a button that gives a recording as a file.
export function Export({ what }: { what: () => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  const run = () => {
    setBusy(true);
    what().catch(sayError).finally(() => setBusy(false));
  };
  return (
    <button disabled={busy} title="As one file, with its timing, which can be played back" onClick={run}>
      Export
    </button>
  );
}

// Facts tells whose execution it is, when it was, and what the policy said.
export function Facts({ e, over }: { e: ExecutionJson; over: boolean }) {
  return (
    <dl class="facts">
      {e.purpose && (
        <>
          <dt>purpose</dt>
          <dd>
            <q>{visible(e.purpose)}</q>
          </dd>
        </>
      )}
      <dt>by</dt>
      <dd>
        {caller(e.tenant, e.principal, e.onBehalfOf)}, session {visible(e.sessionId)}, call {visible(e.callId)}
      </dd>
      <dt>when</dt>
      <dd>
        {clock(e.createTime)}
        {e.startTime && e.endTime && `, took ${span(new Date(e.endTime).getTime() - new Date(e.startTime).getTime())}`}
        {e.timeout && !over && `, at most ${span(seconds(e.timeout) * 1000)}`}
      </dd>
      {e.verdict && (
        <>
          <dt>policy</dt>
          <dd>
            <VerdictBadge verdict={e.verdict} /> by {visible(e.verdict.rule)}: {visible(e.verdict.reason)}
          </dd>
        </>
      )}
      {jail(e.verdict?.rights) && (
        <>
          <dt>jail</dt>
          <dd>{jail(e.verdict?.rights)}</dd>
        </>
      )}
    </dl>
  );
}

export type Followed = ReturnType<typeof useExecution>;

// Running shows what an execution does: its output, progress, events and result.
export function Running({ events, progress, finished, output, attach, id, input }: Followed & { id: string; input: boolean }) {
  return (
    <>
      {progress && (
        <p>
          <progress aria-label="Progress" {...(progress.total ? { max: Number(progress.total), value: Number(progress.done ?? 0) } : {})} />
          <span class="dim">
            {visible(progress.message)} {progress.total ? `${progress.done ?? 0} of ${progress.total} ${progress.unit ?? ""}` : ""}
          </span>
        </p>
      )}
      {output && <Output id={id} attach={attach} input={input} />}
      {finished && <Result finished={finished} shown={output} />}
      <details open={!finished || !output}>
        <summary>Events ({events.length})</summary>
        <ol class="events">
          {events.map((event) => (
            <li>
              <span class="dim">{clock(event.time)}</span>
              <span>{eventText(event)}</span>
            </li>
          ))}
        </ol>
      </details>
    </>
  );
}

// Output is the terminal of a command, and what is sent to it.
function Output({ id, attach, input }: { id: string; attach: (screen: Screen | undefined) => void; input: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const writable = useRef(input);
  writable.current = input;
  useEffect(() => {
    let opened: Screen | undefined;
    let closed = false;
    const send = async (what: object) => {
      if (writable.current) await api.post(`executions/${api.id(id)}/input`, what).catch(sayError);
    };
    let typed = "";
    let sending = false;
    const type = async (text: string) => {
      typed += text;
      if (sending) return; // one after the other, or they would come in any order
      sending = true;
      for (let data = typed; data; data = typed) {
        typed = "";
        await send({ data: api.base64(data) });
      }
      sending = false;
    };
    import("./terminal").then(({ screen }) => {
      if (closed) return;
      opened = screen(place.current!, type, (rows, columns) => send({ windowSize: { rows, columns } }));
      (place.current as HTMLElement & { screen?: Screen }).screen = opened;
      attach(opened);
    });
    return () => {
      closed = true;
      attach(undefined);
      opened?.close();
    };
  }, [id]);
  return <div ref={place} class="tty" role="group" aria-label={input ? "Output; what you type here goes to the command" : "Output"} />;
}

// Result is how an execution ended, and what the model was told.
function Result({ finished, shown }: { finished: FinishedJson; shown: boolean }) {
  const facts = [
    word(finished.outcome, "OUTCOME_"),
    finished.exit?.reason === "EXIT_REASON_EXITED" ? `exit code ${finished.exit.code ?? 0}` : finished.exit ? word(finished.exit.reason, "EXIT_REASON_") : "",
    finished.usage?.ran && `ran for ${span(seconds(finished.usage.ran) * 1000)}`,
    finished.usage?.maxRssBytes && `${size(Number(finished.usage.maxRssBytes))} of memory`,
    finished.cancellation && `cancelled by ${finished.cancellation.by}: ${finished.cancellation.reason ?? ""}`,
    finished.contentTokens && `about ${finished.contentTokens} tokens`,
  ].filter(Boolean);
  return (
    <>
      <p class="over">{visible(facts.join(" · "))}</p>
      {finished.warnings?.map((w) => <p class="alarm">{visible(w)}</p>)}
      <details open={!shown}>
        <summary>What the model was told</summary>
        {finished.content?.map((c) => <Content content={c} />)}
      </details>
    </>
  );
}

function Content({ content }: { content: ContentJson }) {
  if (content.image && /^image\/(png|jpeg|gif|webp)$/.test(content.image.mediaType ?? "")) {
    return <img alt="Picture of the result" class="picture" src={`data:${content.image.mediaType};base64,${content.image.data}`} />;
  }
  if (content.artifact) return <p class="dim">artifact {visible(content.artifact.name)}, {size(Number(content.artifact.size ?? 0))}: <code>{visible(content.artifact.uri)}</code></p>;
  return (
    <pre class="block" tabIndex={0}>
      {visible(content.text ?? pretty(content.json ?? ""))}
    </pre>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), undefined, 2);
  } catch {
    return json;
  }
}

// eventText tells an event in a line.
function eventText(event: EventJson): string {
  if (event.accepted) return visible(`accepted: ${word(event.accepted.verdict?.action, "ACTION_")} by ${event.accepted.verdict?.rule}`);
  if (event.started) return "started";
  if (event.approvalRequested) return visible(`waits for a person: ${event.approvalRequested.approval?.verdict?.reason ?? "a question"}`);
  if (event.approvalResolved) return answerText(event.approvalResolved.answer);
  if (event.userMessage) return visible(`says: ${event.userMessage.message}`);
  if (event.partialResult) return "a part of the result";
  if (event.skipped) return `events from number ${event.skipped.first} on are no longer kept`;
  if (event.nested) return nestedText(event.nested);
  if (event.finished) return visible(`finished: ${word(event.finished.outcome, "OUTCOME_")}${event.finished.failure ? `: ${event.finished.failure.message}` : ""}`);
  return "something that this page does not know";
}

function nestedText(n: NestedJson): string {
  const who = `agent ${n.agent}${n.stage ? ` (${n.stage})` : ""}: `;
  if (n.begun) return visible(`${who}began: ${n.begun.description ?? ""}`);
  if (n.turn) return visible(`${who}turn ${n.turn.turn}`);
  if (n.text) return visible(who + n.text);
  if (n.heard) return visible(`${who}heard: ${n.heard}`);
  if (n.call) return visible(`${who}${n.call.tool}: ${n.call.error || (n.call.event ? eventText(n.call.event) : n.call.input ?? "")}`);
  if (n.finished) return visible(`${who}ended: ${n.finished.outcome}`);
  if (n.stageChanged) return visible(`${who}${word(n.stageChanged.state, "STAGE_STATE_")} ${n.stageChanged.reason ?? ""}`);
  return visible(who);
}
