// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// journal has when the steps of random batches ran, by a clock that counts.
var journal struct {
	clock atomic.Int64
	runs  sync.Map // of step name to *stepRun
}

// stepRun is when a step ran.
type stepRun struct {
	times      atomic.Int64
	begin, end atomic.Int64
}

type stepInput struct {
	Name         string `json:"name"`
	Microseconds int    `json:"microseconds"`
	Fails        bool   `json:"fails,omitempty"`
}

// step notes in the journal when it runs.
func step(ctx context.Context, _ tools.Env, in stepInput, _ tools.Sink) (tools.Result, error) {
	value, _ := journal.runs.LoadOrStore(in.Name, new(stepRun))
	run := value.(*stepRun)
	run.times.Add(1)
	run.begin.Store(journal.clock.Add(1))
	defer func() { run.end.Store(journal.clock.Add(1)) }()
	select {
	case <-time.After(time.Duration(in.Microseconds) * time.Microsecond):
	case <-ctx.Done():
		return tools.Result{}, context.Cause(ctx)
	}
	if in.Fails {
		return tools.Result{}, tools.Failf("failed", "It fails.")
	}
	return tools.TextResult(in.Name), nil
}

// withSteps adds the tools of random batches: look only reads, change does not.
func withSteps(c *service.Config) {
	spec := tools.Spec{Name: "look", Summary: "A tool for tests.", Category: "test", Level: tools.ReadOnly, ConcurrencySafe: true}
	reader := tools.New(spec, nil, step)
	spec.Name, spec.ConcurrencySafe = "change", false
	if err := c.Registry.Replace("steps", reader, tools.New(spec, nil, step)); err != nil {
		panic(err)
	}
}

