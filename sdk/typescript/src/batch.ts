// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { type Call, callRequest, cancelledEvent, endedEarly, lostConnection, lostEvent } from "./calls.js";
import { newId, notTaken, Tries } from "./calls.js";
import type { Client } from "./client.js";
import {
  type BatchCallRefused,
  type BatchEvent,
  BatchEventSchema,
  type BatchFinished,
  BatchFinishedSchema,
  BatchCallSummarySchema,
  type BatchStart,
  BatchStartSchema,
} from "./gen/toolserver/v1/batch_pb.js";
import { type Event, type Finished } from "./gen/toolserver/v1/event_pb.js";
import type { ExecuteBatchRequestSchema, ExecuteToolRequest } from "./gen/toolserver/v1/tool_service_pb.js";

type Order = MessageInitShape<typeof ExecuteBatchRequestSchema>;

/** The order does not reach the batch, and why. Calls can be cancelled all the same. */
export class Detached extends Error {
  constructor(why: string) {
    super(`the order does not reach the batch: ${why}`);
  }
}

const maxId = 256; // bytes of the id of a call or a batch
const maxPassed = 3; // batches that a call is sent in of which no word comes

/** What came of a call: finished, or refused where it was malformed and did not run. */
export interface BatchResult {
  callId: string;
  finished?: Finished;
  refused?: BatchCallRefused;
}

interface Known {
  request: ExecuteToolRequest;
  position: number;
  sent: boolean; // a server may have it
  heard: boolean;
  ended: boolean;
  executionId: string;
  sequence: bigint;
  passed: number; // batches that ended without a word of it, though it was sent
}

/** What a stream is to send, as it comes. */
class Outbox implements AsyncIterable<Order> {
  private readonly orders: Order[] = [];
  private ended = false;
  private wake?: () => void;

  constructor(private readonly sending: (order: Order) => boolean) {}

  put(order: Order): void {
    this.orders.push(order);
    this.wake?.();
  }

