// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Calls as they are sent, and what becomes of them when a connection is lost.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampNow } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { ContentSchema } from "./gen/toolserver/v1/content_pb.js";
import { type Event, EventSchema, FinishedSchema, Outcome } from "./gen/toolserver/v1/event_pb.js";
import { type ExecuteToolRequest, ExecuteToolRequestSchema } from "./gen/toolserver/v1/tool_service_pb.js";

/** A call of a tool. */
export interface Call {
  /** The model's id for the call: it is run once in its session. Without it one is made. */
  id?: string;
  /** The name of the tool or one of its aliases. */
  tool: string;
  /** The input: JSON text, or a value that JSON.stringify makes an object of. */
  input?: string | object;
  /** How long the tool may run; without it, as long as its default. */
  timeoutMs?: number;
  /** What the call is for, for people who watch or approve. */
  purpose?: string;
}

/** Returns a call as it is sent. It always has an id: with it, it is run once. */
export function callRequest(call: Call, sessionId: string): ExecuteToolRequest & { callId: string } {
  const callId = call.id || newId("call");
  const text = typeof call.input === "string" ? call.input : call.input === undefined ? "" : JSON.stringify(call.input);
  const request = create(ExecuteToolRequestSchema, {
    sessionId,
    callId,
    tool: call.tool,
    inputJson: new TextEncoder().encode(text),
    purpose: call.purpose ?? "",
    timeout: call.timeoutMs === undefined ? undefined : durationFromMs(call.timeoutMs),
  });
  return Object.assign(request, { callId });
}

export function newId(kind: string): string {
  return `${kind}-${randomUUID()}`;
}

/** Attempts at the same thing, with waits that double from a tenth of a second to two. */
export class Tries {
  private failed = 0; // when the first of the failures was, since something worked
  private next = 100;

  constructor(
    private readonly patienceMs: number,
    private readonly signal?: AbortSignal,
  ) {}

  /** Says that something worked. */
  reset(): void {
    this.failed = 0;
    this.next = 100;
  }

  /** Waits before the next try. False: there is to be none. */
  async wait(): Promise<boolean> {
    this.failed ||= performance.now();
    if (performance.now() - this.failed >= this.patienceMs || this.signal?.aborted) {
      return false;
    }
    try {
      await sleep(this.next * (0.5 + Math.random()), undefined, { signal: this.signal });
    } catch {
      return false; // the signal
    }
    this.next = Math.min(2 * this.next, 2000);
    return true;
  }
}

const started = "toolserver-started"; // names the server that a request is for, by when it started

/**
 * The headers of a request for one server; without it, for whichever takes it. Another one
 * refuses it, and names itself in a trailer: so a call that may have been sent can be sent
 * again, and does not run twice.
 */
export function addressed(server: string): Record<string, string> {
  return server ? { [started]: server } : {};
}

/** Whether a server refused a request because it is for another. */
export function forAnother(error: ConnectError): boolean {
  return error.code === Code.FailedPrecondition && error.metadata.has(started);
}

/** A signal for one stream. Ending it ends the stream, which leaving its iterator does not. */
export class StreamSignal {
  private readonly controller = new AbortController();
  private readonly ended = () => this.controller.abort(this.outer?.reason);
  readonly signal: AbortSignal = this.controller.signal;

  constructor(private readonly outer?: AbortSignal) {
    if (outer?.aborted) {
      this.ended();
    }
    outer?.addEventListener("abort", this.ended);
  }

  end(): void {
    this.outer?.removeEventListener("abort", this.ended);
    this.controller.abort();
  }
}

/** Whether an error says that there is no server, or none that takes calls. */
export function lostConnection(error: ConnectError, signal?: AbortSignal): boolean {
  if (signal?.aborted) {
    return false;
  }
  // What broke on this side has many codes, and no status of the server.
  const broken = [Code.Aborted, Code.Canceled, Code.Internal, Code.Unknown];
  return error.code === Code.Unavailable || (!error.metadata.has("grpc-status") && broken.includes(error.code));
}

/**
 * Whether it is the server's own word that it did not take the call. The server says
 * that with when to come back, and a broken connection does not.
 */
export function notTaken(error: ConnectError): boolean {
  return error.details.length > 0;
}

/** The error of a stream that ended before what it tells of. */
export function endedEarly(): ConnectError {
  return new ConnectError("the stream ended too early", Code.Unavailable);
}

const unsentText = "The call was cancelled before it was sent. Nothing of it ran.";

/** Returns the ending of a call that was cancelled before any server had it. */
export function cancelledEvent(reason: string): Event {
  return unsentEvent({
    outcome: Outcome.CANCELLED,
    failure: { code: "cancelled", message: unsentText },
    cancellation: { reason, by: "client" },
  });
}

/**
 * Returns the ending of a call whose input no server takes, if it is too large. It is not sent: a
 * message that is too large ends a stream, and all that is in it.
 */
export function tooLargeEvent({ inputJson }: ExecuteToolRequest, most: bigint): Event | undefined {
  if (most === 0n || inputJson.length <= most) {
    return undefined;
  }
  const message = `the input has ${inputJson.length} bytes: the maximum is ${most}`;
  return unsentEvent({ outcome: Outcome.INVALID_INPUT, failure: { code: "invalid_input", message } });
}

/** Returns the ending of a call that no server was sent. */
function unsentEvent(finished: MessageInitShape<typeof FinishedSchema>): Event {
  const value = create(FinishedSchema, finished);
  value.content.push(create(ContentSchema, { kind: { case: "text", value: value.failure?.message ?? "" } }));
  return create(EventSchema, { sequence: 1n, time: timestampNow(), kind: { case: "finished", value } });
}

const lostText =
  "The result is not known: the server that was sent the call is gone. " +
  "The call may have run, wholly or in part: look at what it changed before you make it again.";

/** Returns the ending of a call whose server is gone. */
export function lostEvent(callId: string, executionId: string, last: bigint): Event {
  return create(EventSchema, {
    executionId,
    sequence: last + 1n,
    time: timestampNow(),
    kind: {
      case: "finished",
      value: {
        outcome: Outcome.LOST,
        content: [{ kind: { case: "text", value: lostText } }],
        failure: { code: "server_gone", message: `call ${callId}: the server that was sent it is gone` },
      },
    },
  });
}
