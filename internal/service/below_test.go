// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// withDepth lets agents be as deep below each other, and sessions have any level.
func withDepth(t *testing.T, depth int) func(*service.Config) {
	return func(c *service.Config) {
		config := c.Sessions.Config()
		config.MaxDepth, config.MaxLevel, config.MaxNetwork = depth, tools.DangerFullAccess, tools.NetworkOpen
		config.Exposed = session.Exposed{Set: []string{"mode", "level", "network"}}
		c.Sessions = session.NewStore(config)
	}
}

// family is a caller, and what is inside the server for its agents.
type family struct {
	*testServer
	caller, inside *client
}

func withFamily(t *testing.T, options ...func(*service.Config)) *family {
	s := serve(t, append([]func(*service.Config){withTokens, withDepth(t, 2)}, options...)...)
	return &family{s, s.dial("alice-alice-alice"), s.connect(auth.Principal{Name: "alice", OnBehalfOf: "alice"})}
}

// open makes a session of the caller.
func (f *family) open(request *pb.CreateSessionRequest) *pb.Session {
	f.t.Helper()
	created, err := f.caller.CreateSession(timeout(f.t), request)
	if err != nil {
		f.t.Fatal(err)
	}
	return created.GetSession()
}

// works begins a call in a session that runs until it is stopped, and returns its stream and id.
func (f *family) works(in string) (eventStream, string) {
	f.t.Helper()
	stream, first := f.caller.begin(&pb.ExecuteToolRequest{SessionId: in, Tool: "listens"})
	for {
		next, err := stream.Recv()
		if err != nil {
			f.t.Fatal(err)
		}
		if next.GetEvent().GetOutput() != nil {
			return stream, first.GetExecutionId()
		}
	}
}

// below asks for a session below another.
func below(parent, execution, agent string) *pb.CreateSessionRequest {
	return &pb.CreateSessionRequest{ParentSessionId: parent, ParentExecutionId: execution, Agent: agent}
}

// begin makes a session of an agent below another.
func (f *family) begin(request *pb.CreateSessionRequest) *pb.Session {
	f.t.Helper()
	created, err := f.inside.CreateSession(timeout(f.t), request)
	if err != nil {
		f.t.Fatal(err)
	}
	return created.GetSession()
}

// TestBelow: a session of an agent is of its owner, works where its parent does, takes over
// what it does not ask for, and is listed with its parent.
func TestBelow(t *testing.T) {
	f := withFamily(t)
	parent := f.open(&pb.CreateSessionRequest{SessionId: "main", Mode: pb.Mode_MODE_ACCEPT_EDITS, Labels: map[string]string{"for": "tests"}})
	_, execution := f.works("main")
	request := below("main", execution, "explorer")
	request.SessionId, request.Level = "exploring", pb.Level_LEVEL_READ_ONLY
	child := f.begin(request)
	if child.GetPrincipal() != "alice" || child.GetWorkspace() != parent.GetWorkspace() || child.GetMode() != parent.GetMode() ||
		child.GetLevel() != pb.Level_LEVEL_READ_ONLY || child.GetLabels()["for"] != "tests" {
		t.Errorf("the child is %v", child)
	}
	if child.GetParentSessionId() != "main" || child.GetParentExecutionId() != execution || child.GetAgent() != "explorer" || child.GetDepth() != 1 {
		t.Errorf("it is not said to be below: %v", child)
	}
	list, err := f.caller.ListSessions(timeout(t), new(pb.ListSessionsRequest))
	if err != nil || len(list.GetSessions()) != 2 || list.GetSessions()[1].GetParentSessionId() != "main" {
		t.Errorf("listed are %v, %v", list, err)
	}
	f.write("a.txt", "not here")
	os.WriteFile(filepath.Join(parent.GetWorkspace(), "a.txt"), []byte("hello"), 0o600)
	read := &pb.ExecuteToolRequest{SessionId: "exploring", Tool: "read_file", InputJson: []byte(`{"path":"a.txt"}`)}
	if end := f.inside.run(read); !strings.Contains(text(end), "hello") {
		t.Errorf("the agent reads %v", end)
	}
}

