// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Tests of the client against a real server, whose address and wire are in the
// environment. The test in Go that runs this starts the server, and does what this asks
// for on standard output: cut the wire, kill the server, start it again. It answers on
// standard input.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";

import { type Agent, allow, answer, BatchStrategy, Client, deny, Detached, type Event, Mode, OnDisconnect } from "./index.js";
import { forModel, Outcome, result, text, unread } from "./index.js";

const gate = "echo waiting; until test -e go-on; do sleep 0.05; done; echo on";
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const clients: Client[] = [];
after(() => {
  clients.forEach((client) => client.close());
  process.stdin.destroy();
});

/** Has the test in Go do something. */
async function ask(what: string): Promise<void> {
  process.stdout.write(`ask ${what}\n`);
  assert.equal((await lines.next()).value, "done");
}

function connect(who = "agent", where: "WIRE" | "SERVER" = "WIRE", session = ""): Client {
  const client = new Client(process.env[where]!, { token: `the-token-of-${who}`, session });
  clients.push(client);
  return client;
}

async function agent(mode = Mode.ALLOW): Promise<Client> {
  const { session } = await connect("agent", "SERVER").sessions.createSession({ mode });
  return connect("agent", "WIRE", session!.sessionId);
}

async function code(attempt: Promise<unknown>): Promise<Code> {
  try {
    await attempt;
  } catch (error) {
    return ConnectError.from(error).code;
  }
  assert.fail("there was no error");
}

test("list", async () => {
  const tools = await (await agent()).list("read_file", "write_*");
  assert.deepEqual(tools.map(({ name }) => name), ["read_file", "write_file"]);
  assert.ok(tools.every(({ description, inputSchema }) => description && inputSchema));
});

test("serve", async () => {
  const caller = await agent();
  const runtime = connect();
  const rejected: string[] = [];
  let begun = () => {};
  let ended = (_: unknown) => {};
  const agents: Agent[] = [
    {
      name: "reader",
      work: async (task) => {
        task.turn(1);
        task.tell("I read.");
        return `${task.prompt} ${text(await result(task.client.execute({ tool: "read_file", input: { path: "a.txt" } })))}`;
      },
    },
    {
      name: "Counter",
      work: async (task) => {
        rejected.push(task.rejected);
        return { text: "some", result: task.rejected ? "[1]" : "1" };
      },
    },
    { name: "broken", work: () => Promise.reject(new Error("the model is asleep")) },
    {
      name: "slow",
      work: (task) =>
        new Promise((_, reject) => {
          task.signal.addEventListener("abort", () => {
            ended(task.signal.reason);
            reject(task.signal.reason);
          });
          begun();
        }),
    },
  ];
  let serving = Promise.resolve();
  await new Promise<void>((ready) => (serving = runtime.serve(agents, { tasks: 2, ready })));
  await result(caller.execute({ tool: "write_file", input: { path: "a.txt", content: "hello" } }));
  const give = async (input: object, id?: string, by = caller) => {
    const { outcome, failure, ...rest } = await result(by.execute({ id, tool: "agent", input }));
    return `${Outcome[outcome]} ${text({ outcome, failure, ...rest })} ${failure?.message}`;
  };
  assert.match(await give({ agent: "reader", prompt: "Read:" }), /^SUCCEEDED Read: 1\thello/);
  assert.match(await give({ agent: "counter", prompt: "Count.", result_schema: { type: "array" } }), /^SUCCEEDED \[1\]/);
  const user = caller.onBehalfOf("user:anna");
  assert.match(await give({ agent: "reader", prompt: "User:" }, undefined, user), /^SUCCEEDED User: 1\thello/);
  assert.equal(rejected[0], "");
  assert.match(rejected[1] ?? "", /does not fit the schema/);
  assert.match(await give({ agent: "broken", prompt: "Go." }), /could not do it: the model is asleep/);

  begun = () => void caller.cancel("stopped", "the user left");
  const reason = new Promise((resolve) => (ended = resolve));
  assert.match(await give({ agent: "slow", prompt: "Wait." }, "stopped"), /^CANCELLED/);
  assert.match(String(await reason), /the user left/);

  let cut = Promise.resolve();
  begun = () => (cut = ask("cut"));
  assert.match(await give({ agent: "slow", prompt: "Wait." }), /is gone/);
  await cut;
  await awaitAgents(agents.length);
  assert.match(await give({ agent: "reader", prompt: "Again:" }), /Again: 1\thello/);
  runtime.close();
  await serving;
  await awaitAgents(0);
  assert.equal(await code(connect().serve([{ name: "no name", work: async () => "" }])), Code.InvalidArgument);
});

