// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/audit"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// auditService answers AuditService.
type auditService struct {
	pb.UnimplementedAuditServiceServer
	log       *audit.Log // nil: there is none
	verifying sync.Mutex
}

func (s *auditService) SearchRecords(ctx context.Context, request *pb.SearchRecordsRequest) (*pb.SearchRecordsResponse, error) {
	limit := cmp.Or(request.GetPageSize(), 100)
	if limit < 0 || limit > 1000 {
		return nil, invalid("page_size is %d: want 1 to 1000", limit)
	}
	if len(request.GetQuery()) > 1000 {
		return nil, invalid("query has %d bytes: at most 1000", len(request.GetQuery()))
	}
	found, next, err := s.log.Search(ctx, audit.Query{
		Principal: request.GetPrincipal(), SessionID: request.GetSessionId(), ExecutionID: request.GetExecutionId(), Tool: request.GetTool(),
		Step: audit.Step(request.GetStep()), Text: request.GetQuery(), Before: request.GetBefore(), Limit: int(limit),
	})
	if err != nil {
		return nil, auditStatus(err)
	}
	response := &pb.SearchRecordsResponse{NextBefore: next}
	for _, r := range found {
		response.Records = append(response.Records, &pb.AuditRecord{
			Sequence: r.Seq, Time: timestamppb.New(r.Time), Step: string(r.Step), Principal: r.Principal, Tenant: r.Tenant, SessionId: r.SessionID,
			ExecutionId: r.ExecutionID, Tool: r.Tool, Action: r.Action, Rule: r.Rule, Reason: r.Reason, By: r.By, Outcome: r.Outcome, Line: r.Line,
		})
	}
	return response, nil
}

func (s *auditService) VerifyLog(ctx context.Context, _ *pb.VerifyLogRequest) (*pb.VerifyLogResponse, error) {
	if !s.verifying.TryLock() {
		return nil, status.Error(codes.ResourceExhausted, "the log is being verified already: try again when that has ended")
	}
	defer s.verifying.Unlock()
	report, err := s.log.Verify(ctx)
	if err != nil && !errors.Is(err, audit.ErrBroken) {
		return nil, auditStatus(err)
	}
	response := &pb.VerifyLogResponse{
		Intact: err == nil, Records: report.Records, FirstSequence: report.First.Seq, LastSequence: report.Last.Seq,
		BeginTime: timestamppb.New(report.Begins), EndTime: timestamppb.New(report.End), LastHash: report.Last.Hash.String(),
		Lost: report.Lost, MoreProblems: uint32(report.More),
	}
	for _, problem := range report.Problems {
		response.Problems = append(response.Problems, problem.String())
	}
	return response, nil
}

func auditStatus(err error) error {
	if errors.Is(err, audit.ErrNoFile) {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return err
}
