# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""The calls of one turn of a model."""

from __future__ import annotations

import dataclasses
import queue
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Union

import grpc

from toolserver._calls import Input, Tries, call_request, cancelled_event
from toolserver._calls import addressed, for_another, lost_connection, lost_event, not_taken
from toolserver._calls import too_large_event
from toolserver.v1 import batch_pb2, content_pb2, dialect_service_pb2, event_pb2, tool_service_pb2

if TYPE_CHECKING:
    from toolserver.client import Client


class Detached(Exception):
    """The order does not reach the batch, and why. Calls can be cancelled all the same."""


_MAX_ID = 256  # bytes of the id of a call or a batch
_MAX_UNHEARD = 3  # batches that a call is sent in of which no word comes


@dataclasses.dataclass
class BatchResult:
    """What came of a call: finished, or refused where it was malformed and did not run.

    A call whose id the batch has already is refused, too.
    """

    call_id: str
    finished: Optional[event_pb2.Finished] = None
    refused: Optional[batch_pb2.BatchCallRefused] = None
    tool: str = ""

    def for_model(self) -> dialect_service_pb2.CallResult:
        """Returns the result as Client.render_results takes it."""
        result = dialect_service_pb2.CallResult(call_id=self.call_id, tool=self.tool, failed=True)
        if self.finished is not None:
            result.failed = self.finished.outcome != event_pb2.OUTCOME_SUCCEEDED
            result.content.extend(self.finished.content)
        elif self.refused is not None:
            result.content.append(content_pb2.Content(text=self.refused.message))
        return result


@dataclasses.dataclass
class _Call:
    request: tool_service_pb2.ExecuteToolRequest
    position: int
    sent: bool = False  # a server may have it
    heard: bool = False
    ended: bool = False
    execution_id: str = ""
    sequence: int = 0
    unheard: int = 0  # batches that ended without a word of it, though it was sent


