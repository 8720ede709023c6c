// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Recordings, as docs/recordings.md describes them: written by asking for what there is, and
// read from a file. What a file says is text like any other.

import type { EventJson } from "./gen/toolserver/v1/event_pb";
import type { ExecutionJson } from "./gen/toolserver/v1/execution_pb";
import type { SessionJson } from "./gen/toolserver/v1/session_pb";
import type { GetSessionResponseJson } from "./gen/toolserver/v1/session_service_pb";
import type { GetExecutionResponseJson, ListExecutionsRequestJson, ListExecutionsResponseJson, ListToolsResponseJson, WatchExecutionResponseJson } from "./gen/toolserver/v1/tool_service_pb";
import * as api from "./api";
import { server } from "./store";

const maxBytes = 128 << 20; // of a file that is opened
const maxExecutions = 2_000; // of a session that is exported

// Call is a recorded execution.
export interface Call {
  execution: ExecutionJson;
  events: EventJson[];
  times: number[]; // of the events, and of nothing before the one before it
}

export interface Recording {
  name: string;
  made: string;
  sessions: SessionJson[];
  calls: Call[];
  begin: number; // ms
  end: number;
}

// exportSession gives all that the server keeps of a session as a file.
export async function exportSession(session: SessionJson): Promise<void> {
  const whose = others(session);
  const list: ExecutionJson[] = [];
  let pageToken = "";
  do {
    const page = await api.get<ListExecutionsResponseJson, ListExecutionsRequestJson>("executions", { ...whose, sessionId: session.sessionId!, pageSize: 1000, ...(pageToken ? { pageToken } : {}) });
    list.push(...(page.executions ?? []));
    pageToken = page.nextPageToken ?? "";
  } while (pageToken && list.length < maxExecutions);
  if (list.length === 0) throw new Error("There is nothing to export: the server keeps no execution of this session.");
  await write(list.slice(0, maxExecutions).reverse(), `${session.sessionId}.rec`);
}

// exportExecution gives one execution as a file.
export const exportExecution = (e: ExecutionJson) => write([e], `${e.executionId}.rec`);

// others names the principal and tenant of what is not that of who signed in.
function others(of: { principal?: string; tenant?: string }): { principal?: string; tenant?: string } {
  const mine = of.principal === server.value?.principal && (of.tenant ?? "") === (server.value?.tenant ?? "");
  return mine ? {} : { principal: of.principal!, ...(of.tenant ? { tenant: of.tenant } : {}) };
}

