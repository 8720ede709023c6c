# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""A client of toolserver: what a runtime in Python needs, and no more."""

import itertools
import json
import tarfile
import tempfile
import time

import grpc

from toolserver.v1 import approval_pb2, approval_service_pb2, session_service_pb2, tool_service_pb2
from toolserver.v1 import workspace_service_pb2
from toolserver.v1.approval_service_pb2_grpc import ApprovalServiceStub
from toolserver.v1.session_service_pb2_grpc import SessionServiceStub
from toolserver.v1.tool_service_pb2_grpc import ToolServiceStub
from toolserver.v1.workspace_service_pb2_grpc import WorkspaceServiceStub

# A lost connection is made anew at once, not after gRPC's second.
OPTIONS = [("grpc.initial_reconnect_backoff_ms", 100)]


class Client:
    """The services of a server, for one principal."""

    def __init__(self, address, token=None):
        channel = grpc.insecure_channel(address, OPTIONS)
        if token:
            channel = grpc.intercept_channel(channel, Bearer(token))
        self.tools = ToolServiceStub(channel)
        self.sessions = SessionServiceStub(channel)
        self.approvals = ApprovalServiceStub(channel)
        self.workspaces = WorkspaceServiceStub(channel)


class Bearer(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
):
    """Sends a token with every request."""

    def __init__(self, token):
        self.header = ("authorization", f"Bearer {token}")

    def send(self, go_on, details, request):
        return go_on(details._replace(metadata=[*(details.metadata or ()), self.header]), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_unary = send


class Call:
    """One call of a tool. Iterating yields each of its events once, up to the finished one.

    The server keeps the events, so a lost connection loses nothing: the call goes on
    there, and the next connection continues after the last event that was seen. A call
    that nothing was heard of is sent again, which is safe: its id runs only once.
    """

    def __init__(self, client, session_id, call_id, tool, arguments):
        self.client = client
        self.name = {"session_id": session_id, "call_id": call_id}
        self.tool = tool
        self.arguments = arguments
        self.seen = 0
        self.connections = 0
        self.typed = 0

    def __iter__(self):
        finished, failures = False, 0
        while not finished:
            try:
                for response in self.connect():
                    event = response.event
                    if event.WhichOneof("kind") == "heartbeat":
                        continue
                    self.seen, failures = event.sequence, 0
                    finished = event.HasField("finished")
                    yield event
            except grpc.RpcError as error:
                failures += 1
                if error.code() != grpc.StatusCode.UNAVAILABLE or failures > 10:
                    raise
                time.sleep(0.1 * failures)

    def connect(self):
        self.connections += 1
        if self.seen:
            request = tool_service_pb2.WatchExecutionRequest(after_sequence=self.seen, **self.name)
            return self.client.tools.WatchExecution(request)
        request = tool_service_pb2.ExecuteToolRequest(
            tool=self.tool, input_json=json.dumps(self.arguments).encode(), **self.name
        )
        return self.client.tools.ExecuteTool(request)

    def type(self, text):
        """Sends input to the program. With an offset, it could be sent again safely."""
        self.typed = self.write_input(data=text.encode(), offset=self.typed).taken_bytes

    def resize(self, rows, columns):
        """Tells the program how large its terminal is."""
        self.write_input(window_size=tool_service_pb2.WindowSize(rows=rows, columns=columns))

    def write_input(self, **what):
        request = tool_service_pb2.WriteInputRequest(**what, **self.name)
        return self.client.tools.WriteInput(request)

    def cancel(self, reason):
        """Ends the call, and returns what is left of it."""
        request = tool_service_pb2.CancelRequest(reason=reason, **self.name)
        return self.client.tools.Cancel(request).execution


class Agent:
    """Makes the calls of a model in one session."""

    def __init__(self, client):
        self.client = client
        self.session_id = ""
        self.numbers = itertools.count(1)

    def create_session(self, mode):
        request = session_service_pb2.CreateSessionRequest(mode=mode)
        session = self.client.sessions.CreateSession(request).session
        self.session_id = session.session_id
        return session

    def set_mode(self, mode):
        """Chooses what happens with calls that change something, from now on."""
        request = session_service_pb2.UpdateSessionRequest(update_mask={"paths": ["mode"]})
        request.session.session_id = self.session_id
        request.session.mode = mode
        self.client.sessions.UpdateSession(request)

    def close_session(self):
        request = session_service_pb2.CloseSessionRequest(session_id=self.session_id)
        self.client.sessions.CloseSession(request)

    def call(self, tool, call_id=None, **arguments):
        """Returns a call to iterate over. In a real runtime the id is the model's own."""
        call_id = call_id or f"call-{next(self.numbers)}"
        return Call(self.client, self.session_id, call_id, tool, arguments)

    def upload(self, directory):
        """Puts what is in a directory into the workspace."""
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                archive.add(directory, arcname=".")
            file.seek(0)
            return self.client.workspaces.UploadTree(self.parts(file)).summary

    def parts(self, file):
        """Yields an archive in messages of a size that suits gRPC, after a header."""
        header = workspace_service_pb2.UploadTreeHeader(session_id=self.session_id)
        yield workspace_service_pb2.UploadTreeRequest(header=header)
        while data := file.read(64 * 1024):
            yield workspace_service_pb2.UploadTreeRequest(data=data)

    def download(self, directory, exclude=()):
        """Puts what is in the workspace into a directory, but no links: a model made them."""
        request = workspace_service_pb2.DownloadTreeRequest(
            session_id=self.session_id, exclude=exclude
        )
        with tempfile.TemporaryFile() as file:
            for part in self.client.workspaces.DownloadTree(request):
                file.write(part.data)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                plain = [member for member in archive if member.isfile() or member.isdir()]
                archive.extractall(directory, members=plain)
        return part.summary

    def read_artifact(self, uri, offset=0, limit=0):
        """Returns bytes of an output that was too large for its result."""
        request = tool_service_pb2.ReadArtifactRequest(uri=uri, offset=offset, limit=limit)
        return b"".join(part.data for part in self.client.tools.ReadArtifact(request))


class Person:
    """Somebody at another client, who answers what is asked."""

    def __init__(self, client):
        self.client = client

    def watch(self, session_id):
        """Begins to watch what waits for an answer in a session."""
        request = approval_service_pb2.WatchApprovalsRequest(session_id=session_id)
        self.changes = self.client.approvals.WatchApprovals(request)

    def asked(self):
        """Waits for the next approval that is asked for."""
        for change in self.changes:
            waiting = [*change.snapshot.approvals]
            if change.HasField("asked"):
                waiting.append(change.asked)
            if waiting:
                return waiting[0]

    def allow(self, asked):
        return self.resolve(asked, approval_pb2.ANSWER_KIND_ALLOW_ONCE)

    def allow_always(self, asked, tier):
        kind = approval_pb2.ANSWER_KIND_ALLOW_ALWAYS
        return self.resolve(asked, kind, tier_id=tier.tier_id)

    def decline(self, asked, comment):
        return self.resolve(asked, approval_pb2.ANSWER_KIND_DENY_ONCE, comment=comment)

    def choose(self, asked, *labels):
        """Answers each question of the model by one of its options."""
        answers = [approval_pb2.QuestionAnswer(chosen=[label]) for label in labels]
        return self.resolve(asked, approval_pb2.ANSWER_KIND_ANSWERED, answers=answers)

    def resolve(self, asked, kind, **details):
        """Sends an answer to what was shown: the digest stands for exactly that call."""
        request = approval_service_pb2.ResolveApprovalRequest(
            approval_id=asked.approval_id, digest=asked.digest, kind=kind, **details
        )
        return self.client.approvals.ResolveApproval(request).answer
