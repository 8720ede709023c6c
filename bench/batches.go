// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// batchCalls is how many files a batch reads.
const batchCalls = 32

// batchFigure is figure 16. All servers run in the directory that has the file.
func batchFigure(ctx context.Context, h *harness) ([]row, error) {
	text := lines(work.FileBytes)
	if err := os.WriteFile(filepath.Join(h.dir, work.FileName), text, 0o644); err != nil {
		return nil, err
	}
	servers, err := h.startTrio(ctx)
	if err != nil {
		return nil, err
	}
	defer servers.stop()
	side := func(call caller, s *server) func(context.Context) (slice, error) {
		return func(ctx context.Context) (slice, error) {
			sample, err := load(ctx, s, call, 1, h.plan.slice)
			h.foreign = append(h.foreign, sample.foreign)
			return sample, err
		}
	}
	var one, bare sides[slice]
	batch := side(readBatch(servers.subject, len(text)), servers.subject)
	single := side(oneByOne(readFile(servers.subject, text)), servers.subject)
	groups := []group{
		one.entrants(batch, single, single),
		bare.entrants(batch, side(readBatch(servers.bare, len(text)), servers.bare), side(readBatch(servers.control, len(text)), servers.control)),
	}
	if err := interleave(ctx, h.plan.warmups, groups...); err != nil {
		return nil, err
	}
	one.forget()
	bare.forget()
	if err := interleave(ctx, h.plan.rounds, groups...); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("a batch of %d read_file of 4 KiB", batchCalls)
	return []row{
		one.row(name+" (bare: as many ExecuteTool, one after the other)", "µs", p50Of, ratioAtMost(0.5)),
		bare.row(name, "µs", p50Of, ratioAtMost(1.3)),
		bare.row(name+": server CPU", "µs/batch", cpuOf, target{}),
	}, nil
}

// oneByOne makes as many calls as a batch has, one after the other.
func oneByOne(call caller) caller {
	return func(ctx context.Context) error {
		for range batchCalls {
			if err := call(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// readBatch reads the file in every call of a batch, and checks that it came.
func readBatch(s *server, size int) caller {
	request := &pb.ExecuteToolRequest{Tool: work.ReadFile, InputJson: work.JSON(work.ReadFileInput{Path: work.FileName})}
	start := &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: &pb.BatchStart{}}}
	call := &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: request}}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.client.ExecuteBatch(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(start); err != nil {
			return err
		}
		for range batchCalls {
			if err := stream.Send(call); err != nil {
				return err
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		ended, listed := 0, 0
		for {
			message, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if finished := message.GetEvent().GetCall().GetEvent().GetFinished(); finished != nil {
				if len(finished.GetContent()) != 1 || len(finished.GetContent()[0].GetText()) < size {
					return fmt.Errorf("it read %.200v", finished)
				}
				ended++
			}
			listed += len(message.GetEvent().GetFinished().GetCalls())
		}
		if ended != batchCalls || listed != batchCalls {
			return fmt.Errorf("%d calls ended, %d are in the summary", ended, listed)
		}
		return nil
	}
}
