// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// What the server says, in words for people: the same as the command line has.

import type { ApprovalAnswerJson, ApprovalJson } from "./gen/toolserver/v1/approval_pb";
import type { EffectJson, PathEffectJson, RightsJson } from "./gen/toolserver/v1/policy_pb";
import type { ExecutionJson } from "./gen/toolserver/v1/execution_pb";

// word is the end of the name of an enum's value: "MODE_ACCEPT_EDITS" of "MODE_" is
// "accept edits".
export function word(value: string | undefined, prefix: string): string {
  return (value ?? "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

const invisible = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;

// visible returns text whose characters that nobody sees, or that turn the direction of what
// follows, are written out. Nothing else is done to text that comes from elsewhere, for it
// only ever becomes the content of text nodes.
export function visible(text: string | undefined): string {
  return (text ?? "").replace(invisible, (c) => `<U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}>`);
}

function quoted(w: string): string {
  return w === "…" || /^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`;
}

export function command(argv: string[] | undefined): string {
  return (argv ?? []).map(quoted).join(" ");
}

function pathText(p: PathEffectJson): string {
  let text = p.glob ? `what matches ${p.path}` : `${p.path ?? ""}${p.tree ? " and everything below" : ""}`;
  if (p.named) text += ` (named ${p.named})`;
  return text;
}

// effect returns what a call would touch: a verb, and the rest.
export function effect(e: EffectJson | undefined): [string, string] {
  const [verb, rest] = effectParts(e ?? {});
  return [verb, visible(e?.unclear ? `${rest}; unclear: ${e.unclear}` : rest)];
}

function effectParts(e: EffectJson): [string, string] {
  if (e.reads) return ["reads", pathText(e.reads)];
  if (e.writes) return ["writes", pathText(e.writes)];
  if (e.runs) return ["runs", command(e.runs.argv) + (e.runs.readOnly ? " (changes nothing)" : e.runs.told ? " (changes what is told here)" : "")];
  if (e.reaches) return ["reaches", `${e.reaches.host}${e.reaches.port ? `:${e.reaches.port}` : ""}`];
  if (e.uses) return ["uses", e.uses.tool ?? ""];
  if (e.changesMode) return ["changes", `the mode of the session to ${word(e.changesMode.mode, "MODE_")}`];
  return ["does", "what this page does not know"];
}

// approvalText tells in one line what an approval is about.
export function approvalText(a: ApprovalJson): string {
  if (a.questions?.length) return visible(a.questions[0]!.text) + andMore(a.questions.length - 1);
  const decisive = (a.effects ?? []).filter((j) => j.verdict?.action === a.verdict?.action).map((j) => effect(j.effect).join(" "));
  if (decisive.length === 0) return visible(a.verdict?.reason);
  return decisive[0] + andMore(decisive.length - 1 + (a.moreEffects ?? 0));
}

export function andMore(n: number): string {
  return n > 0 ? ` and ${n} more` : "";
}

export function caller(tenant: string | undefined, principal: string | undefined, onBehalfOf: string | undefined): string {
  const who = (tenant ? `${tenant}/` : "") + (principal ?? "");
  return visible(onBehalfOf && principal !== "local" ? `${who} for ${onBehalfOf}` : who);
}

const answers: Record<string, string> = {
  ANSWER_KIND_ALLOW_ONCE: "allowed",
  ANSWER_KIND_ALLOW_ALWAYS: "always allowed",
  ANSWER_KIND_DENY_ONCE: "denied",
  ANSWER_KIND_DENY_ALWAYS: "always denied",
  ANSWER_KIND_ANSWERED: "answered",
  ANSWER_KIND_EXPIRED: "expired: nobody answered in time",
  ANSWER_KIND_WITHDRAWN: "withdrawn: the call ended before anybody answered",
};

export function answerText(a: ApprovalAnswerJson | undefined): string {
  const text = answers[a?.kind ?? ""] ?? word(a?.kind, "ANSWER_KIND_");
  if (!a?.by || a.by === "server") return text;
  return visible(`${text}${a.tier?.label ? ` (${a.tier.label})` : ""} by ${a.by}${a.comment ? `: ${a.comment}` : ""}`);
}

// jail tells what the commands of a call may touch.
export function jail(r: RightsJson | undefined): string {
  if (!r) return "";
  const writes: Record<string, string[]> = {
    CONFINEMENT_READING: ["a temporary directory of the call"],
    CONFINEMENT_NAMED: ["home", "temporary directory"],
    CONFINEMENT_SESSION: ["workspace", "home", "temporary directory", "caches"],
    CONFINEMENT_UNCONFINED: ["everything"],
  };
  const named = (r.write ?? []).map((path) => (path === "." ? "workspace" : path));
  const hosts = (r.hosts ?? []).map((host) => host.replace(/:0$/, ""));
  const network = hosts.length > 0 && r.network === "NETWORK_NONE" ? hosts : [word(r.network, "NETWORK_"), ...hosts];
  const reads = r.confinement === "CONFINEMENT_UNCONFINED" ? ["everything"] : ["workspace", "home", "system", ...(r.read ?? [])];
  return visible(`writes ${[...named, ...(writes[r.confinement ?? ""] ?? [])].join(", ")}; reads ${reads.join(", ")}; network ${network.join(", ")}`);
}

// state is where an execution stands, or how it ended.
export function state(e: ExecutionJson): string {
  return e.outcome ? word(e.outcome, "OUTCOME_") : word(e.state, "EXECUTION_STATE_");
}

export function clock(time: string | undefined): string {
  if (!time) return "";
  const at = new Date(time);
  const today = new Date().toDateString() === at.toDateString();
  return (today ? "" : at.toLocaleDateString() + " ") + at.toLocaleTimeString([], { hour12: false });
}

export function span(ms: number): string {
  if (!(ms >= 0)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.round(ms / 1000);
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// seconds reads a duration as JSON has it: "1.5s".
export const seconds = (duration: string | undefined) => parseFloat(duration ?? "0");

export function size(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) (n /= 1024), at++;
  return `${at > 0 && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}
