# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""Agents that this program serves: sessions of the same principal give them tasks."""

from __future__ import annotations

import dataclasses
import queue
import threading
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Sequence, Union

import grpc

from toolserver._calls import Tries, lost_connection
from toolserver.v1 import agent_service_pb2, event_pb2, session_pb2

if TYPE_CHECKING:
    from toolserver.client import Client

_MAX_TOLD = 16_000  # characters of text that are told at once
_MAX_REASON = 1000  # characters


class Cancelled(Exception):
    """The task was cancelled, and why."""


@dataclasses.dataclass
class Report:
    """What came of a task: text, and result as JSON where the task has a result_schema."""

    text: str
    result: str = ""
    usage: Optional[event_pb2.LoopUsage] = None


@dataclasses.dataclass
class Agent:
    """One that this program serves.

    work does a task and says what came of it; what it raises says in words for a model why
    the task was not done. description tells models when to give it a task. tools, level
    and mode are those of its sessions; without them, they are its caller's. It never has
    more than that.
    """

    name: str
    work: Callable[[Task], Union[str, Report]]
    description: str = ""
    tools: Optional[session_pb2.ToolSelection] = None
    level: int = 0
    mode: int = 0


class Task:
    """A task for an agent of this program.

    task is all that is known of it, client calls in its session. rejected is what is wrong
    with the last report, where its result does not fit the schema: work is called once more
    then. cancelled is set when nobody waits for the task any more.
    """

    def __init__(self, task: agent_service_pb2.AgentTask, client: Client, send: Callable):
        self.task, self._send = task, send
        self.client = client.within(task.task_id).on_behalf_of(task.on_behalf_of)
        self.prompt = task.prompt
        self.rejected = ""
        self.cancelled = threading.Event()
        self.reason = ""  # why it was cancelled
        self._heard: List[str] = []
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()  # None: taken, or cancelled

    def heard(self) -> List[str]:
        """Returns what was said to the agent since it was last asked."""
        with self._lock:
            heard, self._heard = self._heard, []
        return heard

    def check(self) -> None:
        """Raises Cancelled where nobody waits for the task any more."""
        if self.cancelled.is_set():
            raise Cancelled(self.reason)

    def tell(self, text: str) -> None:
        """Tells who gave the task what the model writes."""
        for start in range(0, len(text), _MAX_TOLD):
            self._update(text=text[start : start + _MAX_TOLD])

    def turn(self, number: int, usage: Optional[event_pb2.LoopUsage] = None) -> None:
        """Tells that the model is asked again: the number of the turn, and what was used before."""
        self._update(turn=event_pb2.TurnBegun(turn=number, usage=usage))

    def _update(self, **kind) -> None:
        update = agent_service_pb2.TaskUpdate(task_id=self.task.task_id, **kind)
        self._send(agent_service_pb2.ServeRequest(update=update))

    def _cancel(self, reason: str) -> None:
        self.reason = reason
        self.cancelled.set()
        self._answers.put(None)

    def _run(self, agent: Agent) -> None:
        """Works on the task until its report was taken."""
        task_id = self.task.task_id
        try:
            while True:
                came = agent.work(self)
                self.check()
                report = came if isinstance(came, Report) else Report(came)
                message = agent_service_pb2.TaskReport(
                    task_id=task_id, text=report.text, result=report.result, usage=report.usage
                )
                self._send(agent_service_pb2.ServeRequest(report=message))
                wrong = self._answers.get()
                self.check()
                if wrong is None:
                    return
                self.rejected = wrong
        except Exception as error:  # of whatever the agent does: the caller is told
            reason = f"{error}"[:_MAX_REASON] or type(error).__name__
            failure = agent_service_pb2.TaskFailure(task_id=task_id, reason=reason)
            self._send(agent_service_pb2.ServeRequest(failure=failure))


def serve(
    client: Client,
    agents: Sequence[Agent],
    tasks: int,
    ready: Optional[Callable[[], object]],
    closed: threading.Event,
) -> None:
    """Serves agents over as many connections as it takes, until the client is closed."""
    tries = Tries(client.patience)
    while True:
        try:
            _Serving(client, agents, tasks).run(tries, ready)
            if not tries.wait():
                raise ConnectionError("the stream that serves agents ended")
        except (grpc.RpcError, ValueError) as error:
            if closed.is_set():
                return
            if not isinstance(error, grpc.RpcError):
                raise
            again = lost_connection(error) or error.code() == grpc.StatusCode.ABORTED
            if not again or not tries.wait():
                raise


class _Serving:
    """One stream that serves agents."""

    def __init__(self, client: Client, agents: Sequence[Agent], tasks: int):
        self.client = client
        self.agents = {agent.name.lower(): agent for agent in agents}
        self.tasks: Dict[str, Task] = {}
        self.out: queue.SimpleQueue[Optional[agent_service_pb2.ServeRequest]] = queue.SimpleQueue()
        offered = [
            agent_service_pb2.OfferedAgent(
                name=agent.name,
                description=agent.description,
                tools=agent.tools,
                level=agent.level,
                mode=agent.mode,
            )
            for agent in agents
        ]
        offer = agent_service_pb2.AgentOffer(agents=offered, max_tasks=tasks)
        self.out.put(agent_service_pb2.ServeRequest(offer=offer))

    def run(self, tries: Tries, ready: Optional[Callable[[], object]]) -> None:
        stream = self.client.agents.Serve(self.requests())
        try:
            for message in stream:
                tries.reset()
                if message.HasField("offered") and ready is not None:
                    ready()
                self.take(message)
        finally:
            stream.cancel()
            self.out.put(None)
            for task in list(self.tasks.values()):
                task._cancel("the connection was lost")

    def requests(self) -> Iterator[agent_service_pb2.ServeRequest]:
        while True:
            message = self.out.get()
            if message is None:
                return
            yield message

    def take(self, message: agent_service_pb2.ServeResponse) -> None:
        kind = message.WhichOneof("kind")
        if kind == "task":
            task = Task(message.task, self.client, self.out.put)
            self.tasks[message.task.task_id] = task
            threading.Thread(target=self.work, args=[task], daemon=True).start()
            return
        body = getattr(message, kind or "offered")
        task = self.tasks.get(getattr(body, "task_id", ""))
        if task is None:
            return
        if kind == "message":
            with task._lock:
                task._heard.append(body.text)
        elif kind == "rejected":
            task._answers.put(body.message)
        elif kind == "taken":
            task._answers.put(None)
        elif kind == "cancelled":
            task._cancel(body.reason)
        elif kind == "refused":
            task._cancel(body.message)

    def work(self, task: Task) -> None:
        task._run(self.agents[task.task.agent.lower()])
        del self.tasks[task.task.task_id]
