#!/usr/bin/python3
# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""A session of an agent, from the upload of a repository to its download.

The model is missing: what it would call is written down here, step by step. Each
step shows one thing that a runtime does with a toolserver, and prints what is sent
(>) and received (<). README.md tells how to run it.
"""

import argparse
import pathlib
import re
import tempfile

import grpc

from client import Agent, Client, Person
from toolserver.v1 import session_pb2
from transcript import received, run, sent, show_approval, show_difference, text_of, title, watch
from wire import Wire

REPOSITORY = pathlib.Path(__file__).parent / "repository"


def main():
    options = arguments()
    wire = Wire(options.address)
    agent = Agent(Client(wire.address, options.token))
    person = Person(Client(options.address, options.person_token or options.token))

    create_session(agent)
    upload(agent)
    explore(agent)
    person.watch(agent.session_id)
    test_with_approval(agent, person)
    edit_with_approval(agent, person)
    test_again(agent)
    refusal(agent, person)
    question(agent, person)
    background_server(agent)
    terminal(agent)
    cancel(agent)
    lost_connection(agent, wire)
    same_call_again(agent)
    artifact(agent)
    undo(agent)
    download(agent)
    close_session(agent)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", nargs="?", default="127.0.0.1:8665", help="of the server")
    parser.add_argument("--token", help="of the agent, where the server asks for tokens")
    parser.add_argument("--person-token", help="of the person who approves")
    return parser.parse_args()


def create_session(agent):
    title("A session with an empty workspace of its own")
    session = agent.create_session(session_pb2.MODE_ALLOW)
    received(f"session {session.session_id} in {session.workspace}")


def upload(agent):
    title("Upload of a repository")
    sent("UploadTree repository/")
    summary = agent.upload(REPOSITORY)
    left_out = [f"{entry.path}: {entry.reason}" for entry in summary.left_out]
    received(f"{summary.files} files, {summary.file_bytes} bytes; left out: {left_out}")
    # The files have no .git of their own here; where one is uploaded, its data comes along.
    command = "git init --quiet && git add . && git commit --quiet --message uploaded"
    run(agent.call("bash", command=command))


def explore(agent):
    title("Explore")
    run(agent.call("list_dir", depth=2))
    run(agent.call("grep", pattern=r"slug\(", glob="*.py"))
    run(agent.call("read_file", path="slugs/__init__.py"))
    run(agent.call("read_file", path="slugs/servr.py"))


def test_with_approval(agent, person):
    title("In mode ask, a person at another client approves the tests, once and for all")
    agent.set_mode(session_pb2.MODE_ASK)
    call = agent.call("bash", command="python3 -m unittest", description="Run the tests")
    for asked in consult(call, person):
        person.allow_always(asked, asked.tiers[0])


def edit_with_approval(agent, person):
    title("The person sees the diff of an edit, and approves it")
    old = 're.sub(r"[^a-z0-9]+", "-", title.lower())'
    new = old + '.strip("-")'
    call = agent.call("edit_file", path="slugs/__init__.py", old_string=old, new_string=new)
    for asked in consult(call, person):
        person.allow(asked)


def test_again(agent):
    title("The tests run unasked now, and pass")
    run(agent.call("bash", command="python3 -m unittest", description="Run the tests"))


def refusal(agent, person):
    title("What the person declines does not run, and the model reads why")
    call = agent.call("delete_file", path="tests/test_slug.py")
    for asked in consult(call, person):
        person.decline(asked, "We keep the tests.")


def question(agent, person):
    title("A question of the model, which the person answers")
    text = "What is the slug of a title without letters?"
    options = [{"label": "Nothing"}, {"label": "A dash"}]
    call = agent.call("ask_user", questions=[{"question": text, "options": options}])
    for asked in consult(call, person):
        person.choose(asked, "Nothing")


def consult(call, person):
    """Makes a call, and yields what is asked about it to a person, who is to answer."""
    for event in watch(call):
        if event.HasField("approval_requested"):
            asked = person.asked()
            show_approval(asked)
            yield asked


def background_server(agent):
    title("A server in the background; changes run unasked from here on")
    agent.set_mode(session_pb2.MODE_ALLOW)
    run(agent.call("bash", command="python3 -m slugs.server", run_in_background=True))
    ready = run(agent.call("process_output", id="p1", until="listening on", wait_ms=120_000))
    address = re.search(r"127\.0\.0\.1:\d+", text_of(ready.content)).group()
    run(agent.call("bash", command=f"curl --silent http://{address}/Hello,%20World!"))
    run(agent.call("process_signal", id="p1", signal="TERM", kill_after_ms=60_000))


def terminal(agent):
    title("A terminal")
    command = "PS1='ready> ' TERM=dumb bash --norc --noediting"
    call = agent.call("bash", command=command, interactive=True)
    lines = iter(["tty\n", "stty size\n", "exit\n"])
    screen = b""
    for event in watch(call):
        screen += event.output.data
        if event.HasField("output") and screen.endswith(b"ready> "):
            call.resize(rows=40, columns=120)
            call.type(next(lines))


def cancel(agent):
    title("Cancel")
    call = agent.call("bash", command="echo waiting; sleep 600")
    for event in watch(call):
        if event.HasField("output"):
            call.cancel("The user pressed stop.")


def lost_connection(agent, wire):
    title("A connection is lost while a command runs, and nothing else is")
    command = "echo before; until test -e go-on; do sleep 0.1; done; echo after"
    call = agent.call("bash", command=command)
    numbers = []
    for event in watch(call):
        numbers.append(event.sequence)
        if event.output.data == b"before\n":
            wire.cut()
            run(agent.call("write_file", path="go-on", content=""))
    received(f"several connections: {call.connections > 1}")
    received(f"every event once: {numbers == list(range(1, len(numbers) + 1))}")


def same_call_again(agent):
    title("A call id runs once: the same call again has the same result, another is refused")
    run(agent.call("bash", call_id="once", command="date +%s.%N"))
    run(agent.call("bash", call_id="once", command="date +%s.%N"))
    try:
        run(agent.call("bash", call_id="once", command="date"))
    except grpc.RpcError as error:
        received(f"{error.code().name}: {error.details()}")


def artifact(agent):
    title("What is too long for the model is cut, and kept")
    finished = run(agent.call("bash", command="seq 20000"))
    (link,) = [part.artifact for part in finished.content if part.HasField("artifact")]
    length = len(text_of(finished.content))
    received(f"cut to {length} characters; {link.name} has {link.size} bytes")
    sent("ReadArtifact, 30 bytes in the middle")
    received(agent.read_artifact(link.uri, offset=link.size // 2, limit=30).decode().split())


def undo(agent):
    title("Undo")
    run(agent.call("write_file", path="slugs/__init__.py", content="Oh, no!"))
    run(agent.call("undo"))
    run(agent.call("list_changes"))
    run(agent.call("git_diff"))


def download(agent):
    title("Download of what came of it")
    with tempfile.TemporaryDirectory() as directory:
        sent("DownloadTree .")
        summary = agent.download(directory, exclude=[".git", "__pycache__"])
        received(f"{summary.files} files, {summary.file_bytes} bytes")
        show_difference(REPOSITORY, pathlib.Path(directory))


def close_session(agent):
    title("The session ends, and its workspace is kept for a while")
    agent.close_session()


if __name__ == "__main__":
    main()
