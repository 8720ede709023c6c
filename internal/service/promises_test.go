// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// withSessions gives the server other sessions.
func withSessions(change func(*session.Config)) func(*service.Config) {
	return func(c *service.Config) {
		config := c.Sessions.Config()
		c.Sessions.Close()
		change(&config)
		c.Sessions = session.NewStore(config)
	}
}

// TestLostResult: a call whose result is no longer kept is not run again, and tells
// what became of it.
func TestLostResult(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Executor.MaxRetained = 1 })
	c := s.dial("")
	id := "toolu_01"
	before := runs.Load()
	request := &pb.ExecuteToolRequest{Tool: "count", CallId: &id}
	events, err := c.call(request)
	if err != nil {
		t.Fatal(err)
	}
	execution := events[0].GetExecutionId()
	c.run(asJSON("raw", `{}`)) // which takes its place

	events, err = c.call(&pb.ExecuteToolRequest{Tool: "count", CallId: &id, InputJson: []byte(" { } ")})
	if err != nil {
		t.Fatal(err)
	}
	end := events[len(events)-1].GetFinished()
	if len(events) != 2 || events[0].GetSkipped() == nil || end.GetOutcome() != pb.Outcome_OUTCOME_LOST ||
		end.GetFailure().GetCode() != "result_lost" || end.GetLostResult().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED ||
		end.GetLostResult().GetEndTime() == nil || end.GetLostResult().GetReason() == "" || !strings.Contains(text(end), execution) {
		t.Errorf("%v", events)
	}
	if n := runs.Load() - before; n != 1 {
		t.Errorf("it ran %d times", n)
	}
	got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{CallId: id})
	if x := got.GetExecution(); err != nil || x.GetExecutionId() != execution || x.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED ||
		x.GetState() != pb.ExecutionState_EXECUTION_STATE_FINISHED || x.GetTool() != "count" || x.GetFinished().GetLostResult() == nil {
		t.Errorf("%v, %v", got, err)
	}
	if cancelled, err := c.Cancel(timeout(t), &pb.CancelRequest{CallId: id}); err != nil || cancelled.GetExecution().GetExecutionId() != execution {
		t.Errorf("%v, %v", cancelled, err)
	}
	_, err = c.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: execution})
	wantCode(t, err, codes.NotFound, "call id")
	_, err = c.call(&pb.ExecuteToolRequest{Tool: "raw", CallId: &id})
	wantCode(t, err, codes.AlreadyExists, execution)
}

// TestEndedSession: who comes back to a session that ended is told, and gets its
// workspace back.
func TestEndedSession(t *testing.T) {
	s := serve(t, withTokens, withSessions(func(c *session.Config) {
		c.KeepWorkspace, c.Default.Mode = time.Hour, tools.ModeAllow
	}))
	alice, bob := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob")
	created, err := alice.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "work", Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	write := asJSON("write_file", `{"path":"a.txt","content":"kept"}`)
	write.SessionId = "work"
	if end := alice.run(write); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(end)
	}
	if _, err := alice.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "work"}); err != nil {
		t.Fatal(err)
	}
	_, err = alice.call(write)
	wantCode(t, err, codes.NotFound, "closed by alice", "restore")
	_, err = alice.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: "work"})
	wantCode(t, err, codes.NotFound, "closed by alice")
	_, err = bob.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: "work"})
	wantCode(t, err, codes.NotFound, "create it")

	for who, want := range map[*client]int{alice: 1, bob: 0} {
		list, err := who.ListSessions(timeout(t), &pb.ListSessionsRequest{IncludeEnded: true})
		if err != nil || len(list.GetSessions()) != want {
			t.Fatalf("%v, %v", list, err)
		}
		for _, ended := range list.GetSessions() {
			if ended.GetSessionId() != "work" || ended.GetWorkspace() != created.GetSession().GetWorkspace() || ended.GetEndTime() == nil ||
				ended.GetEndReason() != "It was closed by alice." || ended.GetLabels()["a"] != "b" ||
				time.Until(ended.GetWorkspaceExpireTime().AsTime()) < 30*time.Minute {
				t.Errorf("%v", ended)
			}
		}
	}
	if list, err := alice.ListSessions(timeout(t), &pb.ListSessionsRequest{}); err != nil || len(list.GetSessions()) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	_, err = bob.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "work", Restore: true})
	wantCode(t, err, codes.NotFound, "without restore")
	_, err = alice.CreateSession(timeout(t), &pb.CreateSessionRequest{Restore: true})
	wantCode(t, err, codes.InvalidArgument, "name its id")
	restored, err := alice.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "work", Restore: true})
	if err != nil || restored.GetSession().GetWorkspace() != created.GetSession().GetWorkspace() {
		t.Fatalf("%v, %v", restored, err)
	}
	read := asJSON("read_file", `{"path":"a.txt"}`)
	read.SessionId = "work"
	if end := alice.run(read); !strings.Contains(text(end), "kept") {
		t.Error(end)
	}
}

