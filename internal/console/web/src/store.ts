// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { Refused } from "./api";
import type { GetServerInfoResponseJson } from "./gen/toolserver/v1/tool_service_pb";

// A Store is a value that parts of the page show.
export class Store<T> {
  private readers = new Set<(value: T) => void>();
  constructor(public value: T) {}

  set(value: T) {
    this.value = value;
    for (const reader of [...this.readers]) reader(value);
  }

  // use shows the value in a component.
  use(): T {
    const [value, show] = useState(this.value);
    useEffect(() => {
      show(this.value);
      this.readers.add(show);
      return () => void this.readers.delete(show);
    }, [this]);
    return value;
  }
}

// server is what the server says of itself and of who signed in.
export const server = new Store<GetServerInfoResponseJson | undefined>(undefined);

export function hasRole(...roles: string[]): boolean {
  return roles.some((role) => server.value?.roles?.includes(role));
}

// everybody are the parameters of lists for who may see what others have.
export function everybody(): { principal?: string; tenant?: string } {
  if (!hasRole("operator", "viewer")) return {};
  return server.value?.allTenants ? { principal: "*", tenant: "*" } : { principal: "*" };
}

// notice is what the status line says, also to screen readers.
export const notice = new Store<{ text: string; bad?: boolean } | undefined>(undefined);

let clear: ReturnType<typeof setTimeout> | undefined;
export function say(text: string, bad = false) {
  notice.set({ text, bad });
  clearTimeout(clear);
  clear = setTimeout(() => notice.set(undefined), bad ? 12000 : 5000);
}
export function sayError(err: unknown) {
  say(err instanceof Error ? err.message : String(err), true);
}

// usePoll asks again and again while the page is seen, and at once when what it depends on
// changes. It returns why the server refuses to answer, if it does.
export function usePoll(ask: (signal: AbortSignal) => Promise<void>, every: number, depends: unknown[]): string | undefined {
  const [refused, setRefused] = useState<string | undefined>();
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const run = async () => {
      clearTimeout(timer);
      if (!document.hidden) {
        try {
          await ask(stop.signal);
          setRefused(undefined);
        } catch (err) {
          // The link in the header tells that the server is away; the next time may be better.
          if (err instanceof Refused && !stop.signal.aborted) setRefused(err.message);
        }
      }
      if (!stop.signal.aborted) timer = setTimeout(run, every);
    };
    run();
    document.addEventListener("visibilitychange", run, { signal: stop.signal });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, depends);
  return refused;
}

// useKeys has keys do something while a component is there: not while a field is edited, and
// not with Ctrl, Alt or Meta. A key that is held down counts once.
export function useKeys(keys: Record<string, (() => void) | undefined>) {
  useLayoutEffect(() => { // at once, for the next key may already be there
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const editing = target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable], .xterm, dialog[open]");
      if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.defaultPrevented) return;
      if (editing && event.key !== "Escape") return;
      if (event.key === "Enter" && target.closest?.("button, a, summary, form")) return;
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
}
