// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import * as net from "node:net";
import type { SecureClientSessionOptions } from "node:http2";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Client as Service, Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { type Agent, serve, type Serving } from "./agents.js";
import { Batch, type BatchResult } from "./batch.js";
import { addressed, type Call, callRequest, endedEarly, forAnother, lostConnection } from "./calls.js";
import { lostEvent, notTaken, StreamSignal, tooLargeEvent, Tries } from "./calls.js";
import { AgentService } from "./gen/toolserver/v1/agent_service_pb.js";
import { AnswerKind, type Approval } from "./gen/toolserver/v1/approval_pb.js";
import { ApprovalService, type ResolveApprovalRequestSchema } from "./gen/toolserver/v1/approval_service_pb.js";
import type { BatchStartSchema } from "./gen/toolserver/v1/batch_pb.js";
import { type BrokenCall, type CallResult, CallResultSchema } from "./gen/toolserver/v1/dialect_service_pb.js";
import { DialectService, type ParseCallsRequestSchema } from "./gen/toolserver/v1/dialect_service_pb.js";
import type { ParseCallsResponse, RenderResultsResponse } from "./gen/toolserver/v1/dialect_service_pb.js";
import type { RenderToolsResponse } from "./gen/toolserver/v1/dialect_service_pb.js";
import { type Event, type Finished, Outcome } from "./gen/toolserver/v1/event_pb.js";
import type { Execution } from "./gen/toolserver/v1/execution_pb.js";
import { PolicyService } from "./gen/toolserver/v1/policy_service_pb.js";
import { SessionService } from "./gen/toolserver/v1/session_service_pb.js";
import type { Tool } from "./gen/toolserver/v1/tool_pb.js";
import {
  type ExecuteToolRequest,
  ToolService,
  ToolView,
  type WatchExecutionRequest,
  WatchExecutionRequestSchema,
} from "./gen/toolserver/v1/tool_service_pb.js";
import { WorkspaceService } from "./gen/toolserver/v1/workspace_service_pb.js";

/** How to connect. Without any, the server is on this machine. */
export interface Options {
  /** Proves who the caller is, where the server asks for tokens. */
  token?: string;
  /** Encrypts the connection: options of node:tls, with ca, cert and key. */
  tls?: SecureClientSessionOptions;
  /** Lets a token travel to another machine unencrypted. */
  plaintext?: boolean;
  /** The session that calls run in; without it, the caller's default session. */
  session?: string;
  /** How long a lost connection is made anew before an error is thrown: a minute. */
  patienceMs?: number;
}

/** Returns the clients of the services. */
function services(transport: Transport) {
  return {
    tools: createClient(ToolService, transport),
    sessions: createClient(SessionService, transport),
    approvals: createClient(ApprovalService, transport),
    policy: createClient(PolicyService, transport),
    workspaces: createClient(WorkspaceService, transport),
    dialects: createClient(DialectService, transport),
    agents: createClient(AgentService, transport),
  };
}

/** An answer to an approval: fields of ResolveApprovalRequest. */
export type Answer = Omit<MessageInitShape<typeof ResolveApprovalRequestSchema>, "approvalId" | "digest" | "$typeName">;

/**
 * A server, for one principal and one session.
 *
 * A call is run at most once. When the connection breaks, a client goes on after the
 * last event that it has. When the server that ran a call is gone, the call ends with
 * Outcome.LOST: it may have run, and the client does not run it again.
 *
 * What the verbs do not do, the clients of the services do: tools, sessions, approvals,
 * policy, workspaces, dialects and agents.
 */
export class Client {
  readonly tools!: Service<typeof ToolService>;
  readonly sessions!: Service<typeof SessionService>;
  readonly approvals!: Service<typeof ApprovalService>;
  readonly policy!: Service<typeof PolicyService>;
  readonly workspaces!: Service<typeof WorkspaceService>;
  readonly dialects!: Service<typeof DialectService>;
  readonly agents!: Service<typeof AgentService>;
  readonly session: string;
  readonly patienceMs: number;
  maxInput = 0n; // bytes of the input of a call; 0: not known yet
  private readonly manager: Http2SessionManager;
  private readonly transport: (headers: Record<string, string>) => Transport;
  private readonly headers: Record<string, string>;
  private readonly closing = new AbortController();