// TestBelowIsForInside: who may ask for a session below another, and for which.
func TestBelowIsForInside(t *testing.T) {
	f := withFamily(t)
	f.open(&pb.CreateSessionRequest{SessionId: "main", Level: pb.Level_LEVEL_WORKSPACE_WRITE})
	f.open(&pb.CreateSessionRequest{SessionId: "other"})
	stream, execution := f.works("main")
	with := func(change func(*pb.CreateSessionRequest)) *pb.CreateSessionRequest {
		request := below("main", execution, "explorer")
		change(request)
		return request
	}
	right := with(func(*pb.CreateSessionRequest) {})
	bob := f.connect(auth.Principal{Name: "bob", OnBehalfOf: "bob"})
	forCarol := f.connect(auth.Principal{Name: "alice", OnBehalfOf: "carol"})
	for name, c := range map[string]struct {
		by      *client
		request *pb.CreateSessionRequest
		code    codes.Code
		says    string
	}{
		"from outside":        {f.caller, right, codes.PermissionDenied, "only the server makes sessions below others"},
		"agent from outside":  {f.caller, &pb.CreateSessionRequest{Agent: "me"}, codes.PermissionDenied, "leave out"},
		"of somebody else":    {bob, right, codes.NotFound, "main"},
		"for another user":    {forCarol, right, codes.PermissionDenied, "another user"},
		"no agent":            {f.inside, with(func(r *pb.CreateSessionRequest) { r.Agent = "" }), codes.InvalidArgument, "needs parent_session_id"},
		"bad agent":           {f.inside, with(func(r *pb.CreateSessionRequest) { r.Agent = "a b" }), codes.InvalidArgument, "1 to 64"},
		"no call":             {f.inside, with(func(r *pb.CreateSessionRequest) { r.ParentExecutionId = "" }), codes.InvalidArgument, "parent_execution_id"},
		"unknown call":        {f.inside, with(func(r *pb.CreateSessionRequest) { r.ParentExecutionId = "x" }), codes.NotFound, ""},
		"call elsewhere":      {f.inside, with(func(r *pb.CreateSessionRequest) { r.ParentSessionId = "other" }), codes.InvalidArgument, `one of session "main"`},
		"unknown parent":      {f.inside, with(func(r *pb.CreateSessionRequest) { r.ParentSessionId = "none" }), codes.NotFound, "none"},
		"default id":          {f.inside, with(func(r *pb.CreateSessionRequest) { r.SessionId = "default" }), codes.InvalidArgument, "choose another"},
		"restored":            {f.inside, with(func(r *pb.CreateSessionRequest) { r.SessionId, r.Restore = "a", true }), codes.InvalidArgument, "restored"},
		"level above":         {f.inside, with(func(r *pb.CreateSessionRequest) { r.Level = pb.Level_LEVEL_DANGER_FULL_ACCESS }), codes.PermissionDenied, "above workspace_write"},
		"mode above":          {f.inside, with(func(r *pb.CreateSessionRequest) { r.Mode = pb.Mode_MODE_ALLOW }), codes.PermissionDenied, "above ask"},
		"network above":       {f.inside, with(func(r *pb.CreateSessionRequest) { r.Network = pb.Network_NETWORK_OPEN }), codes.PermissionDenied, "above none"},
		"workspace elsewhere": {f.inside, with(func(r *pb.CreateSessionRequest) { r.Workspace = os.Getenv("TEST_ALLOWED") }), codes.PermissionDenied, "existing directory in"},
		"workspace not there": {f.inside, with(func(r *pb.CreateSessionRequest) { r.Workspace = "worktree" }), codes.PermissionDenied, "absolute"},
	} {
		_, err := c.by.CreateSession(timeout(t), c.request)
		t.Run(name, func(t *testing.T) { wantCode(t, err, c.code, c.says) })
	}
	f.caller.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: execution})
	f.caller.end(stream)
	_, err := f.inside.CreateSession(timeout(t), right)
	wantCode(t, err, codes.FailedPrecondition, "does not run any more")
}

