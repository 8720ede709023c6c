#!/usr/bin/python3
# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""A turn of an agent, with the package of sdk/python.

Tools are rendered for the model, its calls are parsed and run as batches, a person
approves, and the results go back to the model, which is a script: ../model.json. Run it
with: python3 turn.py localhost:8665 ../model.json

A server that asks for tokens finds them in AGENT_TOKEN and PERSON_TOKEN.
"""

import json
import os
import pathlib
import sys
import threading

import toolserver
from toolserver.v1 import event_pb2, session_pb2, session_service_pb2


def main(address, script):
    agent = toolserver.Client(address, token=os.environ.get("AGENT_TOKEN"))
    request = session_service_pb2.CreateSessionRequest(mode=session_pb2.MODE_ASK)
    agent = agent.within(agent.sessions.CreateSession(request).session.session_id)
    person = toolserver.Client(
        address, token=os.environ.get("PERSON_TOKEN"), session=agent.session
    )
    threading.Thread(target=person.approve, args=[decide]).start()
    try:
        for tool in agent.list("read_file", "write_file", "delete_file", "list_dir"):
            rendered = {  # as the API of a model takes it
                "name": tool.name,
                "description": tool.description,
                "input_schema": json.loads(tool.input_schema),
            }
            required = rendered["input_schema"].get("required", [])
            print(f"tool {rendered['name']}({', '.join(required)})")
        for response in json.loads(pathlib.Path(script).read_text()):
            take_turn(agent, response["content"])
    finally:
        person.close()
        agent.close()


def take_turn(agent, content):
    batch = agent.batch()
    for block in content:  # with a model that streams: as they come
        if block["type"] == "text":
            print("model:", block["text"])
        elif block["type"] == "tool_use":
            batch.call(block["name"], block["input"], call_id=block["id"])
    for result in batch.results():  # the next message to the model
        if result.refused:
            text, failed = result.refused.message, True
        else:
            text = toolserver.text(result.finished)
            failed = result.finished.outcome != event_pb2.OUTCOME_SUCCEEDED
        print(f"tool_result {result.call_id}, is_error {str(failed).lower()}")
        for line in text.splitlines():
            print("  |", line)


def decide(approval):
    """The person: notes may be written, and nothing is deleted."""
    if approval.tool == "delete_file":
        return toolserver.deny("Keep it.")
    return toolserver.allow()


if __name__ == "__main__":
    main(*sys.argv[1:])
