// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"
	"strconv"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// This file translates what the policy says into messages.

// verdictToProto names the version of the policy with a verdict on a whole
// call; one on an effect has none of its own.
func verdictToProto(v *policy.Verdict, version string) *pb.Verdict {
	if v == nil {
		return nil
	}
	return &pb.Verdict{Action: actionToProto[v.Action], Rule: v.Rule, Reason: output.VisibleText(v.Reason), PolicyVersion: version}
}

// decisionToProto returns the verdict on a whole call, with the rights of what it
// runs.
func decisionToProto(d *policy.Decision) *pb.Verdict {
	m := verdictToProto(&d.Verdict, d.Policy)
	if d.Action != policy.Deny && d.RunsPrograms() {
		m.Rights = accessToProto(d.Rights.Access())
	}
	return m
}

func accessToProto(a *tools.Access) *pb.Rights {
	if a == nil {
		return nil
	}
	return &pb.Rights{
		Confinement: pb.Confinement(a.Confinement + 1), Write: allVisible(a.Write), Read: allVisible(a.Read),
		Network: pb.Network(max(a.Network, tools.NetworkNone)), Hosts: allVisible(a.Hosts),
	}
}

var actionToProto = map[policy.Action]pb.Action{
	policy.Deny:  pb.Action_ACTION_DENY,
	policy.Ask:   pb.Action_ACTION_ASK,
	policy.Allow: pb.Action_ACTION_ALLOW,
}

func judgedToProto(judged []policy.Judged) []*pb.JudgedEffect {
	list := make([]*pb.JudgedEffect, len(judged))
	for i, j := range judged {
		list[i] = &pb.JudgedEffect{Effect: effectToProto(&j.Effect), Verdict: verdictToProto(&j.Verdict, "")}
	}
	return list
}

func effectToProto(e *tools.Effect) *pb.Effect {
	m := &pb.Effect{Unclear: output.Visible(e.Unclear)}
	path := &pb.PathEffect{Path: output.Visible(e.Path), Named: output.Visible(e.Named), Tree: e.Tree, Glob: e.Glob}
	switch e.Kind {
	case tools.ReadsPath:
		m.Kind = &pb.Effect_Reads{Reads: path}
	case tools.WritesPath:
		m.Kind = &pb.Effect_Writes{Writes: path}
	case tools.RunsProgram:
		m.Kind = &pb.Effect_Runs{Runs: &pb.ProgramEffect{Argv: admission.ShownWords(e.Argv), ReadOnly: e.ReadOnly, Told: e.Complete}}
	case tools.ReachesHost:
		m.Kind = &pb.Effect_Reaches{Reaches: &pb.HostEffect{Host: output.Visible(e.Host), Port: uint32(e.Port)}}
	case tools.UsesTool:
		m.Kind = &pb.Effect_Uses{Uses: &pb.ToolEffect{Tool: e.Tool}}
	case tools.ChangesMode:
		m.Kind = &pb.Effect_ChangesMode{ChangesMode: &pb.ModeEffect{Mode: pb.Mode(e.Mode)}}
	}
	return m
}

// tiersToProto names tiers by their place, for a call of the tool.
func tiersToProto(tool string, tiers []policy.Tier) []*pb.TrustTier {
	list := make([]*pb.TrustTier, len(tiers))
	for i, tier := range tiers {
		list[i] = tierToProto(strconv.Itoa(i+1), byTool(tool, tier))
	}
	return list
}

// byTool returns a tier that says whose files it is about: what is always allowed to one tool
// is not allowed to the next.
func byTool(tool string, tier policy.Tier) policy.Tier {
	if tier.Kind == policy.TierFile || tier.Kind == policy.TierDirectory {
		tier.Label = tool + " " + tier.Label
	}
	return tier
}

func tierToProto(id string, tier policy.Tier) *pb.TrustTier {
	return &pb.TrustTier{
		TierId: id, Label: output.Visible(tier.Label), Kind: pb.TierKind(tier.Kind), Pattern: output.Visible(tier.Pattern),
	}
}

// allVisible has texts fit to be sent and shown: they come from commands and names
// of files, which may be any bytes.
func allVisible(texts []string) []string {
	list := slices.Clone(texts)
	for i := range list {
		list[i] = output.Visible(list[i])
	}
	return list
}