  /** Connects to host:port or unix:/path, when that is needed. */
  constructor(address: string, options: Options = {}) {
    if (/^https?:\/\//.test(address)) {
      throw new Error(`${address}: an address is host:port or unix:/path, without http://`);
    }
    const path = /^unix:(?:\/\/)?(.*)$/.exec(address)?.[1];
    if (options.token && !options.tls && !options.plaintext && path === undefined && !isLocal(address)) {
      throw new Error(
        `the token would travel to ${address} in clear text: set tls, or plaintext if that is as it should be`,
      );
    }
    const url = `${options.tls ? "https" : "http"}://${path === undefined ? address : "localhost"}`;
    this.manager = new Http2SessionManager(
      url,
      { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 },
      path === undefined ? options.tls : { ...options.tls, createConnection: () => net.connect(path) },
    );
    this.transport = (headers) => {
      const add: Interceptor = (next) => (request) => {
        Object.entries(headers).forEach(([name, value]) => request.header.set(name, value));
        return next(request);
      };
      return createGrpcTransport({ baseUrl: url, sessionManager: this.manager, interceptors: [add] });
    };
    this.headers = options.token ? { authorization: `Bearer ${options.token}` } : {};
    Object.assign(this, services(this.transport(this.headers)));
    this.session = options.session ?? "";
    this.patienceMs = options.patienceMs ?? 60_000;
  }

  /** Ends the connection, and what runs over it. */
  close(): void {
    this.closing.abort(new ConnectError("the client was closed", Code.Canceled));
    this.manager.abort();
  }

  /** Returns a signal that says that a caller has left, or that the client was closed. */
  until(signal?: AbortSignal): AbortSignal {
    return signal ? AbortSignal.any([signal, this.closing.signal]) : this.closing.signal;
  }

  /** Returns the client for another session. It has the same connection. */
  within(session: string): Client {
    return Object.assign(Object.create(Client.prototype), this, { session });
  }

  /**
   * Returns the client that calls for a user, as far as the principal may; empty: for the
   * principal itself. It has the same connection.
   */
  onBehalfOf(user: string): Client {
    const headers = user ? { ...this.headers, "toolserver-on-behalf-of": user } : this.headers;
    return Object.assign(this.within(this.session), services(this.transport(headers)));
  }

  /** Returns tools with everything a model is told: those named, or all. */
  async list(...names: string[]): Promise<Tool[]> {
    const tools: Tool[] = [];
    for (let pageToken = ""; ; ) {
      const page = await this.again(() =>
        this.tools.listTools({ sessionId: this.session, view: ToolView.FULL, names, pageToken }),
      );
      tools.push(...page.tools);
      pageToken = page.nextPageToken;
      if (!pageToken) {
        return tools;
      }
    }
  }

  /**
   * Runs a call and yields each of its events once, to the finished one. What the model
   * did wrong is a result; ConnectError is about the caller or the connection. Leaving
   * early does not end the call.
   */
  execute(call: Call, signal?: AbortSignal): AsyncGenerator<Event> {
    const request = callRequest(call, this.session);
    const watch = create(WatchExecutionRequestSchema);
    return new Follower(this, request.callId, watch, request).follow(this.until(signal));
  }

  /** Yields the events of a call after a sequence, as execute does. */
  watch(callId: string, after = 0n, signal?: AbortSignal): AsyncGenerator<Event> {
    const watch = create(WatchExecutionRequestSchema, { sessionId: this.session, callId, afterSequence: after });
    return new Follower(this, callId, watch).follow(this.until(signal));
  }

  /** Begins a batch of calls. Of start, the session is the client's. */
  batch(start: MessageInitShape<typeof BatchStartSchema> = {}, signal?: AbortSignal): Batch {
    return new Batch(this, start, this.until(signal));
  }

  /**
   * Returns a batch that was begun before, also by another process, as its id names it. It
   * yields all events from the first, and has the results. It takes no calls, and cancel is
   * the one order that it takes.
   */
  watchBatch(batchId: string, signal?: AbortSignal): Batch {
    return new Batch(this, { batchId }, this.until(signal), true);
  }

  /**
   * Passes what waits for a person to decide, one after the other, and sends what it
   * answers; undefined leaves the answer to somebody else. An answer is for exactly what
   * decide was shown. One that comes too late is dropped, and so is one that is none, such as
   * allow() to a question: somebody else has to answer then. It goes on until the signal, or until
   * the client is closed. Where the client has a session, only what waits in that one counts.
   */
  async approve(
    decide: (approval: Approval) => Answer | undefined | Promise<Answer | undefined>,
    leave?: AbortSignal,
  ): Promise<void> {
    const signal = this.until(leave);
    const answers = new Map<string, Answer | undefined>(); // undefined once sent
    const tries = new Tries(this.patienceMs, signal);
    for (;;) {
      try {
        for await (const { change } of this.approvals.watchApprovals({ sessionId: this.session }, { signal })) {
          tries.reset();
          if (change.case === "ended") {
            answers.delete(change.value.approvalId);
          }
          const waiting =
            change.case === "snapshot" ? change.value.approvals : change.case === "asked" ? [change.value] : [];
          if (change.case === "snapshot") {
            const ids = new Set(waiting.map(({ approvalId }) => approvalId));
            [...answers.keys()].filter((id) => !ids.has(id)).forEach((id) => answers.delete(id)); // ended unseen
          }
          for (const approval of waiting) {
            const { approvalId, digest } = approval;
            if (!answers.has(approvalId)) {
              answers.set(approvalId, await decide(approval));
            }
            const answer = answers.get(approvalId);
            if (answer) {
              await this.resolve({ ...answer, approvalId, digest }, signal);
              answers.set(approvalId, undefined);
            }
          }
        }
        throw endedEarly();
      } catch (error) {
        const again = error instanceof ConnectError && lostConnection(error, signal) && (await tries.wait());
        if (signal.aborted) {
          return; // which may end the wait
        }
        if (!again) {
          throw error;
        }
      }
    }
  }

