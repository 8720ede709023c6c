// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/soaktest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestSoak lets many clients do everything at once: call, cancel, hang up, come
// back, stop reading, open and close sessions. However it goes, numbers have no
// gaps, every execution ends, and nothing is left behind. It takes seconds;
// with TOOLSERVER_SOAK set, minutes.
func TestSoak(t *testing.T) {
	duration, clients := 2*time.Second, 16
	if soaktest.Long() {
		duration, clients = 5*time.Minute, 64
	}
	s := serve(t, func(c *service.Config) {
		c.Executor.MaxLogBytes = 256 << 10
		c.Executor.ReaderPatience = 20 * time.Millisecond
		c.Executor.DisconnectGrace = 50 * time.Millisecond
		c.Executor.MaxRetained = 500
	})
	var calls atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	var wg sync.WaitGroup
	for i := range clients {
		c := s.dial("")
		random := rand.New(rand.NewPCG(uint64(i), 7))
		wg.Go(func() {
			for ctx.Err() == nil {
				calls.Add(1)
				if err := soakOnce(c, random, fmt.Sprintf("client-%d-%d", i, calls.Load())); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls", calls.Load())
	s.shutdown()
	if text := metricsText(t, s.metrics); !strings.Contains(text, "\ntoolserver_running 0\n") {
		t.Errorf("executions run after the shutdown:\n%s", text)
	}
}

// soakOnce makes one call and treats it as its chance has it.
func soakOnce(c *client, random *rand.Rand, id string) error {
	ctx, hangUp := context.WithTimeout(context.Background(), 30*time.Second)
	defer hangUp()
	request := &pb.ExecuteToolRequest{CallId: proto.String(id), InputJson: []byte(`{}`), Tool: "count"}
	switch random.IntN(4) {
	case 0:
		request.Tool, request.InputJson = "sleep", fmt.Appendf(nil, `{"duration_ms":%d}`, random.IntN(200))
	case 1:
		request.Tool, request.InputJson = "flood", fmt.Appendf(nil, `{"bytes":%d}`, random.IntN(2<<20))
	case 2:
		request.OnDisconnect = pb.OnDisconnect(random.IntN(4))
	}
	stream, err := c.ExecuteTool(ctx, request)
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("first event: %w", err)
	}
	execution := first.GetEvent().GetExecutionId()
	switch random.IntN(5) {
	case 0:
		if _, err := c.Cancel(ctx, &pb.CancelRequest{ExecutionId: execution, Reason: "soak"}); gone(err) != nil {
			return fmt.Errorf("cancel: %w", err)
		}
	case 1: // hang up, and come back by call id
		hangUp()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		watch, err := c.WatchExecution(ctx, &pb.WatchExecutionRequest{CallId: id, AfterSequence: 1})
		if err != nil {
			return err
		}
		return gone(inOrder(1, func() (*pb.Event, error) {
			response, err := watch.Recv()
			return response.GetEvent(), err
		}))
	case 2: // leave
		return nil
	}
	return inOrder(first.GetEvent().GetSequence(), func() (*pb.Event, error) {
		response, err := stream.Recv()
		return response.GetEvent(), err
	})
}

// gone is nil for an execution that ended so long ago that it is forgotten.
func gone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// inOrder reads events to the end and checks their numbers.
func inOrder(after uint64, next func() (*pb.Event, error)) error {
	ended := false
	for {
		event, err := next()
		if errors.Is(err, io.EOF) {
			if !ended {
				return errors.New("the stream ended without an end of the execution")
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case ended:
			return fmt.Errorf("event %d after the end", event.GetSequence())
		case event.GetHeartbeat() != nil:
			continue
		case event.GetSkipped() != nil && event.GetSkipped().GetFirst() != after+1,
			event.GetSkipped() == nil && event.GetSequence() != after+1:
			return fmt.Errorf("event %v after %d", event, after)
		}
		after = event.GetSequence()
		ended = event.GetFinished() != nil
	}
}
