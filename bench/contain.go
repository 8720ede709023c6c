// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// containFigure is figure 11: what containment costs in a large workspace, and on
// the loopback of a session.
func containFigure(ctx context.Context, h *harness) ([]row, error) {
	large, err := h.largeWorkspace(ctx)
	if err != nil {
		return nil, fmt.Errorf("a large workspace: %w", err)
	}
	loopback, err := h.loopback(ctx)
	if err != nil {
		return nil, fmt.Errorf("loopback: %w", err)
	}
	return slices.Concat(large, loopback), nil
}

// modeAllow has what nobody understands run contained.
const modeAllow = "TOOLSERVER_SESSIONS_MODE=allow"

// writing is a command that nobody understands, so that it may write the whole
// workspace and everything is looked at that it could have planted.
const writing = `eval "$(echo 'echo x > f')"`

// largeWorkspace measures a command that writes in a workspace with many
// directories beside the same in one without, and in both with a repository.
func (h *harness) largeWorkspace(ctx context.Context) ([]row, error) {
	var rows []row
	for _, repository := range []bool{false, true} {
		var servers [3]*server
		var errs [len(servers)]error
		for i := range servers {
			servers[i], errs[i] = h.startIn(ctx, i == 0, repository)
		}
		defer func() {
			for _, s := range servers {
				if s != nil {
					s.stop()
				}
			}
		}()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		write := func(s *server) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				return pacedCalls(ctx, func(ctx context.Context) error {
					return bash(ctx, s, "", writing, func(*pb.Output) error { return nil })
				}, h.plan.pacedCalls)
			}
		}
		var times sides[float64]
		group := times.entrants(write(servers[0]), write(servers[1]), write(servers[2]))
		if err := interleave(ctx, 1, group); err != nil { // to warm up: directories are walked once
			return nil, err
		}
		times.forget()
		if err := interleave(ctx, h.plan.shellRounds, group); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("a command that writes among %d directories, against an empty workspace: p50", h.plan.treeFiles)
		if repository {
			name += ", both with a repository"
		}
		rows = append(rows, times.row(name, "µs", itself, ratioAtMost(1.5)))
	}
	return rows, nil
}

// startIn starts toolserver in a workspace of its own.
func (h *harness) startIn(ctx context.Context, large, repository bool) (*server, error) {
	dir, err := os.MkdirTemp(h.dir, "workspace-")
	if err != nil {
		return nil, err
	}
	if large {
		for i := range h.plan.treeFiles {
			if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(i%100), strconv.Itoa(i)), 0o755); err != nil {
				return nil, err
			}
		}
	}
	if repository {
		if out, err := exec.CommandContext(ctx, "git", "init", "-q", dir).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: git: %s", errMissing, out)
		}
	}
	return h.startShell(ctx, modeAllow, "TOOLSERVER_WORKSPACE="+dir)
}

//go:embed loopback.py
var loopbackScript string

// loopback measures connections and a transfer on the loopback of a session,
// beside the same program without a sandbox.
func (h *harness) loopback(ctx context.Context) ([]row, error) {
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		return nil, fmt.Errorf("%w: python3", errMissing)
	}
	script := fmt.Sprintf("%s - %d %d <<'END'\n%s\nEND\n", python, h.plan.output/mib, h.plan.pacedCalls*100, loopbackScript)
	s, err := h.startShell(ctx, modeAllow)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	inside := func(ctx context.Context) (transfer, error) {
		var text []byte
		err := bash(ctx, s, "", script, func(out *pb.Output) error {
			text = append(text, out.GetData()...)
			return nil
		})
		return parseTransfer(string(text), err)
	}
	outside := func(ctx context.Context) (transfer, error) {
		out, err := exec.CommandContext(ctx, "bash", "-c", script).Output()
		return parseTransfer(string(out), err)
	}
	var both sides[transfer]
	if err := interleave(ctx, h.plan.floodRounds, both.entrants(inside, outside, outside)); err != nil {
		return nil, err
	}
	return []row{
		both.row("a connection on the loopback of a session, against that of the machine", "µs", func(t transfer) float64 { return t.connect }, ratioAtMost(1.5)),
		both.row(fmt.Sprintf("%d MiB over it", h.plan.output/mib), "MiB/s", func(t transfer) float64 { return t.speed }, ratioAtLeast(0.9)),
	}, nil
}

// transfer is what loopback.py prints: µs of a connection, and MiB/s.
type transfer struct{ connect, speed float64 }

func parseTransfer(text string, err error) (t transfer, _ error) {
	if err != nil {
		return t, err
	}
	_, err = fmt.Sscan(strings.TrimSpace(text), &t.connect, &t.speed)
	return t, err
}