  private async resolve(
    request: MessageInitShape<typeof ResolveApprovalRequestSchema>,
    signal?: AbortSignal,
  ): Promise<void> {
    try {
      await this.approvals.resolveApproval(request, { signal });
    } catch (error) {
      const code = ConnectError.from(error).code;
      if (![Code.NotFound, Code.FailedPrecondition, Code.InvalidArgument].includes(code)) {
        throw error; // else it is answered, by whomever, or this is no answer
      }
    }
  }

  /**
   * Serves agents until it is aborted or the client is closed. A lost connection is made
   * anew; the tasks that were under way have failed then, and their signals say so.
   */
  serve(agents: Agent[], how: Serving = {}): Promise<void> {
    return serve(this, agents, how, this.until(how.leave));
  }

  /**
   * Returns tools as a dialect has them, such as "anthropic" or "hermes"; empty: the
   * session's. They are those named or, where none is, those that are active, with an index
   * of the others.
   */
  renderTools(dialect = "", ...names: string[]): Promise<RenderToolsResponse> {
    const view = names.length > 0 ? ToolView.FULL : ToolView.ACTIVE;
    return this.again(() => this.dialects.renderTools({ sessionId: this.session, dialect, names, view }));
  }

  /**
   * Returns the results of one turn as a dialect has them: the next message to the model.
   * forModel and unread make them.
   */
  renderResults(dialect: string, results: CallResult[]): Promise<RenderResultsResponse> {
    return this.again(() => this.dialects.renderResults({ dialect, results }));
  }

  /**
   * Yields text, calls and broken calls of what a model writes, in their order. The chunks
   * are its text, or the stream of its provider, cut anywhere. A call comes as soon as it is
   * complete: Batch.call takes it, so that it runs while the model still writes. The
   * dialect may be "auto". A lost connection ends it: nothing is sent twice.
   */
  async *parse(
    dialect: string,
    chunks: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
    leave?: AbortSignal,
  ): AsyncGenerator<ParseCallsResponse> {
    const stream = new StreamSignal(this.until(leave));
    const sessionId = this.session;
    let failed: { error: unknown } | undefined;
    async function* requests(): AsyncGenerator<MessageInitShape<typeof ParseCallsRequestSchema>> {
      yield { kind: { case: "start", value: { sessionId, dialect } } };
      try {
        for await (const chunk of chunks) {
          const value = typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk;
          yield { kind: { case: "chunk", value } };
        }
      } catch (error) {
        failed = { error }; // of the model
        stream.end();
      }
    }
    try {
      yield* this.dialects.parseCalls(requests(), { signal: stream.signal });
    } catch (error) {
      throw failed ? failed.error : error;
    } finally {
      stream.end();
    }
  }

  /** Ends a call, and returns how it ended. */
  async cancel(callId: string, reason = ""): Promise<Execution | undefined> {
    const response = await this.again(() => this.tools.cancel({ sessionId: this.session, callId, reason }));
    return response.execution;
  }

  /** Yields the bytes of an output that was too large for its result. */
  async *artifact(uri: string, leave?: AbortSignal): AsyncGenerator<Uint8Array> {
    const outer = this.until(leave);
    const tries = new Tries(this.patienceMs, outer);
    for (let offset = 0n; ; ) {
      const stream = new StreamSignal(outer);
      const { signal } = stream;
      try {
        for await (const { data } of this.tools.readArtifact({ uri, offset }, { signal })) {
          tries.reset();
          offset += BigInt(data.length);
          yield data;
        }
        return;
      } catch (error) {
        if (!(error instanceof ConnectError) || !lostConnection(error, outer) || !(await tries.wait())) {
          throw error;
        }
      } finally {
        stream.end();
      }
    }
  }

  /**
   * Asks which server is at the other end: another has another start. A call that finds no
   * server here was not sent. One that is sent after this names the server, so that no
   * other takes it.
   */
  async server(signal?: AbortSignal): Promise<string> {
    const { startTime, limits } = await this.tools.getServerInfo({}, { signal });
    this.maxInput = limits?.maxInputBytes ?? 0n;
    return `${startTime?.seconds}.${startTime?.nanos}`;
  }

