// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef, useState } from "preact/hooks";
import type { CheckCallRequestJson, CheckCallResponseJson } from "./gen/toolserver/v1/policy_service_pb";
import type { ToolJson } from "./gen/toolserver/v1/tool_pb";
import type { ExecuteToolRequestJson, ExecuteToolResponseJson, ListToolsRequestJson, ListToolsResponseJson } from "./gen/toolserver/v1/tool_service_pb";
import type { ListSessionsResponseJson } from "./gen/toolserver/v1/session_service_pb";
import * as api from "./api";
import { hasRole, sayError, useKeys } from "./store";
import { Running, useExecution } from "./execution";
import { Fields, Json, type Schema } from "./form";
import { Judgement } from "./policy";
import { seconds, span, visible, word } from "./words";

const list = (params: ListToolsRequestJson) => api.get<ListToolsResponseJson, ListToolsRequestJson>("tools", params);

// Tools is the catalogue, and a form to try each.
export function Tools({ parts }: { parts: string[] }) {
  const [tools, setTools] = useState<ToolJson[]>([]);
  const [text, setText] = useState("");
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    (async () => {
      const all: ToolJson[] = [];
      for (let pageToken: string | undefined = ""; pageToken !== undefined && all.length < 20_000; ) {
        const page: ListToolsResponseJson = await list({ pageSize: 1000, pageToken });
        all.push(...(page.tools ?? []));
        pageToken = page.nextPageToken || undefined;
      }
      setTools(all);
    })().catch(sayError);
  }, []);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = tools.filter((t) => words.every((w) => `${t.name} ${t.label} ${t.summary} ${t.category} ${(t.aliases ?? []).join(" ")}`.toLowerCase().includes(w)));
  const at = shown.findIndex((t) => t.name === parts[0]);
  const open = (i: number) => {
    const next = shown[Math.max(0, Math.min(shown.length - 1, i))];
    if (!next) return;
    location.hash = `#/tools/${encodeURIComponent(next.name!)}`;
    document.getElementById(`t-${next.name}`)?.scrollIntoView({ block: "nearest" });
  };
  useKeys({ j: () => open(at + 1), k: () => open(at - 1), ArrowDown: () => open(at + 1), ArrowUp: () => open(at - 1), "/": () => search.current?.focus(), Escape: () => search.current?.blur() });
  return (
    <>
      <div class="title">
        <h1>Tools</h1>
        <p class="dim">
          {shown.length} of {tools.length}
        </p>
      </div>
      <div class="two">
        <div class="side">
          <input ref={search} type="search" aria-label="Search tools" placeholder="Search (/)" value={text} onInput={(e) => setText(e.currentTarget.value)} />
          <ul class="list" aria-label="Tools">
            {shown.slice(0, 500).map((t) => (
              <li id={`t-${t.name}`} class={t.name === parts[0] ? "current" : ""}>
                <a href={`#/tools/${encodeURIComponent(t.name!)}`} aria-current={t.name === parts[0] ? "true" : undefined}>
                  <b>{visible(t.name)}</b> <span class="dim">{visible(t.category)}</span>
                  <span class="line dim">{visible(t.summary)}</span>
                </a>
              </li>
            ))}
            {shown.length > 500 && <li class="dim">{shown.length - 500} more: search for them.</li>}
          </ul>
        </div>
        {parts[0] ? <Tool key={parts[0]} name={parts[0]} /> : <div class="empty"><p>Choose a tool to see what it takes, ask what the policy would say to a call of it, and try it.</p></div>}
      </div>
    </>
  );
}