// TestCallOrder: a session that asks for it runs calls in order.
func TestCallOrder(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	created, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "one", CallOrder: pb.CallOrder_CALL_ORDER_SAFE})
	if err != nil || created.GetSession().GetCallOrder() != pb.CallOrder_CALL_ORDER_SAFE {
		t.Fatalf("%v, %v", created, err)
	}
	_, err = c.CreateSession(timeout(t), &pb.CreateSessionRequest{CallOrder: 7})
	wantCode(t, err, codes.InvalidArgument, "call_order")
	first := asJSON("listens", `{}`) // runs until it is told to end
	first.SessionId = "one"
	stream, begun := c.begin(first)
	second := asJSON("count", `{}`)
	second.SessionId = "one"
	waits, accepted := c.begin(second)
	got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: accepted.GetExecutionId()})
	if err != nil || got.GetExecution().GetState() != pb.ExecutionState_EXECUTION_STATE_WAITING {
		t.Errorf("%v, %v", got, err)
	}
	// From now on nothing waits, but what does.
	updated, err := c.UpdateSession(timeout(t), &pb.UpdateSessionRequest{
		Session: &pb.Session{SessionId: "one", CallOrder: pb.CallOrder_CALL_ORDER_FREE}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"call_order"}},
	})
	if err != nil || updated.GetSession().GetCallOrder() != pb.CallOrder_CALL_ORDER_FREE {
		t.Fatalf("%v, %v", updated, err)
	}
	if end := c.run(second); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(end)
	}
	if _, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: begun.GetExecutionId()}); err != nil {
		t.Fatal(err)
	}
	if end := c.end(stream); end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Error(end)
	}
	if end := c.end(waits); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(end)
	}
}

// TestPolicyBeforeItsTurn: a call that waits for its turn is judged by the policy of
// then.
func TestPolicyBeforeItsTurn(t *testing.T) {
	for name, rule := range map[string]string{"denied": "{name: no, action: deny, reads: [a.txt]}", "asked": "{name: no, action: ask, reads: [a.txt]}"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			c := s.dial("")
			if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "one", CallOrder: pb.CallOrder_CALL_ORDER_SAFE}); err != nil {
				t.Fatal(err)
			}
			first, second := asJSON("listens", `{}`), asJSON("read_file", `{"path":"a.txt"}`)
			first.SessionId, second.SessionId = "one", "one"
			_, begun := c.begin(first)
			waits, _ := c.begin(second)
			replacePolicy(t, s, "rules: ["+rule+"]\n")
			if _, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: begun.GetExecutionId()}); err != nil {
				t.Fatal(err)
			}
			if end := c.end(waits); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || end.GetVerdict().GetRule() != "rule no" {
				t.Error(end)
			}
		})
	}
}

func replacePolicy(t *testing.T, s *testServer, text string) {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte("version: 1\n"+text))
	if err == nil {
		err = s.ReplacePolicy(p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatchTools sees the list of tools change: by a source, a policy, a session.
func TestWatchTools(t *testing.T) {
	var registry *tools.Registry
	s := serve(t, func(c *service.Config) { registry = c.Registry })
	c := s.dial("")
	if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "work"}); err != nil {
		t.Fatal(err)
	}
	stream, err := c.WatchTools(timeout(t), &pb.WatchToolsRequest{SessionId: "work"})
	if err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]bool)
	next := func(added, removed, changed string) {
		t.Helper()
		change, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.ListTools(timeout(t), &pb.ListToolsRequest{SessionId: "work", Query: "read"})
		if err != nil || list.GetVersion() != change.GetVersion() || change.GetVersion() == "" {
			t.Errorf("version %q, and %q in the list; %v", change.GetVersion(), list.GetVersion(), err)
		}
		versions[change.GetVersion()] = true
		if got := strings.Join(change.GetAdded(), " "); got != added {
			t.Errorf("added %q, want %q", got, added)
		}
		if got := strings.Join(change.GetRemoved(), " "); got != removed {
			t.Errorf("removed %q, want %q", got, removed)
		}
		if got := strings.Join(change.GetChanged(), " "); got != changed {
			t.Errorf("changed %q, want %q", got, changed)
		}
	}
	replace := func(summary string) {
		t.Helper()
		tool := tools.New(tools.Spec{Name: "extra", Summary: summary, Level: tools.ReadOnly}, nil,
			func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) {
				return tools.Result{}, nil
			})
		if err := registry.Replace("other", tool); err != nil {
			t.Fatal(err)
		}
	}
	next("", "", "")
	replace("One.")
	next("extra", "", "")
	replace("One.") // nothing new
	replace("Two.")
	next("", "", "extra")
	replacePolicy(t, s, "rules: [{name: no, action: deny, tools: [extra]}]\n")
	next("", "extra", "")
	replacePolicy(t, s, "rules: []\n")
	next("extra", "", "")
	if _, err := c.UpdateSession(timeout(t), &pb.UpdateSessionRequest{
		Session:    &pb.Session{SessionId: "work", Tools: &pb.ToolSelection{Exclude: []string{"extra", "count"}}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"tools"}},
	}); err != nil {
		t.Fatal(err)
	}
	next("", "count extra", "")
	if len(versions) != 4 { // two lists come again
		t.Errorf("%d versions", len(versions))
	}
	if _, err := c.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "work"}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.NotFound, "closed by")
}

