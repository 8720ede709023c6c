// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// remains is figure 13: what a server has in memory after it has worked and come to
// rest, over what it had before. The searches are of Go's source.
func remains(ctx context.Context, h *harness) ([]row, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src")
	s, err := h.startShell(ctx, "TOOLSERVER_SESSIONS_WORKSPACE="+source)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	idle, err := h.idleMemory(ctx, s)
	if err != nil {
		return nil, err
	}
	ids, err := sessions(ctx, s, 4)
	if err != nil {
		return nil, err
	}
	if err := runMany(ctx, h.plan.remainsCommands, len(ids), runTrue(s, ids)); err != nil {
		return nil, err
	}
	if err := bash(ctx, s, ids[0], flood(h.plan.remainsOutput), func(*pb.Output) error { return nil }); err != nil {
		return nil, err
	}
	took, err := searchTwice(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, h.plan.remainsRest); err != nil {
		return nil, err
	}
	after, _, err := memory(s.pid())
	return []row{
		single("RSS before work", "MiB", idle/mib, target{}),
		single("RSS that work leaves, over that", "MiB", (after-idle)/mib, valueAtMost(64)),
		single("a second search right after the first, of its time", "times", took[1].Seconds()/took[0].Seconds(), valueAtMost(1)),
	}, err
}

// runMany makes so many calls, some at once.
func runMany(ctx context.Context, calls, atOnce int, call caller) error {
	var begun atomic.Int64
	errs := make([]error, atOnce)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			for errs[i] == nil && begun.Add(1) <= int64(calls) {
				errs[i] = call(ctx)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// searchTwice returns how long two searches of the server's workspace take.
func searchTwice(ctx context.Context, s *server) (took [2]time.Duration, err error) {
	for i, pattern := range []string{"func Sprint", "func Fprint"} {
		begin := time.Now()
		request := &pb.ExecuteToolRequest{
			Tool: "grep",
			InputJson: work.JSON(struct {
				Pattern string `json:"pattern"`
			}{pattern}),
		}
		err = follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
			if end := message.GetEvent().GetFinished(); end != nil && end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				return fmt.Errorf("grep: %.300v", end)
			}
			return nil
		})
		if err != nil {
			return took, err
		}
		took[i] = time.Since(begin)
	}
	return took, nil
}
