# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""Prints what an agent sends to a toolserver (>) and what it receives (<)."""

import json

from toolserver.v1 import approval_pb2, event_pb2, policy_pb2


def title(text):
    print(f"\n# {text}\n")


def sent(text):
    print(">", text)


def received(text):
    print("<", text)


def indented(text):
    lines = text.splitlines()
    if len(lines) > 40:
        lines[10:-10] = [f"({len(lines) - 20} more lines)"]
    for line in lines:
        print("  |", line.rstrip())


def run(call):
    """Makes a call, and returns how it finished."""
    *_, last = watch(call)
    return last.finished


def watch(call):
    """Makes a call, prints its events and yields each."""
    sent(f"{call.tool} {json.dumps(call.arguments)}")
    output = {}
    for event in call:
        kind = event.WhichOneof("kind")
        if kind == "output":
            output[event.output.stream] = output.get(event.output.stream, b"") + event.output.data
        elif kind == "accepted":
            received(f"accepted: {verdict(event.accepted.verdict)}")
        elif kind == "approval_requested":
            received("approval requested")
        elif kind == "approval_resolved":
            received(f"approval resolved: {answer_kind(event.approval_resolved.answer)}")
        elif kind == "finished":
            for stream, data in sorted(output.items()):
                received(f"{event_pb2.OutputStream.Name(stream)[14:].lower()}:")
                indented(data.decode())
            show_finished(event.finished)
        yield event


def show_finished(finished):
    outcome = event_pb2.Outcome.Name(finished.outcome)[8:].lower()
    received(f"finished: {outcome}")
    indented(text_of(finished.content))


def show_approval(approval):
    """Prints what a person is asked."""
    received(f"a person is asked about {approval.tool}: {verdict(approval.verdict)}")
    indented(approval.preview.text)
    for tier in approval.tiers:
        received(f"always may mean: {tier.label}")


def verdict(verdict):
    action = policy_pb2.Action.Name(verdict.action)[7:].lower()
    return f"{action} by {verdict.rule}: {verdict.reason}"


def answer_kind(answer):
    return approval_pb2.AnswerKind.Name(answer.kind)[12:].lower()


def text_of(content):
    """Returns what of a result is text."""
    return "\n".join(part.text or part.json for part in content)
