// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from "preact/hooks";
import type { ListGrantsResponseJson } from "./gen/toolserver/v1/approval_service_pb";
import type { CheckCallRequestJson, CheckCallResponseJson } from "./gen/toolserver/v1/policy_service_pb";
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