// TestBelowRaisesNothing: an agent cannot raise its session above its parent, by whichever
// way, and follows the parent down.
func TestBelowRaisesNothing(t *testing.T) {
	f := withFamily(t)
	f.open(&pb.CreateSessionRequest{SessionId: "main", Mode: pb.Mode_MODE_ACCEPT_EDITS, Level: pb.Level_LEVEL_WORKSPACE_WRITE, Network: pb.Network_NETWORK_LOOPBACK})
	_, execution := f.works("main")
	child := f.begin(below("main", execution, "worker"))
	update := func(c *client, wanted *pb.Session, path string) error {
		_, err := c.UpdateSession(timeout(t), &pb.UpdateSessionRequest{Session: wanted, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}}})
		return err
	}
	id := child.GetSessionId()
	wantCode(t, update(f.inside, &pb.Session{SessionId: id, Mode: pb.Mode_MODE_ALLOW}, "mode"), codes.PermissionDenied, "above accept_edits")
	wantCode(t, update(f.inside, &pb.Session{SessionId: id, Level: pb.Level_LEVEL_DANGER_FULL_ACCESS}, "level"), codes.PermissionDenied, "above workspace_write")
	wantCode(t, update(f.inside, &pb.Session{SessionId: id, Network: pb.Network_NETWORK_OPEN}, "network"), codes.PermissionDenied, "above loopback")
	end := f.inside.run(&pb.ExecuteToolRequest{SessionId: id, Tool: "config", InputJson: []byte(`{"setting":"mode","value":"allow"}`)})
	if end.GetOutcome() != pb.Outcome_OUTCOME_DENIED && !strings.Contains(text(end), "Nothing was changed") {
		t.Errorf("config raised the mode: %v", end)
	}

	// The parent is lowered, and the child with it.
	for path, to := range map[string]*pb.Session{
		"mode": {SessionId: "main", Mode: pb.Mode_MODE_PLAN}, "level": {SessionId: "main", Level: pb.Level_LEVEL_READ_ONLY}, "network": {SessionId: "main", Network: pb.Network_NETWORK_NONE},
	} {
		if err := update(f.caller, to, path); err != nil {
			t.Fatal(err)
		}
	}
	now, err := f.inside.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: id})
	if s := now.GetSession(); err != nil || s.GetMode() != pb.Mode_MODE_PLAN || s.GetLevel() != pb.Level_LEVEL_READ_ONLY || s.GetNetwork() != pb.Network_NETWORK_NONE {
		t.Errorf("the child has %v, %v", now, err)
	}
	end = f.inside.run(&pb.ExecuteToolRequest{SessionId: id, Tool: "write_file", InputJson: []byte(`{"path":"a","content":"b"}`)})
	if end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
		t.Errorf("writing ended %v", end)
	}
	wantCode(t, update(f.inside, &pb.Session{SessionId: id, Mode: pb.Mode_MODE_ASK}, "mode"), codes.PermissionDenied, "above plan")
	// A person lets the agent end its plan; its session stays in the mode of its parent.
	stream, asked := f.inside.asked(&pb.ExecuteToolRequest{SessionId: id, Tool: "exit_plan_mode", InputJson: []byte(`{"plan":"do it"}`)})
	f.dial("carol-carol-carol").answer(&pb.ResolveApprovalRequest{ApprovalId: asked.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
	if end := f.inside.end(stream); end.GetOutcome() == pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(text(end), "main") {
		t.Errorf("leaving plan mode ended %v", end)
	}
}

// TestBelowEnds: closing a session in the middle of what agents do on two floors below it
// ends everything, with all streams; so does cancelling the call that began them.
func TestBelowEnds(t *testing.T) {
	for name, stop := range map[string]func(f *family, execution string){
		"closed": func(f *family, _ string) {
			if _, err := f.caller.CloseSession(timeout(f.t), &pb.CloseSessionRequest{SessionId: "main"}); err != nil {
				f.t.Error(err)
			}
		},
		"cancelled": func(f *family, execution string) {
			if _, err := f.caller.Cancel(timeout(f.t), &pb.CancelRequest{ExecutionId: execution}); err != nil {
				f.t.Error(err)
			}
		},
		"stopped": func(f *family, _ string) {
			if _, err := f.dial("root-root-root-root").StopPrincipal(timeout(f.t), &pb.StopPrincipalRequest{Principal: "alice", Reason: "test"}); err != nil {
				f.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := withFamily(t)
			f.open(&pb.CreateSessionRequest{SessionId: "main", Mode: pb.Mode_MODE_ASK})
			outer, execution := f.works("main")
			first := f.begin(below("main", execution, "lead")).GetSessionId()
			inner, second := f.works(first)
			lowest := f.begin(below(first, second, "worker")).GetSessionId()
			innermost, _ := f.works(lowest)
			waiting, asked := f.inside.asked(&pb.ExecuteToolRequest{SessionId: lowest, Tool: "write_file", InputJson: []byte(`{"path":"a","content":"b"}`)})
			var agents []string
			for _, link := range asked.GetChain() {
				agents = append(agents, link.GetParentSessionId()+":"+link.GetExecutionId()+">"+link.GetAgent()+":"+link.GetSessionId())
			}
			if want := []string{"main:" + execution + ">lead:" + first, first + ":" + second + ">worker:" + lowest}; strings.Join(agents, " ") != strings.Join(want, " ") {
				t.Errorf("the chain is %q, want %q", agents, want)
			}
			stop(f, execution)
			for _, stream := range []eventStream{outer, inner, innermost, waiting} {
				if end := f.caller.end(stream); end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
					t.Errorf("a call ended %v", end)
				}
			}
			list, err := f.caller.ListSessions(timeout(t), new(pb.ListSessionsRequest))
			for _, left := range list.GetSessions() {
				if left.GetParentSessionId() != "" || err != nil {
					t.Errorf("left is %v, %v", left, err)
				}
			}
			_, err = f.inside.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: lowest})
			wantCode(t, err, codes.NotFound, "ended with")
		})
	}
}

