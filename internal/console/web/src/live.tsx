// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ExecutionJson } from "./gen/toolserver/v1/execution_pb";
import type { SessionJson } from "./gen/toolserver/v1/session_pb";
import type { ListSessionsRequestJson, ListSessionsResponseJson } from "./gen/toolserver/v1/session_service_pb";
import type { GetExecutionResponseJson, ListExecutionsRequestJson, ListExecutionsResponseJson } from "./gen/toolserver/v1/tool_service_pb";
import * as api from "./api";
import { everybody, hasRole, server, useKeys, usePoll } from "./store";
import { caller, clock, span, state, visible, word } from "./words";
import { Rows } from "./rows";
import { Execution, Export } from "./execution";
import { opened, OpenRecording, Playback } from "./playback";
import { exportSession } from "./recording";

const maxKept = 20_000; // executions

// Live is what runs, and ran; or a recording of it.
export function Live({ parts }: { parts: string[] }) {
  if (parts[0] === "recording") return <Playback parts={parts.slice(1)} />;
  if (hasRole("agent", "operator", "viewer")) return <Running parts={parts} />;
  return (
    <>
      <div class="title">
        <h1>Live</h1>
        <span class="grow" />
        <OpenRecording />
      </div>
      <div class="empty">
        <p>What runs is for agents, who see their own calls, and for operators and viewers, who see those of everybody.</p>
        <p class="dim">Your role is {(server.value?.roles ?? []).join(", ") || "none"}: what you may answer is in the inbox.</p>
      </div>
    </>
  );
}

// Running has sessions, their executions, and the output of one.
function Running({ parts }: { parts: string[] }) {
  const [all, keep] = useState<Map<string, ExecutionJson>>(new Map());
  const [sessions, setSessions] = useState<SessionJson[]>([]);
  const [session, setSession] = useState("");
  const [standing, setStanding] = useState("");
  const [text, setText] = useState("");
  const search = useRef<HTMLInputElement>(null);
  const known = useRef(all);
  known.current = all;

  const merge = (some: ExecutionJson[]) => {
    if (some.length === 0) return;
    const next = new Map(known.current);
    for (const e of some) next.set(e.executionId!, e);
    keep((known.current = newest(next)));
  };
  useEffect(() => loadAll(merge), []);
  const refused = usePoll(async () => merge(await changes(known.current)), 1000, []);
  const refusedSessions = usePoll(async () => setSessions(await allSessions()), 3000, []);

  const shown = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return [...all.values()]
      .filter((e) => (!session || keyOf(e) === session) && (!standing || (standing === "unfinished" ? !e.outcome : state(e) === standing)))
      .filter((e) => words.every((w) => `${e.tool} ${e.purpose ?? ""} ${e.principal} ${e.sessionId} ${e.callId} ${e.calledAs ?? ""}`.toLowerCase().includes(w)))
      .sort((a, b) => (a.createTime! < b.createTime! ? 1 : -1));
  }, [all, session, standing, text]);
  const chosen = parts[0] ? all.get(parts[0]) : undefined;
  const at = shown.findIndex((e) => e.executionId === parts[0]);
  const open = (i: number) => shown[i] && (location.hash = `#/live/${encodeURIComponent(shown[i]!.executionId!)}`);
  useKeys({
    j: () => open(Math.min(at + 1, shown.length - 1)),
    k: () => open(Math.max(at - 1, 0)),
    "/": () => search.current?.focus(),
    Escape: () => (document.activeElement === search.current ? search.current?.blur() : (location.hash = "#/live")),
  });
  const states = ["unfinished", "waiting", "running", "succeeded", "failed", "denied", "cancelled", "timed out", "invalid input", "lost"];
  return (
    <>
      <div class="title">
        <h1>Live</h1>
        <p class="dim" role="status">
          {[...all.values()].filter((e) => !e.outcome).length} unfinished of {all.size}
        </p>
        <span class="grow" />
        {opened.value && <a class="button" href="#/live/recording">Back to the recording</a>}
        <OpenRecording />
      </div>
      {(refused ?? refusedSessions) && <p class="wrong">{visible(refused ?? refusedSessions)}</p>}
      <div class="two">
        <div class="side">
          <div class="filters">
            <input ref={search} type="search" aria-label="Search executions" placeholder="Search (/)" value={text} onInput={(e) => setText(e.currentTarget.value)} />
            <select aria-label="Session" value={session} onChange={(e) => (setSession(e.currentTarget.value), (location.hash = "#/live"))}>
              <option value="">every session ({sessions.length})</option>
              {sessions.map((s) => (
                <option value={keyOf(s)}>
                  {visible(`${s.agent ? "↳ " + s.agent + " " : ""}${s.sessionId} · ${caller(s.tenant, s.principal, "")}`)}
                </option>
              ))}
            </select>
            <select aria-label="State" value={standing} onChange={(e) => setStanding(e.currentTarget.value)}>
              <option value="">every state</option>
              {states.map((name) => (
                <option>{name}</option>
              ))}
            </select>
          </div>
          <Rows
            label="Executions"
            items={shown}
            keyOf={(e) => e.executionId!}
            current={parts[0]}
            choose={(e) => (location.hash = `#/live/${encodeURIComponent(e.executionId!)}`)}
            row={(e) => (
              <>
                <b>{visible(e.tool)}</b>
                <span class={`badge ${state(e)}`}>{state(e)}</span>
                <span class="dim">{visible(e.purpose || e.callId)}</span>
                <span class="dim">
                  {clock(e.createTime)} {took(e)}
                </span>
              </>
            )}
          />
        </div>
        {parts[0] ? <Execution key={parts[0]} id={parts[0]} listed={chosen} changed={(e) => merge([e])} /> : <Timeline executions={shown} session={sessions.find((s) => keyOf(s) === session)} />}
      </div>
    </>
  );
}

