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
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/soaktest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A history is what callers were told, held against what happened.
type history struct {
	t     *testing.T
	mu    sync.Mutex
	ends  map[string]*pb.Finished // by call id
	calls int
}

// told notes an end that somebody was told: it is the same for everybody.
func (h *history) told(id string, events []*pb.Event) {
	end := events[len(events)-1].GetFinished()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := 1; i < len(events); i++ {
		if events[i].GetSequence() != events[i-1].GetSequence()+1 {
			h.t.Errorf("%s: event %d follows %d", id, events[i].GetSequence(), events[i-1].GetSequence())
		}
	}
	before := h.ends[id]
	switch {
	case end == nil:
		h.t.Errorf("%s has no end: %v", id, events)
	case before == nil:
		h.ends[id] = end
	case before.GetOutcome() != end.GetOutcome() && end.GetLostResult() == nil:
		h.t.Errorf("%s ended with\n%v\nand with\n%v", id, before, end)
	case before.GetOutcome() == end.GetOutcome() && textOf(before) != textOf(end) && !proto.Equal(before.GetFailure(), end.GetFailure()):
		h.t.Errorf("%s was told as\n%v\nand as\n%v", id, before, end)
	}
}

// check holds what was told against the effects.
func (h *history) check(effects map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := 0
	for id, end := range h.ends {
		n := effects[id]
		switch end.GetOutcome() {
		case pb.Outcome_OUTCOME_SUCCEEDED:
			if n != 1 {
				h.t.Errorf("%s succeeded and had its effect %d times", id, n)
			}
		case pb.Outcome_OUTCOME_LOST, pb.Outcome_OUTCOME_CANCELLED, pb.Outcome_OUTCOME_FAILED:
			lost++
			if end.GetFailure().GetCode() == "lost_without_effects" && n != 0 {
				h.t.Errorf("%s had no effects, it is said, and had %d", id, n)
			}
		default:
			h.t.Errorf("%s ended with %v", id, end)
		}
	}
	for id, n := range effects {
		if n > 1 {
			h.t.Errorf("%s had its effect %d times", id, n)
		}
	}
	h.t.Logf("%d calls, %d attempts, %d of them lost or ended before their time", len(h.ends), h.calls, lost)
}

// TestFleetUnderFaults makes calls with retries by call id at all replicas while replicas are
// killed, paused and stopped, and nodes of the engine are: a call has one effect at most and one
// end, the same for everybody, and its events have no gaps.
func TestFleetUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFleet(t, shared(t)...)
	made := f.at(0, "agent").session(&pb.CreateSessionRequest{SessionId: "s0", Mode: pb.Mode_MODE_ALLOW})
	workspaces := []string{made.GetWorkspace()}
	for i := 1; i < 3; i++ {
		made := f.at(i, "agent").session(&pb.CreateSessionRequest{SessionId: fmt.Sprint("s", i), Mode: pb.Mode_MODE_ALLOW})
		workspaces = append(workspaces, made.GetWorkspace())
	}
	h := &history{t: t, ends: make(map[string]*pb.Finished)}
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for worker := range soaktest.Times(6, 64) {
		load.Go(func() {
			agents := []*caller{f.at(0, "agent"), f.at(1, "agent"), f.at(2, "agent")}
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("%d-%d", worker, n)
				h.make(agents, fmt.Sprint("s", worker%3), id)
			}
		})
	}
	for range soaktest.Times(2, 30) {
		n := rand.IntN(3)
		victim, witness := f.servers[n], f.at((n+1)%3, "agent")
		for range 20 { // in the middle of calls
			witness.tools.GetServerInfo(witness.ctx, &pb.GetServerInfoRequest{})
		}
		switch rand.IntN(3) {
		case 0:
			victim.Kill()
		case 1:
			victim.Pause()
			time.Sleep(4 * time.Second) // longer than its lease: that is what is tried
			victim.Continue()
			for range 20 { // what it had to say is said
				witness.tools.GetServerInfo(witness.ctx, &pb.GetServerInfoRequest{})
			}
			victim.Kill()
		default:
			victim.Stop()
		}
		victim.Restart()
	}
	cancel()
	load.Wait()
	effects := make(map[string]int)
	for _, workspace := range workspaces {
		for id, n := range lines(t, filepath.Join(workspace, "effects")) {
			effects[id] += n
		}
	}
	h.check(effects)
}

// make makes a call until it is told how it ended, and asks another replica for the same.
func (h *history) make(agents []*caller, session, id string) {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		h.mu.Lock()
		h.calls++
		h.mu.Unlock()
		events, err := agents[rand.IntN(3)].call(session, id, "bash", fmt.Sprintf(`{"command": "echo %s >> effects"}`, id))
		if err == nil {
			h.told(id, events)
			again, err := agents[rand.IntN(3)].watch(events[0].GetExecutionId(), 0)
			if err == nil {
				h.told(id, again)
			}
			return
		}
		if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled || time.Now().After(deadline) {
			h.t.Errorf("%s: %v", id, err)
			return
		}
		time.Sleep(100 * time.Millisecond) // as clients do that are told to try again later
	}
}
