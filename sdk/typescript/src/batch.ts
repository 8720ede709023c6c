// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { addressed, type Call, callRequest, cancelledEvent, endedEarly, forAnother } from "./calls.js";
import { lostConnection, lostEvent, newId, notTaken, StreamSignal, tooLargeEvent, Tries } from "./calls.js";
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
import { ExecuteToolRequestSchema } from "./gen/toolserver/v1/tool_service_pb.js";

type Order = MessageInitShape<typeof ExecuteBatchRequestSchema>;

/** The order does not reach the batch, and why. Calls can be cancelled all the same. */
export class Detached extends Error {
  constructor(why: string) {
    super(`the order does not reach the batch: ${why}`);
  }
}

const maxId = 256; // bytes of the id of a call or a batch
const maxUnheard = 3; // batches that a call is sent in of which no word comes

/**
 * What came of a call: finished, or refused where it was malformed and did not run. A call
 * whose id the batch has already is refused, too.
 */
export interface BatchResult {
  callId: string;
  tool: string;
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
  unheard: number; // batches that ended without a word of it, though it was sent
}

type Message = { order: Order; call?: Known };

/** What a stream is to send, as it comes. */
class Outbox implements AsyncIterable<Order> {
  private readonly messages: Message[] = [];
  private ended = false;
  private wake?: () => void;

  constructor(private readonly sending: (call: Known) => boolean) {}

  put(order: Order): void {
    this.messages.push({ order });
    this.wake?.();
  }

  putCall(call: Known): void {
    this.messages.push({ order: { kind: { case: "call", value: call.request } }, call });
    this.wake?.();
  }

