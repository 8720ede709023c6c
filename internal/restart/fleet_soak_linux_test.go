// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/soaktest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A history is what callers were told, held against what happened.
type history struct {
	t        *testing.T
	mu       sync.Mutex
	calls    map[string]*madeCall // by call id
	attempts int
}

// A madeCall is what is known of a call by those who asked.
type madeCall struct {
	session, command string
	execution        string
	events           map[uint64]*pb.Event // by sequence
	end              *pb.Finished         // the first that was told
}

func newHistory(t *testing.T) *history { return &history{t: t, calls: make(map[string]*madeCall)} }

// told notes the events of a call that somebody was told after a sequence; whole says that no more
// are to come. All are told the same execution, the same events under the same numbers, without
// gaps, and the same end.
func (h *history) told(id string, after uint64, events []*pb.Event, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.calls[id]
	for i, e := range events {
		if c.execution == "" {
			c.execution = e.GetExecutionId()
		}
		if e.GetExecutionId() != c.execution {
			h.t.Errorf("%s is execution %s, and was %s", id, e.GetExecutionId(), c.execution)
		}
		if e.GetSequence() != after+uint64(i)+1 {
			h.t.Errorf("%s: event %d is number %d after %d: %v", id, e.GetSequence(), i+1, after, events)
		}
		end := e.GetFinished()
		if last := i == len(events)-1; end != nil && !last || end == nil && last && whole {
			h.t.Errorf("%s has its end in another place than the last: %v", id, events)
		}
		switch before := c.events[e.GetSequence()]; {
		case end != nil && c.end == nil:
			c.end = end
		case end != nil && !proto.Equal(c.end, end):
			h.t.Errorf("%s ended with\n%v\nand with\n%v", id, c.end, end)
		case end != nil || e.GetStarted() != nil: // the number of an end depends on how many events of a lost call are known
		case before == nil:
			c.events[e.GetSequence()] = e
		case !proto.Equal(before, e):
			h.t.Errorf("%s had the event\n%v\nand has\n%v", id, before, e)
		}
	}
	if whole && len(events) == 0 && c.end == nil {
		h.t.Errorf("%s was told to have ended, without an end", id)
	}
}

// check holds what was told against the effects, which are all there by now.
func (h *history) check(effects map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	outcomes := make(map[string]int)
	for id, c := range h.calls {
		n := effects[id]
		outcomes[strings.TrimSpace(c.end.GetOutcome().String()+" "+c.end.GetFailure().GetCode())]++
		switch c.end.GetOutcome() {
		case pb.Outcome_OUTCOME_SUCCEEDED:
			if n != 1 || !strings.Contains(textOf(c.end), "said "+id) {
				h.t.Errorf("%s succeeded and had its effect %d times: %v", id, n, c.end)
			}
		case pb.Outcome_OUTCOME_LOST, pb.Outcome_OUTCOME_CANCELLED, pb.Outcome_OUTCOME_FAILED:
			if c.end.GetFailure().GetCode() == "lost_without_effects" && n != 0 {
				h.t.Errorf("%s had no effects, it is said, and had %d", id, n)
			}
		default:
			h.t.Errorf("%s ended with %v", id, c.end)
		}
	}
	for id, n := range effects {
		if n > 1 {
			h.t.Errorf("%s had its effect %d times", id, n)
		}
	}
	h.t.Logf("%d calls, %d attempts, %d effects: %v", len(h.calls), h.attempts, len(effects), outcomes)
}

// patience is how long a call is tried: where replicas end all the time, and the processor is busy,
// it takes some attempts.
const patience = 15 * time.Minute

// make makes a call at any replica until it is told how it ended, and asks another for the same.
func (h *history) make(agents []*caller, session, id string) {
	command := []string{
		"echo %[1]s >> effects; echo said %[1]s",
		"echo %[1]s >> effects; sleep 0.5; echo said %[1]s",
		"echo %[1]s >> effects; for i in 1 2 3 4 5; do echo said %[1]s $i; sleep 0.1; done",
	}[max(0, rand.IntN(10)-7)]
	c := &madeCall{session: session, command: fmt.Sprintf(`{"command": "`+command+`"}`, id), events: make(map[uint64]*pb.Event)}
	h.mu.Lock()
	h.calls[id] = c
	h.mu.Unlock()
	if rand.IntN(20) == 0 {
		agent := agents[rand.IntN(len(agents))].within(10 * time.Second)
		time.AfterFunc(time.Duration(rand.IntN(500))*time.Millisecond, func() {
			defer agent.leave()
			agent.tools.Cancel(agent.ctx, &pb.CancelRequest{SessionId: session, CallId: id, Reason: "tried"}) // or it has ended, or not begun
		})
	}
	var after uint64 // what the last attempt has heard, where it is gone on with
	for deadline := time.Now().Add(patience); ; {
		h.mu.Lock()
		h.attempts++
		h.mu.Unlock()
		agent, from := agents[rand.IntN(len(agents))].within(20*time.Second), after
		var events []*pb.Event
		var err error
		if after > 0 {
			events, err = agent.watch(c.execution, after)
		} else {
			events, err = agent.call(session, id, "bash", c.command)
		}
		agent.leave()
		h.told(id, from, events, err == nil)
		if err == nil {
			break
		}
		if after = 0; len(events) > 0 && rand.IntN(2) == 0 {
			after = events[len(events)-1].GetSequence()
		}
		if h.refused(id, err, deadline) {
			return
		}
	}
	h.ask(agents[rand.IntN(len(agents))], id, c, time.Now().Add(patience))
}

