// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// again closes the session work and makes another with its id.
func (c *client) again() {
	c.t.Helper()
	if _, err := c.CloseSession(timeout(c.t), &pb.CloseSessionRequest{SessionId: "work"}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.CreateSession(timeout(c.t), &pb.CreateSessionRequest{SessionId: "work"}); err != nil {
		c.t.Fatal(err)
	}
}

func inWork(request *pb.ExecuteToolRequest) *pb.ExecuteToolRequest {
	request.SessionId = "work"
	return request
}

// TestCallOfAnEndedSession closes a session while a call is judged, and makes another
// with its id before the call begins: the call does not run there.
func TestCallOfAnEndedSession(t *testing.T) {
	judging, judged := make(chan struct{}), make(chan struct{})
	var ran atomic.Bool
	tool := tools.New(tools.Spec{Name: "judged_late", Summary: "A tool for tests.", Level: tools.ReadOnly},
		func(tools.Env, nothing) []tools.Effect {
			close(judging)
			<-judged
			return nil
		},
		func(context.Context, tools.Env, nothing, tools.Sink) (tools.Result, error) {
			ran.Store(true)
			return tools.Result{}, nil
		})
	s := serve(t, func(c *service.Config) {
		if err := c.Registry.Replace("late", tool); err != nil {
			t.Fatal(err)
		}
	})
	c := s.dial("")
	c.again()
	ended := make(chan error, 1)
	go func() {
		_, err := c.call(inWork(asJSON("judged_late", "{}")))
		ended <- err
	}()
	<-judging
	c.again()
	close(judged)
	wantCode(t, <-ended, codes.NotFound, `"work"`, "has ended")
	if ran.Load() {
		t.Error("the call ran")
	}
	list, err := c.ListExecutions(timeout(t), &pb.ListExecutionsRequest{SessionId: "work"})
	if err != nil || len(list.GetExecutions()) != 0 {
		t.Errorf("the later session has %v, %v", list, err)
	}
}

// TestApprovalOfAnEndedSession: what was asked and granted in a session counts for
// nothing in a later one with its id.
func TestApprovalOfAnEndedSession(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	ctx := timeout(t)
	c.again()
	ask := func() (eventStream, *pb.Approval) {
		t.Helper()
		stream, _ := c.begin(inWork(&pb.ExecuteToolRequest{Tool: "write_file", InputJson: []byte(`{"path":"a","content":"x"}`)}))
		asked, err := stream.Recv()
		if err != nil || asked.GetEvent().GetApprovalRequested() == nil {
			t.Fatalf("%v, %v; want a question", asked, err)
		}
		list, err := c.ListApprovals(ctx, &pb.ListApprovalsRequest{SessionId: "work"})
		if err != nil || len(list.GetApprovals()) != 1 {
			t.Fatalf("%v, %v; want one question", list, err)
		}
		return stream, list.GetApprovals()[0]
	}
	resolve := func(a *pb.Approval) error {
		_, err := c.ResolveApproval(ctx, &pb.ResolveApprovalRequest{
			ApprovalId: a.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: a.GetTiers()[0].GetTierId(),
		})
		return err
	}

	stream, first := ask()
	if err := resolve(first); err != nil {
		t.Fatal(err)
	}
	if events, err := rest(stream); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatalf("%v, %v", events, err)
	}
	c.again()
	stream, second := ask() // the grant is gone
	c.again()
	if events, err := rest(stream); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("%v, %v; want the call cancelled", events, err)
	}
	stream, third := ask()
	wantCode(t, resolve(second), codes.FailedPrecondition, "no longer asked")
	grants, err := c.ListGrants(ctx, &pb.ListGrantsRequest{SessionId: "work"})
	if err != nil || len(grants.GetGrants()) != 0 {
		t.Errorf("the later session has %v, %v", grants, err)
	}
	if err := resolve(third); err != nil {
		t.Fatal(err)
	}
	if events, err := rest(stream); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v, %v", events, err)
	}
}
