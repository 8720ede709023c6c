// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Agents that this program serves: sessions of the same principal give them tasks.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

import { endedEarly, lostConnection, StreamSignal, Tries } from "./calls.js";
import type { Client } from "./client.js";
import type { AgentTask, OfferedAgentSchema, ServeRequestSchema } from "./gen/toolserver/v1/agent_service_pb.js";
import type { ServeResponse } from "./gen/toolserver/v1/agent_service_pb.js";
import type { LoopUsageSchema } from "./gen/toolserver/v1/event_pb.js";

type Request = MessageInitShape<typeof ServeRequestSchema>;
type Usage = MessageInitShape<typeof LoopUsageSchema>;

/** What came of a task: text, and result as JSON where the task has a result schema. */
export interface Report {
  text: string;
  result?: string;
  usage?: Usage;
}

/** An agent that this program serves: fields of OfferedAgent, and who works for it. */
export type Agent = Omit<MessageInitShape<typeof OfferedAgentSchema>, "$typeName" | "$unknown" | "name"> & {
  name: string;
  /**
   * Does a task, and says what came of it. What it throws says in words for a model why the
   * task was not done.
   */
  work(task: Task): Promise<string | Report>;
};

const maxTold = 16_000; // UTF-16 units of text that are told at once
const maxReason = 1000;

/** A task for an agent of this program. */
export class Task {
  /** Calls in the session of the task, for the user whom the task is for. */
  readonly client: Client;
  /**
   * What is wrong with the last report, where its result does not fit the schema: work is
   * called once more then.
   */
  rejected = "";
  private readonly ending = new AbortController();
  /** Says that nobody waits for the task any more, with the reason. */
  readonly signal: AbortSignal = this.ending.signal;
  private said: string[] = [];
  private answered?: (rejected: string | undefined) => void;

  constructor(
    readonly task: AgentTask,
    client: Client,
    private readonly send: (request: Request) => void,
  ) {
    this.client = client.within(task.taskId).onBehalfOf(task.onBehalfOf);
  }

  get prompt(): string {
    return this.task.prompt;
  }

  /** Returns what was said to the agent since it was last asked. */
  heard(): string[] {
    const said = this.said;
    this.said = [];
    return said;
  }

  /** Tells who gave the task what the model writes. */
  tell(text: string): void {
    for (let rest = text; rest; ) {
      const cut = rest.length > maxTold && rest.codePointAt(maxTold - 1)! > 0xffff ? maxTold - 1 : maxTold;
      this.update({ case: "text", value: rest.slice(0, cut) });
      rest = rest.slice(cut);
    }
  }

  /** Tells that the model is asked again: the number of the turn, and what was used before it. */
  turn(turn: number, usage?: Usage): void {
    this.update({ case: "turn", value: { turn, usage } });
  }

  private update(kind: (Request["kind"] & { case: "update" })["value"]["kind"]): void {
    this.send({ kind: { case: "update", value: { taskId: this.task.taskId, kind } } });
  }

  /** Takes what the server says of the task. */
  take({ kind }: ServeResponse): void {
    switch (kind.case) {
      case "message":
        this.said.push(kind.value.text);
        break;
      case "rejected":
        this.answered?.(kind.value.message);
        break;
      case "taken":
        this.answered?.(undefined);
        break;
      case "cancelled":
        this.cancel(kind.value.reason);
        break;
      case "refused":
        this.cancel(kind.value.message);
        break;
    }
  }

  cancel(reason: string): void {
    this.ending.abort(new Error(reason));
    this.answered?.(undefined);
  }

  /** Works on the task until its report was taken. */
  async run(agent: Agent | undefined): Promise<void> {
    const { taskId } = this.task;
    try {
      if (!agent) {
        throw new Error(`nobody here works for the agent ${this.task.agent}`);
      }
      for (;;) {
        const came = await agent.work(this);
        this.signal.throwIfAborted();
        const report = typeof came === "string" ? { text: came } : came;
        const answer = new Promise<string | undefined>((resolve) => (this.answered = resolve));
        this.send({ kind: { case: "report", value: { taskId, ...report } } });
        const wrong = await answer;
        this.signal.throwIfAborted();
        if (wrong === undefined) {
          return;
        }
        this.rejected = wrong;
      }
    } catch (error) {
      const reason = (error instanceof Error ? error.message : String(error)).slice(0, maxReason);
      this.send({ kind: { case: "failure", value: { taskId, reason } } });
    }
  }
}

/** How agents are served. */
export interface Serving {
  /** How many tasks at once, for all agents together: 1. */
  tasks?: number;
  /** Is called when the agents are there: again after a lost connection. */
  ready?: () => void;
  /** Ends the serving. */
  leave?: AbortSignal;
}

/** Serves agents over as many connections as it takes, until the signal. */
export async function serve(client: Client, agents: Agent[], how: Serving, outer: AbortSignal): Promise<void> {
  const tries = new Tries(client.patienceMs, outer);
  for (;;) {
    try {
      await serveOnce(client, agents, how, outer, tries);
    } catch (error) {
      const lost = error instanceof ConnectError && (lostConnection(error, outer) || error.code === Code.Aborted);
      const again = lost && (await tries.wait());
      if (outer.aborted) {
        return; // which may end the wait
      }
      if (!again) {
        throw error;
      }
    }
  }
}

/** Serves agents over one connection. */
async function serveOnce(client: Client, agents: Agent[], how: Serving, outer: AbortSignal, tries: Tries) {
  const stream = new StreamSignal(outer);
  const tasks = new Map<string, Task>();
  const out: Request[] = [];
  let wake = () => {};
  const send = (request: Request) => {
    out.push(request);
    wake();
  };
  async function* requests(): AsyncGenerator<Request> {
    const offered = agents.map(({ work: _, ...agent }) => agent);
    yield { kind: { case: "offer", value: { agents: offered, maxTasks: how.tasks ?? 1 } } };
    while (!stream.signal.aborted) {
      yield* out.splice(0);
      if (out.length === 0) {
        await new Promise<void>((resolve) => (wake = resolve));
      }
    }
  }
  try {
    for await (const message of client.agents.serve(requests(), { signal: stream.signal })) {
      tries.reset();
      const { kind } = message;
      if (kind.case === "task") {
        const task = new Task(kind.value, client, send);
        tasks.set(kind.value.taskId, task);
        const agent = agents.find(({ name }) => name.toLowerCase() === kind.value.agent.toLowerCase());
        void task.run(agent).finally(() => tasks.delete(kind.value.taskId));
      } else if (kind.case === "offered") {
        how.ready?.();
      } else if (kind.case) {
        tasks.get(kind.value.taskId)?.take(message);
      }
    }
    throw endedEarly();
  } finally {
    stream.end();
    wake();
    tasks.forEach((task) => task.cancel("the connection was lost"));
  }
}
