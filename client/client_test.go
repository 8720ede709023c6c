// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/client"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(sdktest.Remove)) }

// start starts a server, and a wire to it.
func start(t *testing.T) (*sdktest.Server, *sdktest.Wire) {
	t.Helper()
	server := sdktest.Start(t, sdktest.Build(t), "TOOLSERVER_CONFIG=testdata/tokens.yaml")
	return server, sdktest.NewWire(t, server.Address)
}

// agent connects as the agent, with a session of its own.
func agent(t *testing.T, address string, mode pb.Mode) *client.Client {
	t.Helper()
	c := connect(t, address, client.Options{Token: "the-token-of-agent"})
	response, err := c.Sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return c.In(response.GetSession().GetSessionId())
}

func connect(t *testing.T, address string, options client.Options) *client.Client {
	t.Helper()
	c, err := client.Connect(address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestClient tries everything of a client against one server.
func TestClient(t *testing.T) {
	server, wire := start(t)
	t.Run("dialects", func(t *testing.T) { turnInText(t, agent(t, server.Address, pb.Mode_MODE_ALLOW)) })
	t.Run("list", func(t *testing.T) {
		c := agent(t, server.Address, pb.Mode_MODE_ALLOW)
		tools, err := c.List(t.Context(), "read_file", "write_*")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools {
			names = append(names, tool.GetName())
			if !strings.HasPrefix(tool.GetInputSchema(), "{") || tool.GetDescription() == "" {
				t.Errorf("%s is not told in full", tool.GetName())
			}
		}
		if !slices.Equal(names, []string{"read_file", "write_file"}) {
			t.Errorf("listed %v", names)
		}
	})
	t.Run("execute", func(t *testing.T) {
		c := agent(t, server.Address, pb.Mode_MODE_ALLOW)
		for _, test := range []struct {
			call    client.Call
			outcome pb.Outcome
			text    string
		}{
			{client.Call{Tool: "write_file", Input: map[string]any{"path": "a.txt", "content": "one\n"}}, pb.Outcome_OUTCOME_SUCCEEDED, "Created a.txt"},
			{client.Call{Tool: "read_file", Input: `{"path": "a.txt"}`}, pb.Outcome_OUTCOME_SUCCEEDED, "one"},
			{client.Call{Tool: "read_file"}, pb.Outcome_OUTCOME_INVALID_INPUT, "path"},
			{client.Call{Tool: "write_file", Input: map[string]any{"path": "a", "content": strings.Repeat("x", 5_000_000)}}, pb.Outcome_OUTCOME_INVALID_INPUT, "the maximum is 2097152"},
			{client.Call{Tool: "read_fle"}, pb.Outcome_OUTCOME_NO_SUCH_TOOL, "read_file"},
			{client.Call{Tool: "bash", Input: `{"command": "sleep 60"}`, Timeout: time.Millisecond}, pb.Outcome_OUTCOME_TIMED_OUT, ""},
		} {
			finished, err := client.Result(c.Execute(t.Context(), test.call))
			if err != nil || finished.GetOutcome() != test.outcome || !strings.Contains(client.Text(finished), test.text) {
				t.Errorf("%v: %v, %v", test.call, finished, err)
			}
		}
		for _, err := range c.Execute(t.Context(), client.Call{Tool: "read_file", Input: func() {}}) {
			if err == nil || !strings.Contains(err.Error(), "input of read_file") {
				t.Errorf("an input that is no JSON: %v", err)
			}
		}
		_, err := client.Result(c.In("nowhere").Execute(t.Context(), client.Call{Tool: "read_file"}))
		if status.Code(err) != codes.NotFound {
			t.Errorf("a session that is not there: %v", err)
		}
	})
	t.Run("cut", func(t *testing.T) { cutAgainAndAgain(t, server, wire) })
	t.Run("approve", func(t *testing.T) { approvals(t, server, wire) })
	t.Run("artifact", func(t *testing.T) { artifact(t, wire) })
	t.Run("cancel", func(t *testing.T) {
		c := agent(t, server.Address, pb.Mode_MODE_ALLOW)
		for event, err := range c.Execute(t.Context(), client.Call{ID: "nap", Tool: "sleep", Input: `{"duration_ms": 60000}`}) {
			if err != nil {
				t.Fatal(err)
			}
			if event.GetStarted() != nil {
				execution, err := c.Cancel(t.Context(), "nap", "enough")
				if err != nil || execution.GetFinished().GetCancellation().GetReason() != "enough" {
					t.Errorf("%v, %v", execution, err)
				}
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		if _, err := client.Connect("example.com:1", client.Options{Token: "secret"}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("a token in clear text: %v", err)
		}
		if _, err := client.Connect("nonsense", client.Options{}); err == nil {
			t.Error("an address that is none was taken")
		}
		_, err := connect(t, server.Address, client.Options{Token: "wrong"}).List(t.Context())
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("a wrong token: %v", err)
		}
	})
}

// TestUnixSocket calls a server on a socket of this machine.
func TestUnixSocket(t *testing.T) {
	server := sdktest.Start(t, sdktest.Build(t), "TOOLSERVER_LISTEN=unix:"+t.TempDir()+"/s")
	finished, err := client.Result(connect(t, server.Address, client.Options{}).Execute(t.Context(), client.Call{Tool: "list_dir"}))
	if err != nil || finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%s: %v, %v", server.Address, finished, err)
	}
}

// TestDoubt fails a call, and a batch, before any event of it: it is sent again exactly
// where that cannot run it twice.
func TestDoubt(t *testing.T) {
	for _, c := range sdktest.Cases {
		t.Run(c.Variable, func(t *testing.T) {
			finished, err := client.Result(connect(t, sdktest.Fake(t, c), client.Options{}).Execute(t.Context(), client.Call{Tool: "any"}))
			if err != nil || finished.GetOutcome() != c.Outcome {
				t.Errorf("a call: %v, %v", finished, err)
			}
			batch := connect(t, sdktest.Fake(t, c), client.Options{}).Batch(t.Context(), nil)
			for range 2 {
				if _, err := batch.Call(client.Call{Tool: "any"}); err != nil {
					t.Fatal(err)
				}
			}
			results, err := batch.Results()
			if err != nil || len(results) != 2 || results[0].Finished.GetOutcome() != c.Outcome || results[1].Finished.GetOutcome() != c.Outcome {
				t.Errorf("a batch: %v, %v", results, err)
			}
		})
	}
}

// gate is a command that goes on once a file is there, and tells that it waits.
const gate = "echo waiting; until test -e go-on; do sleep 0.05; done; echo on"

// cutAgainAndAgain cuts the connection under a call, and at its beginning.
func cutAgainAndAgain(t *testing.T, server *sdktest.Server, wire *sdktest.Wire) {
	direct := agent(t, server.Address, pb.Mode_MODE_ALLOW)
	session := sessionOf(t, direct)
	c := connect(t, wire.Address, client.Options{Token: "the-token-of-agent", Session: session})
	var sequences []uint64
	var output bytes.Buffer
	for event, err := range c.Execute(t.Context(), client.Call{ID: "gate", Tool: "bash", Input: map[string]string{"command": gate}}) {
		if err != nil {
			t.Fatal(err)
		}
		sequences = append(sequences, event.GetSequence())
		output.Write(event.GetOutput().GetData())
		if event.GetOutput() != nil && output.String() == "waiting\n" {
			for range 3 {
				wire.Cut()
			}
			if _, err := client.Result(direct.Execute(t.Context(), client.Call{Tool: "write_file", Input: `{"path": "go-on", "content": ""}`})); err != nil {
				t.Fatal(err)
			}
		}
	}
	if output.String() != "waiting\non\n" {
		t.Errorf("the output is %q", output.String())
	}
	for i, sequence := range sequences {
		if sequence != uint64(i+1) {
			t.Fatalf("events %v", sequences)
		}
	}
	next, stop := iter.Pull2(c.Watch(t.Context(), "gate", 2))
	defer stop()
	if event, err, _ := next(); err != nil || event.GetSequence() != 3 {
		t.Errorf("watched after 2: %v, %v", event, err)
	}
	cuts := 0
	wire.CutAfter(0)
	for i := range 20 { // cut at any moment, a call runs once
		finished, err := client.Result(c.Execute(t.Context(), client.Call{ID: fmt.Sprint("add-", i), Tool: "bash", Input: `{"command": "echo x >>ran"}`}))
		if err != nil || finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatalf("call %d: %v, %v", i, finished, err)
		}
		if wire.CutAfter(60 * (i + 1)) {
			cuts++
		}
	}
	wire.Cut()
	if cuts < 10 {
		t.Errorf("%d calls were cut: the wire is cut too late", cuts)
	}
	finished, err := client.Result(direct.Execute(t.Context(), client.Call{Tool: "bash", Input: `{"command": "wc -l <ran"}`}))
	if err != nil || strings.TrimSpace(client.Text(finished)) != "20" {
		t.Errorf("20 calls ran %q times: %v", client.Text(finished), err)
	}
}

// sessionOf returns the session of a client.
func sessionOf(t *testing.T, c *client.Client) string {
	t.Helper()
	for event, err := range c.Execute(t.Context(), client.Call{Tool: "list_dir"}) {
		if err != nil {
			t.Fatal(err)
		}
		return event.GetAccepted().GetSessionId()
	}
	return ""
}

// approvals has a person answer, whose connection is lost between two answers.
func approvals(t *testing.T, server *sdktest.Server, wire *sdktest.Wire) {
	c := agent(t, server.Address, pb.Mode_MODE_ASK)
	person := connect(t, wire.Address, client.Options{Token: "the-token-of-person"})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	var seen atomic.Int32
	go func() {
		ended <- person.Approve(ctx, func(approval *pb.Approval) *pb.ResolveApprovalRequest {
			seen.Add(1)
			switch {
			case len(approval.GetQuestions()) > 0 && approval.GetQuestions()[0].GetText() == "Really?":
				go c.Cancel(t.Context(), "Really?", "nobody answered")
				return client.Allow()
			case len(approval.GetQuestions()) > 0:
				return client.Answer(approval, "approve")
			}
			if strings.Contains(approval.GetPreview().GetText(), "no.txt") {
				return client.Deny("Not this one.")
			}
			return client.Allow()
		})
	}()
	for name, want := range map[string]string{"yes.txt": "Created yes.txt", "no.txt": "Not this one."} {
		finished, err := client.Result(c.Execute(t.Context(), client.Call{Tool: "write_file", Input: map[string]string{"path": name, "content": "x"}}))
		if err != nil || !strings.Contains(client.Text(finished), want) {
			t.Errorf("%s: %v, %v", name, finished, err)
		}
		wire.Cut()
	}
	for question, want := range map[string]string{"Really?": "nobody answered", "Go on?": "Chosen: Approve"} { // the first is answered by Allow, which is no answer
		finished, err := client.Result(c.Execute(t.Context(), client.Call{ID: question, Tool: "ask_user", Input: map[string]any{"questions": []any{
			map[string]any{"question": question, "options_only": true, "options": []any{map[string]string{"label": "Approve"}, map[string]string{"label": "Deny"}}},
		}}}))
		if err != nil || !strings.Contains(client.Text(finished), want) {
			t.Errorf("%s: %v, %v", question, finished, err)
		}
	}
	leave()
	if err := <-ended; err != nil || seen.Load() != 4 {
		t.Errorf("%d approvals were seen, and it ended with %v", seen.Load(), err)
	}
}

// cutter cuts a wire after some bytes.
type cutter struct {
	bytes.Buffer
	wire *sdktest.Wire
	cuts int
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.cuts < 3 && c.Len() > c.cuts*200_000 {
		c.cuts++
		c.wire.Cut()
	}
	return c.Buffer.Write(p)
}

// artifact reads a long output over a connection that breaks.
func artifact(t *testing.T, wire *sdktest.Wire) {
	c := agent(t, wire.Address, pb.Mode_MODE_ALLOW)
	finished, err := client.Result(c.Execute(t.Context(), client.Call{Tool: "bash", Input: `{"command": "seq 200000"}`}))
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range finished.GetContent() {
		if link := content.GetArtifact(); link != nil {
			w := &cutter{wire: wire}
			if err := c.Artifact(t.Context(), link.GetUri(), w); err != nil {
				t.Fatal(err)
			}
			if text := w.String(); len(text) != 1288895 || !strings.HasSuffix(text, "199999\n200000\n") || w.cuts != 3 {
				t.Errorf("%d bytes after %d cuts", len(text), w.cuts)
			}
			return
		}
	}
	t.Errorf("no artifact: %v", finished)
}

// TestRestart kills the server under a call, and starts another in its place.
func TestRestart(t *testing.T) {
	server, wire := start(t)
	c := connect(t, wire.Address, client.Options{Token: "the-token-of-agent"})
	t.Run("running", func(t *testing.T) {
		var last *pb.Event
		for event, err := range c.Execute(t.Context(), client.Call{Tool: "bash", Input: `{"command": "echo waiting; sleep 60"}`}) {
			if err != nil {
				t.Fatal(err)
			}
			if event.GetOutput() != nil {
				server.Kill()
				server.Restart()
			}
			if last != nil && event.GetSequence() != last.GetSequence()+1 {
				t.Errorf("event %d after %d", event.GetSequence(), last.GetSequence())
			}
			last = event
		}
		finished := last.GetFinished()
		if finished.GetOutcome() != pb.Outcome_OUTCOME_LOST || !strings.Contains(client.Text(finished), "may have run") {
			t.Errorf("it ended with %v", last)
		}
	})
	t.Run("not sent", func(t *testing.T) { // the server is not there when the call is made
		server.Kill()
		back := make(chan struct{})
		go func() {
			defer close(back)
			<-wire.Refused
			server.Restart()
		}()
		c := connect(t, wire.Address, client.Options{Token: "the-token-of-agent"})
		finished, err := client.Result(c.Execute(t.Context(), client.Call{Tool: "list_dir"}))
		if err != nil || finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("%v, %v", finished, err)
		}
		<-back
	})
	t.Run("gone", func(t *testing.T) {
		server.Kill()
		impatient := connect(t, wire.Address, client.Options{Token: "the-token-of-agent", Patience: 300 * time.Millisecond})
		_, err := client.Result(impatient.Execute(t.Context(), client.Call{Tool: "list_dir"}))
		if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "may have run") {
			t.Errorf("a server that is not there: %v", err)
		}
	})
}
