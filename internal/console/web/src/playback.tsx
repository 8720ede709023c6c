// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// A recording that is played back: the views of Live, at any time of it.

import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import { sayError, Store, useKeys } from "./store";
import { clock, span, state, visible } from "./words";
import { Rows } from "./rows";
import { Facts, Running } from "./execution";
import type { Followed } from "./execution";
import type { Screen } from "./terminal";
import { read, stateAt, until } from "./recording";
import type { Call, Recording } from "./recording";

// opened is the recording that was opened last. It stays when one goes to another page.
export const opened = new Store<Recording | undefined>(undefined);

// OpenRecording is a button that opens a file.
export function OpenRecording() {
  const open = async (input: HTMLInputElement) => {
    const file = input.files?.[0];
    input.value = ""; // so that the same can be opened again
    if (!file) return;
    try {
      opened.set(await read(file));
      location.hash = "#/live/recording";
    } catch (err) {
      sayError(err);
    }
  };
  return (
    <label class="button">
      Open a recording
      <input type="file" class="unseen" accept=".rec,.ndjson,application/x-ndjson" onChange={(e) => open(e.currentTarget)} />
    </label>
  );
}

const speeds = [0.5, 1, 2, 4, 8, 16, 64];
const tick = 50; // ms

// Playback plays what was opened.
export function Playback({ parts }: { parts: string[] }) {
  const recording = opened.use();
  const [at, seek] = useState(0); // ms from its beginning
  const [playing, play] = useState(true);
  const [speed, setSpeed] = useState(1);
  const length = recording ? recording.end - recording.begin : 0;
  useEffect(() => (seek(0), play(true)), [recording]);
  useEffect(() => {
    if (!playing) return;
    let before = performance.now();
    const timer = setInterval(() => {
      const now = performance.now();
      const passed = (now - before) * speed;
      before = now;
      seek((at) => Math.min(at + passed, length));
    }, tick);
    return () => clearInterval(timer);
  }, [playing, speed, length]);
  useEffect(() => {
    if (playing && at >= length) play(false);
  }, [playing, at, length]);
  const toggle = () => {
    if (!playing && at >= length) seek(0);
    play(!playing);
  };
  const faster = (by: number) => setSpeed(speeds[Math.max(0, Math.min(speeds.length - 1, speeds.indexOf(speed) + by))]!);
  const move = (by: number) => seek(Math.max(0, Math.min(length, at + by)));
  useKeys({ " ": toggle, "+": () => faster(1), "-": () => faster(-1), ArrowLeft: () => move(-5000), ArrowRight: () => move(5000), Escape: () => (location.hash = "#/live") });
  if (!recording) {
    return (
      <div class="empty">
        <p>A recording has all that happened in executions, with its pauses. “Export” on the page of an execution or a session makes one.</p>
        <OpenRecording />
      </div>
    );
  }
  const now = recording.begin + at;
  const begun = recording.calls.filter((call) => (call.times[0] ?? Infinity) <= now);
  const chosen = begun.find((call) => call.execution.executionId === parts[0]) ?? begun.at(-1);
  return (
    <>
      <div class="title">
        <h1>Recording</h1>
        <p class="dim">
          {visible(recording.name)}, {recording.calls.length} executions, made {clock(recording.made)}
        </p>
        <span class="grow" />
        <OpenRecording />
        <a class="button" href="#/live">
          Back to Live
        </a>
      </div>
      <div class="player" role="group" aria-label="Player">
        <button class="primary" onClick={toggle}>
          {playing ? "Pause" : "Play"}
        </button>
        <input type="range" aria-label="Time" aria-valuetext={span(at)} min={0} max={Math.max(length, 1)} step="any" value={at} onInput={(e) => seek(Number(e.currentTarget.value))} />
        <output>
          {span(at)} of {span(length)}
        </output>
        <select class="short" aria-label="Speed" value={String(speed)} onChange={(e) => setSpeed(Number(e.currentTarget.value))}>
          {speeds.map((s) => (
            <option value={String(s)}>{s}×</option>
          ))}
        </select>
      </div>
      <div class="two">
        <div class="side">
          <Rows
            label="Executions"
            items={begun}
            keyOf={(call) => call.execution.executionId!}
            current={chosen?.execution.executionId}
            choose={(call) => (location.hash = `#/live/recording/${encodeURIComponent(call.execution.executionId!)}`)}
            row={(call) => {
              const e = stateAt(call, until(call, now));
              return (
                <>
                  <b>{visible(e.tool)}</b>
                  <span class={`badge ${state(e)}`}>{state(e)}</span>
                  <span class="dim">{visible(e.purpose || e.callId)}</span>
                  <span class="dim">{clock(e.createTime)}</span>
                </>
              );
            }}
          />
        </div>
        {chosen ? <Played key={chosen.execution.executionId!} call={chosen} events={until(chosen, now)} /> : <section class="card" />}
      </div>
    </>
  );
}

// Played is one recorded execution when it had so many events.
function Played({ call, events }: { call: Call; events: number }) {
  const followed = usePlayed(call, events);
  const e = stateAt(call, events);
  return (
    <section class="card" aria-label={`Recorded execution of ${e.tool}`} data-id={e.executionId}>
      <div class="head">
        <h2>{visible(e.tool)}</h2>
        <span class={`badge ${state(e)}`}>{state(e)}</span>
      </div>
      <Facts e={e} over={true} />
      {e.inputJson && (
        <details>
          <summary>Input</summary>
          <pre class="block" tabIndex={0}>
            {visible(e.inputJson)}
          </pre>
        </details>
      )}
      <Running {...followed} id={e.executionId!} input={false} />
    </section>
  );
}

// usePlayed is useExecution for what is recorded.
function usePlayed(call: Call, events: number): Followed {
  const screen = useRef<Screen | undefined>(undefined);
  const written = useRef(0); // events
  const wanted = useRef(events); // also by a terminal that comes later
  wanted.current = events;
  const write = () => {
    if (!screen.current) return;
    if (written.current > wanted.current) {
      screen.current.clear();
      written.current = 0;
    }
    for (; written.current < wanted.current; written.current++) {
      const output = call.events[written.current]!.output;
      if (output) screen.current.write(api.bytes(output.data), output.stream === "OUTPUT_STREAM_TERMINAL");
    }
  };
  useEffect(write, [events]);
  const past = call.events.slice(0, events);
  const finished = past.at(-1)?.finished;
  return {
    events: past.filter((event) => !event.output && !event.progress).slice(-500),
    progress: finished ? undefined : past.findLast((event) => event.progress)?.progress,
    finished,
    link: { link: "open" },
    output: past.some((event) => event.output),
    attach(to) {
      screen.current = to;
      written.current = 0;
      write();
    },
  };
}
