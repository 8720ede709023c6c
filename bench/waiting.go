// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// waitingConns is the number of connections that waiting executions share:
// toolserver takes no more than 1,024 streams on one.
const waitingConns = 16

// waiting is figure 4: what an execution costs that waits, with its stream
// open. The bare server's is a stream that got two messages and waits too.
func waiting(ctx context.Context, h *harness) ([]row, error) {
	var s sides[float64]
	side := func(start func(context.Context) (*server, error)) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return h.weighExecution(ctx, start) }
	}
	steps := s.entrants(side(h.startSubject), side(h.startBare), side(h.startBare))
	if err := interleave(ctx, h.plan.waitingRounds, steps); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("RSS of each of %d waiting executions", h.plan.executions)
	return []row{s.row(name, "KiB", itself, valueAtMost(32))}, nil
}

// itself is for samples that are one number.
func itself(v float64) float64 { return v }

// weighExecution returns the KiB that each of many waiting executions adds to a
// new server.
func (h *harness) weighExecution(ctx context.Context, start func(context.Context) (*server, error)) (float64, error) {
	s, err := start(ctx)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	idle, err := h.idleMemory(ctx, s)
	if err != nil {
		return 0, err
	}
	release, err := hold(ctx, s, h.plan.executions)
	defer release()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	if err := pause(ctx, 4*h.plan.settle); err != nil {
		return 0, err
	}
	now, _, err := memory(s.pid())
	return (now - idle) / 1024 / float64(h.plan.executions), err
}

// idleMemory returns the bytes a server takes once it has served a call and
// come to rest.
func (h *harness) idleMemory(ctx context.Context, s *server) (float64, error) {
	if _, err := s.client.ListTools(ctx, &pb.ListToolsRequest{}); err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	if err := pause(ctx, h.plan.settle); err != nil {
		return 0, err
	}
	now, _, err := memory(s.pid())
	return now, err
}

// hold begins executions that sleep and returns once all of them have started.
// Their streams are read, as clients do, until release is called.
func hold(ctx context.Context, s *server, executions int) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var conns []*grpc.ClientConn
	var wait sync.WaitGroup
	release = func() {
		cancel()
		wait.Wait()
		for _, conn := range conns {
			conn.Close()
		}
	}
	started := make(chan error, executions)
	request := &pb.ExecuteToolRequest{Tool: work.Sleep, InputJson: work.JSON(work.SleepInput{DurationMS: 600_000})}
	for i := range executions {
		if i < waitingConns {
			conn, err := dial(s.conn.Target())
			if err != nil {
				return release, err
			}
			conns = append(conns, conn)
		}
		client := pb.NewToolServiceClient(conns[i%waitingConns])
		wait.Go(func() { sleep(ctx, client, request, started) })
	}
	for range executions {
		if err := <-started; err != nil {
			return release, err
		}
	}
	return release, nil
}

// sleep begins an execution, tells started whether the tool runs, and reads on.
func sleep(ctx context.Context, client pb.ToolServiceClient, request *pb.ExecuteToolRequest, started chan<- error) {
	reported := false
	err := follow(ctx, client, request, func(message *pb.ExecuteToolResponse) error {
		event := message.GetEvent()
		if finished := event.GetFinished(); finished != nil {
			return fmt.Errorf("an execution ended instead of waiting: %v", finished)
		}
		if event.GetStarted() != nil && !reported {
			reported = true
			started <- nil
		}
		return nil
	})
	if !reported {
		started <- errors.Join(errors.New("an execution did not start"), err)
	}
}

// pause lets the servers come to rest.
func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
