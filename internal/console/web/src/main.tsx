// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { JSX } from "preact";
import type { GetServerInfoResponseJson } from "./gen/toolserver/v1/tool_service_pb";
import * as api from "./api";
import { notice, sayError, server, Store, useKeys } from "./store";
import { visible } from "./words";
import { Inbox, inbox, watchInbox } from "./inbox";
import { Live } from "./live";
import { Tools } from "./tools";
import { Policy } from "./policy";
import { Audit } from "./audit";
import { Status } from "./status";

// The place is what is behind the # of the address: a page and its parts.
const place = new Store<string[]>(readPlace());
function readPlace(): string[] {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent).filter(Boolean);
  } catch {
    return []; // somebody wrote it by hand
  }
}
addEventListener("hashchange", () => place.set(readPlace()));

const pages: { name: string; title: string; icon: string; view: (props: { parts: string[] }) => JSX.Element }[] = [
  { name: "inbox", title: "Inbox", icon: "M3 13l3-8h12l3 8v6H3zM3 13h5l2 3h4l2-3h5", view: Inbox },
  { name: "live", title: "Live", icon: "M3 12h4l3-8 4 16 3-8h4", view: Live },
  { name: "tools", title: "Tools", icon: "M14 6a4 4 0 0 0 5 5l-9 9-4-4 9-9zM15 6l3-3 3 3-3 3", view: Tools },
  { name: "policy", title: "Policy", icon: "M12 3l8 3v6c0 5-3.5 8-8 9-4.5-1-8-4-8-9V6zM9 12l2 2 4-4", view: Policy },
  { name: "audit", title: "Audit", icon: "M6 3h9l4 4v14H6zM9 11h7M9 15h7M9 7h3", view: Audit },
  { name: "status", title: "Status", icon: "M4 20V10M10 20V4M16 20v-7M21 20H3", view: Status },
];

// theme is what was chosen: as the system says, light or dark.
const themes = ["auto", "light", "dark"];
function setTheme(theme: string) {
  localStorage.setItem("toolserver-theme", theme);
  document.documentElement.dataset.theme = theme;
}
document.documentElement.dataset.theme = localStorage.getItem("toolserver-theme") ?? "auto";

const signedIn = new Store<boolean | undefined>(undefined); // undefined: not known yet
let signedOut = ""; // why, in the words of the server
api.whenSignedOut((why) => {
  signedOut = server.value ? why : "";
  server.set(undefined);
  signedIn.set(false);
});

async function begin() {
  try {
    await api.comeBack();
  } catch (err) {
    signedOut = (err as Error).message;
    return signedIn.set(false);
  }
  try {
    server.set(await api.get<GetServerInfoResponseJson>("server"));
    signedIn.set(true);
  } catch (err) {
    if (err instanceof api.Refused && (err.status === 401 || err.status === 403)) return signedIn.set(false);
    sayError(err instanceof api.Refused ? err : "The server cannot be reached.");
    await api.pause(1000);
    begin();
  }
}

function App() {
  const known = signedIn.use();
  return (
    <>
      {known === undefined ? <p class="boot">toolserver</p> : known ? <Console /> : <SignIn />}
      <Notice />
    </>
  );
}

function Notice() {
  const said = notice.use();
  return (
    <div class={`notice ${said?.bad ? "bad" : ""} ${said ? "" : "none"}`} role="status" aria-live="polite">
      {said && visible(said.text)}
    </div>
  );
}

function SignIn() {
  const [wrong, setWrong] = useState(signedOut);
  const [issuers, setIssuers] = useState<string[]>([]);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = "Sign in · toolserver";
    field.current?.focus();
    api.issuers().then(setIssuers, () => {}); // a token will do
  }, []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setWrong("");
    try {
      await api.signIn(field.current!.value.trim());
      await begin();
    } catch (err) {
      setWrong(err instanceof Error ? err.message : String(err));
      field.current?.select();
    }
  };
  return (
    <main class="signin">
      <form onSubmit={submit}>
        <h1>
          <img src="icon.svg" alt="" width="28" height="28" /> toolserver
        </h1>
        <p>See what agents do, and answer what they ask.</p>
        {issuers.map((name) => (
          <button type="button" class="primary" onClick={() => api.leaveToSignIn(name).catch((err) => setWrong(err.message))}>
            Sign in with {visible(name)}
          </button>
        ))}
        <label for="token">{issuers.length > 0 ? "Or the token of a principal" : "Token of a principal"}</label>
        <input id="token" ref={field} type="password" autocomplete="current-password" required aria-describedby="token-help" aria-invalid={wrong !== ""} />
        <p id="token-help" class={wrong ? "wrong" : "dim"} role={wrong ? "alert" : undefined}>
          {wrong ? visible(wrong) : "The same that programs send as Authorization: Bearer."}
        </p>
        <p class="dim">
          <code>toolserver token create NAME --roles approver</code> makes one that may answer; <code>--roles operator,approver</code> one that also sees what runs.
        </p>
        <button class={issuers.length > 0 ? "" : "primary"}>Sign in</button>
      </form>
    </main>
  );
}