// ask asks a replica how a call ended, until it knows.
func (h *history) ask(at *caller, id string, c *madeCall, deadline time.Time) {
	for {
		agent := at.within(20 * time.Second)
		events, err := agent.watch(c.execution, 0)
		if err == nil {
			h.told(id, 0, events, true)
			var got *pb.GetExecutionResponse
			if got, err = agent.tools.GetExecution(agent.ctx, &pb.GetExecutionRequest{SessionId: c.session, CallId: id}); err == nil && (got.GetExecution().GetExecutionId() != c.execution || !proto.Equal(got.GetExecution().GetFinished(), c.end)) {
				h.t.Errorf("%s is known as\n%v\nand was told as\n%v", id, got, c.end)
			}
		}
		agent.leave()
		if err == nil || h.refused(id, err, deadline) {
			return
		}
	}
}

// refused waits after an error that clients try again after; it reports whether to give up.
func (h *history) refused(id string, err error, deadline time.Time) bool {
	switch code := status.Code(err); {
	case code != codes.Unavailable && code != codes.Canceled && code != codes.DeadlineExceeded || time.Now().After(deadline):
		h.t.Errorf("%s: %v", id, err)
		return true
	}
	time.Sleep(100 * time.Millisecond) // as clients do that are told to try again later
	return h.t.Context().Err() != nil
}

// within returns a caller whose calls end after a time, or with leave.
func (c *caller) within(d time.Duration) *caller {
	short := *c
	short.ctx, short.leave = context.WithTimeout(c.ctx, d)
	return &short
}

// A fault is something that happens to a fleet, and what ends it.
type fault struct {
	name     string
	do, undo func()
}

// fault returns one of a kind.
func (f *partable) fault(kind int) fault {
	n := rand.IntN(3)
	replica, others := f.replicas[n], []*host{f.replicas[(n+1)%3], f.replicas[(n+2)%3]}
	m := rand.IntN(3)
	node, nodes := f.nodes[m], []*host{f.nodes[(m+1)%3], f.nodes[(m+2)%3]}
	faults := []fault{
		{replica.name + " is cut off from the nodes", func() { cut(replica, f.nodes...) }, func() { mend(replica, f.nodes...) }},
		{node.name + " is killed", func() { node.end(syscall.SIGKILL) }, node.resume},
		{replica.name + " is paused", func() { replica.signal(syscall.SIGSTOP) }, func() { replica.signal(syscall.SIGCONT) }},
		{node.name + " is cut off from the other nodes", func() { cut(node, nodes...) }, func() { mend(node, nodes...) }},
		{replica.name + " is killed", func() { replica.end(syscall.SIGKILL) }, replica.resume},
		{node.name + " is paused", func() { node.signal(syscall.SIGSTOP) }, func() { node.signal(syscall.SIGCONT) }},
		{replica.name + " is cut off from the other replicas", func() { cut(replica, others...) }, func() { mend(replica, others...) }},
		{replica.name + " is stopped in good order", func() { replica.end(syscall.SIGTERM) }, replica.resume},
		{node.name + " is cut off from all", func() { cut(node, append(nodes, f.replicas...)...) }, func() { mend(node, append(nodes, f.replicas...)...) }},
		{"nodes do not hear " + replica.name, func() { replica.deafen(f.nodes...) }, func() { replica.hear(f.nodes...) }},
		{replica.name + " does not hear nodes", func() { f.deafen(f.nodes, replica) }, func() { f.hear(f.nodes, replica) }},
		{replica.name + " is cut off from a node", func() { cut(replica, node) }, func() { mend(replica, node) }},
		{"two nodes are killed", func() { nodes[0].end(syscall.SIGKILL); nodes[1].end(syscall.SIGKILL) }, func() { nodes[0].resume(); nodes[1].resume() }},
	}
	return faults[kind%len(faults)]
}

func (f *partable) deafen(all []*host, to *host) {
	for _, one := range all {
		one.deafen(to)
	}
}

func (f *partable) hear(all []*host, to *host) {
	for _, one := range all {
		one.hear(to)
	}
}

