// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// replicasFigure is figure 28: what it costs that a call goes through another replica than the
// one that has its session.
func replicasFigure(ctx context.Context, h *harness) ([]row, error) {
	urls, stop, err := h.startNATS(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	var t trio
	defer t.stop()
	for _, s := range []**server{&t.bare, &t.subject} { // the first has the sessions
		dir, err := os.MkdirTemp(h.dir, "replica-")
		if err != nil {
			return nil, err
		}
		command := h.toolserver(h.subject, anyPort)
		command.Env = append(command.Env, "XDG_STATE_HOME="+dir, "TOOLSERVER_STATE_ENGINE=cluster", "TOOLSERVER_STATE_URL="+urls)
		if *s, err = h.start(ctx, command); err != nil {
			return nil, err
		}
	}
	owner, other := t.bare, t.subject
	ids, err := sessions(ctx, owner, 1)
	if err != nil {
		return nil, err
	}
	var near, far []float64
	for range max(h.plan.stopped, 2) {
		for _, by := range []*server{owner, other} {
			var running sync.WaitGroup
			running.Add(1)
			took, err := cancelOne(ctx, owner, by, ids[0], "echo ready; sleep 600", &running)
			if err != nil {
				return nil, err
			}
			if by == owner {
				near = append(near, took)
			} else {
				far = append(far, took)
			}
		}
	}
	slices.Sort(near)
	slices.Sort(far)

	var speed sides[stretch]
	side := func(s *server) func(context.Context) (stretch, error) {
		return func(ctx context.Context) (stretch, error) { return h.stretch(ctx, s) }
	}
	if _, err := h.stretch(ctx, owner); err != nil { // so that the default session is there
		return nil, err
	}
	steps := speed.entrants(side(other), side(owner), side(owner))
	if err := interleave(ctx, 1, steps); err != nil { // to warm up
		return nil, err
	}
	speed.forget()
	if err := interleave(ctx, h.plan.outputRounds, steps); err != nil {
		return nil, err
	}
	return []row{
		single("cancel of a command through another replica: p99", "ms", quantile(far, 0.99), valueAtMost(20)),
		single("cancel of a command at its own replica: p99", "ms", quantile(near, 0.99), target{}),
		speed.row("output through another replica (bare: at its own)", "MiB/s", func(s stretch) float64 { return s.speed }, ratioAtLeast(0.5)),
	}, nil
}

// startNATS starts a cluster for the state of replicas, and returns its URLs.
func (b *binaries) startNATS(ctx context.Context) (urls string, stop func(), err error) {
	program := filepath.Join(b.dir, "cluster")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/toolserver/toolserver/build/cluster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as the servers, so that its packages are compiled once
	if out, err := build.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("build the cluster: %w\n%s", err, out)
	}
	command := b.command(program, "-nats")
	out, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	}
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		if _, urls, ok := strings.Cut(lines.Text(), ": "); ok {
			return strings.ReplaceAll(urls, " ", ","), stop, nil
		}
	}
	stop()
	return "", nil, errors.New("the cluster does not say where it is")
}