function Console() {
  const parts = place.use();
  const waiting = inbox.use();
  const info = server.use();
  const help = useRef<HTMLDialogElement>(null);
  const [theme, chooseTheme] = useState(document.documentElement.dataset.theme!);
  const page = pages.find((p) => p.name === parts[0]) ?? pages[0]!;
  const count = waiting.approvals.length;
  useEffect(watchInbox, []);
  useEffect(() => {
    document.title = `${count ? `(${count}) ` : ""}${page.title} · toolserver`;
  }, [count, page]);
  const keys: Record<string, () => void> = { "?": () => help.current?.showModal() };
  pages.forEach((p, i) => (keys[`${i + 1}`] = () => (location.hash = `#/${p.name}`)));
  useKeys(waiting.choosing ? { "?": keys["?"] } : keys);
  const next = themes[(themes.indexOf(theme) + 1) % themes.length]!;
  const View = page.view;
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={(e) => (e.preventDefault(), document.getElementById("content")?.focus())}>
        To the content
      </a>
      <header class="bar">
        <img src="icon.svg" alt="" width="24" height="24" />
        <b>toolserver</b>
        <span class={`link ${waiting.link}`} role="status">
          {waiting.link === "open" ? "connected" : waiting.link === "lost" ? "connection lost, trying again…" : "connecting…"}
        </span>
        <span class="grow" />
        <span class="who" title={(info?.roles ?? []).join(", ")}>
          {visible((info?.tenant ? info.tenant + "/" : "") + (info?.principal ?? ""))}
        </span>
        <button class="quiet" aria-label={`Theme: ${theme}. Change to ${next}`} title={`Theme: ${theme}`} onClick={() => (setTheme(next), chooseTheme(next))}>
          <Icon path={theme === "dark" ? "M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10z" : theme === "light" ? "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5" : "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18"} />
        </button>
        <button class="quiet" aria-label="Keys" title="Keys (?)" onClick={() => help.current?.showModal()}>
          ?
        </button>
        {info?.authentication !== "none" && (
          <button class="quiet" onClick={() => api.signOut().then(() => signedIn.set(false))}>
            Sign out
          </button>
        )}
      </header>
      <nav aria-label="Pages">
        {pages.map((p, i) => (
          <a href={`#/${p.name}`} aria-current={p === page ? "page" : undefined} title={`${p.title} (${i + 1})`}>
            <Icon path={p.icon} />
            <span>{p.title}</span>
            {p.name === "inbox" && count > 0 && <b class="count" aria-label={`${count} waiting`}>{count}</b>}
          </a>
        ))}
      </nav>
      <main id="content" tabIndex={0} class={`page ${page.name}`}>
        <View parts={parts.slice(1)} />
      </main>
      <Help dialog={help} />
    </div>
  );
}

function Icon({ path }: { path: string }) {
  return (
    <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
      <path d={path} />
    </svg>
  );
}

const keyHelp: [string, string][] = [
  ["1 … 6", "go to a page"],
  ["j k  ↓ ↑", "the next or previous one of a list"],
  ["y", "allow once"],
  ["a", "allow always: then a number or Enter chooses how far that goes"],
  ["n", "deny once"],
  ["N", "deny always, likewise"],
  ["c", "write a comment for the model"],
  ["x", "select, to answer several at once; X selects all"],
  ["Space", "play or pause a recording; + and - change its speed, ← and → go five seconds back or on"],
  ["Enter", "open or confirm"],
  ["Esc", "leave"],
  ["/", "search"],
  ["?", "this help"],
];

function Help({ dialog }: { dialog: { current: HTMLDialogElement | null } }) {
  return (
    <dialog ref={dialog} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {keyHelp.map(([key, what]) => (
          <>
            <dt>
              {key.split(" ").map((k) => (k.length > 0 && k !== "…" ? <kbd>{k}</kbd> : " … "))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <form method="dialog">
        <button class="primary">Close</button>
      </form>
    </dialog>
  );
}

render(<App />, document.getElementById("app")!);
begin();