// TestBelowInBackground: a session for the background outlives its call, and not its parent.
func TestBelowInBackground(t *testing.T) {
	f := withFamily(t)
	f.open(&pb.CreateSessionRequest{SessionId: "main"})
	outer, execution := f.works("main")
	request := below("main", execution, "sleeper")
	request.Background = true
	child := f.begin(request).GetSessionId()
	inner, _ := f.works(child)
	f.caller.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: execution})
	f.caller.end(outer)
	if got, err := f.inside.GetSession(timeout(t), &pb.GetSessionRequest{SessionId: child}); err != nil || !got.GetSession().GetBackground() {
		t.Errorf("after its call the session is %v, %v", got, err)
	}
	closed, err := f.caller.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "main"})
	if err != nil || closed.GetCancelledExecutions() != 1 {
		t.Errorf("closed: %v, %v", closed, err)
	}
	if end := f.caller.end(inner); end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("what it did ended %v", end)
	}
	ended, err := f.caller.ListSessions(timeout(t), &pb.ListSessionsRequest{IncludeEnded: true})
	if err != nil || len(ended.GetSessions()) != 2 || ended.GetSessions()[0].GetAgent() == ended.GetSessions()[1].GetAgent() {
		t.Errorf("ended are %v, %v", ended, err)
	}
}

// TestBelowIsNotTooDeep: how deep agents may be below each other.
func TestBelowIsNotTooDeep(t *testing.T) {
	for depth, c := range map[int]struct{ allowed int }{0: {1}, 1: {1}, 3: {3}} {
		f := withFamily(t, withDepth(t, depth))
		parent := f.open(&pb.CreateSessionRequest{SessionId: "main"}).GetSessionId()
		for i := range c.allowed {
			_, execution := f.works(parent)
			child := f.begin(below(parent, execution, "agent"))
			if parent = child.GetSessionId(); child.GetDepth() != uint32(i+1) {
				t.Errorf("depth %d: %v", i+1, child)
			}
		}
		_, execution := f.works(parent)
		_, err := f.inside.CreateSession(timeout(t), below(parent, execution, "agent"))
		wantCode(t, err, codes.FailedPrecondition, "below each other")
	}
}