/** Waits until as many agents are served. */
async function awaitAgents(want: number): Promise<void> {
  const client = connect("agent", "SERVER");
  while ((await client.agents.listAgents({})).agents.length !== want) {
    await sleep(5);
  }
}

test("a turn in text", async () => {
  const client = await agent();
  const testdata = (name: string) => readFileSync(`testdata/${name}`, "utf8");
  const { definitions } = await client.renderTools("hermes", "read_file", "write_file");
  assert.match(definitions, /<tool_call>/);
  const batch = client.batch();
  const broken = [];
  let written = "";
  for await (const { kind } of client.parse("hermes", testdata("turn.txt"))) {
    if (kind.case === "text") {
      written += kind.value;
    } else if (kind.case === "call") {
      batch.call(kind.value);
    } else if (kind.case === "broken") {
      broken.push(unread(kind.value));
    }
  }
  const results = (await batch.results()).map(forModel);
  const { messages } = await client.renderResults("hermes", [...results, ...broken]);
  assert.equal(`${written.trim()}\n---\n${messages}\n`, testdata("turn.golden"));

  async function* gone(): AsyncGenerator<string> {
    yield "some text";
    throw new RangeError("the model is gone");
  }
  await assert.rejects(async () => {
    for await (const _ of client.parse("auto", gone()));
  }, RangeError);
  const klingon = async () => {
    for await (const _ of client.parse("klingon", "x"));
  };
  assert.equal(await code(klingon()), Code.InvalidArgument);
});

test("execute", async () => {
  const client = await agent();
  for (const [tool, input, outcome, want] of [
    ["write_file", { path: "a.txt", content: "one\n" }, Outcome.SUCCEEDED, "Created a.txt"],
    ["read_file", '{"path": "a.txt"}', Outcome.SUCCEEDED, "one"],
    ["read_file", undefined, Outcome.INVALID_INPUT, "path"],
    ["read_fle", {}, Outcome.NO_SUCH_TOOL, "read_file"],
    ["write_file", { path: "b", content: "x".repeat(5_000_000) }, Outcome.INVALID_INPUT, "the maximum is"],
  ] as const) {
    const finished = await result(client.execute({ tool, input }));
    assert.equal(finished.outcome, outcome);
    assert.ok(text(finished).includes(want), text(finished));
  }
  assert.equal(await code(result(client.within("nowhere").execute({ tool: "read_file" }))), Code.NotFound);
  const slow = client.execute({ tool: "sleep", input: { duration_ms: 60_000 }, timeoutMs: 1 });
  assert.equal((await result(slow)).outcome, Outcome.TIMED_OUT);
});

test("refused", async () => {
  assert.throws(() => new Client("example.com:1", { token: "secret" }), /clear text/);
  assert.throws(() => new Client("http://example.com:1"), /without http/);
  assert.equal(await code(connect("nobody").list()), Code.Unauthenticated);
});

test("lost connection", async () => {
  const client = await agent();
  const other = connect("agent", "SERVER", client.session);
  const sequences: bigint[] = [];
  let output = "";
  for await (const { kind, sequence } of client.execute({ id: "gate", tool: "bash", input: { command: gate } })) {
    sequences.push(sequence);
    if (kind.case === "output") {
      output += Buffer.from(kind.value.data).toString();
      if (output === "waiting\n") {
        await ask("cut");
        await result(other.execute({ tool: "write_file", input: { path: "go-on", content: "" } }));
      }
    }
  }
  assert.equal(output, "waiting\non\n");
  assert.deepEqual(sequences, sequences.map((_, i) => BigInt(i + 1)));
  const again: bigint[] = [];
  for await (const { sequence } of client.watch("gate", 2n)) {
    again.push(sequence);
  }
  assert.deepEqual(again, sequences.slice(2));
});