function Tool({ name }: { name: string }) {
  const [tool, setTool] = useState<ToolJson | undefined>();
  const [none, setNone] = useState(false);
  useEffect(() => {
    list({ names: [name], view: "TOOL_VIEW_FULL" }).then((r) => (setTool(r.tools?.[0]), setNone(!r.tools?.length)), sayError);
  }, [name]);
  if (!tool) return <section class="card">{none ? <p class="wrong">There is no tool {visible(name)} in your default session.</p> : <p class="dim">…</p>}</section>;
  return (
    <section class="card" aria-label={`Tool ${name}`}>
      <div class="head">
        <h2>{visible(tool.name)}</h2>
        <span class="badge">{word(tool.level, "LEVEL_")}</span>
        {tool.dangerous && <span class="badge ask">can do harm</span>}
        <span class="badge">{word(tool.kind, "TOOL_KIND_")}</span>
      </div>
      {tool.unavailableReason && <p class="alarm">{visible(tool.unavailableReason)}</p>}
      <p class="prose">{visible(tool.description)}</p>
      <p class="dim">
        {tool.aliases?.length ? `also ${visible(tool.aliases.join(", "))} · ` : ""}
        {tool.defaultTimeout ? `at most ${span(seconds(tool.defaultTimeout) * 1000)} · ` : ""}about {tool.tokens ?? 0} tokens
      </p>
      {hasRole("agent") ? <Try tool={tool} /> : <p class="dim">Only principals with the role agent call tools.</p>}
      {tool.help && (
        <details>
          <summary>Help</summary>
          <p class="prose">{visible(tool.help)}</p>
        </details>
      )}
      <details>
        <summary>Schema of the input</summary>
        <pre class="block" tabIndex={0}>
          {visible(JSON.stringify(JSON.parse(tool.inputSchema || "{}"), undefined, 2))}
        </pre>
      </details>
    </section>
  );
}

// Try asks for an input, what the policy says to it, and runs it.
function Try({ tool }: { tool: ToolJson }) {
  const schema: Schema = JSON.parse(tool.inputSchema || "{}");
  const [value, setValue] = useState<Record<string, unknown>>({});
  const [raw, setRaw] = useState(false);
  const [session, setSession] = useState("");
  const [sessions, setSessions] = useState<string[]>([]);
  const [said, setSaid] = useState<CheckCallResponseJson | undefined>();
  const [running, setRunning] = useState<string | undefined>();
  const [version, setVersion] = useState(0); // of the fields, which are made anew for an example
  const form = useRef<HTMLFormElement>(null);
  const followed = useExecution(running);
  useEffect(() => {
    api.get<ListSessionsResponseJson>("sessions").then((r) => setSessions((r.sessions ?? []).map((s) => s.sessionId!)), () => {});
  }, []);
  const input = () => ({ tool: tool.name!, inputJson: api.base64(JSON.stringify(value)), sessionId: session });
  const ask = () => api.post<CheckCallResponseJson, CheckCallRequestJson>("policy/check", input()).then(setSaid, sayError);
  const run = async () => {
    if (!form.current!.reportValidity()) return;
    setRunning(undefined);
    const stop = new AbortController();
    try {
      const call: ExecuteToolRequestJson = { ...input(), purpose: "tried in the console", onDisconnect: "ON_DISCONNECT_GRACE" };
      for await (const { event } of api.lines<ExecuteToolResponseJson>("POST", "executions", { signal: stop.signal, body: call })) {
        setRunning(event!.executionId); // what follows, also over reconnects
        return;
      }
    } catch (err) {
      sayError(err);
    }
  };
  return (
    <form ref={form} class="form" onSubmit={(e) => (e.preventDefault(), ask())}>
      {tool.examples?.length ? (
        <div class="chips" role="group" aria-label="Examples">
          {tool.examples.map((example) => (
            <button type="button" onClick={() => (setValue(JSON.parse(example.inputJson ?? "{}")), setVersion(version + 1))}>
              {visible(example.summary) || "Example"}
            </button>
          ))}
        </div>
      ) : null}
      <div class="form" key={`${version} ${raw}`}>
        {raw ? (
          <div>
            <label for="raw-input">
              <span>Input</span>
            </label>
            <Json id="raw-input" value={value} change={(to) => setValue((to ?? {}) as Record<string, unknown>)} />
          </div>
        ) : (
          <Fields schema={schema} value={value} change={setValue} />
        )}
      </div>
      <div class="buttons">
        {sessions.length > 1 && (
          <select class="short" aria-label="Session" value={session} onChange={(e) => setSession(e.currentTarget.value)}>
            <option value="">default session</option>
            {sessions.filter((s) => s !== "default").map((s) => <option>{visible(s)}</option>)}
          </select>
        )}
        <button>What would the policy say?</button>
        <button type="button" class="primary" onClick={run}>
          Run
        </button>
        <button type="button" class="quiet" aria-pressed={raw} onClick={() => setRaw(!raw)}>
          as JSON
        </button>
      </div>
      {said && <Judgement said={said} />}
      {running && (
        <div class="form">
          <p>
            <a href={`#/live/${encodeURIComponent(running)}`}>In Live</a>
          </p>
          <Running {...followed} id={running} input={followed.finished === undefined} />
        </div>
      )}
    </form>
  );
}