// TestBelowAnswersNothing: an agent sees its approvals and cannot answer them; a denial
// given to the parent counts below, and so does what it was allowed.
func TestBelowAnswersNothing(t *testing.T) {
	f := withFamily(t)
	carol := f.dial("carol-carol-carol")
	f.open(&pb.CreateSessionRequest{SessionId: "main"})
	_, execution := f.works("main")
	child := f.begin(below("main", execution, "worker")).GetSessionId()
	write := func(in, path string) *pb.ExecuteToolRequest {
		return &pb.ExecuteToolRequest{SessionId: in, Tool: "write_file", InputJson: []byte(`{"path":"` + path + `","content":"b"}`)}
	}
	stream, asked := f.inside.asked(write(child, "src/a"))
	for _, kind := range []pb.AnswerKind{pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE, pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS} {
		_, err := f.inside.ResolveApproval(timeout(t), &pb.ResolveApprovalRequest{ApprovalId: asked.GetApprovalId(), Kind: kind, TierId: "1"})
		wantCode(t, err, codes.PermissionDenied, "its own calls")
	}
	listed, err := carol.ListApprovals(timeout(t), new(pb.ListApprovalsRequest))
	if err != nil || len(listed.GetApprovals()) != 1 || !proto.Equal(listed.GetApprovals()[0], asked) || len(asked.GetChain()) != 1 {
		t.Errorf("listed are %v, %v", listed, err)
	}
	for session, want := range map[string]int{"main": 1, child: 1, "other": 0} {
		listed, err := carol.ListApprovals(timeout(t), &pb.ListApprovalsRequest{SessionId: session})
		if err != nil || len(listed.GetApprovals()) != want {
			t.Errorf("of %s, listed are %v, %v", session, listed, err)
		}
		watched, err := carol.WatchApprovals(timeout(t), &pb.WatchApprovalsRequest{SessionId: session})
		if err != nil {
			t.Fatal(err)
		}
		if first, err := watched.Recv(); err != nil || len(first.GetSnapshot().GetApprovals()) != want {
			t.Errorf("of %s, watched are %v, %v", session, first, err)
		}
	}
	tier := func(a *pb.Approval, kind pb.TierKind) string {
		for _, tier := range a.GetTiers() {
			if tier.GetKind() == kind {
				return tier.GetTierId()
			}
		}
		t.Fatalf("no tier %s: %v", kind, a.GetTiers())
		return ""
	}
	// What the parent is allowed for always answers what waits below it.
	above, question := f.caller.asked(write("main", "src/b"))
	carol.answer(&pb.ResolveApprovalRequest{ApprovalId: question.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: tier(question, pb.TierKind_TIER_KIND_DIRECTORY)})
	for _, one := range []eventStream{above, stream} {
		if end := f.caller.end(one); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("a write ended %v", end)
		}
	}
	if end := f.inside.run(write(child, "src/c")); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("writing what the parent may write ended %v", end)
	}
}

// TestBelowSharesLimits: what a session may do in a time, its agents use up.
func TestBelowSharesLimits(t *testing.T) {
	f := withFamily(t, withPolicy(t, "limits: [{name: few, tools: [count], rate: 2/h, per: session}]\n"))
	f.open(&pb.CreateSessionRequest{SessionId: "main"})
	_, execution := f.works("main")
	child := f.begin(below("main", execution, "worker")).GetSessionId()
	for i, want := range []pb.Outcome{pb.Outcome_OUTCOME_SUCCEEDED, pb.Outcome_OUTCOME_SUCCEEDED, pb.Outcome_OUTCOME_RATE_LIMITED} {
		if end := f.inside.run(&pb.ExecuteToolRequest{SessionId: child, Tool: "count"}); end.GetOutcome() != want {
			t.Errorf("call %d ended %v", i+1, end)
		}
	}
	if end := f.caller.run(&pb.ExecuteToolRequest{SessionId: "main", Tool: "count"}); end.GetOutcome() != pb.Outcome_OUTCOME_RATE_LIMITED {
		t.Errorf("the parent ended %v", end)
	}
}

// TestBelowCountsForItsOwner: a session of an agent is one of those that its owner may have.
func TestBelowCountsForItsOwner(t *testing.T) {
	f := withFamily(t, func(c *service.Config) {
		config := c.Sessions.Config()
		config.MaxPerPrincipal = 2
		c.Sessions = session.NewStore(config)
	})
	f.open(&pb.CreateSessionRequest{SessionId: "main"})
	_, execution := f.works("main")
	f.begin(below("main", execution, "worker"))
	_, err := f.inside.CreateSession(timeout(t), below("main", execution, "worker"))
	wantCode(t, err, codes.ResourceExhausted, "too many sessions")
}