// TestWatchToolsAndShutdown: who only watches does not hold up a shutdown.
func TestWatchToolsAndShutdown(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	stream, err := c.WatchTools(timeout(t), &pb.WatchToolsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	go s.Shutdown(context.Background())
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)
}

// TestToolVersion: the version is that of the whole list of the session, in each
// view, and the same on every server.
func TestToolVersion(t *testing.T) {
	versions := make(map[string]bool)
	for range 2 {
		c := serve(t).dial("")
		for _, request := range []*pb.ListToolsRequest{{}, {View: pb.ToolView_TOOL_VIEW_FULL}, {Names: []string{"count"}}} {
			list, err := c.ListTools(timeout(t), request)
			if err != nil {
				t.Fatal(err)
			}
			versions[list.GetVersion()] = true
		}
	}
	if len(versions) != 1 || versions[""] {
		t.Errorf("%v", versions)
	}
}

func TestSessionOffer(t *testing.T) {
	s := serve(t, withSessions(func(c *session.Config) {
		c.KeepWorkspace, c.Modes, c.Default.IdleTTL = time.Hour, []tools.Mode{tools.ModeAsk, tools.ModePlan}, 2*time.Hour
	}))
	info, err := s.dial("").GetServerInfo(timeout(t), &pb.GetServerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	offer := info.GetSessions()
	if !slices.Equal(offer.GetModes(), []pb.Mode{pb.Mode_MODE_ASK, pb.Mode_MODE_PLAN}) || offer.GetDefaultMode() != pb.Mode_MODE_ASK ||
		offer.GetMaxLevel() != pb.Level_LEVEL_WORKSPACE_WRITE || offer.GetDefaultLevel() != pb.Level_LEVEL_WORKSPACE_WRITE ||
		offer.GetDefaultNetwork() != pb.Network_NETWORK_NONE || offer.GetMaxNetwork() != pb.Network_NETWORK_NONE ||
		!slices.Equal(offer.GetAllowedWorkspaces(), []string{os.Getenv("TEST_ALLOWED")}) || offer.GetMaxSessions() != 1000 ||
		offer.GetKeepWorkspace().AsDuration() != time.Hour || offer.GetDefaultIdleTtl().AsDuration() != 2*time.Hour {
		t.Errorf("%v", offer)
	}
	if info.GetLimits().GetMaxRememberedCalls() != 20_000 {
		t.Errorf("%v", info.GetLimits())
	}
}

// TestCheckDigest: the digest of a call that is checked is that of its approval.
func TestCheckDigest(t *testing.T) {
	s := serve(t, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	c := s.dial("")
	_, approval := c.asked(asJSON("read_file", `{"path":"a.txt"}`))
	for _, input := range []string{`{"path":"a.txt"}`, ` "{ \"file_path\":\"a.txt\" }"`} {
		response, err := c.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: "read_file", InputJson: []byte(input)})
		if err != nil || response.GetDigest() != approval.GetDigest() || approval.GetDigest() == "" {
			t.Errorf("%s: %v, %v", input, response.GetDigest(), err)
		}
	}
	other, err := c.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: "read_file", InputJson: []byte(`{"path":"b.txt"}`)})
	if err != nil || other.GetDigest() == approval.GetDigest() {
		t.Errorf("another call: %v, %v", other, err)
	}
	one, err1 := c.CheckCall(timeout(t), &pb.CheckCallRequest{Command: "ls"})
	two, err2 := c.CheckCall(timeout(t), &pb.CheckCallRequest{Command: "ls -l"})
	if err1 != nil || err2 != nil || one.GetDigest() == two.GetDigest() {
		t.Errorf("two commands have the digests %s and %s", one.GetDigest(), two.GetDigest())
	}
}
