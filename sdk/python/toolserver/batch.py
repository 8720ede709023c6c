# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""The calls of one turn of a model."""

from __future__ import annotations

import dataclasses
import queue
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

import grpc

from toolserver._calls import Input, Tries, call_request, cancelled_event
from toolserver._calls import lost_connection, lost_event, not_taken
from toolserver.v1 import batch_pb2, event_pb2, tool_service_pb2

if TYPE_CHECKING:
    from toolserver.client import Client


class Detached(Exception):
    """The order does not reach the batch, and why. Calls can be cancelled all the same."""


_MAX_ID = 256  # bytes of the id of a call or a batch
_MAX_PASSED = 3  # batches that a call is sent in of which no word comes


@dataclasses.dataclass
class BatchResult:
    """What came of a call: finished, or refused where it was malformed and did not run."""

    call_id: str
    finished: Optional[event_pb2.Finished] = None
    refused: Optional[batch_pb2.BatchCallRefused] = None


@dataclasses.dataclass
class _Call:
    request: tool_service_pb2.ExecuteToolRequest
    position: int
    sent: bool = False  # a server may have it
    heard: bool = False
    ended: bool = False
    execution_id: str = ""
    sequence: int = 0
    passed: int = 0  # batches that ended without a word of it, though it was sent


class Batch:
    """Each call is sent when it is added, and starts when its turn is there.

    Iterating yields what happens in the batch, to its summary, which comes after close.
    A batch that loses its stream is watched to its end, and calls that no server has
    seen go into another, after it: to the caller it is one, and its events are numbered
    as one. Calls can be added by other threads than the one that iterates.
    """

    def __init__(self, client: Client, start: batch_pb2.BatchStart):
        self._client = client
        self._start = start
        self._first_id = start.batch_id
        self._changed = threading.Condition()
        self._calls: Dict[str, _Call] = {}
        self._closed = False
        self._joined = False  # there was a stream
        self._came: List[_Call] = []  # what the batch of the server was sent, in its order
        self._dead: List[Tuple[_Call, str]] = []  # cancelled before any server had them
        # What the stream that takes orders is to send; None where no stream does.
        self._outbox: Optional[queue.SimpleQueue] = None
        self._number = 0  # of the last event that was given out
        self._summary = batch_pb2.BatchFinished()
        self._sent_to: Optional[Tuple[int, int]] = None
        self._stream = None
        try:
            self._open(0, False)
        except grpc.RpcError:
            pass  # who iterates tries again, and is told

    def call(self, tool: str, input: Input = None, **details: Any) -> str:
        """Adds a call, and returns its id. details are as in Client.execute."""
        request = call_request(tool, input, **details)
        with self._changed:
            if self._closed:
                raise ValueError("the batch is closed: a call that comes later belongs in a new one")
            if (size := len(request.call_id.encode())) > _MAX_ID:
                raise ValueError(f"the call id has {size} bytes: at most {_MAX_ID}")
            if request.call_id in self._calls:
                raise ValueError(f"call id {request.call_id!r} is twice in the batch: use a new one")
            self._calls[request.call_id] = _Call(request, len(self._calls) + 1)
            if self._outbox is not None:
                self._outbox.put(tool_service_pb2.ExecuteBatchRequest(call=request))
            self._changed.notify_all()
        return request.call_id

    def interrupt(self, reason: str = "") -> None:
        """Lets the calls that run end by themselves, and skips those that wait."""
        self._order(interrupt=batch_pb2.BatchInterrupt(reason=reason))

    def message(self, text: str) -> None:
        """Says something to the tools of the batch while they run."""
        self._order(message=batch_pb2.BatchMessage(text=text))

    def cancel(self, call_id: str = "", reason: str = "") -> None:
        """Ends one call; without an id, all that have been added.

        One that no server has is never sent.
        """
        try:
            self._order(cancel=batch_pb2.BatchCancel(call_id=call_id, reason=reason))
            return
        except Detached:
            pass
        with self._changed:
            calls = [
                call
                for one, call in self._calls.items()
                if not call.ended and call_id in ("", one)
            ]
            for call in calls:
                if not call.sent:
                    call.heard = call.ended = True
                    self._dead.append((call, reason))
            self._changed.notify_all()
        for call in reversed(calls):  # so that none begins for the end of another
            if call.sent:
                self._client.cancel(call.request.call_id, reason)

    def close(self) -> None:
        """Says that no call follows. The batch ends once all its calls have."""
        with self._changed:
            self._closed = True
            if self._outbox is not None:
                self._outbox.put(None)
            self._changed.notify_all()

    def results(self) -> List[BatchResult]:
        """Closes the batch, and returns the results in the order of the calls."""
        self.close()
        results = {call_id: BatchResult(call_id) for call_id in self._calls}
        for event in self:
            if event.call.event.HasField("finished"):
                results[event.call.call_id].finished = event.call.event.finished
            elif event.refused.position:
                results[event.refused.call_id].refused = event.refused
        return list(results.values())

    def __iter__(self) -> Iterator[batch_pb2.BatchEvent]:
        number = 1
        while True:
            yield from self._run()
            while (more := self._wait_for_more()) and self._dead:
                yield from self._tell_dropped()
            if not more:
                self._number += 1
                yield batch_pb2.BatchEvent(sequence=self._number, finished=self._summary)
                return
            number += 1
            self._start.batch_id = _continued(self._first_id, number)
            self._sent_to = None

    def _order(self, **order: Any) -> None:
        with self._changed:
            if self._closed:
                raise Detached("the order does not reach the batch: it is closed")
            if self._outbox is None and self._joined:
                raise Detached("the order does not reach the batch: it lost its stream and is only watched")
            if self._outbox is None:
                raise Detached("the order does not reach the batch: it is not connected yet")
            self._outbox.put(tool_service_pb2.ExecuteBatchRequest(**order))

    def _run(self) -> Iterator[batch_pb2.BatchEvent]:
        """Runs one batch of the server to its end, over as many streams as it takes."""
        tries, last = Tries(self._client.patience), 0
        doubt = False  # the server that was sent the batch may have it
        while True:
            yield from self._tell_dropped()
            if not doubt and self._stream is None and self._idle():
                return
            try:
                if self._stream is None and not self._open(last, doubt):
                    yield from self._lose()
                    return
                for response in self._stream:
                    tries.reset()
                    doubt, last = True, response.event.sequence
                    if response.event.HasField("finished"):
                        self._summary.calls.extend(response.event.finished.calls)
                        self._summary.duration.FromNanoseconds(
                            self._summary.duration.ToNanoseconds()
                            + response.event.finished.duration.ToNanoseconds()
                        )
                        self._detach()
                        yield from self._pass(response.event.finished)
                        return
                    if self._take(response.event):
                        yield response.event
                doubt = True
                if not tries.pause():
                    raise ConnectionError("the stream ended before the batch did")
            except grpc.RpcError as error:
                opened = self._stream is not None
                if doubt and error.code() == grpc.StatusCode.NOT_FOUND:
                    if last:
                        yield from self._lose()
                        return
                    doubt = False  # the same server never saw it
                elif lost_connection(error):
                    doubt = doubt or opened and not not_taken(error)
                    self._detach()
                    if not tries.pause():
                        raise
                else:
                    raise
            finally:
                self._detach()

    def _open(self, last: int, doubt: bool) -> bool:
        """Opens the next stream. False: the server that may have the batch is gone."""
        tools = self._client.tools
        if last == 0:
            server = self._client.server()
            if doubt and server != self._sent_to:
                return False
            self._sent_to = server
        if doubt:
            request = tool_service_pb2.WatchBatchRequest(
                session_id=self._start.session_id,
                batch_id=self._start.batch_id,
                after_sequence=last,
            )
            self._stream = tools.WatchBatch(request)
            return True
        outbox: queue.SimpleQueue = queue.SimpleQueue()
        with self._changed:
            outbox.put(tool_service_pb2.ExecuteBatchRequest(start=self._start))
            for call in self._calls.values():
                if not call.heard:
                    outbox.put(tool_service_pb2.ExecuteBatchRequest(call=call.request))
            if self._closed:
                outbox.put(None)
            self._outbox, self._joined, self._came = outbox, True, []
        self._stream = tools.ExecuteBatch(self._messages(outbox))
        return True

    def _messages(self, outbox: queue.SimpleQueue) -> Iterator[Any]:
        """Yields what a stream is to send, as it comes."""
        while (message := outbox.get()) is not None:
            if message.HasField("call"):
                with self._changed:
                    call = self._calls[message.call.call_id]
                    if outbox is not self._outbox or call.ended:
                        continue  # it was cancelled, or another stream took the place
                    call.sent = True
                    self._came.append(call)
            yield message

    def _detach(self) -> None:
        """Ends the stream that there is."""
        with self._changed:
            if self._outbox is not None:
                self._outbox.put(None)
            self._outbox = None
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    def _take(self, event: batch_pb2.BatchEvent) -> bool:
        """Notes what an event says of its call. False: it was told before."""
        kind = event.WhichOneof("kind")
        if kind == "started" and self._number:
            return False  # it continues a batch
        if kind == "call" and event.call.call_id in self._calls:
            call, happened = self._calls[event.call.call_id], event.call.event
            if call.ended or happened.sequence <= call.sequence and not happened.HasField("heartbeat"):
                return False
            call.heard, call.ended = True, happened.HasField("finished")
            call.execution_id, call.sequence = happened.execution_id, happened.sequence
            event.call.position = call.position
        if kind == "refused" and event.refused.position:
            call, position = self._calls.get(event.refused.call_id), event.refused.position
            if call is None and position <= len(self._came):
                call = self._came[position - 1]  # the id was cut
            if call is not None:
                if call.ended:
                    return False
                call.heard = call.ended = True
                event.refused.position, event.refused.call_id = call.position, call.request.call_id
        self._number += 1
        event.sequence = self._number
        return True

    def _wait_for_more(self) -> bool:
        """Waits until a call has to go into another batch. False: none will."""
        with self._changed:
            while True:
                if self._dead:
                    return True  # to be told
                if any(not call.ended for call in self._calls.values()):
                    return True
                if self._closed:
                    return False
                self._changed.wait()

    def _idle(self) -> bool:
        """Whether nothing is left to run."""
        with self._changed:
            ended = all(call.ended for call in self._calls.values())
            return self._closed and bool(self._calls) and ended

    def _tell_dropped(self) -> Iterator[batch_pb2.BatchEvent]:
        """Tells the endings of calls that were cancelled before any server had them."""
        while self._dead:
            call, reason = self._dead.pop(0)
            yield self._end(call, cancelled_event(reason))

    def _pass(self, summary: batch_pb2.BatchFinished) -> Iterator[batch_pb2.BatchEvent]:
        """Ends what a summary leaves open, which is the last word on what the batch had.

        A call of which nothing came goes into the next batch, a few times.
        """
        named = {call.call_id for call in summary.calls}
        for call in list(self._calls.values()):
            if not call.sent or call.ended:
                continue
            call.passed += 1
            if call.heard or call.request.call_id in named or call.passed >= _MAX_PASSED:
                yield self._lost(call)

    def _lose(self) -> Iterator[batch_pb2.BatchEvent]:
        """Ends the calls that a server has which is gone."""
        for call in list(self._calls.values()):
            if call.sent and not call.ended:
                yield self._lost(call)

    def _lost(self, call: _Call) -> batch_pb2.BatchEvent:
        call.heard = call.ended = True
        return self._end(call, lost_event(call.request.call_id, call.execution_id, call.sequence))

    def _end(self, call: _Call, ending: event_pb2.Event) -> batch_pb2.BatchEvent:
        """Returns an ending that is not the server's."""
        self._summary.calls.add(
            call_id=call.request.call_id,
            execution_id=call.execution_id,
            tool=call.request.tool,
            outcome=ending.finished.outcome,
        )
        self._number += 1
        event = batch_pb2.BatchEvent(sequence=self._number)
        event.call.position, event.call.call_id = call.position, call.request.call_id
        event.call.event.CopyFrom(ending)
        return event


def _continued(first: str, number: int) -> str:
    """Returns the id of the batch that continues another: cut to what an id may have."""
    end = f".{number}"
    return first.encode()[: _MAX_ID - len(end)].decode(errors="ignore") + end
