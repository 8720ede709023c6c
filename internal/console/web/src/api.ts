// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// How the page asks the server: the REST edge, through the path that has the cookie.

const storedKey = "toolserver-console-key";

// Refused is an answer that is an error, in the words of the server.
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

// onSignedOut is called when the server does not know who asks, with its words.
let onSignedOut = (_why: string) => {};
export function whenSignedOut(then: (why: string) => void) {
  onSignedOut = then;
}

function headers(): Record<string, string> {
  return { "Toolserver-Console": localStorage.getItem(storedKey) ?? "none" };
}

async function send(method: string, path: string, body?: unknown, more?: { signal?: AbortSignal; after?: string }): Promise<Response> {
  const init: RequestInit = { method, headers: headers(), signal: more?.signal ?? null, redirect: "error" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (more?.after) (init.headers as Record<string, string>)["Last-Event-ID"] = more.after;
  const response = await fetch("v1/" + path, init);
  if (response.ok) return response;
  const refused = new Refused(response.status, messageOf(await response.text(), response));
  if (response.status === 401) onSignedOut(refused.message);
  throw refused;
}

function messageOf(text: string, response: Response): string {
  try {
    return JSON.parse(text).error.message || response.statusText;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

type Params = Record<string, string | number | boolean | string[] | undefined>;

function query(path: string, params: Params = {}): string {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== "" && one !== false) all.append(name, String(one));
    }
  }
  return all.size > 0 ? `${path}?${all}` : path;
}

// The empty path element of an id cannot be sent: it would be another path.
export const id = (text: string | undefined) => encodeURIComponent(text || "-");

// get, post and remove make a call that has one answer. P is what the request may say, as the
// contract has it.
export async function get<T, P extends object = Params>(path: string, params?: P): Promise<T> {
  return (await send("GET", query(path, params as Params))).json();
}
export async function post<T, P extends object = object>(path: string, body: P): Promise<T> {
  return (await send("POST", path, body)).json();
}
export async function remove<T, P extends object = Params>(path: string, params?: P): Promise<T> {
  return (await send("DELETE", query(path, params as Params))).json();
}

// lines yields the messages of a stream, a line of JSON each.
export async function* lines<T>(method: "GET" | "POST", path: string, more: { signal: AbortSignal; body?: object; params?: object; after?: string }): AsyncGenerator<T> {
  const response = await send(method, query(path, more.params as Params), more.body, more);
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = parts.pop()!;
      for (const part of parts) {
        if (!part) continue;
        const message = JSON.parse(part);
        if (message.error) throw new Refused(message.error.code, message.error.message);
        yield message;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// A Link is how a stream is by now.
export type Link = "connecting" | "open" | "lost";

// keep holds a stream open until it is stopped: when it ends, it is opened again, a little
// later each time. open returns true where there is no more to come. A hidden page has none,
// for browsers give a server without TLS six connections, all tabs together.
export function keep(open: (signal: AbortSignal, connected: () => void) => Promise<boolean>, tell: (link: Link, why?: string) => void): () => void {
  let stopped = new AbortController();
  let current: AbortController | undefined;
  let wait = 250;
  const run = async () => {
    while (!stopped.signal.aborted) {
      if (document.hidden) await until(document, "visibilitychange", stopped.signal);
      if (stopped.signal.aborted) return;
      current = new AbortController();
      const end = () => document.hidden && current!.abort();
      document.addEventListener("visibilitychange", end);
      stopped.signal.addEventListener("abort", () => current!.abort(), { once: true });
      try {
        tell("connecting");
        const over = await open(current.signal, () => {
          wait = 250;
          tell("open");
        });
        if (over) return;
      } catch (err) {
        if (stopped.signal.aborted) return;
        if (err instanceof Refused && [400, 401, 403, 404].includes(err.status)) {
          tell("lost", err.message);
          if (err.status !== 401) return;
        }
      } finally {
        document.removeEventListener("visibilitychange", end);
      }
      if (!document.hidden) tell("lost");
      await pause(wait, stopped.signal);
      wait = Math.min(wait * 2, 5000);
    }
  };
  run();
  return () => stopped.abort();
}

function until(target: EventTarget, event: string, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    target.addEventListener(event, () => done(), { once: true, signal });
    signal.addEventListener("abort", () => done(), { once: true });
  });
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}

// ask sends a request about signing in.
async function ask<T>(method: string, path: string, body?: object, key?: string): Promise<T> {
  const response = await fetch(path, { method, body: body ? JSON.stringify(body) : null, headers: key ? { "Toolserver-Console": key } : {} });
  if (!response.ok) throw new Refused(response.status, messageOf(await response.text(), response));
  return response.json();
}

// signIn sends a token, and keeps the key to the cookie that it is sealed in.
export async function signIn(token: string): Promise<void> {
  localStorage.setItem(storedKey, (await ask<{ key: string }>("POST", "sign-in", { token })).key);
}

// issuers returns where people can sign in without a token.
export const issuers = async () => (await ask<{ issuers: string[] }>("GET", "sign-in")).issuers;

// What this tab knows while its user signs in at an issuer: the key to the other half of it,
// and where to go on.
const flowKey = "toolserver-console-flow";

// leaveToSignIn goes to the page of an issuer.
export async function leaveToSignIn(issuer: string): Promise<void> {
  const { address, key } = await ask<{ address: string; key: string }>("POST", "sign-in/begin", { issuer });
  if (!address.startsWith("https://")) throw new Error("The issuer tells no address with https.");
  sessionStorage.setItem(flowKey, JSON.stringify({ key, place: location.hash }));
  location.assign(address);
}

// comeBack ends a sign-in whose issuer sent the browser here, and takes what it brought out of
// the address. It does nothing where there is none.
export async function comeBack(): Promise<void> {
  if (!location.hash.startsWith("#signed-in/?")) return;
  const brought = Object.fromEntries(new URLSearchParams(location.hash.slice("#signed-in/?".length)));
  const { key = "none", place = "" } = JSON.parse(sessionStorage.getItem(flowKey) ?? "{}");
  sessionStorage.removeItem(flowKey);
  history.replaceState(null, "", "./" + (place.startsWith("#/") ? place : ""));
  dispatchEvent(new Event("hashchange"));
  localStorage.setItem(storedKey, (await ask<{ key: string }>("POST", "sign-in/finish", brought, key)).key);
}

export async function signOut(): Promise<void> {
  localStorage.removeItem(storedKey);
  await fetch("sign-out", { method: "POST" }).catch(() => {});
}

// bytes reads base64, as JSON has bytes.
export function bytes(data: string | undefined): Uint8Array {
  return Uint8Array.from(atob(data ?? ""), (c) => c.charCodeAt(0));
}
export function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