// TestBatchSoak runs random batches with random strategies, failures, cancels, interrupts
// and lost streams: every call has one ending, what changes something runs alone and in
// order, and nothing is lost. It takes a second; with TOOLSERVER_SOAK set, minutes.
func TestBatchSoak(t *testing.T) {
	duration, clients := time.Second, 4
	if soaktest.Long() {
		duration, clients = 2*time.Minute, 16
	}
	s := serve(t, withSteps)
	sessions := make([]string, clients)
	for i := range sessions {
		created, err := s.dial("").CreateSession(timeout(t), &pb.CreateSessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = created.GetSession().GetSessionId()
	}
	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	var batches atomic.Int64
	var wg sync.WaitGroup
	for i, session := range sessions {
		c := s.dial("")
		random := rand.New(rand.NewPCG(uint64(i), 19))
		wg.Go(func() {
			for again := true; again; again = ctx.Err() == nil { // once at least: a machine can stall
				r := &randomBatch{random: random, session: session, id: fmt.Sprintf("batch-%d-%d", i, batches.Add(1))}
				if err := r.run(c); err != nil {
					t.Errorf("%s, %v: %v", r.id, r.strategy, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d batches", batches.Load())
}

// randomBatch is one batch, and what is known of it.
type randomBatch struct {
	random   *rand.Rand
	session  string
	id       string
	strategy pb.BatchStrategy
	parallel uint32
	calls    []randomCall // in their order
	events   []*pb.BatchEvent
}

type randomCall struct {
	id, name, tool string
	refused        bool // the call must be
}

func (r *randomBatch) run(c *client) error {
	ctx, hangUp := context.WithTimeout(context.Background(), time.Minute)
	defer hangUp()
	r.strategy = pb.BatchStrategy(r.random.IntN(5))
	if r.strategy == pb.BatchStrategy_BATCH_STRATEGY_BATCHED {
		r.parallel = uint32(1 + r.random.IntN(4))
	}
	stream, err := c.ExecuteBatch(ctx)
	if err != nil {
		return err
	}
	start := &pb.BatchStart{SessionId: r.session, BatchId: &r.id, Strategy: r.strategy, Parallel: r.parallel, OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_DETACH}
	if err := stream.Send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: start}}); err != nil {
		return err
	}
	sent := make(chan error, 1)
	messages := r.messages()
	go func() { // the client reads while it sends
		for _, message := range messages {
			if err := stream.Send(message); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	lost := r.random.IntN(4) == 0
	for stopAt := r.random.IntN(60); ; {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		r.events = append(r.events, response.GetEvent())
		if lost && len(r.events) >= stopAt && len(sent) == 1 { // all has been sent, if not received
			return r.watch(c, hangUp, sent)
		}
	}
	if err := <-sent; err != nil {
		return err
	}
	return r.check(len(r.calls))
}

// messages are what is sent: calls, and now and then an order.
func (r *randomBatch) messages() (list []*pb.ExecuteBatchRequest) {
	for i := range 1 + r.random.IntN(40) {
		call := randomCall{id: fmt.Sprintf("%s/%d", r.id, i), tool: "look"}
		call.name = call.id
		if r.random.IntN(3) == 0 {
			call.tool = "change"
		}
		request := asJSON(call.tool, fmt.Sprintf(`{"name":%q,"microseconds":%d,"fails":%t}`, call.name, r.random.IntN(1500), r.random.IntN(8) == 0))
		switch chance := r.random.IntN(30); {
		case chance == 0 && i > 0 && !r.calls[0].refused: // an id that came before
			call.id, call.refused = r.calls[0].id, true
		case chance == 1: // malformed
			call.refused, request.SessionId = true, "other"
		case chance == 2:
			request.InputJson = []byte(`{"name":`)
		}
		request.CallId = proto.String(call.id)
		r.calls = append(r.calls, call)
		list = append(list, &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: request}})
		switch r.random.IntN(40) {
		case 0:
			list = append(list, &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Interrupt{Interrupt: &pb.BatchInterrupt{Reason: "enough"}}})
		case 1:
			list = append(list, &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Cancel{Cancel: &pb.BatchCancel{}}})
		case 2, 3:
			id := fmt.Sprintf("%s/%d", r.id, r.random.IntN(i+1))
			list = append(list, &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Cancel{Cancel: &pb.BatchCancel{CallId: id}}})
		case 4:
			list = append(list, &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Message{Message: &pb.BatchMessage{Text: "hello"}}})
		}
	}
	return list
}

// watch loses the stream and reads on by another. Calls that were not received then are
// none of the batch.
func (r *randomBatch) watch(c *client, hangUp context.CancelFunc, sent <-chan error) error {
	hangUp()
	<-sent
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	stream, err := c.WatchBatch(ctx, &pb.WatchBatchRequest{SessionId: r.session, BatchId: r.id, AfterSequence: uint64(len(r.events))})
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			last := r.events[len(r.events)-1].GetFinished()
			return r.check(len(last.GetCalls()))
		}
		if err != nil {
			return fmt.Errorf("watched: %w", err)
		}
		r.events = append(r.events, response.GetEvent())
	}
}

