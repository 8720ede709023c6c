// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/soaktest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

// TestKilledUnderLoad kills a server in the middle of calls, again and again. It opens
// every time; no call has its effect twice; what a client was told stays true: a call that
// it saw succeed has had its effect, and answers the same to who asks again.
func TestKilledUnderLoad(t *testing.T) {
	w := start(t)
	session := w.as("agent").session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	effects := filepath.Join(session.GetWorkspace(), "effects")
	var mu sync.Mutex
	ends := make(map[string]*pb.Finished)
	made := 0
	for round := range soaktest.Times(2, 100) {
		enough := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var load sync.WaitGroup
		var ended int
		for worker := range 4 {
			load.Go(func() {
				agent := w.as("agent")
				agent.ctx = withCancelOf(agent.ctx, ctx)
				for n := 0; ctx.Err() == nil; n++ {
					id := fmt.Sprintf("%d-%d-%d", round, worker, n)
					events, err := agent.call("s", id, "bash", fmt.Sprintf(`{"command": "echo %s >> effects"}`, id))
					mu.Lock()
					made++
					if ended++; ended == 12 {
						close(enough)
					}
					if err == nil {
						ends[id] = events[len(events)-1].GetFinished()
					}
					mu.Unlock()
					if err != nil && status.Code(err) != codes.Unavailable && ctx.Err() == nil {
						t.Errorf("%s: %v", id, err)
					}
				}
			})
		}
		<-enough // and on with more, so that some run
		for range rand.IntN(50) {
			w.as("agent").tools.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
		}
		w.Kill()
		cancel()
		load.Wait()
		w.Restart()

		agent := w.as("agent")
		for n := 0; n < 4; n++ { // what was under way, and what was done
			for worker := range 4 {
				retry(t, agent, fmt.Sprintf("%d-%d-%d", round, worker, n), ends)
			}
		}
	}
	counts := lines(t, effects)
	for id, times := range counts {
		if times != 1 {
			t.Errorf("%s had its effect %d times", id, times)
		}
	}
	for id, finished := range ends {
		if finished.GetOutcome() == pb.Outcome_OUTCOME_SUCCEEDED && counts[id] != 1 {
			t.Errorf("%s was told to have succeeded, and had its effect %d times", id, counts[id])
		}
	}
	t.Logf("%d calls, %d told, %d effects", made, len(ends), len(counts))
}

// retry makes a call again, and holds the server to what it told of it before.
func retry(t *testing.T, agent *caller, id string, ends map[string]*pb.Finished) {
	t.Helper()
	_, finished := agent.end("s", id, "bash", fmt.Sprintf(`{"command": "echo %s >> effects"}`, id))
	if before := ends[id]; before != nil && !proto.Equal(before, finished) {
		t.Errorf("%s: %v, and before the restart %v", id, finished, before)
	}
	ends[id] = finished
}

// withCancelOf ends a context with another.
func withCancelOf(ctx, with context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(with, cancel)
	return ctx
}

// TestReplyLost cuts the connection somewhere in each call, also after it was carried out
// and before its end is heard. Whoever then calls again under the same id gets the end,
// and every call has one effect. Now and then the server is killed beside.
func TestReplyLost(t *testing.T) {
	w := start(t)
	session := w.as("agent").session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	wire := sdktest.NewWire(t, w.Address)
	times := soaktest.Times(300, 10_000)
	agent := connect(t, wire.Address, "agent")
	lost, killed := 0, 0
	for i := range times {
		id := fmt.Sprint("call-", i)
		input := fmt.Sprintf(`{"command": "echo %s >> effects"}`, id)
		if i%4 != 0 {
			wire.CutAfter(rand.IntN(900))
		}
		events, err := agent.call("s", id, "bash", input)
		wire.CutAfter(-1)
		if i%100 == 99 {
			w.again()
			killed++
		}
		for err != nil {
			lost++
			events, err = agent.call("s", id, "bash", input)
		}
		if end := events[len(events)-1].GetFinished(); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED && end.GetOutcome() != pb.Outcome_OUTCOME_LOST {
			t.Fatalf("%s ended with %v", id, end)
		}
	}
	counts := lines(t, filepath.Join(session.GetWorkspace(), "effects"))
	for id, n := range counts {
		if n != 1 {
			t.Errorf("%s had its effect %d times", id, n)
		}
	}
	if len(counts) < times-killed {
		t.Errorf("%d of %d calls had an effect, with %d kills", len(counts), times, killed)
	}
	if lost == 0 {
		t.Error("no reply was lost")
	}
	t.Logf("%d calls, %d replies lost, %d kills, %d effects", times, lost, killed, len(counts))
}