const keyOf = (of: { tenant?: string; principal?: string; sessionId?: string }) => `${of.tenant ?? ""}/${of.principal}/${of.sessionId}`;

function took(e: ExecutionJson): string {
  if (!e.startTime) return "";
  return span((e.endTime ? new Date(e.endTime).getTime() : Date.now()) - new Date(e.startTime).getTime());
}

function newest(all: Map<string, ExecutionJson>): Map<string, ExecutionJson> {
  if (all.size <= maxKept) return all;
  const kept = [...all.values()].sort((a, b) => (a.createTime! < b.createTime! ? 1 : -1)).slice(0, maxKept);
  return new Map(kept.map((e) => [e.executionId!, e]));
}

const list = (params: ListExecutionsRequestJson) => api.get<ListExecutionsResponseJson, ListExecutionsRequestJson>("executions", { ...everybody(), ...params });

// loadAll brings everything that the server keeps, a page after the other.
function loadAll(merge: (some: ExecutionJson[]) => void): () => void {
  let stopped = false;
  (async () => {
    let pageToken: string | undefined;
    for (let n = 0; n < maxKept && !stopped; n += 1000) {
      const page = await list({ pageSize: 1000, ...(pageToken ? { pageToken } : {}) });
      merge(page.executions ?? []);
      if (!(pageToken = page.nextPageToken)) return;
    }
  })().catch(() => {}); // the poll brings what is new all the same
  return () => void (stopped = true);
}