test("approve", async () => {
  const client = await agent(Mode.ASK);
  const leave = new AbortController();
  let seen = 0;
  const approving = connect("person").approve(({ preview }) => {
    seen++;
    return preview?.text.includes("no.txt") ? deny("Not this one.") : allow();
  }, leave.signal);
  for (const [path, want] of [
    ["yes.txt", "Created yes.txt"],
    ["no.txt", "Not this one."],
  ] as const) {
    const finished = await result(client.execute({ tool: "write_file", input: { path, content: "x" } }));
    assert.ok(text(finished).includes(want), text(finished));
    await ask("cut");
  }
  leave.abort();
  await approving;
  assert.equal(seen, 2);
});

// An answer that is none ends nothing, and the next question is answered.
test("answer", async () => {
  const client = await agent();
  const leave = new AbortController();
  let show = () => {};
  const shown = new Promise<void>((resolve) => (show = resolve));
  const approving = connect("person").approve((approval) => {
    if (approval.questions[0]?.text !== "Really?") {
      return answer(approval, " approve", "Soon.");
    }
    show();
    return allow();
  }, leave.signal);
  const asked = { question: "Go on?", options: [{ label: "Approve" }, { label: "Deny" }], options_only: true };
  const really = { questions: [{ ...asked, question: "Really?" }] };
  const first = result(client.execute({ id: "first", tool: "ask_user", input: really }));
  await shown;
  const questions = [asked, { question: "When?", options: [{ label: "Now" }, { label: "Never" }] }];
  const said = text(await result(client.execute({ tool: "ask_user", input: { questions } })));
  assert.match(said, /Chosen: Approve/);
  assert.match(said, /Soon\./);
  await client.cancel("first", "nobody answers it");
  await first;
  leave.abort();
  await approving;
});

test("artifact", async () => {
  const client = await agent();
  const finished = await result(client.execute({ tool: "bash", input: { command: "seq 200000" } }));
  const links = finished.content.flatMap(({ kind }) => (kind.case === "artifact" ? [kind.value] : []));
  assert.equal(links.length, 1);
  const parts: Uint8Array[] = [];
  for await (const part of client.artifact(links[0]!.uri)) {
    parts.push(part);
    if (parts.length === 2) {
      await ask("cut");
    }
  }
  const want = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join("");
  assert.ok(Buffer.concat(parts).toString() === want, "another text");
});

test("cancel", async () => {
  const client = await agent();
  let last: Event | undefined;
  for await (const event of client.execute({ id: "nap", tool: "sleep", input: { duration_ms: 60_000 } })) {
    last = event;
    if (event.kind.case === "started") {
      const execution = await client.cancel("nap", "enough");
      assert.equal(execution?.finished?.cancellation?.reason, "enough");
    }
  }
  assert.ok(last?.kind.case === "finished" && last.kind.value.outcome === Outcome.CANCELLED);
});

test("batch", async () => {
  const batch = (await agent()).batch();
  batch.call({ id: "write", tool: "write_file", input: { path: "a", content: "one" } });
  batch.call({ id: "read", tool: "read_file", input: { path: "a" } });
  batch.call({ id: "missing", tool: "read_file", input: { path: "b" } });
  batch.call({ id: "malformed", tool: "" });
  batch.call({ id: "read", tool: "list_dir" });
  batch.call({ id: "x".repeat(257), tool: "list_dir" });
  batch.call({ tool: "write_file", input: { path: "b", content: "x".repeat(5_000_000) } });
  batch.call({ id: "last", tool: "list_dir" });
  const [write, read, missing, malformed, twice, long, large, last] = await batch.results();
  assert.equal(large?.finished?.outcome, Outcome.INVALID_INPUT);
  assert.equal(last?.finished?.outcome, Outcome.SUCCEEDED);
  assert.equal(write?.finished?.outcome, Outcome.SUCCEEDED);
  assert.match(text(read!.finished!), /one/);
  assert.equal(missing?.finished?.outcome, Outcome.FAILED);
  assert.equal(malformed?.refused?.code, Code.InvalidArgument);
  assert.equal(twice?.callId, "read");
  assert.equal(twice?.refused?.code, Code.AlreadyExists);
  assert.equal(long?.refused?.code, Code.InvalidArgument);
  assert.throws(() => batch.interrupt("late"), Detached);
  assert.throws(() => batch.call({ tool: "list_dir" }), /closed/);
});

