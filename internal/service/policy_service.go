// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/hex"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// policyService answers PolicyService: it asks admission, and runs nothing.
type policyService struct {
	pb.UnimplementedPolicyServiceServer
	admission *admission.Admission
}

// Suppose has calls that are only checked judged for this sandbox, and for sessions
// that reach as far as it does, instead of those that are there; nil for those. It
// comes before any call.
func (s *Server) Suppose(offer *tools.Offer) { s.admission.Suppose(offer) }

func (s *policyService) CheckCall(ctx context.Context, request *pb.CheckCallRequest) (*pb.CheckCallResponse, error) {
	if request.Input != nil && len(request.InputJson) > 0 {
		return nil, invalid("input and input_json are both set: send one of them")
	}
	checked, err := s.admission.Check(admission.CheckRequest{
		Principal: principalOf(ctx), SessionID: request.GetSessionId(), Tool: request.GetTool(), Command: request.GetCommand(),
		Input: inputOf(request), HasInput: request.Input != nil || len(request.InputJson) > 0,
	})
	if err != nil {
		return nil, err
	}
	return &pb.CheckCallResponse{
		Verdict: decisionToProto(&checked.Decision),
		Effects: judgedToProto(checked.Decision.Effects),
		Tool:    checked.Tool,
		Tiers:   tiersToProto(checked.Tiers),
		Digest:  hex.EncodeToString(checked.Digest[:]),
		Limits:  checked.Limits,
	}, nil
}
