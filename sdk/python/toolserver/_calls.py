# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""Calls as they are sent, and what becomes of them when a connection is lost."""

from __future__ import annotations

import json
import random
import time
import uuid
from typing import Any, Optional, Tuple, Union

import grpc

from toolserver.v1 import content_pb2, event_pb2, tool_service_pb2

Input = Union[None, str, bytes, dict]
_LOST = (
    "The result is not known: the server that was sent the call is gone. "
    "The call may have run, wholly or in part: look at what it changed before you make it again."
)

_UNSENT = "The call was cancelled before it was sent. Nothing of it ran."


class Tries:
    """Attempts at the same thing, with waits that double from a tenth of a second to two."""

    def __init__(self, patience: float):
        self.patience = patience
        self.reset()

    def reset(self) -> None:
        """Says that something worked."""
        self.failed: Optional[float] = None
        self.next = 0.1

    def wait(self) -> bool:
        """Waits before the next try. False: there is to be none."""
        if self.failed is None:
            self.failed = time.monotonic()
        if time.monotonic() - self.failed >= self.patience:
            return False
        time.sleep(self.next * random.uniform(0.5, 1.5))
        self.next = min(2 * self.next, 2.0)
        return True


def call_request(
    tool: str, input: Input, call_id: Optional[str] = None, **details: Any
) -> tool_service_pb2.ExecuteToolRequest:
    """Returns a call as it is sent. It always has an id: with it, it is run once."""
    if input is None:
        text = b""
    elif isinstance(input, bytes):
        text = input
    elif isinstance(input, str):
        text = input.encode()
    else:
        text = json.dumps(input).encode()
    return tool_service_pb2.ExecuteToolRequest(
        call_id=call_id or new_id("call"), tool=tool, input_json=text, **details
    )


_STARTED = "toolserver-started"  # names the server that a request is for, by when it started


def addressed(server: str) -> Tuple[Tuple[str, str], ...]:
    """Returns the metadata of a request for one server; empty: for whichever takes it.

    Another one refuses it, and names itself in a trailer: so a call that may have been
    sent can be sent again, and does not run twice.
    """
    return ((_STARTED, server),) if server else ()


def for_another(error: grpc.RpcError) -> bool:
    """Whether a server refused a request because it is for another."""
    return error.code() == grpc.StatusCode.FAILED_PRECONDITION and any(
        key == _STARTED for key, _ in error.trailing_metadata() or ()
    )


def lost_connection(error: grpc.RpcError) -> bool:
    """Whether an error says that there is no server, or none that takes calls."""
    return error.code() == grpc.StatusCode.UNAVAILABLE


def not_taken(error: grpc.RpcError) -> bool:
    """Whether it is the server's own word that it did not take the call.

    The server says that with when to come back, and a broken connection does not.
    """
    return any(key == "grpc-status-details-bin" for key, _ in error.trailing_metadata() or ())


def lost_event(call_id: str, execution_id: str, last: int) -> event_pb2.Event:
    """Returns the ending of a call whose server is gone."""
    event = event_pb2.Event(execution_id=execution_id, sequence=last + 1)
    event.time.GetCurrentTime()
    event.finished.outcome = event_pb2.OUTCOME_LOST
    event.finished.content.append(content_pb2.Content(text=_LOST))
    event.finished.failure.code = "server_gone"
    event.finished.failure.message = f"call {call_id}: the server that was sent it is gone"
    return event


def cancelled_event(reason: str) -> event_pb2.Event:
    """Returns the ending of a call that was cancelled before any server had it."""
    event = _unsent_event(event_pb2.OUTCOME_CANCELLED, "cancelled", _UNSENT)
    event.finished.cancellation.reason, event.finished.cancellation.by = reason, "client"
    return event


def too_large_event(
    call: tool_service_pb2.ExecuteToolRequest, most: int
) -> Optional[event_pb2.Event]:
    """Returns the ending of a call whose input no server takes; None where it is not too large.

    It is not sent: a message that is too large ends a stream, and all that is in it.
    """
    if not most or len(call.input_json) <= most:
        return None
    message = f"the input has {len(call.input_json)} bytes: the maximum is {most}"
    return _unsent_event(event_pb2.OUTCOME_INVALID_INPUT, "invalid_input", message)


def _unsent_event(outcome: event_pb2.Outcome, code: str, message: str) -> event_pb2.Event:
    """Returns the ending of a call that no server was sent."""
    event = event_pb2.Event(sequence=1)
    event.time.GetCurrentTime()
    event.finished.outcome = outcome
    event.finished.content.append(content_pb2.Content(text=message))
    event.finished.failure.code, event.finished.failure.message = code, message
    return event


def new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"
