// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/hex"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// policyService answers PolicyService: it asks admission, and runs nothing.
type policyService struct {
	pb.UnimplementedPolicyServiceServer
	admission *admission.Admission
	rules     *admission.ActivePolicy
	since     time.Time // the server runs
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
		Tiers:   tiersToProto(checked.Tool, checked.Tiers),
		Digest:  hex.EncodeToString(checked.Digest[:]),
		Limits:  checked.Limits,
	}, nil
}

func (s *policyService) GetPolicy(context.Context, *pb.GetPolicyRequest) (*pb.GetPolicyResponse, error) {
	current, fired := s.rules.Current(), s.rules.Fired()
	response := &pb.GetPolicyResponse{File: current.File(), Version: current.Version(), CountedSince: timestamppb.New(s.since)}
	for _, r := range current.Rules() {
		rule := &pb.PolicyRule{Name: r.Name, Action: actionToProto[r.Action], Reason: r.Reason, Line: int32(r.Line), Fired: firedToProto(fired[r.Label])}
		for _, about := range r.About {
			rule.About = append(rule.About, &pb.PolicySelector{Key: about.Key, Values: about.Values})
		}
		response.Rules = append(response.Rules, rule)
	}
	for _, other := range admission.Others(fired) {
		response.Others = append(response.Others, firedToProto(other))
	}
	return response, nil
}

func firedToProto(f admission.Fired) *pb.PolicyFiring {
	return &pb.PolicyFiring{Name: f.Name, DecidedCalls: int64(f.Decided), MatchedCalls: int64(f.Matched)}
}
