// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// replicas are servers in this process that share a state.
type replicas struct {
	t      *testing.T
	engine state.Engine
	stops  state.KV
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	stops, err := engine.KV(t.Context(), state.Space{Name: "stops"})
	if err != nil {
		t.Fatal(err)
	}
	return &replicas{t, engine, stops}
}

// one returns the option of a server that is one of the replicas. It works below a directory,
// and knows of the others what sees lets through.
func (r *replicas) one(run uint64, root string, sees state.Engine) func(*service.Config) {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	ctx := context.Background()
	credential, err := replica.NewCredential(run)
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	joined, err := replica.Join(ctx, replica.Config{
		Engine: sees, Logger: zap.NewNop(), Run: run, Address: listener.Addr().String(), Version: "test", Place: root, Key: credential.Key, Lease: 3 * time.Second,
	})
	must(err)
	calls, err := executor.OpenRecords(ctx, executor.RecordsConfig{
		Engine: r.engine, Run: run, Key: [16]byte{1}, Retention: time.Hour, HistoryBytes: 16 << 20, Replicas: joined, Logger: zap.NewNop(),
	})
	must(err)
	sessions, err := session.OpenRecords(ctx, r.engine, zap.NewNop())
	must(err)
	sessions.Installation = "test"
	return func(c *service.Config) {
		c.State, c.Stops, c.Executor.Records = r.engine, r.stops, calls
		c.Replication = &service.Replication{Replica: joined, Credential: credential, Listener: listener}
		c.Sessions = session.NewStore(session.Config{
			WorkspaceRoot: root, Records: sessions, Replicas: &session.Replicas{Owners: joined, Place: root},
			Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
		})
		c.Closers = append(c.Closers, closing(sync.OnceFunc(func() {
			calls.Close()
			joined.Leave()
			listener.Close()
		})))
	}
}

type closing func()

func (f closing) Close() error {
	f()
	return nil
}