// check holds a batch of which so many calls were received against its promises.
func (r *randomBatch) check(received int) error {
	outcomes := make(map[int]pb.Outcome)
	next := make(map[uint32]uint64)
	for i, event := range r.events {
		if event.GetSequence() != uint64(i+1) {
			return fmt.Errorf("event %d has number %d", i+1, event.GetSequence())
		}
		call := event.GetCall()
		if refused := event.GetRefused(); refused.GetPosition() > 0 {
			if !r.calls[refused.GetPosition()-1].refused {
				return fmt.Errorf("refused %v", refused)
			}
			outcomes[int(refused.GetPosition())] = 0
		}
		if call == nil {
			continue
		}
		if next[call.GetPosition()]++; call.GetEvent().GetSequence() != next[call.GetPosition()] || call.GetCallId() != r.calls[call.GetPosition()-1].id {
			return fmt.Errorf("call %d has %v", call.GetPosition(), event)
		}
		if finished := call.GetEvent().GetFinished(); finished != nil {
			if _, twice := outcomes[int(call.GetPosition())]; twice {
				return fmt.Errorf("call %d ended twice", call.GetPosition())
			}
			outcomes[int(call.GetPosition())] = finished.GetOutcome()
		}
	}
	summary := r.events[len(r.events)-1].GetFinished()
	if len(outcomes) != received || len(summary.GetCalls()) != received {
		return fmt.Errorf("%d of %d calls ended, %d in the summary", len(outcomes), received, len(summary.GetCalls()))
	}
	for i, call := range summary.GetCalls() {
		if call.GetOutcome() != outcomes[i+1] || r.calls[i].refused != (call.GetOutcome() == 0) {
			return fmt.Errorf("call %d ended with %v, and in the summary with %v", i+1, outcomes[i+1], call)
		}
	}
	return r.checkOrder(outcomes, received)
}

// ranCall is when a call of a batch ran.
type ranCall struct {
	position, begin, end int64
	alone                bool
}

// checkOrder holds what ran, and when, against the strategy.
func (r *randomBatch) checkOrder(outcomes map[int]pb.Outcome, received int) error {
	var ran []ranCall
	for i, call := range r.calls[:received] {
		outcome := outcomes[i+1]
		value, ok := journal.runs.LoadAndDelete(call.name)
		if !ok {
			if outcome == pb.Outcome_OUTCOME_SUCCEEDED || outcome == pb.Outcome_OUTCOME_FAILED {
				return fmt.Errorf("call %d ended with %v and did not run", i+1, outcome)
			}
			continue
		}
		run := value.(*stepRun)
		if run.times.Load() != 1 || outcome == pb.Outcome_OUTCOME_SKIPPED || outcome == 0 {
			return fmt.Errorf("call %d ended with %v and ran %d times", i+1, outcome, run.times.Load())
		}
		ran = append(ran, ranCall{int64(i + 1), run.begin.Load(), run.end.Load(), call.tool == "change"})
	}
	for i, a := range ran {
		beside := uint32(0)
		for j, b := range ran {
			if i != j && b.begin < a.begin && a.begin < b.end {
				beside++
			}
			inOrder := false
			switch r.strategy {
			case pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL:
				inOrder = true
			case pb.BatchStrategy_BATCH_STRATEGY_AUTO, pb.BatchStrategy_BATCH_STRATEGY_UNSPECIFIED:
				inOrder = a.alone || b.alone
			}
			if inOrder && a.position < b.position && a.end > b.begin {
				return fmt.Errorf("call %d ran from %d to %d, and call %d from %d", a.position, a.begin, a.end, b.position, b.begin)
			}
		}
		if r.parallel > 0 && beside >= r.parallel {
			return fmt.Errorf("call %d ran beside %d others", a.position, beside)
		}
	}
	return nil
}

// TestBatchRunsBeside: what may run at the same time does: each waits for the others.
func TestBatchRunsBeside(t *testing.T) {
	s := serve(t)
	for _, strategy := range []pb.BatchStrategy{pb.BatchStrategy_BATCH_STRATEGY_AUTO, pb.BatchStrategy_BATCH_STRATEGY_PARALLEL} {
		b := s.dial("").batch(&pb.BatchStart{Strategy: strategy})
		var want, got []string
		for i := range 32 {
			want = append(want, fmt.Sprint(strategy, i))
			b.call(want[i], "sleep", `{"duration_ms":600000}`)
		}
		for range 32 { // none of which ends by itself
			event := b.until(func(e *pb.BatchEvent) bool { return e.GetCall().GetEvent().GetStarted() != nil })
			got = append(got, event.GetCall().GetCallId())
		}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%v ran beside each other", strings.Join(got, " "))
		}
		b.cancelCall("", "enough")
		b.end()
	}
}
