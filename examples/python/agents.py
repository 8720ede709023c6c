#!/usr/bin/python3
# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""Serves an agent and uses it, with the package of sdk/python.

The model of a caller gives a task to the librarian, which this program serves, and whose
model works on it in a session of its own. Both models are scripts, in ../agents.json. Run it
with: python3 agents.py localhost:8665 ../agents.json

The server's configuration has agents: {serve: true}. One that asks for tokens finds them
in AGENT_TOKEN.
"""

import json
import os
import pathlib
import sys
import threading

import toolserver
from toolserver.v1 import event_pb2, session_pb2, session_service_pb2


def main(address, script):
    models = json.loads(pathlib.Path(script).read_text())
    caller = toolserver.Client(address, token=os.environ.get("AGENT_TOKEN"))

    def work(task):
        print("librarian is asked:", task.prompt)
        return loop(task.client, "librarian", models["librarian"], task.tell)

    librarian = toolserver.Agent(
        "librarian", work, description="Knows about books.", mode=session_pb2.MODE_PLAN
    )
    ready = threading.Event()
    serving = threading.Thread(target=caller.serve, args=[[librarian], 1, ready.set], daemon=True)
    serving.start()
    try:
        while not ready.wait(1):
            if not serving.is_alive():
                sys.exit("the agent cannot be served")
        request = session_service_pb2.CreateSessionRequest(mode=session_pb2.MODE_ALLOW)
        session = caller.sessions.CreateSession(request).session.session_id
        loop(caller.within(session), "caller", models["caller"], lambda text: None)
    finally:
        caller.close()
        serving.join()


def loop(client, who, script, tell):
    """A model that calls tools until it says something and calls none. Returns that."""
    said = ""
    for turn in script:
        batch = client.batch()
        for block in turn["content"]:
            if block["type"] == "tool_use":
                batch.call(block["name"], block["input"], call_id=block["id"])
                continue
            said = block["text"]
            print(f"{who}: {said}")
            tell(said)
        for result in batch.results():  # the next message to the model
            if result.refused:
                text, failed = result.refused.message, True
            else:
                text = toolserver.text(result.finished)
                failed = result.finished.outcome != event_pb2.OUTCOME_SUCCEEDED
            print(f"{who} gets {result.call_id}, is_error {str(failed).lower()}")
            for line in text.splitlines():
                print("  |", line)
    return said


if __name__ == "__main__":
    main(*sys.argv[1:])
