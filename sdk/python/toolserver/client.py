# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""A connection to a server, and what can be done with it.

A call is run at most once. When the connection breaks, a client goes on after the last
event that it has. When the server that ran a call is gone, the call ends with
OUTCOME_LOST: it may have run, and the client does not run it again.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import threading
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Union

import grpc

from toolserver._calls import Input, Tries, addressed, call_request, for_another
from toolserver._calls import lost_connection, lost_event, new_id, not_taken, too_large_event
from toolserver.agents import Agent, serve
from toolserver.batch import Batch
from toolserver.v1 import approval_pb2, approval_service_pb2, batch_pb2, content_pb2, event_pb2
from toolserver.v1 import execution_pb2, tool_pb2, tool_service_pb2
from toolserver.v1 import dialect_service_pb2
from toolserver.v1.agent_service_pb2_grpc import AgentServiceStub
from toolserver.v1.approval_service_pb2_grpc import ApprovalServiceStub
from toolserver.v1.dialect_service_pb2_grpc import DialectServiceStub
from toolserver.v1.policy_service_pb2_grpc import PolicyServiceStub
from toolserver.v1.session_service_pb2_grpc import SessionServiceStub
from toolserver.v1.tool_service_pb2_grpc import ToolServiceStub
from toolserver.v1.workspace_service_pb2_grpc import WorkspaceServiceStub

Decide = Callable[[approval_pb2.Approval], Optional[approval_service_pb2.ResolveApprovalRequest]]

_LOG = logging.getLogger("toolserver")

_CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1),  # clients share no connection
    ("grpc.max_receive_message_length", 256 << 20),  # the server decides what it sends
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # how long one attempt may take
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.dns_min_time_between_resolutions_ms", 500),  # or a server that is back is found after 30 s
    ("grpc.keepalive_time_ms", 30_000),  # a connection that died silently is found
    ("grpc.keepalive_timeout_ms", 10_000),
]


