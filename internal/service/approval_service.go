// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// approvalService answers ApprovalService.
type approvalService struct {
	pb.UnimplementedApprovalServiceServer
	approvals *approval.Store
	auditor   *auditor
}

// Who sees the questions and grants of others, and who takes such grants back. Approvers answer.
const (
	maySee    = auth.Approver | auth.Operator | auth.Viewer
	mayRevoke = auth.Approver | auth.Operator
)

// viewerOf returns the caller as one whom some roles let do something with what others have.
func viewerOf(ctx context.Context, roles auth.Roles) approval.Viewer {
	principal := principalOf(ctx)
	return approval.Viewer{Owner: principal.Owner(), AllTenants: principal.Everywhere(roles), Approver: principal.Roles.Has(roles)}
}

func (s *approvalService) ListApprovals(ctx context.Context, request *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	response := new(pb.ListApprovalsResponse)
	for _, q := range s.approvals.List(viewerOf(ctx, maySee), request.GetSessionId()) {
		response.Approvals = append(response.Approvals, approvalToProto(q))
	}
	return response, nil
}

func (s *approvalService) WatchApprovals(request *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.WatchApprovalsResponse]) error {
	ctx := stream.Context()
	of := func(q *approval.Question) bool {
		return request.GetSessionId() == "" || q.IsWithin(request.GetSessionId())
	}
	for change, err := range s.approvals.Watch(ctx, viewerOf(ctx, maySee)) {
		if err != nil {
			return err
		}
		response := new(pb.WatchApprovalsResponse)
		switch {
		case change.Kind == approval.Snapshot:
			pending := new(pb.PendingApprovals)
			for _, q := range change.Pending {
				if of(q) {
					pending.Approvals = append(pending.Approvals, approvalToProto(q))
				}
			}
			response.Change = &pb.WatchApprovalsResponse_Snapshot{Snapshot: pending}
		case !of(change.Question):
			continue
		case change.Kind == approval.Asked:
			response.Change = &pb.WatchApprovalsResponse_Asked{Asked: approvalToProto(change.Question)}
		default:
			response.Change = &pb.WatchApprovalsResponse_Ended{Ended: &pb.ApprovalEnd{
				ApprovalId: change.Question.ID, Answer: answerToProto(&change.Answer),
			}}
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
	return nil
}

func (s *approvalService) ResolveApproval(ctx context.Context, request *pb.ResolveApprovalRequest) (*pb.ResolveApprovalResponse, error) {
	answer, err := answerFrom(request)
	if err != nil {
		return nil, err
	}
	answer.From = peerOf(ctx)
	if answer, err = s.approvals.Resolve(viewerOf(ctx, auth.Approver), request.GetApprovalId(), answer); err != nil {
		return nil, err
	}
	return &pb.ResolveApprovalResponse{Answer: answerToProto(&answer)}, nil
}

// answerFrom reads an answer; the approvals judge it.
func answerFrom(request *pb.ResolveApprovalRequest) (approval.Answer, error) {
	answer := approval.Answer{Kind: approval.AnswerKind(request.GetKind()), Comment: request.GetComment()}
	if answer.Kind < approval.AllowOnce || answer.Kind > approval.Answered {
		return answer, invalid("kind %s is not an answer a person can give: want ANSWER_KIND_ALLOW_ONCE, ALLOW_ALWAYS, DENY_ONCE, DENY_ALWAYS or, to questions, ANSWERED", request.GetKind())
	}
	if id := request.GetTierId(); id != "" {
		var err error
		if answer.Tier, err = strconv.Atoi(id); err != nil || answer.Tier < 1 {
			return answer, invalid("tier_id is not one of the approval's tiers")
		}
	}
	if text := request.GetDigest(); text != "" {
		digest, err := hex.DecodeString(text)
		if err != nil || len(digest) != len(answer.Digest) {
			return answer, invalid("digest is not that of an approval")
		}
		answer.Digest = [32]byte(digest)
	}
	for _, a := range request.GetAnswers() {
		answer.Answers = append(answer.Answers, tools.Answer{Chosen: a.GetChosen(), Text: a.GetText()})
	}
	return answer, nil
}

func (s *approvalService) ListGrants(ctx context.Context, request *pb.ListGrantsRequest) (*pb.ListGrantsResponse, error) {
	response := new(pb.ListGrantsResponse)
	for _, grant := range s.approvals.ListGrants(viewerOf(ctx, maySee), request.GetSessionId()) {
		response.Grants = append(response.Grants, grantToProto(&grant))
	}
	return response, nil
}

func (s *approvalService) RevokeGrant(ctx context.Context, request *pb.RevokeGrantRequest) (*pb.RevokeGrantResponse, error) {
	grant, err := s.approvals.FindGrant(viewerOf(ctx, mayRevoke), request.GetGrantId())
	if err != nil {
		return nil, err
	}
	// What was denied to somebody else is an approver's to give back. An operator does it
	// where everybody can see who did.
	if caller := principalOf(ctx); grant.Action == policy.Deny && !caller.Roles.Has(auth.Approver) && grant.Session.Owner != caller.Owner() && s.auditor.log == nil {
		return nil, denied("the grant denies something to %q: an approver revokes it, or an operator where an audit log is kept", grant.Session.Owner)
	}
	if err := s.auditor.revoked(ctx, &grant); err != nil {
		return nil, withRetryInfo(status.New(codes.Unavailable, "the server must record what is revoked and cannot: nothing was revoked"), time.Second).Err()
	}
	if grant, err = s.approvals.Revoke(viewerOf(ctx, mayRevoke), request.GetGrantId()); err != nil {
		return nil, err
	}
	return &pb.RevokeGrantResponse{Grant: grantToProto(&grant), NotYetStored: grant.Unstored}, nil
}

func approvalToProto(q *approval.Question) *pb.Approval {
	m := &pb.Approval{
		ApprovalId:  q.ID,
		ExecutionId: q.ExecutionID,
		SessionId:   q.Session.ID,
		CallId:      q.CallID,
		Principal:   q.Session.Owner.Name(),
		Tenant:      q.Session.Owner.Tenant(),
		OnBehalfOf:  output.VisibleText(q.OnBehalfOf),
		Tool:        q.Tool,
		CalledAs:    q.CalledAs,

		ChangedByHooks: q.ChangedBy,
		Chain:          chainToProto(q.Chain),
		Purpose:        output.VisibleText(q.Purpose),
		Digest:         hex.EncodeToString(q.Digest[:]),
		Effects:        judgedToProto(q.Effects),
		MoreEffects:    uint32(q.MoreEffects),
		Tiers:          tiersToProto(q.Tool, q.Tiers),
		CreateTime:     timestamppb.New(q.Created),
		ExpireTime:     timestamppb.New(q.Expires),
	}
	if q.Verdict.Rule != "" {
		m.Verdict = verdictToProto(&q.Verdict, q.Policy)
		m.Verdict.Rights = accessToProto(q.Access)
	}
	if q.Preview.Kind != 0 {
		m.Preview = &pb.Preview{
			Kind: pb.PreviewKind(q.Preview.Kind), Text: output.VisibleText(q.Preview.Text), HiddenBytes: uint64(q.HiddenBytes),
		}
	}
	for _, question := range q.Questions {
		m.Questions = append(m.Questions, questionToProto(question))
	}
	return m
}

func questionToProto(q tools.Question) *pb.Question {
	m := &pb.Question{Header: q.Header, Text: q.Text, Multiple: q.Multiple, OptionsOnly: q.OptionsOnly}
	for _, o := range q.Options {
		m.Options = append(m.Options, &pb.QuestionOption{Label: o.Label, Description: o.Description})
	}
	return m
}

func answerToProto(a *approval.Answer) *pb.ApprovalAnswer {
	m := &pb.ApprovalAnswer{
		Kind: pb.AnswerKind(a.Kind), Comment: a.Comment, By: a.By, From: a.From, Time: timestamppb.New(a.At),
	}
	if m.By == "" {
		m.By = auth.Server
	}
	if a.Grant != nil {
		m.GrantId = a.Grant.ID
		tier := a.Grant.Tier
		if a.Grant.Action == policy.Allow { // what is denied is denied to every tool
			tier = byTool(a.Grant.Tool, tier)
		}
		m.Tier = tierToProto("", tier)
		if a.Tier > 0 {
			m.Tier.TierId = strconv.Itoa(a.Tier)
		}
	}
	for _, answer := range a.Answers {
		m.Answers = append(m.Answers, &pb.QuestionAnswer{Chosen: answer.Chosen, Text: answer.Text})
	}
	return m
}

func grantToProto(g *approval.Grant) *pb.Grant {
	return &pb.Grant{
		GrantId:    g.ID,
		SessionId:  g.Session.ID,
		Principal:  g.Session.Owner.Name(),
		Tenant:     g.Session.Owner.Tenant(),
		Action:     actionToProto[g.Action],
		Tool:       g.Tool,
		Tier:       tierToProto("", g.Tier),
		By:         g.By,
		CreateTime: timestamppb.New(g.Given),
	}
}
