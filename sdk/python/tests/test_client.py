# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""Tests of the client against a real server, whose address and wire are in the environment.

The test in Go that runs this starts the server, and does what this asks for on standard
output: cut the wire, kill the server, start it again. It answers on standard input.
"""

import os
import sys
import threading
import unittest

import grpc

import toolserver
from toolserver.v1 import event_pb2, session_pb2, session_service_pb2

GATE = "echo waiting; until test -e go-on; do sleep 0.05; done; echo on"


def ask(what):
    """Has the test in Go do something, and waits for it."""
    print(f"ask {what}", flush=True)
    assert sys.stdin.readline() == "done\n"


class ClientTest(unittest.TestCase):
    def connect(self, who="agent", address="WIRE", **options):
        client = toolserver.Client(os.environ[address], token=f"the-token-of-{who}", **options)
        self.addCleanup(client.close)
        return client

    def agent(self, mode=session_pb2.MODE_ALLOW):
        request = session_service_pb2.CreateSessionRequest(mode=mode)
        created = self.connect(address="SERVER").sessions.CreateSession(request)
        return self.connect(session=created.session.session_id)

    def test_list(self):
        tools = self.agent().list("read_file", "write_*")
        self.assertEqual([tool.name for tool in tools], ["read_file", "write_file"])
        self.assertTrue(all(tool.description and tool.input_schema for tool in tools))

    def test_execute(self):
        agent = self.agent()
        for tool, input, outcome, text in [
            ("write_file", {"path": "a.txt", "content": "one\n"}, "SUCCEEDED", "Created a.txt"),
            ("read_file", '{"path": "a.txt"}', "SUCCEEDED", "one"),
            ("read_file", None, "INVALID_INPUT", "path"),
            ("read_fle", b"{}", "NO_SUCH_TOOL", "read_file"),
        ]:
            finished = toolserver.result(agent.execute(tool, input))
            self.assertEqual(event_pb2.Outcome.Name(finished.outcome), f"OUTCOME_{outcome}")
            self.assertIn(text, toolserver.text(finished))
        with self.assertRaises(grpc.RpcError) as caught:
            toolserver.result(agent.within("nowhere").execute("read_file"))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "clear text") as caught:
            toolserver.Client("example.com:1", token="secret")
        self.assertNotIn("secret", str(caught.exception))
        with self.assertRaises(grpc.RpcError) as caught:
            self.connect(who="nobody").list()
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)

    def test_lost_connection(self):
        agent = self.agent()
        other = self.connect(address="SERVER", session=agent.session)
        sequences, output = [], b""
        for event in agent.execute("bash", {"command": GATE}, call_id="gate"):
            sequences.append(event.sequence)
            output += event.output.data
            if event.HasField("output") and output == b"waiting\n":
                ask("cut")
                toolserver.result(other.execute("write_file", {"path": "go-on", "content": ""}))
        self.assertEqual(output, b"waiting\non\n")
        self.assertEqual(sequences, list(range(1, len(sequences) + 1)))
        again = [event.sequence for event in agent.watch("gate", after=2)]
        self.assertEqual(again, sequences[2:])

    def test_approve(self):
        agent, person = self.agent(session_pb2.MODE_ASK), self.connect("person")
        seen = []

        def decide(approval):
            seen.append(approval.tool)
            bad = "no.txt" in approval.preview.text
            return toolserver.deny("Not this one.") if bad else toolserver.allow()

        thread = threading.Thread(target=person.approve, args=[decide])
        thread.start()
        for name, want in ("yes.txt", "Created yes.txt"), ("no.txt", "Not this one."):
            finished = toolserver.result(agent.execute("write_file", {"path": name, "content": "x"}))
            self.assertIn(want, toolserver.text(finished))
            ask("cut")
        person.close()
        thread.join()
        self.assertEqual(seen, ["write_file", "write_file"])

    def test_artifact(self):
        agent = self.agent()
        finished = toolserver.result(agent.execute("bash", {"command": "seq 200000"}))
        (link,) = [part.artifact for part in finished.content if part.HasField("artifact")]
        data, cuts = b"", 0
        for part in agent.artifact(link.uri):
            data += part
            if cuts < 2 and len(data) > cuts * 300_000:
                cuts += 1
                ask("cut")
        self.assertEqual(data, b"".join(b"%d\n" % n for n in range(1, 200_001)))

    def test_cancel(self):
        agent = self.agent()
        for event in agent.execute("sleep", {"duration_ms": 60_000}, call_id="nap"):
            if event.HasField("started"):
                execution = agent.cancel("nap", "enough")
        self.assertEqual(execution.finished.cancellation.reason, "enough")
        self.assertEqual(event.finished.outcome, event_pb2.OUTCOME_CANCELLED)

    def test_restart(self):
        client = self.connect(address="SERVER")
        sequences = []
        for event in client.execute("bash", {"command": "echo waiting; sleep 60"}):
            sequences.append(event.sequence)
            if event.HasField("output"):
                ask("kill")
                ask("start")
        self.assertEqual(event.finished.outcome, event_pb2.OUTCOME_LOST)
        self.assertIn("may have run", toolserver.text(event.finished))
        self.assertEqual(sequences, list(range(1, len(sequences) + 1)))
        ask("kill")
        print("ask later start", flush=True)  # nobody waits: the call is made while there is no server
        self.assertEqual(toolserver.result(client.execute("list_dir")).outcome, event_pb2.OUTCOME_SUCCEEDED)
        self.assertEqual(sys.stdin.readline(), "done\n")

    def test_no_server(self):
        with toolserver.Client("127.0.0.1:1", patience=0.3) as client:
            with self.assertRaises(grpc.RpcError) as caught:
                toolserver.result(client.execute("list_dir"))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    unittest.main()
