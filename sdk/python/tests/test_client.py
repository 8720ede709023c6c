# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""Tests of the client against a real server, whose address and wire are in the environment.

The test in Go that runs this starts the server, and does what this asks for on standard
output: cut the wire, kill the server, start it again. It answers on standard input.
"""

import os
import pathlib
import queue
import sys
import threading
import time
import unittest
import unittest.mock

import grpc

import toolserver
from toolserver.v1 import agent_service_pb2, batch_pb2, event_pb2, execution_pb2, session_pb2
from toolserver.v1 import session_service_pb2, tool_service_pb2

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

    def test_turn_in_text(self):
        agent, testdata = self.agent(), pathlib.Path(__file__).parent / "../../testdata"
        rendered = agent.render_tools("hermes", "read_file", "write_file")
        self.assertIn("<tool_call>", rendered.definitions)
        text, unread, batch = "", [], agent.batch()
        for piece in agent.parse("hermes", (testdata / "turn.txt").read_text()):
            text += piece.text
            if piece.HasField("call"):
                batch.call(piece.call)
            elif piece.HasField("broken"):
                unread.append(toolserver.unread(piece.broken))
        results = [result.for_model() for result in batch.results()]
        messages = agent.render_results("hermes", results + unread).messages
        want = (testdata / "turn.golden").read_text()
        self.assertEqual(f"{text.strip()}\n---\n{messages}\n", want)

        def gone():
            yield "some text"
            raise KeyError("the model is gone")

        with self.assertRaises(KeyError):
            list(agent.parse("auto", gone()))
        with self.assertRaises(grpc.RpcError) as caught:
            list(agent.parse("klingon", "x"))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_serve(self):
        caller, results, begun, ended = self.agent(), [], threading.Event(), queue.Queue()

        def read(task):
            task.turn(1)
            task.tell("I read.")
            text = toolserver.text(toolserver.result(task.client.execute("read_file", {"path": "a.txt"})))
            return f"{task.prompt} {text}"

        def count(task):
            results.append(task.rejected)
            return toolserver.Report("some", result="[1]" if task.rejected else "1")

        def fail(task):
            raise ValueError("the model is asleep")

        def wait(task):
            begun.set()
            task.cancelled.wait()
            ended.put(task.reason)
            task.check()

        names = {"reader": read, "Counter": count, "broken": fail, "slow": wait}
        agents = [toolserver.Agent(name, work, description="x") for name, work in names.items()]
        runtime = self.connect()
        ready = threading.Event()
        serving = threading.Thread(target=runtime.serve, args=[agents, 2, ready.set])
        serving.start()
        ready.wait()

        def give(tool_input, by=caller, **details):
            finished = toolserver.result(by.execute("agent", tool_input, **details))
            return f"{event_pb2.Outcome.Name(finished.outcome)} {toolserver.text(finished)} {finished.failure.message}"

        toolserver.result(caller.execute("write_file", {"path": "a.txt", "content": "hello"}))
        schema = {"type": "array"}
        for tool_input, want in [
            ({"agent": "reader", "prompt": "Read:"}, "SUCCEEDED Read: 1\thello"),
            ({"agent": "counter", "prompt": "Count.", "result_schema": schema}, "SUCCEEDED [1]"),
            ({"agent": "broken", "prompt": "Go."}, "could not do it: the model is asleep"),
        ]:
            self.assertIn(want, give(tool_input))
        for_user = give({"agent": "reader", "prompt": "User:"}, by=caller.on_behalf_of("user:anna"))
        self.assertIn("SUCCEEDED User: 1\thello", for_user)
        self.assertEqual(results[0], "")
        self.assertIn("does not fit the schema", results[1])

        def cancel():
            begun.wait()
            caller.cancel("stopped", "the user left")

        threading.Thread(target=cancel).start()
        self.assertIn("CANCELLED", give({"agent": "slow", "prompt": "Wait."}, call_id="stopped"))
        self.assertIn("the user left", ended.get())
        begun.clear()

        def cut():
            begun.wait()
            ask("cut")

        cutting = threading.Thread(target=cut)
        cutting.start()
        self.assertIn("is gone", give({"agent": "slow", "prompt": "Wait."}))
        cutting.join()
        self.await_agents(len(agents))
        self.assertIn("Again: 1\thello", give({"agent": "reader", "prompt": "Again:"}))
        runtime.close()
        serving.join()
        self.await_agents(0)
        with self.assertRaises(grpc.RpcError) as caught:
            self.connect().serve([toolserver.Agent("no name", read)])
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def await_agents(self, want):
        """Waits until as many agents are served."""
        client = self.connect(address="SERVER")
        while len(client.agents.ListAgents(agent_service_pb2.ListAgentsRequest()).agents) != want:
            time.sleep(0.005)

    def test_execute(self):
        agent = self.agent()
        for tool, input, outcome, text in [
            ("write_file", {"path": "a.txt", "content": "one\n"}, "SUCCEEDED", "Created a.txt"),
            ("read_file", '{"path": "a.txt"}', "SUCCEEDED", "one"),
            ("read_file", None, "INVALID_INPUT", "path"),
            ("read_fle", b"{}", "NO_SUCH_TOOL", "read_file"),
            ("write_file", {"path": "b", "content": "x" * 5_000_000}, "INVALID_INPUT", "the maximum is"),
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
        with self.assertRaisesRegex(ValueError, "without http://"):
            toolserver.Client("http://example.com:1", token="secret")
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

    def test_answer(self):
        """An answer that is none ends nothing, and the next question is answered."""
        agent, person = self.agent(), self.connect("person")

        def decide(approval):
            if approval.questions[0].text == "Really?":
                return toolserver.allow()  # which is no answer to a question
            return toolserver.answer(approval, "approve")

        thread = threading.Thread(target=person.approve, args=[decide])
        thread.start()
        options = [{"label": "Approve"}, {"label": "Deny"}]
        asked = {"question": "Go on?", "options": options, "options_only": True}
        first = agent.execute("ask_user", {"questions": [dict(asked, question="Really?")]}, call_id="first")
        for event in first:
            if event.HasField("approval_requested"):
                break
        finished = toolserver.result(agent.execute("ask_user", {"questions": [asked]}))
        self.assertIn("Chosen: Approve", toolserver.text(finished))
        agent.cancel("first", "nobody answers it")
        person.close()
        thread.join()

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

    def test_batch(self):
        batch = self.agent().batch()
        for call_id, tool, input in [
            ("write", "write_file", {"path": "a", "content": "one"}),
            ("read", "read_file", {"path": "a"}),
            ("missing", "read_file", {"path": "b"}),
            ("malformed", "", {}),
        ]:
            batch.call(tool, input, call_id=call_id)
        batch.call("list_dir", call_id="read")
        batch.call("list_dir", call_id="x" * 257)
        batch.call("write_file", {"path": "b", "content": "x" * 5_000_000})
        batch.call("list_dir", call_id="last")
        write, read, missing, malformed, twice, long, large, last = batch.results()
        self.assertEqual(large.finished.outcome, event_pb2.OUTCOME_INVALID_INPUT)
        self.assertEqual(last.finished.outcome, event_pb2.OUTCOME_SUCCEEDED)
        self.assertEqual(write.finished.outcome, event_pb2.OUTCOME_SUCCEEDED)
        self.assertIn("one", toolserver.text(read.finished))
        self.assertEqual(missing.finished.outcome, event_pb2.OUTCOME_FAILED)
        self.assertEqual(malformed.refused.code, grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertEqual(twice.call_id, "read")
        self.assertEqual(twice.refused.code, grpc.StatusCode.ALREADY_EXISTS.value[0])
        self.assertEqual(long.refused.code, grpc.StatusCode.INVALID_ARGUMENT.value[0])
        with self.assertRaises(toolserver.Detached):
            batch.interrupt("late")
        with self.assertRaisesRegex(ValueError, "closed"):
            batch.call("list_dir")

    def test_batch_is_steered_while_its_results_are_waited_for(self):
        agent = self.agent()
        batch = agent.batch(strategy=batch_pb2.BATCH_STRATEGY_SEQUENTIAL)
        batch.call("sleep", {"duration_ms": 60_000}, call_id="nap")
        batch.call("list_dir", call_id="next")
        events = iter(batch)
        self.assertTrue(next(events).HasField("started"))  # the server has it
        steered = []

        def steer():
            for event in agent.watch_batch(batch.id):
                if event.call.event.HasField("progress"):  # a while later
                    batch.interrupt("The user spoke.")
                    batch.call("list_dir", call_id="added")
                    batch.message("wake up")
                    steered.append(True)
                    return

        thread = threading.Thread(target=steer)
        thread.start()
        with unittest.mock.patch.object(toolserver.Batch, "__iter__", lambda _: events):
            results = batch.results()
        thread.join()
        self.assertTrue(steered)
        outcomes = {result.call_id: event_pb2.Outcome.Name(result.finished.outcome) for result in results}
        self.assertEqual(
            outcomes,
            {"nap": "OUTCOME_SUCCEEDED", "next": "OUTCOME_SKIPPED", "added": "OUTCOME_SUCCEEDED"},
        )

    def test_batch_is_watched_again(self):
        agent = self.agent()
        batch = agent.batch(on_disconnect=execution_pb2.ON_DISCONNECT_DETACH)
        batch.call("bash", {"command": GATE}, call_id="gate")
        batch.call("list_dir", call_id="twice")
        batch.call("list_dir", call_id="twice")
        seen = 0
        for event in batch:
            seen += event.HasField("refused") or event.call.event.HasField("output")
            if seen == 2:
                break
        agent.close()  # as a process that ends does
        again = self.connect(session=agent.session)
        watched = again.watch_batch(batch.id)
        with self.assertRaises(toolserver.Detached):
            watched.interrupt()
        with self.assertRaisesRegex(ValueError, "closed"):
            watched.call("list_dir")
        toolserver.result(again.execute("write_file", {"path": "go-on", "content": ""}))
        gate, first, second = watched.results()
        self.assertIn("on", toolserver.text(gate.finished))
        self.assertEqual(first.finished.outcome, event_pb2.OUTCOME_SUCCEEDED)
        self.assertEqual(second.refused.code, grpc.StatusCode.ALREADY_EXISTS.value[0])
        with self.assertRaises(grpc.RpcError) as caught:
            again.watch_batch("another").results()
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_many_calls_that_nobody_reads(self):
        before = threading.active_count()
        client = self.connect(address="SERVER")
        batch = client.batch()
        for number in range(10_000):
            batch.call("list_dir", call_id=f"{batch.id}-{number}")
        client.close()
        self.assert_threads_end(before)

    def test_left_half_way(self):
        before = threading.active_count()
        with toolserver.Client(os.environ["ENDLESS"]) as client:
            for event in client.execute("any"):
                self.assertEqual(event.sequence, 1)
                break
            batch = client.batch()
            batch.call("any")
            for number, event in enumerate(batch, 1):
                self.assertEqual(event.sequence, number)
                if event.HasField("steering_point"):
                    break
            # It answers when both streams have ended.
            client.tools.GetExecution(tool_service_pb2.GetExecutionRequest())
        self.assert_threads_end(before)

    def assert_threads_end(self, before):
        """Waits until no thread is left that was not there before."""
        for thread in threading.enumerate()[before:]:
            thread.join(20)
            self.assertFalse(thread.is_alive(), thread)

    def test_batch_loses_its_stream(self):
        agent = self.agent()
        other = self.connect(address="SERVER", session=agent.session)
        batch = agent.batch(strategy=batch_pb2.BATCH_STRATEGY_PARALLEL)
        batch.call("bash", {"command": GATE}, call_id="gate")
        numbers, texts = [], {}
        for event in batch:
            numbers.append(event.sequence)
            happened = event.call.event
            if happened.output.data == b"waiting\n":
                ask("cut")
                batch.call("bash", {"command": "echo second"}, call_id="second")
                toolserver.result(other.execute("write_file", {"path": "go-on", "content": ""}))
                batch.close()
            if happened.HasField("finished"):
                texts[event.call.call_id] = toolserver.text(happened.finished).split()
        self.assertEqual(texts, {"gate": ["waiting", "on"], "second": ["second"]})
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.assertEqual([call.call_id for call in event.finished.calls][-1], "second")

    def test_batch_restart(self):
        batch = self.connect(address="SERVER").batch()
        batch.call("bash", {"command": "echo up; sleep 60"}, call_id="running")
        batch.call("bash", {"command": "echo waited"}, call_id="waiting")
        outcomes = {}
        for event in batch:
            happened = event.call.event
            if happened.HasField("output"):
                ask("kill")
                ask("start")
            if happened.HasField("finished"):
                outcomes[event.call.call_id] = happened.finished.outcome
                if event.call.call_id == "running":
                    batch.call("list_dir", call_id="later")
                    batch.close()
        lost, succeeded = event_pb2.OUTCOME_LOST, event_pb2.OUTCOME_SUCCEEDED
        self.assertEqual(outcomes, {"running": lost, "waiting": lost, "later": succeeded})

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

    def test_doubt(self):
        for case, outcome in [
            ("BROKEN", event_pb2.OUTCOME_SUCCEEDED),
            ("BROKEN_AND_REPLACED", event_pb2.OUTCOME_LOST),
            ("REFUSED", event_pb2.OUTCOME_SUCCEEDED),
            ("REFUSED_AND_REPLACED", event_pb2.OUTCOME_SUCCEEDED),
            ("STALE", event_pb2.OUTCOME_SUCCEEDED),
        ]:
            with self.subTest(case), toolserver.Client(os.environ[case]) as client:
                self.assertEqual(toolserver.result(client.execute("any")).outcome, outcome)
            with self.subTest(case), toolserver.Client(os.environ[case + "_BATCH"]) as client:
                batch = client.batch()
                batch.call("any")
                batch.call("any")
                outcomes = [result.finished.outcome for result in batch.results()]
                self.assertEqual(outcomes, [outcome, outcome])

    def test_batch_unended(self):
        with toolserver.Client(os.environ["UNENDED"]) as client:
            batch = client.batch()
            for call_id in "refused", "heard", "unheard":
                batch.call("any", call_id=call_id)
            refused, heard, unheard = batch.results()
        self.assertEqual(refused.refused.code, grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertEqual(heard.finished.outcome, event_pb2.OUTCOME_LOST)
        self.assertEqual(unheard.finished.outcome, event_pb2.OUTCOME_LOST)

    def test_batch_unsent(self):
        with toolserver.Client("127.0.0.1:1") as client:
            batch = client.batch()
            batch.call("any")
            with self.assertRaisesRegex(toolserver.Detached, "not connected yet"):
                batch.interrupt()
            batch.cancel(reason="enough")
            (result,) = batch.results()
            self.assertEqual(result.finished.cancellation.reason, "enough")
            with self.assertRaisesRegex(toolserver.Detached, "closed"):
                batch.interrupt()

    def test_no_server(self):
        with toolserver.Client("127.0.0.1:1", patience=0.3) as client:
            with self.assertRaises(grpc.RpcError) as caught:
                toolserver.result(client.execute("list_dir"))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    unittest.main()