test("batch is steered while its results are waited for", async () => {
  const client = await agent();
  const batch = client.batch({ strategy: BatchStrategy.SEQUENTIAL });
  batch.call({ id: "nap", tool: "sleep", input: { duration_ms: 60_000 } });
  batch.call({ id: "next", tool: "list_dir" });
  const events = batch[Symbol.asyncIterator]();
  assert.equal((await events.next()).value.kind.case, "started"); // the server has it
  const results = batch.results();
  for await (const { kind } of client.watchBatch(batch.id)) {
    if (kind.case === "call" && kind.value.event?.kind.case === "progress") {
      batch.interrupt("The user spoke.");
      batch.call({ id: "added", tool: "list_dir" });
      batch.message("wake up");
      break;
    }
  }
  assert.deepEqual(
    (await results).map(({ callId, finished }) => [callId, finished?.outcome]),
    [["nap", Outcome.SUCCEEDED], ["next", Outcome.SKIPPED], ["added", Outcome.SUCCEEDED]],
  );
});

test("batch is watched again", async () => {
  const client = await agent();
  const batch = client.batch({ onDisconnect: OnDisconnect.DETACH });
  batch.call({ id: "gate", tool: "bash", input: { command: gate } });
  batch.call({ id: "twice", tool: "list_dir" });
  batch.call({ id: "twice", tool: "list_dir" });
  let seen = 0;
  for await (const { kind } of batch) {
    const output = kind.case === "call" && kind.value.event?.kind.case === "output";
    if ((kind.case === "refused" || output) && ++seen === 2) {
      break;
    }
  }
  client.close(); // as a process that ends does
  const other = connect("agent", "WIRE", client.session);
  const again = other.watchBatch(batch.id);
  assert.throws(() => again.interrupt(), Detached);
  assert.throws(() => again.call({ tool: "list_dir" }), /closed/);
  await result(other.execute({ tool: "write_file", input: { path: "go-on", content: "" } }));
  const [waited, first, second] = await again.results();
  assert.match(text(waited!.finished!), /on/);
  assert.equal(first?.finished?.outcome, Outcome.SUCCEEDED);
  assert.equal(second?.refused?.code, Code.AlreadyExists);
  assert.equal(await code(other.watchBatch("another").results()), Code.NotFound);
});

test("many calls that nobody reads", async () => {
  const client = connect("agent", "SERVER");
  const batch = client.batch();
  for (let n = 0; n < 10_000; n++) {
    batch.call({ id: `${batch.id}-${n}`, tool: "list_dir" });
  }
  await client.list("read_file"); // the connection is not held up
  client.close();
  assert.equal(await code(batch.results()), Code.Canceled);
});

test("left half-way", async () => {
  const client = new Client(process.env.ENDLESS!);
  for await (const event of client.execute({ tool: "any" })) {
    assert.equal(event.sequence, 1n);
    break;
  }
  const batch = client.batch();
  batch.call({ tool: "any" });
  let number = 0n;
  for await (const event of batch) {
    assert.equal(event.sequence, ++number);
    if (event.kind.case === "steeringPoint") {
      break;
    }
  }
  await client.tools.getExecution({}); // which answers when both streams have ended
  client.close();
});

test("batch loses its stream", async () => {
  const client = await agent();
  const other = connect("agent", "SERVER", client.session);
  const batch = client.batch({ strategy: BatchStrategy.PARALLEL });
  batch.call({ id: "gate", tool: "bash", input: { command: gate } });
  const numbers: bigint[] = [];
  const texts: Record<string, string> = {};
  for await (const { sequence, kind } of batch) {
    numbers.push(sequence);
    const happened = kind.case === "call" ? kind.value.event?.kind : undefined;
    if (happened?.case === "output" && Buffer.from(happened.value.data).toString() === "waiting\n") {
      await ask("cut");
      batch.call({ id: "second", tool: "bash", input: { command: "echo second" } });
      await result(other.execute({ tool: "write_file", input: { path: "go-on", content: "" } }));
      batch.close();
    }
    if (kind.case === "call" && happened?.case === "finished") {
      texts[kind.value.callId] = text(happened.value).trim();
    }
  }
  assert.deepEqual(texts, { gate: "waiting\non", second: "second" });
  assert.deepEqual(numbers, numbers.map((_, i) => BigInt(i + 1)));
});