// TestStopsOfReplicas: a stop reaches all replicas, those that start later and those that the
// one which was called does not reach, and is lifted for all.
func TestStopsOfReplicas(t *testing.T) {
	r, root := newReplicas(t), t.TempDir()
	first := serve(t, withRoles, r.one(1, root, r.engine))
	second := serve(t, withRoles, r.one(2, root, r.engine))
	ctx := timeout(t)
	refused := func(s *testServer) {
		t.Helper()
		_, err := s.dial(tokens[0].Secret).call(asJSON("count", `{}`))
		wantCode(t, err, codes.FailedPrecondition, "stopped by oscar: why")
	}
	running, _ := first.dial(tokens[0].Secret).begin(asJSON("sleep", `{"duration_ms":60000}`))
	stopped, err := second.dial(operatorToken).StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: "alice", Reason: "why"})
	if err != nil || stopped.GetCancelledExecutions() != 1 || stopped.GetUnknown() || !stopped.GetStop().GetDurable() {
		t.Errorf("%v, %v", stopped, err)
	}
	if events, err := rest(running); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("what ran at another replica: %v, %v", events, err)
	}
	third := serve(t, withRoles, r.one(3, root, r.engine))
	for _, s := range []*testServer{first, second, third} {
		refused(s)
	}
	if list, err := third.dial(operatorToken).ListStops(ctx, new(pb.ListStopsRequest)); err != nil || len(list.GetStops()) != 1 || !list.GetStops()[0].GetDurable() {
		t.Errorf("a replica that started later lists %v, %v", list, err)
	}
	if _, err := third.dial(operatorToken).ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: "alice"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*testServer{first, second, third} {
		s.dial(tokens[0].Secret).run(asJSON("count", `{}`))
	}

	// Of one that no call tells of, what runs ends, too.
	running, _ = first.dial(tokens[0].Secret).begin(asJSON("sleep", `{"duration_ms":60000}`))
	if _, err := r.stops.Put(ctx, state.Key("", "alice"), []byte(`{"principal":"alice","reason":"why","by":"oscar"}`), 0); err != nil {
		t.Fatal(err)
	}
	if events, err := rest(running); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("what ran at a replica that was not called: %v, %v", events, err)
	}
	refused(second)

	for _, s := range []*testServer{first, second, third} {
		s.shutdown()
	}

	// A file of before there was a state is taken over, and does not bring back what was lifted.
	file := filepath.Join(t.TempDir(), "stops.json")
	if err := os.WriteFile(file, []byte(`[{"principal":"bob","reason":"why","by":"oscar"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	stays := func(c *service.Config) { c.State, c.Stops, c.StopFile = r.engine, r.stops, file }
	before := serve(t, withRoles, stays)
	refused(before)
	list, err := before.dial(operatorToken).ListStops(ctx, new(pb.ListStopsRequest))
	if err != nil || len(list.GetStops()) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	before.shutdown()
	for _, who := range []string{"alice", "bob"} { // as another replica would
		if err := r.stops.Delete(ctx, state.Key("", who), 0); err != nil {
			t.Fatal(err)
		}
	}
	after := serve(t, withRoles, stays)
	for i := range 2 {
		after.dial(tokens[i].Secret).run(asJSON("count", `{}`))
	}
}

// late is an engine whose changes of who has what are not told.
type late struct {
	state.Engine
	heard chan struct{} // closed when they are
}

func (l late) KV(ctx context.Context, space state.Space) (state.KV, error) {
	kv, err := l.Engine.KV(ctx, space)
	if space.Name != "owners" {
		return kv, err
	}
	return lateKV{kv, l.heard}, err
}

type lateKV struct {
	state.KV
	heard chan struct{}
}

func (k lateKV) Watch(ctx context.Context, prefix string, f func(state.Entry)) error {
	known := false
	return k.KV.Watch(ctx, prefix, func(e state.Entry) {
		if known {
			select {
			case <-k.heard:
			case <-ctx.Done():
			}
		}
		known = known || e.Key == ""
		f(e)
	})
}

// TestSessionJustTaken: a call for a session that another replica has just taken goes there.
func TestSessionJustTaken(t *testing.T) {
	r, root := newReplicas(t), t.TempDir()
	heard := make(chan struct{})
	first := serve(t, withTokens, r.one(1, root, r.engine))
	second := serve(t, withTokens, r.one(2, root, late{r.engine, heard}))
	ctx := timeout(t)
	for i, token := range []string{tokens[0].Secret, tokens[1].Secret} {
		made := first.dial(token).run(asJSON("count", `{}`))
		if made.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatalf("%v", made)
		}
		if i == 0 {
			if end := second.dial(token).run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				t.Errorf("a call: %v", end)
			}
			continue
		}
		request := &pb.UpdateSessionRequest{Session: &pb.Session{Labels: map[string]string{"a": "b"}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}}
		if _, err := second.dial(token).UpdateSession(ctx, request); err != nil {
			t.Errorf("a change: %v", err)
		}
		got, err := first.dial(token).GetSession(ctx, new(pb.GetSessionRequest))
		if err != nil || got.GetSession().GetLabels()["a"] != "b" {
			t.Errorf("%v, %v", got, err)
		}
	}
	close(heard)
}

// TestListsHaveEndedReplicas: what replicas ran that have ended is listed by the others, page by
// page and once.
func TestListsHaveEndedReplicas(t *testing.T) {
	r, root := newReplicas(t), t.TempDir()
	first := serve(t, withTokens, r.one(1, root, r.engine))
	second := serve(t, withTokens, r.one(2, root, r.engine))
	alice := first.dial(tokens[0].Secret)
	wanted := make(map[string]int)
	for range 5 {
		events, err := alice.call(asJSON("count", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		wanted[events[0].GetExecutionId()] = 1
	}
	first.shutdown()
	alice = second.dial(tokens[0].Secret)
	for n := 2; n != 1; { // it knows that the other has ended
		info, err := alice.GetServerInfo(timeout(t), new(pb.GetServerInfoRequest))
		if err != nil {
			t.Fatal(err)
		}
		n = len(info.GetReplicas())
	}
	events, err := alice.call(asJSON("count", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	wanted[events[0].GetExecutionId()] = 1
	listed := make(map[string]int)
	for token := ""; ; {
		page, err := alice.ListExecutions(timeout(t), &pb.ListExecutionsRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.GetExecutions() {
			listed[x.GetExecutionId()]++
			if x.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				t.Errorf("%v", x)
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(listed) != len(wanted) {
		t.Errorf("listed %v, wanted %v", listed, wanted)
	}
	for id, n := range listed {
		if wanted[id] != n {
			t.Errorf("%s is listed %d times", id, n)
		}
	}
	if got, err := second.dial(tokens[1].Secret).ListExecutions(timeout(t), new(pb.ListExecutionsRequest)); err != nil || len(got.GetExecutions()) != 0 {
		t.Errorf("somebody else is listed %v, %v", got, err)
	}
}

// TestDiscardedIsAudited: who gives up a session whose files are at no replica is in the audit
// log, and callers learn no address of a replica.
func TestDiscardedIsAudited(t *testing.T) {
	r := newReplicas(t)
	audited, read := withAudit(t, withTokens)
	first := serve(t, withTokens, r.one(1, t.TempDir(), r.engine))
	second := serve(t, audited, r.one(2, t.TempDir(), r.engine))
	ctx := timeout(t)
	if _, err := first.dial(tokens[0].Secret).CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "s"}); err != nil {
		t.Fatal(err)
	}
	first.shutdown()
	alice := second.dial(tokens[0].Secret)
	_, err := alice.GetSession(ctx, &pb.GetSessionRequest{SessionId: "s"})
	wantCode(t, err, codes.FailedPrecondition, "close the session")
	if strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
	if _, err := alice.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "s", Reason: "not needed"}); err != nil {
		t.Fatal(err)
	}
	second.shutdown()
	found := false
	for _, record := range read() {
		found = found || record.Step == "session_closed" && record.SessionID == "s" && record.By == "alice" && record.Reason == "not needed"
	}
	if !found {
		t.Error("nothing in the audit log")
	}
}

// TestWhatARestartForgets: what ends with a server says so afterwards, and is not said never to
// have been.
func TestWhatARestartForgets(t *testing.T) {
	r, root := newReplicas(t), t.TempDir()
	start := func() *testServer {
		t.Helper()
		records, err := session.OpenRecords(t.Context(), r.engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		records.Installation = "test"
		return serve(t, func(c *service.Config) {
			c.State = r.engine
			c.Sessions = session.NewStore(session.Config{
				WorkspaceRoot: root, Records: records, KeepWorkspace: time.Hour,
				Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAllow}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
			})
		})
	}
	ctx := timeout(t)
	before := start()
	caller := before.dial("")
	for _, id := range []string{"s", "kept"} {
		if _, err := caller.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: id}); err != nil {
			t.Fatal(err)
		}
	}
	in := func(tool, input string) *pb.ExecuteToolRequest {
		return &pb.ExecuteToolRequest{SessionId: "s", Tool: tool, InputJson: []byte(input)}
	}
	if end := caller.run(in("write_file", `{"path":"new.txt","content":"x"}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatalf("%v", end)
	}
	if _, err := caller.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "kept"}); err != nil {
		t.Fatal(err)
	}
	before.shutdown()

	caller = start().dial("")
	if end := caller.run(in("undo", `{}`)); end.GetFailure().GetCode() != "undo_forgotten" || !strings.Contains(end.GetFailure().GetMessage(), "before the server was last started") {
		t.Errorf("undo: %v", end)
	}
	stream, err := caller.WatchBatch(ctx, &pb.WatchBatchRequest{SessionId: "s", BatchId: "batch"})
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.NotFound, "batches end with the server that ran them", "found by their ids")
	_, err = caller.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "kept", Restore: true})
	wantCode(t, err, codes.NotFound, "at a server that has ended", "Create it without restore")
	if end := caller.run(in("write_file", `{"path":"new.txt","content":"y"}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v", end)
	}
	if end := caller.run(in("undo", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("undo of what was changed since: %v", end)
	}
}
