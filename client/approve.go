// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Approve passes everything that waits for a person to decide, one after the other,
// and sends what it answers; nil leaves the answer to somebody else. It goes on until
// ctx ends, which is no error. Where the client has a session, only what waits in that
// one counts.
//
// An answer is for exactly what decide was shown. One that comes too late is dropped, and so is
// one that is none, such as [Allow] to a question: somebody else has to answer then.
func (c *Client) Approve(ctx context.Context, decide func(*pb.Approval) *pb.ResolveApprovalRequest) error {
	answers := make(map[string]*pb.ResolveApprovalRequest) // of approvals that wait; nil once sent
	r := c.retries()
	for {
		err := c.approve(ctx, r, answers, decide)
		again := lostConnection(err) && r.wait(ctx)
		if ctx.Err() != nil { // which may end the wait
			return nil
		}
		if !again {
			return err
		}
	}
}

// approve is Approve for one connection.
func (c *Client) approve(ctx context.Context, r *retries, answers map[string]*pb.ResolveApprovalRequest, decide func(*pb.Approval) *pb.ResolveApprovalRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Approvals.WatchApprovals(ctx, &pb.WatchApprovalsRequest{SessionId: c.session})
	if err != nil {
		return err
	}
	for {
		change, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unavailable, "the stream of approvals ended")
		}
		if err != nil {
			return err
		}
		r.reset()
		delete(answers, change.GetEnded().GetApprovalId())
		waiting := change.GetSnapshot().GetApprovals()
		if change.GetSnapshot() != nil { // what ended unseen is in none
			maps.DeleteFunc(answers, func(id string, _ *pb.ResolveApprovalRequest) bool {
				return !slices.ContainsFunc(waiting, func(a *pb.Approval) bool { return a.GetApprovalId() == id })
			})
		}
		if asked := change.GetAsked(); asked != nil {
			waiting = append(waiting, asked)
		}
		for _, approval := range waiting {
			answer, decided := answers[approval.GetApprovalId()]
			if !decided {
				if answer = decide(approval); answer != nil {
					answer = proto.CloneOf(answer)
					answer.ApprovalId, answer.Digest = approval.GetApprovalId(), approval.GetDigest()
				}
				answers[approval.GetApprovalId()] = answer
			}
			if answer == nil {
				continue
			}
			_, err := c.Approvals.ResolveApproval(ctx, answer)
			switch status.Code(err) {
			case codes.OK, codes.NotFound, codes.FailedPrecondition, codes.InvalidArgument: // it is answered, by whomever, or this is no answer
				answers[approval.GetApprovalId()] = nil
			default:
				return err
			}
		}
	}
}

// Allow lets a call run, this once.
func Allow() *pb.ResolveApprovalRequest {
	return &pb.ResolveApprovalRequest{Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}
}

// Answer answers the questions of an approval in their order, such as that of a step of a workflow
// by "Approve" or "Deny": each with an option, in any case of letters, or else with a text.
func Answer(a *pb.Approval, answers ...string) *pb.ResolveApprovalRequest {
	request := &pb.ResolveApprovalRequest{Kind: pb.AnswerKind_ANSWER_KIND_ANSWERED}
	for i, answer := range answers {
		said := &pb.QuestionAnswer{Text: answer}
		if i < len(a.GetQuestions()) {
			for _, option := range a.GetQuestions()[i].GetOptions() {
				if strings.EqualFold(option.GetLabel(), strings.TrimSpace(answer)) {
					said = &pb.QuestionAnswer{Chosen: []string{option.GetLabel()}}
				}
			}
		}
		request.Answers = append(request.Answers, said)
	}
	return request
}

// Deny keeps a call from running, and tells the model why.
func Deny(why string) *pb.ResolveApprovalRequest {
	return &pb.ResolveApprovalRequest{Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE, Comment: why}
}