test("batch and restart", async () => {
  const batch = connect("agent", "SERVER").batch();
  batch.call({ id: "running", tool: "bash", input: { command: "echo up; sleep 60" } });
  batch.call({ id: "waiting", tool: "bash", input: { command: "echo waited" } });
  const outcomes: Record<string, Outcome> = {};
  for await (const { kind } of batch) {
    const happened = kind.case === "call" ? kind.value.event?.kind : undefined;
    if (happened?.case === "output") {
      await ask("kill");
      await ask("start");
    }
    if (kind.case === "call" && happened?.case === "finished") {
      outcomes[kind.value.callId] = happened.value.outcome;
      if (kind.value.callId === "running") {
        batch.call({ id: "later", tool: "list_dir" });
        batch.close();
      }
    }
  }
  assert.deepEqual(outcomes, { running: Outcome.LOST, waiting: Outcome.LOST, later: Outcome.SUCCEEDED });
});

test("restart", async () => {
  const client = connect("agent", "SERVER");
  const sequences: bigint[] = [];
  let last: Event | undefined;
  for await (const event of client.execute({ tool: "bash", input: { command: "echo waiting; sleep 60" } })) {
    last = event;
    sequences.push(event.sequence);
    if (event.kind.case === "output") {
      await ask("kill");
      await ask("start");
    }
  }
  assert.ok(last?.kind.case === "finished" && last.kind.value.outcome === Outcome.LOST);
  assert.match(text(last.kind.value), /may have run/);
  assert.deepEqual(sequences, sequences.map((_, i) => BigInt(i + 1)));
  await ask("kill");
  const back = ask("start"); // the call is made while there is no server
  assert.equal((await result(client.execute({ tool: "list_dir" }))).outcome, Outcome.SUCCEEDED);
  await back;
});

test("doubt", async () => {
  for (const [name, outcome] of [
    ["BROKEN", Outcome.SUCCEEDED],
    ["BROKEN_AND_REPLACED", Outcome.LOST],
    ["REFUSED", Outcome.SUCCEEDED],
    ["REFUSED_AND_REPLACED", Outcome.SUCCEEDED],
    ["STALE", Outcome.SUCCEEDED],
  ] as const) {
    const client = new Client(process.env[name]!);
    assert.equal((await result(client.execute({ tool: "any" }))).outcome, outcome, name);
    client.close();
    const other = new Client(process.env[`${name}_BATCH`]!);
    const batch = other.batch();
    batch.call({ tool: "any" });
    batch.call({ tool: "any" });
    const outcomes = (await batch.results()).map(({ finished }) => finished?.outcome);
    assert.deepEqual(outcomes, [outcome, outcome], name);
    other.close();
  }
});

test("batch whose calls do not end", async () => {
  const client = new Client(process.env.UNENDED!);
  const batch = client.batch();
  ["refused", "heard", "unheard"].forEach((id) => batch.call({ id, tool: "any" }));
  const [refused, heard, unheard] = await batch.results();
  assert.equal(refused?.refused?.code, Code.InvalidArgument);
  assert.equal(heard?.finished?.outcome, Outcome.LOST);
  assert.equal(unheard?.finished?.outcome, Outcome.LOST);
  client.close();
});

test("batch cancelled before it was sent", async () => {
  const client = new Client("127.0.0.1:1");
  const batch = client.batch();
  batch.call({ tool: "any" });
  assert.throws(() => batch.interrupt(), /not connected yet/);
  await batch.cancel("", "enough");
  const [result] = await batch.results();
  assert.equal(result?.finished?.cancellation?.reason, "enough");
  assert.throws(() => batch.interrupt(), /closed/);
  client.close();
});

test("closed", async () => {
  const client = connect();
  const waiting = result(client.execute({ tool: "sleep", input: { duration_ms: 60_000 } }));
  const approving = client.approve(() => allow());
  await client.list("read_file");
  client.close();
  assert.equal(await code(waiting), Code.Canceled);
  await approving;
});

test("no server", async () => {
  const client = new Client("127.0.0.1:1", { patienceMs: 300 });
  assert.equal(await code(result(client.execute({ tool: "list_dir" }))), Code.Unavailable);
});
