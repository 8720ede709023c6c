// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// schedulesFigure is the figure of schedules: what many of them cost while none is due, and how
// late those are that are.
func schedulesFigure(ctx context.Context, h *harness) ([]row, error) {
	s, err := h.startSchedules(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	count, within, spare := h.plan.executions, time.Minute, 10*time.Second
	due := max(count/10, 1)
	if h.plan.rounds == 1 { // a short run
		within, spare = time.Second, 3*time.Second
	}
	far := func(i int) time.Time { return time.Now().Add(time.Hour * time.Duration(100+i%1000)) }
	none, err := idleCPU(ctx, s, h.plan.remainsRest)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := createSchedules(ctx, s, "far", count-due, far); err != nil {
		return nil, err
	}
	made := time.Since(begin)
	if err := pause(ctx, h.plan.remainsRest); err != nil { // what it is to make them comes to its end
		return nil, err
	}
	idle, err := idleCPU(ctx, s, h.plan.remainsRest)
	if err != nil {
		return nil, err
	}
	first := time.Now().Add(made*time.Duration(due)/time.Duration(count) + spare) // when all of them are made
	if err := createSchedules(ctx, s, "near", due, func(i int) time.Time { return first.Add(within * time.Duration(i) / time.Duration(due)) }); err != nil {
		return nil, err
	}
	late, err := lateness(ctx, s, due, first.Add(within))
	if err != nil {
		return nil, err
	}
	slices.Sort(late)
	return []row{
		single(fmt.Sprintf("%d schedules: the latest of %d that were due within %s", count, due, within), "ms", late[len(late)-1], valueAtMost(250)),
		single("p50", "ms", quantile(late, 0.5), target{}),
		single("CPU while there is none", "ms/s", none, target{}),
		single("CPU while none is due", "ms/s", idle, target{}),
		single("schedule_create, 16 at once", "ms", float64(made)/1e6/float64(count-due), target{}),
	}, nil
}

// startSchedules starts toolserver with a state, for very many schedules.
func (h *harness) startSchedules(ctx context.Context) (*server, error) {
	dir, err := os.MkdirTemp(h.dir, "schedules-")
	if err != nil {
		return nil, err
	}
	config := "sessions: {mode: allow, max_per_principal: 10000}\nschedules: {max_per_principal: 100000}\n"
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	command := h.command(h.subject, "serve", "--config", "config.yaml", "--listen", anyPort, "--admin", "off")
	command.Dir = dir
	return h.start(ctx, withState(command, "embedded", filepath.Join(dir, "state")))
}

// createSchedules makes schedules that fire once.
func createSchedules(ctx context.Context, s *server, prefix string, count int, at func(int) time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range count {
		group.Go(func() (err error) {
			for range 5 { // others may keep the disk busy
				if _, err = called(ctx, s, "schedule_create", map[string]any{
					"name": fmt.Sprint(prefix, i), "tool": work.Noop, "input": work.NoopInput{Text: "x"}, "at": at(i).UTC().Format(time.RFC3339Nano),
				}); err == nil {
					break
				}
			}
			return err
		})
	}
	return group.Wait()
}

// called makes a call that has to succeed.
func called(ctx context.Context, s *server, tool string, input any) (end *pb.Finished, err error) {
	err = follow(ctx, s.client, &pb.ExecuteToolRequest{Tool: tool, InputJson: work.JSON(input)}, func(message *pb.ExecuteToolResponse) error {
		if end = message.GetEvent().GetFinished(); end != nil && end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			return fmt.Errorf("%s: %v", tool, end)
		}
		return nil
	})
	return end, err
}

// idleCPU returns the milliseconds of CPU that a server takes in a second of rest.
func idleCPU(ctx context.Context, s *server, rest time.Duration) (float64, error) {
	before, err := cpuTime(s.pid())
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(rest):
	}
	after, err := cpuTime(s.pid())
	return float64(after-before) / 1e6 / time.Since(begin).Seconds(), err
}

// lateness returns by how many milliseconds schedules were late, when all have fired. The last
// is due at a time, and nobody asks before.
func lateness(ctx context.Context, s *server, count int, last time.Time) (late []float64, err error) {
	if err := pause(ctx, time.Until(last)); err != nil {
		return nil, err
	}
	for i := range count {
		one, err := fired(ctx, s, fmt.Sprint("near", i), last.Add(time.Minute))
		if err != nil {
			return nil, err
		}
		late = append(late, one)
	}
	return late, nil
}

// fired waits until a schedule has fired, and returns by how many milliseconds it was late.
func fired(ctx context.Context, s *server, name string, latest time.Time) (float64, error) {
	for {
		end, err := called(ctx, s, "schedule_list", map[string]any{"name": name})
		if err != nil {
			return 0, err
		}
		var list struct {
			Schedules []struct {
				History []struct {
					At, Began time.Time
					Outcome   string
				}
			}
		}
		if err := json.Unmarshal([]byte(end.GetDetailsJson()), &list); err != nil {
			return 0, err
		}
		past := list.Schedules[0].History
		if len(past) == 1 && past[0].Outcome == "succeeded" {
			return float64(past[0].Began.Sub(past[0].At)) / 1e6, nil
		}
		if time.Now().After(latest) {
			return 0, fmt.Errorf("schedule %s: %v", name, past)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
