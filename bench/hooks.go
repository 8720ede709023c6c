// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/bench/work"
)

// hookProgram is a compiled program that passes every call.
const hookProgram = "/usr/bin/true"

// hookedConfig is a configuration with a hook before each call.
const hookedConfig = "hooks:\n  - {on: before_call, run: [" + hookProgram + "]}\n"

// hooksFigure is the figure of hooks: what a hook adds to a call beside starting its
// program with os/exec, and what a call costs that no hook is about.
func hooksFigure(ctx context.Context, h *harness) ([]row, error) {
	var all []*server
	defer func() {
		for _, s := range all {
			s.stop()
		}
	}()
	start := func(config string) (caller, error) {
		s, err := h.startHooked(ctx, config)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		return noop(s, work.Noop, false), nil
	}
	hooked, err := start(hookedConfig)
	if err != nil {
		return nil, err
	}
	other, err := start("hooks:\n  - {on: before_call, tools: [bash], run: [" + hookProgram + "]}\n")
	if err != nil {
		return nil, err
	}
	var plain [2]caller
	for i := range plain {
		if plain[i], err = start(""); err != nil {
			return nil, err
		}
	}
	text := strings.Repeat("x", 700) // as long as what the hook is told
	spawn := func(ctx context.Context) error {
		command := exec.CommandContext(ctx, hookProgram)
		command.Stdin = strings.NewReader(text)
		_, err := command.CombinedOutput()
		return err
	}
	starts := h.plan.hooked
	added := func(ctx context.Context) (float64, error) {
		with, err := median(ctx, hooked, starts)
		if err != nil {
			return 0, err
		}
		without, err := median(ctx, plain[0], starts)
		return with - without, err
	}
	bare := func(ctx context.Context) (float64, error) { return median(ctx, spawn, starts) }
	call := func(c caller) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return median(ctx, c, 20*starts) }
	}
	var runs, calls sides[float64]
	groups := []group{runs.entrants(added, bare, bare), calls.entrants(call(other), call(plain[0]), call(plain[1]))}
	if err := interleave(ctx, h.plan.warmups, groups...); err != nil {
		return nil, err
	}
	runs.forget()
	calls.forget()
	if err := interleave(ctx, h.plan.rounds, groups...); err != nil {
		return nil, err
	}
	return []row{
		runs.row("what a hook adds to a call (bare: starting it with os/exec)", "µs", itself, ratioAtMost(1.5)),
		calls.row("a call that no hook is about (bare: no hooks)", "µs", itself, ratioAtMost(1.05)),
	}, nil
}

// median returns how long one of n calls takes, in microseconds.
func median(ctx context.Context, call caller, n int) (float64, error) {
	times := make([]float64, n)
	for i := range times {
		begin := time.Now()
		if err := call(ctx); err != nil {
			return 0, err
		}
		times[i] = float64(time.Since(begin)) / 1e3
	}
	slices.Sort(times)
	return times[n/2], nil
}

// startHooked starts toolserver with a configuration.
func (b *binaries) startHooked(ctx context.Context, config string) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "hooks-")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	command := b.command(b.subject, "serve", "--config", "config.yaml", "--listen", anyPort, "--admin", "off")
	command.Dir = dir
	return b.start(ctx, command)
}