class Client:
    """A server, for one principal and one session. It can be used by many threads.

    What the verbs do not do, the stubs do: tools, sessions, approvals, policy, workspaces,
    dialects and agents.
    """

    def __init__(
        self,
        address: str,
        *,
        token: Optional[str] = None,
        credentials: Optional[grpc.ChannelCredentials] = None,
        plaintext: bool = False,
        session: str = "",
        patience: float = 60.0,
    ):
        """Connects to host:port or unix:/path, when that is needed.

        credentials encrypt the connection (grpc.ssl_channel_credentials). plaintext lets
        a token travel to another machine without them. patience is how many seconds a
        lost connection is made anew before an error is raised.
        """
        if re.match("https?://", address):
            raise ValueError(f"{address}: an address is host:port or unix:/path, without http://")
        if token and credentials is None and not plaintext and not _is_local(address):
            raise ValueError(
                f"the token would travel to {address} in clear text: give credentials, "
                "or plaintext=True if that is as it should be"
            )
        if credentials is None:
            channel = grpc.insecure_channel(address, _CHANNEL)
        else:
            channel = grpc.secure_channel(address, credentials, _CHANNEL)
        self._channel, self._closed = channel, threading.Event()
        if token:
            channel = grpc.intercept_channel(channel, _Header("authorization", f"Bearer {token}"))
        self._calls = channel
        self._use(channel)
        self.session = session
        self.patience = patience
        self.max_input = 0  # bytes of the input of a call; 0: not known yet

    def _use(self, channel: grpc.Channel) -> None:
        self.tools = ToolServiceStub(channel)
        self.sessions = SessionServiceStub(channel)
        self.approvals = ApprovalServiceStub(channel)
        self.policy = PolicyServiceStub(channel)
        self.workspaces = WorkspaceServiceStub(channel)
        self.dialects = DialectServiceStub(channel)
        self.agents = AgentServiceStub(channel)

    def close(self) -> None:
        """Ends the connection."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def within(self, session: str) -> Client:
        """Returns the client for another session. It has the same connection."""
        other = object.__new__(Client)
        other.__dict__.update(self.__dict__, session=session)
        return other

    def on_behalf_of(self, user: str) -> Client:
        """Returns the client that calls for a user, as far as the principal may.

        Empty: for the principal itself. It has the same connection.
        """
        other = self.within(self.session)
        header = _Header("toolserver-on-behalf-of", user)
        other._use(grpc.intercept_channel(self._calls, header) if user else self._calls)
        return other

    def list(self, *names: str) -> List[tool_pb2.Tool]:
        """Returns tools with everything a model is told: those named, or all."""
        request = tool_service_pb2.ListToolsRequest(
            session_id=self.session, names=names, view=tool_service_pb2.TOOL_VIEW_FULL
        )
        tools: List[tool_pb2.Tool] = []
        while True:
            response = self._again(lambda: self.tools.ListTools(request))
            tools += response.tools
            if not response.next_page_token:
                return tools
            request.page_token = response.next_page_token

    def execute(self, tool: str, input: Input = None, **details: Any) -> Iterator[event_pb2.Event]:
        """Runs a call and yields each of its events once, to the finished one.

        details are call_id (the model's own; without it one is made) and other fields
        of ExecuteToolRequest. What the model did wrong is a result, and grpc.RpcError is
        about the caller or the connection. Leaving early does not end the call.
        """
        request = call_request(tool, input, **details)
        request.session_id = self.session
        return _Follower(self, request.call_id, call=request).follow()

    def watch(self, call_id: str, after: int = 0) -> Iterator[event_pb2.Event]:
        """Yields the events of a call after a sequence, as execute does."""
        watch = tool_service_pb2.WatchExecutionRequest(
            session_id=self.session, call_id=call_id, after_sequence=after
        )
        return _Follower(self, call_id, watch=watch).follow()

    def batch(self, **start: Any) -> Batch:
        """Begins a batch of calls. start are fields of BatchStart, such as strategy."""
        start.setdefault("batch_id", new_id("batch"))
        return Batch(self, batch_pb2.BatchStart(session_id=self.session, **start))

    def watch_batch(self, batch_id: str) -> Batch:
        """Returns a batch that was begun before, also by another process, as its id names it.

        It yields all events from the first, and has the results. It takes no calls, and
        cancel is the one order that it takes.
        """
        start = batch_pb2.BatchStart(session_id=self.session, batch_id=batch_id)
        return Batch(self, start, watched=True)

    def approve(self, decide: Decide) -> None:
        """Passes what waits for a person to decide, and sends what it answers.

        None leaves the answer to somebody else. An answer is for exactly what decide was
        shown; one that comes too late is dropped. One that is none, such as allow() to a
        question, is logged as a warning: somebody else has to answer then. It goes on until the client is closed,
        or decide raises, so it has a thread of its own. Where the client has a session,
        only what waits in that one counts.
        """
        answers: dict[str, Optional[approval_service_pb2.ResolveApprovalRequest]] = {}
        tries = Tries(self.patience)
        request = approval_service_pb2.WatchApprovalsRequest(session_id=self.session)
        while True:
            try:
                for change in self.approvals.WatchApprovals(request):
                    tries.reset()
                    answers.pop(change.ended.approval_id, None)
                    waiting = list(change.snapshot.approvals)
                    if change.HasField("snapshot"):  # what ended unseen is not in it
                        ids = {approval.approval_id for approval in waiting}
                        answers = {key: answers[key] for key in ids & answers.keys()}
                    if change.HasField("asked"):
                        waiting.append(change.asked)
                    for approval in waiting:
                        self._answer(approval, answers, decide)
            except (grpc.RpcError, ValueError) as error:
                if self._closed.is_set():
                    return
                if not isinstance(error, grpc.RpcError) or not lost_connection(error):
                    raise
                if not tries.wait():
                    raise

    def _answer(self, approval, answers, decide) -> None:
        if approval.approval_id not in answers:
            answer = decide(approval)
            if answer is not None:
                answer.approval_id, answer.digest = approval.approval_id, approval.digest
            answers[approval.approval_id] = answer
        answer = answers[approval.approval_id]
        if answer is None:
            return
        try:
            self.approvals.ResolveApproval(answer)
        except grpc.RpcError as error:
            # It is answered, by whomever, or this is no answer to it.
            dropped = "NOT_FOUND", "FAILED_PRECONDITION", "INVALID_ARGUMENT"
            if error.code().name not in dropped:
                raise
            if error.code().name == "INVALID_ARGUMENT":
                _LOG.warning("an answer to %s was refused, which still waits: %s", approval.approval_id, error.details())
        answers[approval.approval_id] = None

    def serve(
        self,
        agents: Sequence[Agent],
        tasks: int = 1,
        ready: Optional[Callable[[], object]] = None,
    ) -> None:
        """Serves agents, with so many tasks at once for all of them, each in a thread.

        It goes on until the client is closed, so it has a thread of its own. A lost
        connection is made anew; the tasks that were under way have failed then, and are
        cancelled here. ready is called whenever the agents are there.
        """
        serve(self, agents, tasks, ready, self._closed)

    def render_tools(
        self, dialect: str = "", *names: str
    ) -> dialect_service_pb2.RenderToolsResponse:
        """Returns tools as a dialect has them, such as "anthropic" or "hermes".

        Without a dialect, it is the session's. The tools are those named or, where none is,
        those that are active, with an index of the others.
        """
        request = dialect_service_pb2.RenderToolsRequest(
            session_id=self.session, dialect=dialect, names=names
        )
        if names:
            request.view = tool_service_pb2.TOOL_VIEW_FULL
        return self._again(lambda: self.dialects.RenderTools(request))

    def render_results(
        self, dialect: str, results: Iterable[dialect_service_pb2.CallResult]
    ) -> dialect_service_pb2.RenderResultsResponse:
        """Returns the results of one turn as a dialect has them: the next message.

        BatchResult.for_model and unread make them.
        """
        request = dialect_service_pb2.RenderResultsRequest(dialect=dialect, results=results)
        return self._again(lambda: self.dialects.RenderResults(request))

    def parse(
        self, dialect: str, chunks: Iterable[Union[str, bytes]]
    ) -> Iterator[dialect_service_pb2.ParseCallsResponse]:
        """Yields text, calls and broken calls of what a model writes, in their order.

        chunks are its text, or the stream of its provider, cut anywhere. A call comes as
        soon as it is complete: Batch.call takes it, so that it runs while the model still
        writes. The dialect may be "auto". A lost connection ends it: nothing is sent twice.
        """
        failed: List[Exception] = []

        def requests() -> Iterator[dialect_service_pb2.ParseCallsRequest]:
            start = dialect_service_pb2.ParseStart(session_id=self.session, dialect=dialect)
            yield dialect_service_pb2.ParseCallsRequest(start=start)
            try:
                for chunk in chunks:
                    data = chunk.encode() if isinstance(chunk, str) else chunk
                    yield dialect_service_pb2.ParseCallsRequest(chunk=data)
            except Exception as error:  # of the model
                failed.append(error)
                stream.cancel()

        stream = self.dialects.ParseCalls(requests())
        try:
            yield from stream
        except grpc.RpcError:
            if failed:
                raise failed[0]
            raise
        finally:
            stream.cancel()

    def cancel(self, call_id: str, reason: str = "") -> execution_pb2.Execution:
        """Ends a call, and returns how it ended."""
        request = tool_service_pb2.CancelRequest(
            session_id=self.session, call_id=call_id, reason=reason
        )
        return self._again(lambda: self.tools.Cancel(request)).execution

    def artifact(self, uri: str) -> Iterator[bytes]:
        """Yields the bytes of an output that was too large for its result."""
        offset, tries = 0, Tries(self.patience)
        while True:
            request = tool_service_pb2.ReadArtifactRequest(uri=uri, offset=offset)
            try:
                for part in self.tools.ReadArtifact(request):
                    tries.reset()
                    offset += len(part.data)
                    yield part.data
                return
            except grpc.RpcError as error:
                if not lost_connection(error) or not tries.wait():
                    raise

    def server(self) -> str:
        """Asks which server is at the other end: another has another start.

        A call that finds no server here was not sent. One that is sent after this names
        the server, so that no other takes it.
        """
        info = self.tools.GetServerInfo(tool_service_pb2.GetServerInfoRequest())
        self.max_input = info.limits.max_input_bytes
        return f"{info.start_time.seconds}.{info.start_time.nanos}"

    def _again(self, do: Callable[[], Any]) -> Any:
        """Does what can be done twice until the connection holds."""
        tries = Tries(self.patience)
        while True:
            try:
                return do()
            except grpc.RpcError as error:
                if not lost_connection(error) or not tries.wait():
                    raise


class _Header(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Sends a header with every request."""

    def __init__(self, name: str, value: str):
        self.header = (name, value)

    def send(self, go_on, details, request):
        return go_on(details._replace(metadata=[*(details.metadata or ()), self.header]), request)

    intercept_unary_unary = intercept_unary_stream = send
    intercept_stream_unary = intercept_stream_stream = send


class _Follower:
    """Follows one call over as many streams as it takes."""

    def __init__(self, client: Client, call_id: str, call=None, watch=None):
        self.client = client
        self.call_id = call_id
        self.call = call  # None: it is only watched
        self.watch = watch or tool_service_pb2.WatchExecutionRequest()
        self.heard = False  # an event came
        self.sent_to = ""  # the server that was sent the call
        self.doubt = False  # that server may have taken the call, for all that was heard

    def follow(self) -> Iterator[event_pb2.Event]:
        tries = Tries(self.client.patience)
        while True:
            stream = None
            try:
                if self.unsent():
                    self.sent_to = self.client.server()
                    refused = too_large_event(self.call, self.client.max_input)
                    if refused is not None:
                        yield refused
                        return
                stream = self.open()
                for response in stream:
                    event = response.event
                    tries.reset()
                    self.heard = True
                    if event.sequence <= self.watch.after_sequence:
                        continue  # a heartbeat, which has no number of its own
                    self.watch = tool_service_pb2.WatchExecutionRequest(
                        execution_id=event.execution_id, after_sequence=event.sequence
                    )
                    yield event
                    if event.HasField("finished"):
                        return
                self.doubt = True
                if not tries.wait():
                    raise ConnectionError(f"the stream of call {self.call_id} ended before it did")
            except grpc.RpcError as error:
                other = for_another(error)
                missing = error.code() == grpc.StatusCode.NOT_FOUND
                if other and self.doubt or self.heard and missing:
                    yield lost_event(self.call_id, self.watch.execution_id, self.watch.after_sequence)
                    return
                if stream is not None and not other:
                    self.doubt = self.doubt or not not_taken(error)
                if not other and not lost_connection(error) or not tries.wait():
                    raise
            finally:
                if stream is not None:
                    stream.cancel()

    def unsent(self) -> bool:
        """Whether there is a call that no server can have."""
        return self.call is not None and not self.heard and not self.doubt

    def open(self):
        """Opens the next stream.

        A call that a server may have taken is sent again to that server alone, which
        knows its id.
        """
        if self.call is None or self.heard:
            return self.client.tools.WatchExecution(self.watch)
        return self.client.tools.ExecuteTool(self.call, metadata=addressed(self.sent_to))


def result(events: Iterable[event_pb2.Event]) -> event_pb2.Finished:
    """Reads events to the end and returns the result."""
    for event in events:
        if event.HasField("finished"):
            return event.finished
    raise ConnectionError("the events ended before the call did")


def text(finished: event_pb2.Finished) -> str:
    """Returns what of a result is text or JSON, as it is shown to a model."""
    parts = [part for part in finished.content if part.WhichOneof("kind") in ("text", "json")]
    return "\n".join(part.text or part.json for part in parts)


def unread(broken: dialect_service_pb2.BrokenCall) -> dialect_service_pb2.CallResult:
    """Returns the result of a call that could not be read, for the model to correct."""
    return dialect_service_pb2.CallResult(
        call_id=broken.call_id,
        tool=broken.tool,
        failed=True,
        content=[content_pb2.Content(text=broken.message)],
    )


def allow() -> approval_service_pb2.ResolveApprovalRequest:
    """Lets a call run, this once."""
    return approval_service_pb2.ResolveApprovalRequest(kind=approval_pb2.ANSWER_KIND_ALLOW_ONCE)


def answer(
    approval: approval_pb2.Approval, *answers: str
) -> approval_service_pb2.ResolveApprovalRequest:
    """Answers the questions of an approval, in their order.

    Each with an option, in any case of letters, or else with a text: that of a step of a
    workflow with "Approve" or "Deny".
    """
    request = approval_service_pb2.ResolveApprovalRequest(kind=approval_pb2.ANSWER_KIND_ANSWERED)
    for index, said in enumerate(answers):
        options = approval.questions[index].options if index < len(approval.questions) else []
        for option in options:
            if option.label.casefold() == said.strip().casefold():
                request.answers.add(chosen=[option.label])
                break
        else:
            request.answers.add(text=said)
    return request


def deny(why: str) -> approval_service_pb2.ResolveApprovalRequest:
    """Keeps a call from running, and tells the model why."""
    return approval_service_pb2.ResolveApprovalRequest(
        kind=approval_pb2.ANSWER_KIND_DENY_ONCE, comment=why
    )


def _is_local(address: str) -> bool:
    host = re.sub(r":\d+$", "", address).strip("[]")
    if address.startswith("unix:") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name, which may lead anywhere