// TestFleetUnderFaults makes calls with retries by call id at three replicas while these, and three
// nodes of the engine, are killed, paused, stopped and cut off from each other, with and without a
// word: a call has one effect at most and one end, the same for everybody whenever they ask; its
// events have no gaps.
func TestFleetUnderFaults(t *testing.T) {
	t.Parallel()
	f := startPartable(t)
	agents := []*caller{f.at(0), f.at(1), f.at(2)}
	var workspaces []string
	const sessions = 6
	for i := range sessions {
		created := fmt.Sprint("s", i)
		made, err := agents[i%3].sessions.CreateSession(agents[i%3].ctx, &pb.CreateSessionRequest{SessionId: created, Mode: pb.Mode_MODE_ALLOW})
		if err != nil {
			t.Fatal(err)
		}
		workspaces = append(workspaces, made.GetSession().GetWorkspace())
	}
	h := newHistory(t)
	for _, phase := range []struct {
		name    string
		workers int
		disturb func(t *testing.T)
	}{
		{"kills", soaktest.Times(8, 64), f.kills},
		{"faults", soaktest.Times(8, 16), f.faults},
	} {
		t.Run(phase.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var load sync.WaitGroup
			for worker := range phase.workers {
				load.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						h.make(agents, fmt.Sprint("s", worker%sessions), fmt.Sprintf("%s-%d-%d", phase.name, worker, n))
					}
				})
			}
			phase.disturb(t)
			cancel()
			load.Wait()
		})
	}
	var asking errgroup.Group
	asking.SetLimit(8)
	for id, c := range h.calls { // all is well again, and everybody knows the same
		if c.end == nil {
			continue // which was told
		}
		asking.Go(func() error {
			for _, agent := range agents {
				h.ask(agent, id, c, time.Now().Add(patience))
			}
			return nil
		})
	}
	asking.Wait()
	effects := make(map[string]int)
	for _, workspace := range workspaces {
		for id, n := range lines(t, filepath.Join(workspace, "effects")) {
			effects[id] += n
		}
	}
	h.check(effects)
}

// kills kills a replica every 20 seconds.
func (f *partable) kills(t *testing.T) {
	for n := range soaktest.Times(1, int(minutes(t, 10)/(20*time.Second))) {
		victim := f.replicas[n%3]
		f.pass(time.Duration(soaktest.Times(1, 20)) * time.Second)
		victim.end(syscall.SIGKILL)
		victim.resume()
		f.recovers(t, victim.name+" was killed")
	}
}

// faults has one fault after the other, and sometimes two at once.
func (f *partable) faults(t *testing.T) {
	order := rand.Perm(13)
	if !soaktest.Long() {
		order = []int{0, 1, 2}
	}
	counts := make(map[string]int)
	end := time.Now().Add(minutes(t, 30))
	for n := 0; n < len(order) || soaktest.Long() && time.Now().Before(end); n++ {
		one := f.fault(order[n%len(order)])
		counts[one.name]++
		t.Log(time.Now().Format(time.TimeOnly), one.name)
		one.do()
		if soaktest.Long() && rand.IntN(4) == 0 {
			other := f.fault(rand.IntN(12)) // any but the last: two nodes that are killed are a fault by themselves
			t.Log(time.Now().Format(time.TimeOnly), "and", other.name)
			other.do()
			f.pass(time.Duration(rand.IntN(4000)) * time.Millisecond)
			other.undo()
		}
		f.pass(4*time.Second + time.Duration(rand.IntN(soaktest.Times(1, 8000)))*time.Millisecond) // longer than a lease: that is what is tried
		one.undo()
		f.recovers(t, one.name)
	}
	t.Log(counts)
}

// minutes returns how long the long form takes, unless the variable RESTART_TEST_MINUTES says it.
func minutes(t *testing.T, n int) time.Duration {
	t.Helper()
	if text := os.Getenv("RESTART_TEST_MINUTES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return time.Duration(n) * time.Minute
}

// pass lets time pass in which a fault lasts, and calls are made.
func (f *partable) pass(d time.Duration) { time.Sleep(d) }

// recovers waits until all replicas take calls that change something again.
func (f *partable) recovers(t *testing.T, after string) {
	t.Helper()
	for i := range f.replicas {
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			agent := f.at(i).within(20 * time.Second)
			_, err := agent.sessions.CreateSession(agent.ctx, &pb.CreateSessionRequest{SessionId: fmt.Sprint("recovery", i), Mode: pb.Mode_MODE_ALLOW})
			if err == nil || status.Code(err) == codes.AlreadyExists {
				_, err = agent.sessions.CloseSession(agent.ctx, &pb.CloseSessionRequest{SessionId: fmt.Sprint("recovery", i)})
			}
			agent.leave()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %s, replica %d does not recover: %v", after, i, err)
			}
		}
	}
}
