// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/toolserver/toolserver/bench/work"
)

// stateFigure is figure 24: toolserver that keeps its state in a directory, beside one
// that keeps nothing.
func stateFigure(ctx context.Context, h *harness) ([]row, error) {
	servers, err := h.startStates(ctx)
	if err != nil {
		return nil, err
	}
	defer servers.stop()
	var duels []*duel
	for _, ids := range []bool{false, true} {
		for _, n := range h.plan.concurrency {
			name := fmt.Sprintf("ExecuteTool with state, %d at once (bare: state in memory)", n)
			if ids {
				name = fmt.Sprintf("ExecuteTool with state and call ids, %d at once (bare: state in memory)", n)
			}
			duels = append(duels, &duel{name: name, workers: n, make: func(s *server) caller { return noop(s, work.Noop, ids) }})
		}
	}
	if err := h.fightOn(ctx, servers, duels); err != nil {
		return nil, err
	}
	var rows []row
	for _, d := range duels {
		rows = append(rows,
			d.row(d.name, "calls/s", rateOf, ratioAtLeast(0.95)),
			d.row(d.name+": server CPU", "µs/call", cpuOf, target{}))
	}
	var s sides[birth]
	side := func(engine string) func(context.Context) (birth, error) {
		return func(ctx context.Context) (birth, error) {
			dir, err := os.MkdirTemp(h.dir, "state-")
			if err != nil {
				return birth{}, err
			}
			defer os.RemoveAll(dir)
			return h.bear(ctx, func(address string) *exec.Cmd { return withState(h.toolserver(h.release, address), engine, dir) })
		}
	}
	steps := s.entrants(side("embedded"), side("memory"), side("memory"))
	if err := interleave(ctx, 1, steps); err != nil { // the files come into memory
		return nil, err
	}
	s.forget()
	if err := interleave(ctx, h.plan.startupRounds, steps); err != nil {
		return nil, err
	}
	more := func(pick func(birth) float64) float64 {
		return spreadOf(column(s.subject, pick)).Median - spreadOf(column(s.bare, pick)).Median
	}
	first, idle := func(b birth) float64 { return b.first }, func(b birth) float64 { return b.idle }
	return append(rows,
		s.row("start to first served call with state (bare: state in memory)", "ms", first, target{}),
		single("start to first served call, more than in memory", "ms", more(first), valueAtMost(60)),
		s.row("idle RSS with state (bare: state in memory)", "MiB", idle, target{}),
		single("idle RSS, more than in memory", "MiB", more(idle), valueAtMost(25))), nil
}

// startStates starts toolserver with a state, and twice without.
func (b *binaries) startStates(ctx context.Context) (*trio, error) {
	dir, err := os.MkdirTemp(b.dir, "state-")
	if err != nil {
		return nil, err
	}
	t := new(trio)
	var errs [3]error
	for i, s := range []**server{&t.subject, &t.bare, &t.control} {
		engine := "memory"
		if i == 0 {
			engine = "embedded"
		}
		*s, errs[i] = b.start(ctx, withState(b.toolserver(b.subject, anyPort), engine, dir))
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

// withState has a server keep its state so.
func withState(command *exec.Cmd, engine, dir string) *exec.Cmd {
	command.Env = append(command.Env, "TOOLSERVER_STATE_ENGINE="+engine, "TOOLSERVER_STATE_DIR="+dir)
	return command
}