class _Outbox:
    """What a stream is to send, and the calls that are in it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue = queue.SimpleQueue()

    def put(self, call: Optional[_Call] = None, **kind: Any) -> None:
        if call is not None:
            kind["call"] = call.request
        self._queue.put((tool_service_pb2.ExecuteBatchRequest(**kind), call))

    def end(self) -> None:
        self._queue.put(None)

    def __iter__(self) -> Iterator[Tuple[tool_service_pb2.ExecuteBatchRequest, Optional[_Call]]]:
        return iter(self._queue.get, None)


class Batch:
    """Each call is sent when it is added, and starts when its turn is there.

    Iterating yields what happens in the batch, to its summary, which comes after close.
    A batch that loses its stream is watched to its end, and calls that no server has
    seen go into another, after it: to the caller it is one, and its events are numbered
    as one. Calls can be added by other threads than the one that iterates.

    Client.watch_batch finds the batch by its id, also from another process.
    """

    def __init__(self, client: Client, start: batch_pb2.BatchStart, watched: bool = False):
        self.id: str = start.batch_id
        self._client = client
        self._start = start
        self._watched = watched  # another began it, and its calls are known by their events
        self._changed = threading.Condition()
        self._calls: List[_Call] = []
        self._open = 0  # how many of them have not ended
        self._closed = watched  # no call follows
        self._ending = False  # no call follows once all have ended
        self._connected = watched  # there was a stream
        # What the batch of the server was sent, by its position there, and how many
        # calls were in the batches before that.
        self._by_position: Dict[int, _Call] = {}
        self._before = 0
        self._unsent: List[Tuple[_Call, event_pb2.Event]] = []  # ended before any server had them
        self._outbox: Optional[_Outbox] = None  # of the stream that takes orders, if one does
        self._number = 0  # of the last event that was given out
        self._summary = batch_pb2.BatchFinished()
        self._sent_to = ""  # the server; empty where that is not known
        self._stream: Any = None
        if not watched:
            try:
                self._open_stream(0, False)
            except grpc.RpcError:
                pass  # who iterates tries again, and is told

    def call(
        self,
        tool: Union[str, tool_service_pb2.ExecuteToolRequest],
        input: Input = None,
        **details: Any,
    ) -> str:
        """Adds a call, or one that Client.parse found, and returns its id.

        details are as in Client.execute. An id that the batch has already is an error in
        the result of this call, as all that a model can do wrong is.
        """
        if isinstance(tool, str):
            request = call_request(tool, input, **details)
        else:
            request = call_request(tool.tool, tool.input_json, tool.call_id, **details)
        with self._changed:
            if self._closed:
                raise ValueError("the batch is closed: a call that comes later belongs in a new one")
            call = _Call(request, len(self._calls) + 1)
            self._calls.append(call)
            self._open += 1
            if self._outbox is not None:
                self._outbox.put(call)
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
                for call in self._calls
                if not call.ended and call_id in ("", call.request.call_id)
            ]
            sent = [call.request.call_id for call in calls if call.sent]
            for call in calls:
                if not call.sent:
                    self._end_unsent(call, cancelled_event(reason))
            self._changed.notify_all()
        for one in reversed(sent):  # so that none begins for the end of another
            self._client.cancel(one, reason)

    def close(self) -> None:
        """Says that no call follows. The batch ends once all its calls have.

        Until then it can be steered.
        """
        with self._changed:
            self._closed = True
            self._end_if_done()

    def results(self) -> List[BatchResult]:
        """Reads the events to the end, and returns the results in the order of the calls.

        The batch is closed when all its calls have ended: until then other threads can
        steer it and add calls.
        """
        with self._changed:
            self._ending = True
            self._end_if_done()
        results: Dict[int, Any] = {}
        for event in self:
            if event.call.event.HasField("finished"):
                results[event.call.position] = {"finished": event.call.event.finished}
            elif event.refused.position:
                results[event.refused.position] = {"refused": event.refused}
        calls = sorted(self._calls, key=lambda call: call.position)
        tools = {call.call_id: call.tool for call in self._summary.calls}  # also of others' calls
        return [
            BatchResult(
                call.request.call_id,
                tool=call.request.tool or tools.get(call.request.call_id, ""),
                **results.get(call.position, {}),
            )
            for call in calls
        ]

    def __iter__(self) -> Iterator[batch_pb2.BatchEvent]:
        number = 1
        while True:
            try:
                yield from self._run()
            except grpc.RpcError as error:
                if not self._watched or number == 1 or error.code() != grpc.StatusCode.NOT_FOUND:
                    raise
                more = False  # nobody continued it
            else:
                while (more := self._wait_for_more()) and self._unsent:
                    yield from self._tell_unsent()
                more = more or self._watched
            if not more:
                self._number += 1
                yield batch_pb2.BatchEvent(sequence=self._number, finished=self._summary)
                return
            number += 1
            self._start.batch_id = _continued(self.id, number)
            self._before, self._by_position = len(self._calls), {}

    def _ended(self, call: _Call) -> None:
        """Notes that a call has ended. The caller has the lock."""
        call.heard = call.ended = True
        self._open -= 1
        self._end_if_done()

    def _end_if_done(self) -> None:
        """Ends what is sent, where all calls have ended and none follows."""
        if self._open == 0:
            self._closed = self._closed or self._ending
            if self._closed and self._outbox is not None:
                self._outbox.end()
        self._changed.notify_all()

    def _order(self, **order: Any) -> None:
        with self._changed:
            if self._outbox is not None and not (self._closed and self._open == 0):
                self._outbox.put(**order)
                return
            if self._closed and self._open == 0 and not self._watched:
                why = "it is closed, and all its calls have ended"
            elif not self._connected:
                why = "it is not connected yet"
            else:
                why = "it has no stream of its own any more and is only watched"
        raise Detached(f"the order does not reach the batch: {why}")

    def _run(self) -> Iterator[batch_pb2.BatchEvent]:
        """Runs one batch of the server to its end, over as many streams as it takes."""
        tries, last = Tries(self._client.patience), 0
        doubt = self._watched  # the server that was sent the batch may have it
        while True:
            yield from self._tell_unsent()
            if not doubt and self._stream is None and self._idle():
                return
            try:
                if self._stream is None:
                    self._open_stream(last, doubt)
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
                        yield from self._lose_unended(response.event.finished)
                        return
                    if self._take(response.event):
                        yield response.event
                doubt = True
                if not tries.wait():
                    raise ConnectionError("the stream ended before the batch did")
            except grpc.RpcError as error:
                opened = self._stream is not None
                other = for_another(error)
                missing = error.code() == grpc.StatusCode.NOT_FOUND
                self._detach()
                if doubt and (other or missing and last):
                    yield from self._lose()
                    return
                if doubt and missing and not self._watched:
                    doubt = False  # the same server never saw it
                elif other or lost_connection(error):
                    doubt = doubt or opened and not other and not not_taken(error)
                    if not tries.wait():
                        raise
                else:
                    raise
            finally:
                self._detach()

    def _open_stream(self, last: int, doubt: bool) -> None:
        """Opens the next stream: one that takes calls, or where a server may have the
        batch one that watches it."""
        tools = self._client.tools
        if doubt:
            request = tool_service_pb2.WatchBatchRequest(
                session_id=self._start.session_id,
                batch_id=self._start.batch_id,
                after_sequence=last,
            )
            self._stream = tools.WatchBatch(request, metadata=addressed(self._sent_to))
            return
        self._sent_to = self._client.server()
        outbox = _Outbox()
        with self._changed:
            outbox.put(start=self._start)
            for call in self._calls:
                if not call.heard:
                    outbox.put(call)
            self._outbox, self._connected, self._by_position = outbox, True, {}
            self._end_if_done()
        self._stream = tools.ExecuteBatch(self._messages(outbox), metadata=addressed(self._sent_to))
        if not self._stream.add_callback(outbox.end):  # so that no thread waits for more
            outbox.end()

    def _messages(self, outbox: _Outbox) -> Iterator[tool_service_pb2.ExecuteBatchRequest]:
        """Yields what a stream is to send, as it comes."""
        for message, call in outbox:
            if call is not None:
                with self._changed:
                    if outbox is not self._outbox or call.ended:
                        continue  # it was cancelled, or another stream took the place
                    refused = too_large_event(call.request, self._client.max_input)
                    if refused is not None:
                        self._end_unsent(call, refused)
                        continue
                    call.sent = True
                    self._by_position[len(self._by_position) + 1] = call
            yield message

    def _detach(self) -> None:
        """Ends the stream that there is."""
        with self._changed:
            if self._outbox is not None:
                self._outbox.end()
            self._outbox = None
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    def _take(self, event: batch_pb2.BatchEvent) -> bool:
        """Notes what an event says of its call. False: it is no news.

        A sign of life is none, nor what is told again of a call that was sent twice.
        """
        kind = event.WhichOneof("kind")
        if kind not in ("started", "call", "refused", "steering_point"):
            return False
        if kind == "started" and self._number:
            return False  # it continues a batch
        with self._changed:
            if kind == "call" and (call := self._call_at(event.call)):
                happened = event.call.event
                if call.ended or happened.sequence <= call.sequence and not happened.HasField("heartbeat"):
                    return False
                event.call.position, call.heard = call.position, True
                call.execution_id, call.sequence = happened.execution_id, happened.sequence
                if happened.HasField("finished"):
                    self._ended(call)
            if kind == "refused" and (call := self._call_at(event.refused)):
                if call.ended:
                    return False
                event.refused.position, event.refused.call_id = call.position, call.request.call_id
                self._ended(call)
        self._number += 1
        event.sequence = self._number
        return True

    def _call_at(self, told: Union[batch_pb2.BatchCallEvent, batch_pb2.BatchCallRefused]) -> Optional[_Call]:
        """Returns the call that the batch of the server has at a position."""
        call = self._by_position.get(told.position)
        if call is None and self._watched and told.position:
            request = tool_service_pb2.ExecuteToolRequest(call_id=told.call_id)
            call = _Call(request, self._before + told.position, sent=True)
            self._calls.append(call)
            self._by_position[told.position] = call
            self._open += 1
        return call

    def _wait_for_more(self) -> bool:
        """Waits until a call has to go into another batch. False: none will."""
        with self._changed:
            while True:
                if self._unsent or self._open:
                    return True  # or to be told
                if self._closed:
                    return False
                self._changed.wait()

    def _idle(self) -> bool:
        """Whether nothing is left to run."""
        with self._changed:
            return self._closed and bool(self._calls) and self._open == 0

    def _end_unsent(self, call: _Call, ending: event_pb2.Event) -> None:
        """Ends a call that no server has. The caller has the lock."""
        self._unsent.append((call, ending))
        self._ended(call)

    def _tell_unsent(self) -> Iterator[batch_pb2.BatchEvent]:
        """Tells the endings of calls that no server had."""
        while self._unsent:
            yield self._end(*self._unsent.pop(0))

    def _lose_unended(self, summary: batch_pb2.BatchFinished) -> Iterator[batch_pb2.BatchEvent]:
        """Ends what a summary leaves open, which is the last word on what the batch had.

        A call of which nothing came goes into the next batch, a few times.
        """
        named = {call.call_id for call in summary.calls}
        for call in list(self._calls):
            if not call.sent or call.ended:
                continue
            call.unheard += 1
            if call.heard or call.request.call_id in named or call.unheard >= _MAX_UNHEARD:
                yield self._lost(call)

    def _lose(self) -> Iterator[batch_pb2.BatchEvent]:
        """Ends the calls that a server has which is gone."""
        for call in list(self._calls):
            if call.sent and not call.ended:
                yield self._lost(call)

    def _lost(self, call: _Call) -> batch_pb2.BatchEvent:
        with self._changed:
            self._ended(call)
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