// changes returns what is new or may have changed: the newest, and what had not ended.
async function changes(known: Map<string, ExecutionJson>): Promise<ExecutionJson[]> {
  const [fresh, running, waiting] = await Promise.all([list({ pageSize: 50 }), list({ state: "EXECUTION_STATE_RUNNING", pageSize: 1000 }), list({ state: "EXECUTION_STATE_WAITING", pageSize: 1000 })]);
  const found = new Map([fresh, running, waiting].flatMap((page) => page.executions ?? []).map((e) => [e.executionId!, e]));
  const missed = [...known.values()].filter((e) => !e.outcome && !found.has(e.executionId!)).slice(0, 20);
  for (const e of missed) {
    try {
      found.set(e.executionId!, (await api.get<GetExecutionResponseJson>(`executions/${api.id(e.executionId)}`)).execution!);
    } catch (err) {
      if (err instanceof api.Refused && err.status === 404) found.set(e.executionId!, { ...e, outcome: "OUTCOME_LOST" }); // it is no longer kept
    }
  }
  return [...found.values()].filter((e) => known.get(e.executionId!)?.lastSequence !== e.lastSequence || known.get(e.executionId!)?.outcome !== e.outcome);
}

async function allSessions(): Promise<SessionJson[]> {
  return (await api.get<ListSessionsResponseJson, ListSessionsRequestJson>("sessions", { ...everybody(), pageSize: 1000 })).sessions ?? [];
}

// Timeline shows when executions ran, beside each other.
function Timeline({ executions, session }: { executions: ExecutionJson[]; session?: SessionJson | undefined }) {
  const some = executions.slice(0, 60);
  const begin = Math.min(...some.map((e) => new Date(e.createTime!).getTime()));
  const end = Math.max(...some.map((e) => (e.endTime ? new Date(e.endTime).getTime() : Date.now())));
  const share = (time: string | number | undefined) => ((new Date(time ?? Date.now()).getTime() - begin) / Math.max(end - begin, 1)) * 100;
  return (
    <section class="card" aria-label="Timeline">
      {session ? (
        <>
          <div class="head">
            <h2>Session {visible(session.sessionId)}</h2>
            <span class="grow" />
            <Export what={() => exportSession(session)} />
          </div>
          <dl class="facts">
            <dt>of</dt>
            <dd>{caller(session.tenant, session.principal, "")}</dd>
            {session.agent && (
              <>
                <dt>agent</dt>
                <dd>
                  {visible(session.agent)}, below session {visible(session.parentSessionId)}
                </dd>
              </>
            )}
            <dt>workspace</dt>
            <dd>
              <code>{visible(session.workspace)}</code>
            </dd>
            <dt>mode</dt>
            <dd>
              {word(session.mode, "MODE_")}, {word(session.level, "LEVEL_")}, network {word(session.network, "NETWORK_")}
            </dd>
            <dt>used</dt>
            <dd>{clock(session.lastUsedTime)}</dd>
          </dl>
        </>
      ) : (
        <h2>Timeline</h2>
      )}
      {some.length === 0 ? (
        <p class="dim">
          {hasRole("operator", "viewer") ? "Nothing has run yet. What agents call is here as it comes." : "You have called nothing yet. Your own calls are here as they come; those of others are for the roles operator and viewer."}
        </p>
      ) : (
        <>
          <p class="dim">
            {clock(new Date(begin).toISOString())} to {clock(new Date(end).toISOString())}, the newest first{executions.length > some.length && `; ${executions.length - some.length} older ones are in the list`}
          </p>
          <ol class="timeline">
            {some.map((e) => {
              const left = share(e.createTime);
              const start = e.startTime ? share(e.startTime) : share(e.endTime);
              return (
                <li>
                  <a href={`#/live/${encodeURIComponent(e.executionId!)}`}>{visible(e.tool)}</a>
                  <span class="track" title={`${state(e)}, ${clock(e.createTime)}`}>
                    <i class="wait" style={{ left: `${left}%`, width: `${Math.max(start - left, 0)}%` }} />
                    <i class={state(e)} style={{ left: `${start}%`, width: `${Math.max(share(e.endTime) - start, 0)}%` }} />
                  </span>
                  <span class="dim">{took(e) || state(e)}</span>
                </li>
              );
            })}
          </ol>
        </>
      )}
    </section>
  );
}
