// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const mib = 1 << 20

// output is figure 5: much output of one execution to one reader.
func output(ctx context.Context, h *harness) ([]row, error) {
	speed, skipped, err := h.outputSpeed(ctx)
	if err != nil {
		return nil, err
	}
	alone, err := h.flood(ctx, h.startSubject, 0)
	if err != nil {
		return nil, err
	}
	yardstick, err := h.flood(ctx, h.startBare, 0)
	if err != nil {
		return nil, err
	}
	beside, err := h.flood(ctx, h.startSubject, h.plan.stopped)
	if err != nil {
		return nil, err
	}
	memory := sides[flooded]{subject: []flooded{alone}, bare: []flooded{yardstick}}
	const name = "output to one reader"
	crowd := fmt.Sprintf("%s beside %d that never read", name, h.plan.stopped)
	return []row{
		speed.row(name, "MiB/s", func(s stretch) float64 { return s.speed }, ratioAtLeast(1)),
		speed.row(name+": server CPU", "ms/GiB", func(s stretch) float64 { return s.cpu }, target{}),
		memory.row(name+": peak RSS over idle", "MiB", func(f flooded) float64 { return f.memory }, valueAtMost(64)),
		single(name+": skipped", "events", alone.skipped+float64(skipped), valueAtMost(0)),
		single(crowd, "MiB/s", beside.speed, target{}),
		single(crowd+": peak RSS over idle", "MiB", beside.memory, valueAtMost(64)),
		single(crowd+": skipped", "events", beside.skipped, valueAtMost(0)),
	}, nil
}

// stretch is what one execution of middling size showed.
type stretch struct {
	speed   float64 // MiB in a second
	cpu     float64 // of the server, in ms for each GiB
	skipped uint64  // events the reader missed
}

// outputSpeed compares how fast output arrives, and counts the events that did
// not. Each slice is an execution of its own, so that the servers take turns,
// and has a connection of its own: a client fits the flow-control windows of a
// connection to what it has seen, and keeps what it found by chance.
func (h *harness) outputSpeed(ctx context.Context) (speed *sides[stretch], skipped uint64, err error) {
	servers, err := h.startTrio(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer servers.stop()
	speed = new(sides[stretch])
	side := func(s *server) func(context.Context) (stretch, error) {
		return func(ctx context.Context) (stretch, error) {
			sample, err := h.stretch(ctx, s)
			skipped += sample.skipped
			return sample, err
		}
	}
	steps := speed.entrants(side(servers.subject), side(servers.bare), side(servers.control))
	if err := interleave(ctx, 1, steps); err != nil { // to warm up
		return nil, 0, err
	}
	speed.forget()
	err = interleave(ctx, h.plan.outputRounds, steps)
	return speed, skipped, err
}

func (h *harness) stretch(ctx context.Context, s *server) (stretch, error) {
	conn, err := dial(s.conn.Target())
	if err != nil {
		return stretch{}, err
	}
	defer conn.Close()
	begin := time.Now()
	before, err := cpuTime(s.pid())
	if err != nil {
		return stretch{}, err
	}
	skipped, err := receive(ctx, conn, h.plan.outputSlice, func(string) {})
	if err != nil {
		return stretch{}, fmt.Errorf("%s: %w", s.name, err)
	}
	took := time.Since(begin)
	after, err := cpuTime(s.pid())
	size := float64(h.plan.outputSlice)
	return stretch{
		speed:   size / mib / took.Seconds(),
		cpu:     float64(after-before) / 1e6 / (size / (1 << 30)),
		skipped: skipped,
	}, err
}

// flooded is what one execution with very much output showed.
type flooded struct {
	speed   float64 // MiB in a second
	memory  float64 // the most MiB the server took, over idle
	skipped float64 // events the reader missed
}

// flood has a new server write very much output to one reader, beside so many
// other streams of the same execution that never read.
func (h *harness) flood(ctx context.Context, start func(context.Context) (*server, error), stopped int) (f flooded, err error) {
	s, err := start(ctx)
	if err != nil {
		return f, err
	}
	defer s.stop()
	idle, err := h.idleMemory(ctx, s)
	if err != nil {
		return f, err
	}
	if err := resetPeak(s.pid()); err != nil {
		return f, err
	}
	conn, err := dial(s.conn.Target())
	if err != nil {
		return f, err
	}
	defer conn.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan error, 1)
	begin := time.Now()
	skipped, err := receive(ctx, s.conn, h.plan.output, func(execution string) {
		go func() { watched <- watch(ctx, conn, execution, stopped) }()
	})
	took := time.Since(begin)
	if err != nil {
		return f, fmt.Errorf("%s: %w", s.name, err)
	}
	if err := <-watched; err != nil {
		return f, fmt.Errorf("%s: %w", s.name, err)
	}
	_, peak, err := memory(s.pid())
	return flooded{
		speed:   float64(h.plan.output) / mib / took.Seconds(),
		memory:  (peak - idle) / mib,
		skipped: float64(skipped),
	}, err
}

// watch opens streams of an execution that are never read, and proves that the
// server knows of them while the execution runs.
func watch(ctx context.Context, conn *grpc.ClientConn, execution string, streams int) error {
	if streams == 0 {
		return nil
	}
	client := pb.NewToolServiceClient(conn)
	for range streams {
		if _, err := client.WatchExecution(ctx, &pb.WatchExecutionRequest{ExecutionId: execution}); err != nil {
			return err
		}
	}
	for {
		answer, err := client.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: execution})
		if err != nil {
			return err
		}
		x := answer.GetExecution()
		switch {
		case int(x.GetFollowers()) > streams:
			return nil
		case x.GetState() == pb.ExecutionState_EXECUTION_STATE_FINISHED:
			return fmt.Errorf("the execution ended before its %d readers were there", streams)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// receive reads an execution that writes so many bytes, and proves that they
// arrive in order and to the last. It returns how many events were skipped,
// which is for the caller to judge, and hands the execution's id to begun once
// it knows it.
func receive(ctx context.Context, conn *grpc.ClientConn, size int64, begun func(execution string)) (skipped uint64, err error) {
	request := &pb.ExecuteToolRequest{
		Tool:      work.Output,
		InputJson: work.JSON(work.OutputInput{Bytes: size, Chunk: work.ChunkBytes}),
	}
	var sequence, bytes uint64
	var finished *pb.Finished
	gap := false // between the last output and the next
	err = follow(ctx, pb.NewToolServiceClient(conn), request, func(message *pb.ExecuteToolResponse) error {
		event := message.GetEvent()
		if sequence == 0 {
			begun(event.GetExecutionId())
		}
		switch kind := event.GetKind().(type) {
		case *pb.Event_Heartbeat:
			return nil
		case *pb.Event_Skipped:
			skipped += event.GetSequence() - sequence
			sequence, gap = event.GetSequence(), true
			return nil
		case *pb.Event_Output:
			offset := kind.Output.GetOffset()
			if offset != bytes && !gap || offset < bytes {
				return fmt.Errorf("output at %d came where %d was due", offset, bytes)
			}
			bytes, gap = offset+uint64(len(kind.Output.GetData())), false
		case *pb.Event_Finished:
			finished = kind.Finished
		}
		if sequence++; event.GetSequence() != sequence {
			return fmt.Errorf("event %d came where %d was due", event.GetSequence(), sequence)
		}
		return nil
	})
	switch {
	case err != nil:
	case finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED:
		err = fmt.Errorf("the execution ended with %v", finished)
	case bytes != uint64(size) && !gap:
		err = fmt.Errorf("%d bytes arrived of %d", bytes, size)
	}
	return skipped, err
}