  /** Does what can be done twice until the connection holds. */
  private async again<T>(attempt: () => Promise<T>): Promise<T> {
    for (const tries = new Tries(this.patienceMs, this.until()); ; ) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof ConnectError) || !lostConnection(error) || !(await tries.wait())) {
          throw error;
        }
      }
    }
  }
}

/** Follows one call over as many streams as it takes. */
class Follower {
  private heard = false; // an event came
  private sentTo = "";
  private doubt = false; // that server may have taken the call, for all that was heard

  constructor(
    private readonly client: Client,
    private readonly callId: string,
    private watch: WatchExecutionRequest,
    private readonly call?: ExecuteToolRequest, // without it, it is only watched
  ) {}

  async *follow(outer?: AbortSignal): AsyncGenerator<Event> {
    const tries = new Tries(this.client.patienceMs, outer);
    for (;;) {
      let opened = false;
      const signal = new StreamSignal(outer);
      try {
        const stream = await this.open(signal.signal);
        opened = true;
        for await (const { event } of stream) {
          if (!event) {
            continue;
          }
          tries.reset();
          this.heard = true;
          if (event.sequence <= this.watch.afterSequence) {
            continue; // a heartbeat, which has no number of its own
          }
          const { executionId, sequence } = event;
          this.watch = create(WatchExecutionRequestSchema, { executionId, afterSequence: sequence });
          yield event;
          if (event.kind.case === "finished") {
            return;
          }
        }
        throw endedEarly();
      } catch (error) {
        if (!(error instanceof ConnectError)) {
          throw error;
        }
        const other = forAnother(error);
        if ((other && this.doubt) || (this.heard && error.code === Code.NotFound)) {
          yield this.lost();
          return;
        }
        this.doubt ||= opened && !other && !notTaken(error);
        if (!(other || lostConnection(error, outer)) || !(await tries.wait())) {
          throw error;
        }
      } finally {
        signal.end();
      }
    }
  }

  /**
   * Opens the next stream. A call that a server may have taken is sent again to that server
   * alone, which knows its id.
   */
  private async open(signal: AbortSignal): Promise<AsyncIterable<{ event?: Event }>> {
    if (!this.call || this.heard) {
      return this.client.tools.watchExecution(this.watch, { signal });
    }
    if (!this.doubt) {
      this.sentTo = await this.client.server(signal);
      const refused = tooLargeEvent(this.call, this.client.maxInput);
      if (refused) {
        return (async function* () {
          yield { event: refused };
        })();
      }
    }
    return this.client.tools.executeTool(this.call, { signal, headers: addressed(this.sentTo) });
  }

  private lost(): Event {
    return lostEvent(this.callId, this.watch.executionId, this.watch.afterSequence);
  }
}

/** Reads events to the end and returns the result. */
export async function result(events: AsyncIterable<Event>): Promise<Finished> {
  for await (const { kind } of events) {
    if (kind.case === "finished") {
      return kind.value;
    }
  }
  throw endedEarly();
}

/** Returns what of a result is text or JSON, as it is shown to a model. */
export function text(finished: Finished): string {
  return finished.content
    .flatMap(({ kind }) => (kind.case === "text" || kind.case === "json" ? [kind.value] : []))
    .join("\n");
}

/** Returns the result of a call of a batch as Client.renderResults takes it. */
export function forModel({ callId, tool, finished, refused }: BatchResult): CallResult {
  const content = finished?.content ?? [{ kind: { case: "text" as const, value: refused?.message ?? "" } }];
  return create(CallResultSchema, { callId, tool, content, failed: finished?.outcome !== Outcome.SUCCEEDED });
}

/** Returns the result of a call that could not be read, for the model to correct. */
export function unread({ callId, tool, message }: BrokenCall): CallResult {
  return create(CallResultSchema, { callId, tool, failed: true, content: [{ kind: { case: "text", value: message } }] });
}

/** Lets a call run, this once. */
export function allow(): Answer {
  return { kind: AnswerKind.ALLOW_ONCE };
}

/**
 * Answers the questions of an approval in their order, such as that of a step of a workflow by "Approve" or "Deny":
 * each with an option, in any case of letters, or else with a text.
 */
export function answer({ questions }: Approval, ...answers: string[]): Answer {
  return {
    kind: AnswerKind.ANSWERED,
    answers: answers.map((said, i) => {
      const same = ({ label }: { label: string }) => label.toLowerCase() === said.trim().toLowerCase();
      const option = questions[i]?.options.find(same);
      return option ? { chosen: [option.label] } : { text: said };
    }),
  };
}

/** Keeps a call from running, and tells the model why. */
export function deny(why: string): Answer {
  return { kind: AnswerKind.DENY_ONCE, comment: why };
}

function isLocal(address: string): boolean {
  const host = address.replace(/:\d+$/, "");
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
