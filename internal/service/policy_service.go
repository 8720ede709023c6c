// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// policyService answers PolicyService: it judges as admission does, and runs
// nothing.
type policyService struct {
	pb.UnimplementedPolicyServiceServer
	admission *admission
	supposed  *tools.Offer // in place of what the sandbox offers; nil for that
}

// Suppose has calls that are only checked judged for this sandbox, and for sessions
// that reach as far as it does, instead of those that are there. It comes before
// any call.
func (s *Server) Suppose(offer *tools.Offer) { s.policies.supposed = offer }

func (s *policyService) CheckCall(ctx context.Context, request *pb.CheckCallRequest) (*pb.CheckCallResponse, error) {
	a := s.admission
	session, err := a.sessions.Get(principalOf(ctx).Name, request.GetSessionId())
	if err != nil {
		return nil, err
	}
	hasInput := request.Input != nil || len(request.InputJson) > 0
	switch {
	case request.Input != nil && len(request.InputJson) > 0:
		return nil, invalid("input and input_json are both set: send one of them")
	case request.GetCommand() != "" && hasInput:
		return nil, invalid("command stands for an input: send one of them")
	case request.GetCommand() == "" && request.GetTool() == "":
		return nil, invalid("name the tool, or give a command")
	}
	p := a.rules.current()
	entry := &tools.Entry{Spec: shellSpec}
	if bash, ok := a.registry.Lookup(shellSpec.Name); ok {
		entry.Tool = bash.Tool // for the form of its input
	}
	if known := transferTools[request.GetTool()]; known != nil {
		if err := selected(p, session.Settings(), &known.Spec); err != nil {
			return nil, invalid("tool: %s", err)
		}
		entry = known
	} else if name := request.GetTool(); name != "" {
		found, refusal := a.find(session, p, name)
		if found == nil {
			return nil, invalid("tool: %s", refusal.Failure.Message)
		}
		entry = found // one that is not available here can be judged all the same
	}
	input := a.inputOf(request)
	subject := a.subjectOf(session, entry)
	if s.supposed != nil {
		subject.Offer, subject.Network = s.supposed, s.supposed.Network
	}
	if command := request.GetCommand(); command != "" {
		env := a.envOf(session, p.Guard(subject), "")
		subject.Effects = env.Resolve(shell.Effects(command, shell.PlaceOf(env, "")))
		subject.Input = commandInput(entry, env, command)
	} else {
		call, err := decode(entry, a.envOf(session, p.Guard(subject), ""), input)
		if wrong, ok := errors.AsType[*tools.InputError](err); ok {
			return nil, invalid("input: %s", wrong)
		}
		if err != nil {
			return nil, err
		}
		subject.Input, subject.Effects = call.Input(), call.Effects()
	}
	subject.Digest = callDigest(entry.Spec.Name, subject.Input)
	decision := p.Decide(subject, a.desk.Grants(session))
	response := &pb.CheckCallResponse{
		Verdict: decisionToProto(&decision),
		Effects: judgedToProto(decision.Effects),
		Tool:    entry.Spec.Name,
		Tiers:   tiersToProto(p.Tiers(subject, decision)),
	}
	digest := bound(subject, p.Version())
	response.Digest = hex.EncodeToString(digest[:])
	for _, limit := range p.Limits() {
		if (tools.Selection{Include: limit.Tools}).Has(&entry.Spec) {
			response.Limits = append(response.Limits, limit.Name)
		}
	}
	return response, nil
}

// commandInput returns the input of the call that would run a command.
func commandInput(entry *tools.Entry, env tools.Env, command string) []byte {
	text, err := json.Marshal(map[string]string{"command": command})
	if err != nil { // strings always marshal
		panic(err)
	}
	if entry.Tool != nil {
		if call, err := entry.Tool.Decode(env, text); err == nil {
			return call.Input()
		}
	}
	return tools.Canonical(text)
}

// shellSpec stands in for the tool that would run a command.
var shellSpec = tools.Spec{Name: "bash", Aliases: []string{"shell"}, Level: tools.DangerFullAccess, LeastLevel: tools.ReadOnly}