async function write(list: ExecutionJson[], name: string) {
  const lines: object[] = [{ toolserverRecording: 1, time: new Date().toISOString(), server: server.value?.version }];
  const whose = others(list[0]!);
  const session = await api.get<GetSessionResponseJson>(`sessions/${api.id(list[0]!.sessionId)}`, whose).then((r) => r.session, () => undefined);
  if (session) lines.push({ session });
  const own = session && !session.persona && !whose.principal ? { sessionId: session.sessionId } : {};
  let pageToken = "";
  do {
    const page = await api.get<ListToolsResponseJson>("tools", { view: "TOOL_VIEW_FULL", ...own, pageToken });
    for (const tool of page.tools ?? []) lines.push({ tool });
    pageToken = page.nextPageToken ?? "";
  } while (pageToken);
  for (const { executionId } of list) {
    const got = await api.get<GetExecutionResponseJson>(`executions/${api.id(executionId)}`).catch((err) => {
      if (err instanceof api.Refused && err.status === 404) return undefined; // it is no longer kept
      throw err;
    });
    if (!got?.execution) continue;
    const { finished: _, followers: __, ...execution } = got.execution; // the last event tells the end
    lines.push({ execution });
    const last = Number(execution.lastSequence ?? 0);
    if (last === 0) continue;
    const enough = new AbortController();
    for await (const { event } of api.lines<WatchExecutionResponseJson>("GET", `executions/${api.id(executionId)}/events`, { signal: enough.signal })) {
      if (!event || event.heartbeat) continue;
      lines.push({ event });
      if (Number(event.sequence) >= last) break;
    }
    enough.abort();
  }
  lines.push({ end: { lines: lines.length } });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.map((line) => JSON.stringify(line) + "\n").join("")], { type: "application/x-ndjson" }));
  link.download = name.replace(/[^\w.-]/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// read reads a file, or says what is wrong with it.
export async function read(file: File): Promise<Recording> {
  if (file.size > maxBytes) throw new Error(`The file has more than ${maxBytes >> 20} MiB: “toolserver replay” plays it.`);
  const lines = (await file.text()).split("\n");
  if (lines.pop() !== "") throw new Error("The recording was cut off in the middle of its last line.");
  const parsed = lines.map((line, i) => {
    try {
      const value = JSON.parse(line);
      if (typeof value === "object" && value !== null) return value;
    } catch {}
    throw new Error(i === 0 ? "This is no recording: it does not begin with a line such as {\"toolserverRecording\":1}." : `Line ${i + 1} of the recording is no JSON object.`);
  });
  const header = parsed[0];
  if (!(header?.toolserverRecording >= 1)) throw new Error("This is no recording: its first line is not like {\"toolserverRecording\":1}.");
  if (header.toolserverRecording > 1) throw new Error(`The recording has version ${header.toolserverRecording}, and this page reads version 1: use a newer toolserver.`);
  const end = parsed.at(-1).end;
  if (end?.lines !== parsed.length - 1) throw new Error("The recording is not whole: its last line does not tell the number of lines before it.");
  const calls = new Map<string, Call>();
  const sessions: SessionJson[] = [];
  parsed.slice(1, -1).forEach(({ session, tool, execution, event }, i) => {
    const wrong = (what: string) => new Error(`Line ${i + 2} of the recording: ${what}`);
    if (session) sessions.push(session);
    else if (execution) {
      const id = String(execution.executionId ?? "");
      if (!id || calls.has(id)) throw wrong("an execution is there twice, or has no id.");
      calls.set(id, { execution, events: [], times: [] });
    } else if (event) {
      const call = calls.get(event.executionId);
      const time = Date.parse(event.time);
      if (!call || Number.isNaN(time)) throw wrong("an event has no execution before it, or no time.");
      call.times.push(Math.max(time, call.times.at(-1) ?? 0)); // clocks may go back
      call.events.push(event);
    } else if (!tool) throw wrong("it is neither a session, a tool, an execution nor an event.");
  });
  const all = [...calls.values()];
  if (all.length === 0) throw new Error("Nothing is recorded there: the file has no execution.");
  const times = all.flatMap((call) => (call.times.length > 0 ? [call.times[0]!, call.times.at(-1)!] : []));
  if (times.length === 0) throw new Error("Nothing is recorded there: the file has no event.");
  const [begin, last] = times.reduce(([low, high], t) => [Math.min(low, t), Math.max(high, t)], [Infinity, -Infinity] as [number, number]);
  return { name: file.name, made: String(header.time ?? ""), sessions, calls: all, begin, end: last };
}

// until returns how many events there were by a time.
export function until(call: Call, time: number): number {
  let low = 0;
  for (let high = call.times.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (call.times[middle]! <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// stateAt is the execution as it was when it had so many events.
export function stateAt(call: Call, events: number): ExecutionJson {
  const { outcome: _, endTime: __, startTime: ___, ...e } = call.execution;
  const past = call.events.slice(0, events);
  const last = past.at(-1);
  const began = past.find((event) => event.started);
  const asked = past.findLast((event) => event.approvalRequested || event.approvalResolved);
  return {
    ...e,
    ...(began ? { startTime: began.time! } : {}),
    ...(last?.finished ? { outcome: last.finished.outcome!, endTime: last.time! } : {}),
    state: last?.finished ? "EXECUTION_STATE_FINISHED" : asked?.approvalRequested || !began ? "EXECUTION_STATE_WAITING" : "EXECUTION_STATE_RUNNING",
  };
}
