// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from "preact/hooks";
import type { ListGrantsResponseJson } from "./gen/toolserver/v1/approval_service_pb";
import type { CheckCallRequestJson, CheckCallResponseJson, GetPolicyResponseJson } from "./gen/toolserver/v1/policy_service_pb";
import * as api from "./api";
import { hasRole, say, sayError, usePoll } from "./store";
import { Effects, Tiers, VerdictBadge } from "./judged";
import { caller, clock, jail, visible, word } from "./words";

// Policy explains what the policy says to a command or a call, as one types, and has the
// grants in force.
export function Policy() {
  return (
    <>
      <div class="title">
        <h1>Policy</h1>
        <p class="dim">What would it say, and why. Nothing runs, and nobody is asked.</p>
      </div>
      {hasRole("agent") ? <Explain /> : <p class="dim">Only principals with the role agent can ask: it is answered for a session of theirs.</p>}
      <Grants />
      {hasRole("operator", "approver", "viewer") ? <Rules /> : <p class="dim">The rules in force are for the roles operator, approver and viewer.</p>}
    </>
  );
}

function Explain() {
  const [tool, setTool] = useState("");
  const [text, setText] = useState("");
  const [said, setSaid] = useState<CheckCallResponseJson | undefined>();
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    let stale = false;
    const timer = setTimeout(async () => {
      if (!text.trim()) return setSaid(undefined);
      const request: CheckCallRequestJson = tool && text.trim().startsWith("{") ? { tool, inputJson: api.base64(text) } : { tool, command: text };
      try {
        const answer = await api.post<CheckCallResponseJson, CheckCallRequestJson>("policy/check", request);
        if (!stale) setSaid(answer), setWrong("");
      } catch (err) {
        if (!stale) setSaid(undefined), setWrong((err as Error).message);
      }
    }, 200);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [tool, text]);
  return (
    <section class="panel">
      <h2>Explain</h2>
      <div class="form">
        <div>
          <label for="explain-text">
            <span>A shell command, or the input of a tool as JSON</span>
          </label>
          <textarea id="explain-text" rows={3} spellcheck={false} placeholder="git push origin main" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </div>
        <div>
          <label for="explain-tool">
            <span>Tool</span>
          </label>
          <input id="explain-tool" placeholder="for a command: none" value={tool} onInput={(e) => setTool(e.currentTarget.value.trim())} />
        </div>
      </div>
      {wrong && <p class="wrong">{visible(wrong)}</p>}
      {said && <Judgement said={said} />}
    </section>
  );
}

// Judgement is what the policy says to a call, and why.
export function Judgement({ said }: { said: CheckCallResponseJson }) {
  return (
    <div class="form judgement" role="status">
      <p class="why">
        <VerdictBadge verdict={said.verdict} /> {visible(said.tool)} by <b>{visible(said.verdict?.rule)}</b>: {visible(said.verdict?.reason)}
      </p>
      {jail(said.verdict?.rights) && <p class="dim">jail: {jail(said.verdict?.rights)}</p>}
      <Effects effects={said.effects ?? []} />
      {said.verdict?.action === "ACTION_ASK" && <Tiers tiers={said.tiers ?? []} chosen={0} choose={() => {}} />}
      {said.limits?.length && <p class="dim">counted by {visible(said.limits.join(", "))}</p>}
    </div>
  );
}

const times = (n: string | undefined) => Number(n ?? 0).toLocaleString();