  end(): void {
    this.ended = true;
    this.wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Order> {
    for (let sent = 0; ; ) {
      for (; sent < this.messages.length; sent++) {
        const { order, call } = this.messages[sent]!;
        if (!call || this.sending(call)) {
          yield order;
        }
      }
      this.messages.length = sent = 0;
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
  /** What Client.watchBatch finds the batch by, also from another process. */
  readonly id: string;
  private readonly start: BatchStart;
  private readonly calls: Known[] = [];
  private open = 0; // how many of them have not ended
  private byPosition = new Map<number, Known>(); // what the batch of the server was sent, by its position there
  private before = 0; // how many calls were in the batches before that
  private unsent: { call: Known; ending: Event }[] = []; // ended before any server had them
  private connected: boolean; // there was a stream
  private closed: boolean; // no call follows
  private ending = false; // no call follows once all have ended
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
    private readonly watched = false, // another began it, and its calls are known by their events
  ) {
    this.start = create(BatchStartSchema, start);
    this.start.sessionId = client.session;
    this.start.batchId = this.id = this.start.batchId || newId("batch");
    this.connected = this.closed = watched;
    this.events = this.run();
    this.first = this.events.next();
    this.first.catch(() => {}); // who iterates is told
    signal?.addEventListener("abort", this.wakeUp);
  }

  /**
   * Adds a call, or one that Client.parse found, and returns its id. An id that the batch has already is an error in the
   * result of this call, as all that a model can do wrong is.
   */
  call(call: Call | ExecuteToolRequest): string {
    if ("$typeName" in call) {
      call = { id: call.callId, tool: call.tool, input: new TextDecoder().decode(call.inputJson) };
    }
    const request = callRequest(call, "");
    if (this.closed) {
      throw new Error("the batch is closed: a call that comes later belongs in a new one");
    }
    const known = this.add(request, this.calls.length + 1);
    this.outbox?.putCall(known);
    this.wakeUp();
    return request.callId;
  }

  private add(request: ExecuteToolRequest, position: number): Known {
    const known = { request, position, sent: false, heard: false, ended: false, executionId: "", sequence: 0n, unheard: 0 };
    this.calls.push(known);
    this.open++;
    return known;
  }

  private readonly wakeUp = (): void => this.changed?.();

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
    if (this.outbox && !this.done()) {
      this.order({ kind: { case: "cancel", value: { callId, reason } } });
      return;
    }
    const open = this.calls.filter(({ ended, request }) => !ended && (callId === "" || callId === request.callId));
    const sent = open.filter((call) => call.sent);
    for (const call of open.filter((call) => !call.sent)) {
      this.endUnsent(call, cancelledEvent(reason));
    }
    this.wakeUp();
    // The newest first, so that none begins for the end of another.
    for (const { request } of sent.reverse()) {
      await this.client.cancel(request.callId ?? "", reason);
    }
  }

  /** Says that no call follows. The batch ends once all its calls have; until then it can be steered. */
  close(): void {
    this.closed = true;
    this.endIfDone();
  }

  /**
   * Reads the events to the end, and returns the results in the order of the calls. The
   * batch is closed when all its calls have ended: until then it can be steered, and takes
   * calls.
   */
  async results(): Promise<BatchResult[]> {
    this.ending = true;
    this.endIfDone();
    const results = new Map<number, Pick<BatchResult, "finished" | "refused">>();
    for await (const { kind } of this) {
      if (kind.case === "call" && kind.value.event?.kind.case === "finished") {
        results.set(kind.value.position, { finished: kind.value.event.kind.value });
      } else if (kind.case === "refused" && kind.value.position) {
        results.set(kind.value.position, { refused: kind.value });
      }
    }
    const calls = this.calls.toSorted((a, b) => a.position - b.position);
    const tools = new Map(this.summary.calls.map(({ callId, tool }) => [callId, tool])); // also of others' calls
    return calls.map(({ request: { callId = "", tool }, position }) => ({
      callId,
      tool: tool || (tools.get(callId) ?? ""),
      ...results.get(position),
    }));
  }

  private done(): boolean {
    return this.closed && this.open === 0;
  }

  /** Notes that a call has ended. */
  private ended(call: Known): void {
    call.heard = call.ended = true;
    this.open--;
    this.endIfDone();
  }

  /** Ends what is sent, where all calls have ended and none follows. */
  private endIfDone(): void {
    this.closed ||= this.ending && this.open === 0;
    if (this.done()) {
      this.outbox?.end();
    }
    this.wakeUp();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<BatchEvent> {
    try {
      if (this.first) {
        const { value, done } = await this.first;
        this.first = undefined;
        if (!done) {
          yield value;
        }
      }
      yield* this.events;
    } finally {
      this.signal?.removeEventListener("abort", this.wakeUp);
      await this.events.return(undefined); // who leaves ends the stream
    }
  }

  private order(order: Order): void {
    if (this.done() && !this.watched) {
      throw new Detached("it is closed, and all its calls have ended");
    }
    if (!this.outbox) {
      throw new Detached(
        this.connected ? "it has no stream of its own any more and is only watched" : "it is not connected yet",
      );
    }
    this.outbox.put(order);
  }

  private async *run(): AsyncGenerator<BatchEvent> {
    for (let n = 2; ; n++) {
      let more: boolean;
      try {
        yield* this.runOne();
        more = await this.waitForMore();
        while (this.unsent.length) {
          yield* this.tellUnsent();
          more = await this.waitForMore();
        }
        more ||= this.watched;
      } catch (error) {
        if (!this.watched || n === 2 || ConnectError.from(error).code !== Code.NotFound) {
          throw error;
        }
        more = false; // nobody continued it
      }
      if (!more) {
        yield create(BatchEventSchema, {
          sequence: ++this.number,
          kind: { case: "finished", value: this.summary },
        });
        return;
      }
      this.start.batchId = continued(this.id, n);
      this.before = this.calls.length;
      this.byPosition = new Map();
    }
  }

  /** Runs one batch of the server to its end, over as many streams as it takes. */
  private async *runOne(): AsyncGenerator<BatchEvent> {
    const tries = new Tries(this.client.patienceMs, this.signal);
    let last = 0n;
    let sentTo = ""; // the server; empty where that is not known
    let doubt = this.watched; // that server may have the batch
    for (;;) {
      let opened = false;
      yield* this.tellUnsent();
      if (!doubt && this.done() && this.calls.length) {
        return; // nothing is left to run
      }
      const signal = new StreamSignal(this.signal);
      try {
        if (!doubt) {
          sentTo = await this.client.server(signal.signal);
        }
        const options = { signal: signal.signal, headers: addressed(sentTo) };
        const { sessionId, batchId } = this.start;
        const stream: AsyncIterable<{ event?: BatchEvent }> = doubt
          ? this.client.tools.watchBatch({ sessionId, batchId, afterSequence: last }, options)
          : this.client.tools.executeBatch(this.fillOutbox(), options);
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
            yield* this.loseUnended(event.kind.value);
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
        const other = forAnother(error);
        const missing = error.code === Code.NotFound;
        if (doubt && (other || (missing && last > 0n))) {
          yield* this.lose();
          return;
        }
        if (doubt && missing && !this.watched) {
          doubt = false; // the same server never saw it
          continue;
        }
        doubt ||= opened && !other && !notTaken(error);
        if (!(other || lostConnection(error, this.signal)) || !(await tries.wait())) {
          throw error;
        }
      } finally {
        this.detach();
        signal.end();
      }
    }
  }

  /** Returns what a new stream is to send: first of all the calls that no server has. */
  private fillOutbox(): Outbox {
    const outbox = new Outbox((call) => {
      if (call.ended || this.outbox !== outbox) {
        return false; // it was cancelled, or another stream took the place
      }
      const refused = tooLargeEvent(call.request, this.client.maxInput);
      if (refused) {
        this.endUnsent(call, refused);
        return false;
      }
      call.sent = true;
      this.byPosition.set(this.byPosition.size + 1, call);
      return true;
    });
    outbox.put({ kind: { case: "start", value: this.start } });
    for (const call of this.calls) {
      if (!call.heard) {
        outbox.putCall(call);
      }
    }
    this.outbox = outbox;
    this.connected = true;
    this.byPosition = new Map();
    this.endIfDone();
    return outbox;
  }

  private detach(): void {
    this.outbox?.end();
    this.outbox = undefined;
  }

  /**
   * Notes what an event says of its call. False: it is no news. A sign of life is none, nor
   * what is told again of a call that was sent twice.
   */
  private take(event: BatchEvent): boolean {
    const { kind } = event;
    if (!["started", "call", "refused", "steeringPoint"].includes(kind.case ?? "")) {
      return false;
    }
    if (kind.case === "started" && this.number > 0n) {
      return false; // it continues a batch
    }
    if (kind.case === "call") {
      const call = this.callAt(kind.value);
      const happened = kind.value.event;
      if (call && happened) {
        if (call.ended || (happened.sequence <= call.sequence && happened.kind.case !== "heartbeat")) {
          return false;
        }
        call.heard = true;
        call.executionId = happened.executionId;
        call.sequence = happened.sequence;
        kind.value.position = call.position;
        if (happened.kind.case === "finished") {
          this.ended(call);
        }
      }
    }
    if (kind.case === "refused") {
      const call = this.callAt(kind.value);
      if (call?.ended) {
        return false;
      }
      if (call) {
        kind.value.position = call.position;
        kind.value.callId = call.request.callId ?? ""; // which may have been cut
        this.ended(call);
      }
    }
    event.sequence = ++this.number;
    return true;
  }

  /** Returns the call that the batch of the server has at a position. */
  private callAt({ position, callId }: { position: number; callId: string }): Known | undefined {
    let call = this.byPosition.get(position);
    if (!call && this.watched && position) {
      call = this.add(create(ExecuteToolRequestSchema, { callId }), this.before + position);
      call.sent = true;
      this.byPosition.set(position, call);
    }
    return call;
  }

  /** Waits until a call has to go into another batch. False: none will. */
  private async waitForMore(): Promise<boolean> {
    for (;;) {
      if (this.unsent.length || this.open) {
        return true;
      }
      if (this.closed) {
        return false;
      }
      if (this.signal?.aborted) {
        throw ConnectError.from(this.signal.reason, Code.Canceled);
      }
      await new Promise<void>((resolve) => (this.changed = resolve));
    }
  }

  private summarise(finished: BatchFinished): void {
    this.summary.calls.push(...finished.calls);
    const ms = [this.summary.duration, finished.duration].map((d) => (d ? durationMs(d) : 0));
    this.summary.duration = durationFromMs(ms.reduce((a, b) => a + b));
  }

  private endUnsent(call: Known, ending: Event): void {
    this.unsent.push({ call, ending });
    this.ended(call);
  }

  /** Tells the endings of calls that no server had. */
  private *tellUnsent(): Generator<BatchEvent> {
    for (let one = this.unsent.shift(); one; one = this.unsent.shift()) {
      yield this.end(one.call, one.ending);
    }
  }

  /**
   * Ends what a summary leaves open, which is the last word on what the batch had. A call
   * of which nothing came goes into the next batch, a few times.
   */
  private *loseUnended(summary: BatchFinished): Generator<BatchEvent> {
    const named = new Set(summary.calls.map(({ callId }) => callId));
    for (const call of [...this.calls]) {
      const known = call.heard || named.has(call.request.callId ?? "");
      if (call.sent && !call.ended && (++call.unheard >= maxUnheard || known)) {
        yield this.lost(call);
      }
    }
  }

  /** Ends the calls that a server has which is gone. */
  private *lose(): Generator<BatchEvent> {
    for (const call of [...this.calls]) {
      if (call.sent && !call.ended) {
        yield this.lost(call);
      }
    }
  }

  private lost(call: Known): BatchEvent {
    this.ended(call);
    return this.end(call, lostEvent(call.request.callId ?? "", call.executionId, call.sequence));
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
