// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/bench/work"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// typicalCommand is three commands in a pipe.
const typicalCommand = `grep -rn "TODO" src | sort | head -20`

// judge is figure 7: what judging a call costs, next to the time of a whole call
// of the bare server.
func judge(ctx context.Context, h *harness) ([]row, error) {
	bare, err := h.startBare(ctx)
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	call := noop(bare, work.Noop, false)
	whole := func(ctx context.Context) (float64, error) {
		s, err := load(ctx, bare, call, 1, h.plan.slice)
		return s.p50, err
	}
	rules, err := hundredRules()
	if err != nil {
		return nil, err
	}
	limiter, err := limit.New(limit.Config{Limits: []limit.Limit{{Name: "often", Tools: []string{"*"}, Rate: 1e6, Burst: 1e6, Per: limit.Session}}})
	if err != nil {
		return nil, err
	}
	file := &tools.Spec{Name: "edit_file", Level: tools.WorkspaceWrite}
	bash := &tools.Spec{Name: "bash", Level: tools.WorkspaceWrite}
	subject := func(spec *tools.Spec, effects []tools.Effect) *policy.Subject {
		return &policy.Subject{
			Principal: "agent", SessionID: "default", Level: tools.WorkspaceWrite, Mode: tools.ModeAcceptEdits,
			Workspace: "/workspace", Spec: spec, Effects: effects,
		}
	}
	edit := subject(file, []tools.Effect{{Kind: tools.WritesPath, Path: "internal/service/handler.go", Rooted: true}})
	decide := func() error {
		if d := rules.Decide(edit, nil); d.Action != policy.Allow {
			return fmt.Errorf("the edit: %+v", d.Verdict)
		}
		return nil
	}
	command := func() error {
		run := subject(bash, shell.Effects(typicalCommand, shell.Place{Dir: ".", Workspace: "/workspace"}))
		// It searches a tree in which something denied could be, so it is asked about.
		if d := rules.Decide(run, nil); d.Action != policy.Ask {
			return fmt.Errorf("the command: %+v", d.Verdict)
		}
		return nil
	}
	token := func() error {
		if _, refusal := limiter.Take(limit.Key{Spec: file, Principal: "agent", Session: "default"}); refusal != nil {
			return errors.New(refusal.Message)
		}
		return nil
	}

	rows := make([]row, 0, 3)
	for _, figure := range []struct {
		name string
		work func() error
		most float64
	}{
		{"judge an edit by 100 rules (bare: a whole call)", decide, 0.08},
		{"take apart and judge a pipe of three commands (bare: a whole call)", command, 0.5},
		{"take a token of a rate limit (bare: a whole call)", token, 0.01},
	} {
		var s sides[float64]
		if err := interleave(ctx, h.plan.rounds, s.entrants(repeat(figure.work, h.plan.slice/5), whole, whole)); err != nil {
			return nil, err
		}
		rows = append(rows, s.row(figure.name, "µs", itself, ratioAtMost(figure.most)))
	}
	return rows, nil
}

// hundredRules is a policy of a hundred rules of every kind. None of them
// decides the calls of this figure, so that all are looked at.
func hundredRules() (*policy.Policy, error) {
	var text strings.Builder
	text.WriteString("version: 1\nrules:\n")
	for i := range 25 {
		fmt.Fprintf(&text, "- {name: p%d, action: deny, paths: ['vendor%d/**', '*.key%d', 'config/env%d/']}\n", i, i, i, i)
		fmt.Fprintf(&text, "- {name: c%d, action: ask, commands: ['tool%d push', 'tool%d delete']}\n", i, i, i)
		fmt.Fprintf(&text, "- {name: t%d, action: deny, tools: ['web_%d_*', other%d], principals: [somebody]}\n", i, i, i)
		fmt.Fprintf(&text, "- {name: h%d, action: ask, hosts: ['*.example%d.com', '10.%d.0.0/16'], labels: {team: t%d}}\n", i, i, i, i)
	}
	return policy.Parse("hundred.yaml", []byte(text.String()))
}