  end(): void {
    this.ended = true;
    this.wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Order> {
    for (;;) {
      for (let order = this.orders.shift(); order; order = this.orders.shift()) {
        if (this.sending(order)) {
          yield order;
        }
      }
      if (this.ended) {
        return;
      }
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }
}

/**
 * The calls of one turn of a model. Each is sent when it is added, and starts when its
 * turn is there. Iterating, once, yields what happens in the batch, to its summary, which
 * comes after close. Calls are sent from the beginning; who does not iterate gets no
 * further than what the connection holds.
 *
 * A batch that loses its stream is watched to its end, and calls that no server has seen
 * go into another, after it: to the caller it is one, and its events are numbered as one.
 */
export class Batch implements AsyncIterable<BatchEvent> {
  private readonly start: BatchStart;
  private readonly firstId: string;
  private readonly calls = new Map<string, Known>();
  private came: Known[] = []; // what the batch of the server was sent, in its order
  private dead: { call: Known; reason: string }[] = []; // cancelled before any server had them
  private joined = false; // there was a stream
  private closed = false;
  private outbox?: Outbox; // of the stream that takes orders
  private number = 0n; // of the last event that was given out
  private readonly summary: BatchFinished = create(BatchFinishedSchema);
  private changed?: () => void;
  private readonly events: AsyncGenerator<BatchEvent>;
  private first?: Promise<IteratorResult<BatchEvent>>; // begun before anybody iterates

  constructor(
    private readonly client: Client,
    start: MessageInitShape<typeof BatchStartSchema>,
    private readonly signal?: AbortSignal,
  ) {
    this.start = create(BatchStartSchema, start);
    this.start.sessionId = client.session;
    this.start.batchId = this.firstId = this.start.batchId || newId("batch");
    this.events = this.run();
    this.first = this.events.next();
    this.first.catch(() => {}); // who iterates is told
  }

  /** Adds a call, and returns its id. */
  call(call: Call): string {
    const request = callRequest(call, "");
    const id = request.callId;
    if (this.closed) {
      throw new Error("the batch is closed: a call that comes later belongs in a new one");
    }
    const size = Buffer.byteLength(id);
    if (size > maxId) {
      throw new Error(`the call id has ${size} bytes: at most ${maxId}`);
    }
    if (this.calls.has(id)) {
      throw new Error(`call id ${JSON.stringify(id)} is twice in the batch: use a new id for a new call`);
    }
    const position = this.calls.size + 1;
    const known = { sent: false, heard: false, ended: false, executionId: "", sequence: 0n, passed: 0 };
    this.calls.set(id, { request, position, ...known });
    this.outbox?.put({ kind: { case: "call", value: request } });
    this.changed?.();
    return id;
  }

  /** Lets the calls that run end by themselves, and skips those that wait. */
  interrupt(reason = ""): void {
    this.order({ kind: { case: "interrupt", value: { reason } } });
  }

  /** Says something to the tools of the batch while they run. */
  message(text: string): void {
    this.order({ kind: { case: "message", value: { text } } });
  }

  /** Ends one call; without an id, all that have been added. One that no server has is never sent. */
  async cancel(callId = "", reason = ""): Promise<void> {
    if (this.outbox && !this.closed) {
      this.order({ kind: { case: "cancel", value: { callId, reason } } });
      return;
    }
    const open = [...this.calls].filter(([id, call]) => !call.ended && (callId === "" || callId === id));
    for (const [, call] of open.filter(([, { sent }]) => !sent)) {
      call.heard = call.ended = true;
      this.dead.push({ call, reason });
    }
    this.changed?.();
    // The newest first, so that none begins for the end of another.
    for (const [id] of open.filter(([, { sent }]) => sent).reverse()) {
      await this.client.cancel(id, reason);
    }
  }

  /** Says that no call follows. The batch ends once all its calls have. */
  close(): void {
    this.closed = true;
    this.outbox?.end();
    this.changed?.();
  }

  /** Closes the batch, and returns the results in the order of the calls. */
  async results(): Promise<BatchResult[]> {
    this.close();
    const results = new Map<string, BatchResult>([...this.calls.keys()].map((callId) => [callId, { callId }]));
    for await (const { kind } of this) {
      if (kind.case === "call" && kind.value.event?.kind.case === "finished") {
        results.set(kind.value.callId, { callId: kind.value.callId, finished: kind.value.event.kind.value });
      } else if (kind.case === "refused" && kind.value.position) {
        results.set(kind.value.callId, { callId: kind.value.callId, refused: kind.value });
      }
    }
    return [...results.values()];
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<BatchEvent> {
    if (this.first) {
      const { value, done } = await this.first;
      this.first = undefined;
      if (!done) {
        yield value;
      }
    }
    yield* this.events;
  }

  private order(order: Order): void {
    if (this.closed) {
      throw new Detached("it is closed");
    }
    if (!this.outbox) {
      throw new Detached(this.joined ? "it lost its stream and is only watched" : "it is not connected yet");
    }
    this.outbox.put(order);
  }

  private async *run(): AsyncGenerator<BatchEvent> {
    for (let n = 2; ; n++) {
      yield* this.runOne();
      let more = await this.waitForMore();
      while (this.dead.length) {
        yield* this.tellDropped();
        more = await this.waitForMore();
      }
      if (!more) {
        yield create(BatchEventSchema, {
          sequence: ++this.number,
          kind: { case: "finished", value: this.summary },
        });
        return;
      }
      this.start.batchId = continued(this.firstId, n);
    }
  }

  /** Runs one batch of the server to its end, over as many streams as it takes. */
  private async *runOne(): AsyncGenerator<BatchEvent> {
    const tries = new Tries(this.client.patienceMs, this.signal);
    let last = 0n;
    let sentTo = "";
    let doubt = false; // that server may have the batch
    for (;;) {
      let opened = false;
      yield* this.tellDropped();
      if (!doubt && this.closed && this.calls.size && [...this.calls.values()].every(({ ended }) => ended)) {
        return; // nothing is left to run
      }
      try {
        if (last === 0n) {
          const server = await this.client.server(this.signal);
          if (doubt && server !== sentTo) {
            yield* this.lose();
            return;
          }
          sentTo = server;
        }
        const stream: AsyncIterable<{ event?: BatchEvent }> = doubt ? this.watch(last) : this.execute();
        opened = true;
        for await (const { event } of stream) {
          if (!event) {
            continue;
          }
          tries.reset();
          doubt = true;
          last = event.sequence;
          if (event.kind.case === "finished") {
            this.detach();
            this.summarise(event.kind.value);
            yield* this.pass(event.kind.value);
            return;
          }
          if (this.take(event)) {
            yield event;
          }
        }
        throw endedEarly();
      } catch (error) {
        if (!(error instanceof ConnectError)) {
          throw error;
        }
        this.detach();
        if (doubt && error.code === Code.NotFound) {
          if (last > 0n) {
            yield* this.lose();
            return;
          }
          doubt = false; // the same server never saw it
          continue;
        }
        doubt ||= opened && !notTaken(error);
        if (!lostConnection(error, this.signal) || !(await tries.pause())) {
          throw error;
        }
      } finally {
        this.detach();
      }
    }
  }

  /** Opens a stream that takes calls, and sends those that no server has. */
  private execute(): AsyncIterable<{ event?: BatchEvent }> {
    const outbox = new Outbox(({ kind }) => {
      const call = kind?.case === "call" && this.calls.get(kind.value.callId ?? "");
      if (call && (call.ended || this.outbox !== outbox)) {
        return false; // it was cancelled, or another stream took the place
      }
      if (call) {
        call.sent = true;
        this.came.push(call);
      }
      return true;
    });
    outbox.put({ kind: { case: "start", value: this.start } });
    for (const call of this.calls.values()) {
      if (!call.heard) {
        outbox.put({ kind: { case: "call", value: call.request } });
      }
    }
    if (this.closed) {
      outbox.end();
    }
    this.outbox = outbox;
    this.joined = true;
    this.came = [];
    return this.client.tools.executeBatch(outbox, { signal: this.signal });
  }

  private watch(afterSequence: bigint): AsyncIterable<{ event?: BatchEvent }> {
    const { sessionId, batchId } = this.start;
    return this.client.tools.watchBatch({ sessionId, batchId, afterSequence }, { signal: this.signal });
  }

  private detach(): void {
    this.outbox?.end();
    this.outbox = undefined;
  }

  /** Notes what an event says of its call. False: it was told before. */
  private take(event: BatchEvent): boolean {
    const { kind } = event;
    if (kind.case === "started" && this.number > 0n) {
      return false; // it continues a batch
    }
    if (kind.case === "call") {
      const call = this.calls.get(kind.value.callId);
      const happened = kind.value.event;
      if (call && happened) {
        if (call.ended || (happened.sequence <= call.sequence && happened.kind.case !== "heartbeat")) {
          return false;
        }
        call.heard = true;
        call.ended = happened.kind.case === "finished";
        call.executionId = happened.executionId;
        call.sequence = happened.sequence;
        kind.value.position = call.position;
      }
    }
    if (kind.case === "refused" && kind.value.position) {
      const call = this.calls.get(kind.value.callId) ?? this.came[kind.value.position - 1]; // where the id was cut
      if (call?.ended) {
        return false;
      }
      if (call) {
        call.heard = call.ended = true;
        kind.value.position = call.position;
        kind.value.callId = call.request.callId ?? "";
      }
    }
    event.sequence = ++this.number;
    return true;
  }

  /** Waits until a call has to go into another batch. False: none will. */
  private async waitForMore(): Promise<boolean> {
    for (;;) {
      if (this.dead.length || [...this.calls.values()].some((call) => !call.ended)) {
        return true;
      }
      if (this.closed) {
        return false;
      }
      await new Promise<void>((resolve) => (this.changed = resolve));
    }
  }

  private summarise(finished: BatchFinished): void {
    this.summary.calls.push(...finished.calls);
    const ms = [this.summary.duration, finished.duration].map((d) => (d ? durationMs(d) : 0));
    this.summary.duration = durationFromMs(ms.reduce((a, b) => a + b));
  }

  /** Tells the endings of calls that were cancelled before any server had them. */
  private *tellDropped(): Generator<BatchEvent> {
    for (let one = this.dead.shift(); one; one = this.dead.shift()) {
      yield this.end(one.call, cancelledEvent(one.reason));
    }
  }

  /**
   * Ends what a summary leaves open, which is the last word on what the batch had. A call
   * of which nothing came goes into the next batch, a few times.
   */
  private *pass(summary: BatchFinished): Generator<BatchEvent> {
    const named = new Set(summary.calls.map(({ callId }) => callId));
    for (const [id, call] of this.calls) {
      if (call.sent && !call.ended && (++call.passed >= maxPassed || call.heard || named.has(id))) {
        yield this.lost(id, call);
      }
    }
  }

  /** Ends the calls that a server has which is gone. */
  private *lose(): Generator<BatchEvent> {
    for (const [id, call] of this.calls) {
      if (call.sent && !call.ended) {
        yield this.lost(id, call);
      }
    }
  }

  private lost(id: string, call: Known): BatchEvent {
    call.heard = call.ended = true;
    return this.end(call, lostEvent(id, call.executionId, call.sequence));
  }

  /** Returns an ending that is not the server's. */
  private end({ request, position, executionId }: Known, event: Event): BatchEvent {
    const callId = request.callId ?? "";
    const outcome = event.kind.case === "finished" ? event.kind.value.outcome : undefined;
    this.summary.calls.push(create(BatchCallSummarySchema, { callId, executionId, tool: request.tool, outcome }));
    return create(BatchEventSchema, {
      sequence: ++this.number,
      kind: { case: "call", value: { position, callId, event } },
    });
  }
}

/** Returns the id of the batch that continues another: cut to what an id may have. */
function continued(first: string, n: number): string {
  const room = new Uint8Array(maxId - `.${n}`.length);
  const { written } = new TextEncoder().encodeInto(first, room); // whole characters
  return `${new TextDecoder().decode(room.subarray(0, written))}.${n}`;
}
