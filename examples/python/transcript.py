# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""Prints what an agent sends to a toolserver (>) and what it receives (<)."""

import difflib
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
            answer = event.approval_resolved.answer
            received(f"approval resolved: {word(approval_pb2.AnswerKind, answer.kind)}")
        elif kind == "finished":
            for stream, data in sorted(output.items()):
                received(f"{word(event_pb2.OutputStream, stream)}:")
                indented(data.decode())
            show_finished(event.finished)
        yield event


def show_finished(finished):
    received(f"finished: {word(event_pb2.Outcome, finished.outcome)}")
    indented(text_of(finished.content))


def show_approval(approval):
    """Prints what a person is asked."""
    received(f"the person sees what {approval.tool} asks:")
    indented(approval.preview.text)
    for question in approval.questions:
        indented(f"{question.text} {[option.label for option in question.options]}")
    for tier in approval.tiers:
        received(f"always may mean: {tier.label}")


def show_difference(before, after):
    """Prints what differs between the files of two directories."""
    names = {path.relative_to(top) for top in (before, after) for path in files(top)}
    for name in sorted(names):
        old, new = lines(before / name), lines(after / name)
        indented("\n".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")))


def files(directory):
    return (path for path in directory.rglob("*") if path.is_file())


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def verdict(verdict):
    return f"{word(policy_pb2.Action, verdict.action)} by {verdict.rule}: {verdict.reason}"


def word(enum, value):
    """Returns the name of a value, without what all names of its enum begin with."""
    prefix = enum.Name(0).removesuffix("UNSPECIFIED")
    return enum.Name(value).removeprefix(prefix).lower()


def text_of(content):
    """Returns what of a result is text."""
    return "\n".join(part.text or part.json for part in content)