// Rules has the rules in force, with how often each decided.
function Rules() {
  const [policy, setPolicy] = useState<GetPolicyResponseJson | undefined>();
  const [text, setText] = useState("");
  const refused = usePoll(async () => setPolicy(await api.get<GetPolicyResponseJson>("policy")), 5000, []);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const others = (policy?.others ?? []).filter((other) => Number(other.decidedCalls ?? 0) > 0);
  const shown = (policy?.rules ?? []).map((rule, i) => ({ rule, i })).filter(({ rule }) => words.every((w) => JSON.stringify(rule).toLowerCase().includes(w)));
  return (
    <section class="panel rules">
      <h2>Rules in force</h2>
      {refused && <p class="wrong">{visible(refused)}</p>}
      {policy && (
        <>
          <p class="dim">
            {policy.rules?.length ?? 0} rules of <code>{visible(policy.file)}</code>, version {visible(policy.version)}. Each effect of a call takes the first that matches, a call the most severe; calls are counted since {clock(policy.countedSince)}, by this server.
          </p>
          <input type="search" aria-label="Search rules" placeholder="Search rules" value={text} onInput={(e) => setText(e.currentTarget.value)} />
          <div class="scroll" tabIndex={0} role="group" aria-label="Rules">
            <table>
              <thead>
                <tr>
                  <th scope="col">says</th>
                  <th scope="col">rule</th>
                  <th scope="col">decided</th>
                  <th scope="col">matched</th>
                  <th scope="col">about</th>
                </tr>
              </thead>
              <tbody>
                {shown.slice(0, 500).map(({ rule, i }) => (
                  <tr key={rule.name} data-rule={rule.name}>
                    <td>
                      <span class={`badge ${word(rule.action, "ACTION_")}`}>{word(rule.action, "ACTION_")}</span>
                    </td>
                    <td>
                      {i + 1}. <b>{visible(rule.name)}</b> <span class="dim">line {rule.line}</span>
                    </td>
                    <td>{times(rule.fired?.decidedCalls)}</td>
                    <td>{times(rule.fired?.matchedCalls)}</td>
                    <td>
                      {rule.about?.map((about) => (
                        <div>
                          <span class="dim">{visible(about.key)}</span> <code>{visible(about.values?.join(", "))}</code>
                        </div>
                      ))}
                      <div class="dim">{visible(rule.reason)}</div>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {shown.length > 500 && <p class="dim">{shown.length - 500} more: search for them.</p>}
          {others.length > 0 && <p class="dim">What else decided: {others.map((other) => `${visible(other.name)} ${times(other.decidedCalls)}`).join(", ")}.</p>}
        </>
      )}
    </section>
  );
}

function Grants() {
  const [grants, setGrants] = useState<ListGrantsResponseJson>({});
  const load = async () => setGrants(await api.get<ListGrantsResponseJson>("grants"));
  const refused = usePoll(load, 3000, []);
  const revoke = async (id: string, label: string) => {
    try {
      await api.remove(`grants/${api.id(id)}`);
      say(`Revoked: ${label} is asked for again.`);
      await load();
    } catch (err) {
      sayError(err);
    }
  };
  return (
    <section class="panel">
      <h2>Grants</h2>
      {refused ? (
        <p class="wrong">{visible(refused)}</p>
      ) : !grants.grants?.length ? (
        <p class="dim">No answer is in force for the rest of a session.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-label="Grants">
          <table>
            <thead>
              <tr>
                <th scope="col">says</th>
                <th scope="col">to</th>
                <th scope="col">of</th>
                <th scope="col">given</th>
                <th scope="col">revoke</th>
              </tr>
            </thead>
            <tbody>
              {grants.grants.map((g) => (
                <tr key={g.grantId}>
                  <td>
                    <span class={`badge ${word(g.action, "ACTION_")}`}>{word(g.action, "ACTION_")}</span>
                  </td>
                  <td>
                    {visible(g.tool)} <code>{visible(g.tier?.label)}</code>
                  </td>
                  <td>
                    {caller(g.tenant, g.principal, "")}, session {visible(g.sessionId)}
                  </td>
                  <td>
                    by {visible(g.by)}, {clock(g.createTime)}
                  </td>
                  <td>
                    <button class="deny" aria-label={`Revoke ${g.tier?.label}`} onClick={() => revoke(g.grantId!, g.tier?.label ?? "")}>
                      Revoke
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
