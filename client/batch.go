// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// ErrDetached says that no stream takes orders for a batch, and its text why: it is not
// connected yet, was closed, or lost its stream and is only watched. Calls can be
// cancelled all the same.
var ErrDetached = errors.New("the order does not reach the batch")

// ErrClosed says that a call came after Close.
var ErrClosed = errors.New("the batch is closed: a call that comes later belongs in a new one")

// A Batch is the calls of one turn of a model. Each is sent when it is added and
// starts when its turn is there. Its methods are safe for concurrent use.
//
// A batch that loses its stream is watched to its end; calls that no server has seen
// go into another, after it. To the caller it is one.
type Batch struct {
	client *Client
	start  *pb.BatchStart
	events chan *pb.BatchEvent
	err    error // once events is closed

	mu     sync.Mutex
	calls  []*batchCall
	byID   map[string]*batchCall
	came   []*batchCall              // what the batch of the server was sent, in its order
	dead   []*batchCall              // cancelled before any server had them, and not told yet
	closed bool                      // no call follows
	joined bool                      // there was a stream
	stream batchStream               // takes orders; nil where none does
	outbox []*pb.ExecuteBatchRequest // for that stream
	wake   chan struct{}             // has room for one; filled when there is something to send

	// Of the goroutine that runs the batch.
	number   uint64 // of the last event that was given out
	finished *pb.BatchFinished
}

type batchStream = grpc.BidiStreamingClient[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]

// batchCall is what is known of a call.
type batchCall struct {
	request      *pb.ExecuteToolRequest
	sent         bool // a server may have it
	heard, ended bool
	position     uint32
	executionID  string
	sequence     uint64
	passed       int    // batches that ended without a word of it, though it was sent
	reason       string // of who cancelled it before any server had it
}

// maxID is how many bytes the id of a call or a batch has at most.
const maxID = 256

// maxPassed is in how many batches a call is sent of which no word comes.
const maxPassed = 3

// Batch begins a batch in the session of the client. The start says how it runs; nil:
// as the server decides. The batch ends with its summary after Close, or with ctx.
func (c *Client) Batch(ctx context.Context, start *pb.BatchStart) *Batch {
	if start == nil {
		start = new(pb.BatchStart)
	}
	id := newID("batch")
	if start.BatchId != nil {
		id = start.GetBatchId()
	}
	b := &Batch{
		client: c, events: make(chan *pb.BatchEvent), byID: make(map[string]*batchCall), wake: make(chan struct{}, 1),
		start: &pb.BatchStart{
			SessionId: c.session, BatchId: &id, Strategy: start.GetStrategy(), Parallel: start.GetParallel(),
			OnDisconnect: start.GetOnDisconnect(), Answer: start.GetAnswer(),
		},
		finished: new(pb.BatchFinished),
	}
	go func() {
		defer close(b.events)
		b.err = b.run(ctx)
	}()
	return b
}

// Call adds a call, and returns its id. Its OnDisconnect is that of the batch.
func (b *Batch) Call(call Call) (string, error) {
	call.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_UNSPECIFIED
	request, err := call.request("")
	if err != nil {
		return "", err
	}
	id := request.GetCallId()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return "", ErrClosed
	case len(id) > maxID:
		return "", fmt.Errorf("the call id has %d bytes: at most %d", len(id), maxID)
	case b.byID[id] != nil:
		return "", fmt.Errorf("call id %q is twice in the batch: use a new id for a new call", id)
	}
	added := &batchCall{request: request, position: uint32(len(b.calls) + 1)}
	b.calls, b.byID[id] = append(b.calls, added), added
	b.send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: request}})
	return id, nil
}

// Interrupt lets the calls that run end by themselves and skips those that wait.
func (b *Batch) Interrupt(reason string) error {
	return b.order(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Interrupt{Interrupt: &pb.BatchInterrupt{Reason: reason}}})
}

// Message says something to the tools of the batch while they run.
func (b *Batch) Message(text string) error {
	return b.order(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Message{Message: &pb.BatchMessage{Text: text}}})
}

// Cancel ends one call; without an id, all that have been added. One that no server
// has is never sent.
func (b *Batch) Cancel(ctx context.Context, callID, reason string) error {
	err := b.order(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Cancel{Cancel: &pb.BatchCancel{CallId: callID, Reason: reason}}})
	if !errors.Is(err, ErrDetached) {
		return err
	}
	var errs []error
	for _, id := range slices.Backward(b.drop(callID, reason)) { // so that none begins for the end of another
		_, err := b.client.Cancel(ctx, id, reason)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Close says that no call follows. The batch ends once all its calls have.
func (b *Batch) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.stir()
}

// Events yields what happens in the batch, to its summary: what all calls do, each
// event once. They are numbered anew where the batch lost its stream. An error ends
// them, and is about the caller or the connection. Who leaves early can go on later;
// until then the batch waits, and ends with the context of [Client.Batch] alone.
func (b *Batch) Events() iter.Seq2[*pb.BatchEvent, error] {
	return func(yield func(*pb.BatchEvent, error) bool) {
		for event := range b.events {
			if !yield(event, nil) {
				return
			}
		}
		if b.err != nil {
			yield(nil, b.err)
		}
	}
}

// A BatchResult is what came of a call: either is set.
type BatchResult struct {
	CallID   string
	Finished *pb.Finished
	Err      error // a status: the call was not taken, and nothing of it ran
}

// Results closes the batch, reads its events to the end, and returns the results in
// the order of the calls.
func (b *Batch) Results() ([]BatchResult, error) {
	b.Close()
	results := make(map[string]BatchResult)
	for event, err := range b.Events() {
		if err != nil {
			return nil, err
		}
		if finished := event.GetCall().GetEvent().GetFinished(); finished != nil {
			id := event.GetCall().GetCallId()
			results[id] = BatchResult{CallID: id, Finished: finished}
		}
		if refused := event.GetRefused(); refused.GetPosition() > 0 {
			id := refused.GetCallId()
			results[id] = BatchResult{CallID: id, Err: status.Error(codes.Code(refused.GetCode()), refused.GetMessage())}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []BatchResult
	for _, call := range b.calls {
		list = append(list, results[call.request.GetCallId()])
	}
	return list, nil
}

// order sends what steers the batch.
func (b *Batch) order(request *pb.ExecuteBatchRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return fmt.Errorf("%w: it is closed", ErrDetached)
	case b.stream == nil && b.joined:
		return fmt.Errorf("%w: it lost its stream and is only watched", ErrDetached)
	case b.stream == nil:
		return fmt.Errorf("%w: it is not connected yet", ErrDetached)
	}
	b.send(request)
	return nil
}

// send has the stream, if there is one, send a message. The caller holds the lock.
func (b *Batch) send(request *pb.ExecuteBatchRequest) {
	if b.stream != nil {
		b.outbox = append(b.outbox, request)
	}
	b.stir()
}

func (b *Batch) stir() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// drop ends calls that no server has: all, or the one that is named. It returns the ids
// of those that a server may have.
func (b *Batch) drop(callID, reason string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, call := range b.calls {
		id := call.request.GetCallId()
		switch {
		case call.ended || callID != "" && callID != id:
		case call.sent:
			ids = append(ids, id)
		default:
			call.heard, call.ended, call.reason = true, true, reason
			b.dead = append(b.dead, call)
		}
	}
	b.outbox = slices.DeleteFunc(b.outbox, func(m *pb.ExecuteBatchRequest) bool {
		return m.GetCall() != nil && b.byID[m.GetCall().GetCallId()].ended
	})
	b.stir()
	return ids
}

// tellDropped gives out the endings of calls that were dropped. It reports whether there
// is nothing left to run.
func (b *Batch) tellDropped(ctx context.Context) (idle bool, err error) {
	b.mu.Lock()
	dead := b.dead
	b.dead, idle = nil, b.closed && len(b.calls) > 0
	for _, call := range b.calls {
		idle = idle && call.ended
	}
	b.mu.Unlock()
	for _, call := range dead {
		if err := b.end(ctx, call, cancelled(call.reason)); err != nil {
			return false, err
		}
	}
	return idle, nil
}

// end gives out an ending that is not the server's.
func (b *Batch) end(ctx context.Context, call *batchCall, event *pb.Event) error {
	id := call.request.GetCallId()
	b.finished.Calls = append(b.finished.Calls, &pb.BatchCallSummary{
		CallId: id, ExecutionId: call.executionID, Tool: call.request.GetTool(), Outcome: event.GetFinished().GetOutcome(),
	})
	b.number++
	return b.give(ctx, &pb.BatchEvent{Sequence: b.number, Kind: &pb.BatchEvent_Call{Call: &pb.BatchCallEvent{
		Position: call.position, CallId: id, Event: event,
	}}})
}

// cancelled is the ending of a call that was cancelled before any server had it.
func cancelled(reason string) *pb.Event {
	const message = "The call was cancelled before it was sent. Nothing of it ran."
	return &pb.Event{
		Sequence: 1, Time: timestamppb.Now(),
		Kind: &pb.Event_Finished{Finished: &pb.Finished{
			Outcome:      pb.Outcome_OUTCOME_CANCELLED,
			Content:      []*pb.Content{{Kind: &pb.Content_Text{Text: message}}},
			Failure:      &pb.Failure{Code: "cancelled", Message: message},
			Cancellation: &pb.Cancellation{Reason: reason, By: "client"},
		}},
	}
}

// run runs the batch, and those that continue it, to the end of all calls.
func (b *Batch) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := b.start.GetBatchId()
	for n := 2; ; n++ {
		if err := b.runOne(ctx); err != nil {
			return err
		}
		more, err := b.waitForMore(ctx)
		if err != nil {
			return err
		}
		if !more {
			b.number++
			return b.give(ctx, &pb.BatchEvent{Sequence: b.number, Kind: &pb.BatchEvent_Finished{Finished: b.finished}})
		}
		id := continued(first, n)
		b.start.BatchId = &id
	}
}

// continued returns the id of the batch that continues another: that one's, cut to what
// an id may have.
func continued(first string, n int) string {
	end := fmt.Sprint(".", n)
	cut := min(len(first), maxID-len(end))
	for cut < len(first) && cut > 0 && !utf8.RuneStart(first[cut]) {
		cut--
	}
	return first[:cut] + end
}

// waitForMore waits until a call has to go into another batch, and reports false where
// none will.
func (b *Batch) waitForMore(ctx context.Context) (bool, error) {
	for {
		if _, err := b.tellDropped(ctx); err != nil {
			return false, err
		}
		b.mu.Lock()
		left, untold := false, len(b.dead) > 0
		for _, call := range b.calls {
			left = left || !call.ended
		}
		closed := b.closed
		b.mu.Unlock()
		if untold {
			continue
		}
		if left || closed {
			return left, nil
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return false, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// runOne runs one batch of the server to its end, over as many streams as it takes.
func (b *Batch) runOne(ctx context.Context) error {
	var (
		t      = b.client.tries()
		last   uint64 // of the server's batch
		sentTo string
		doubt  bool // that server may have the batch
	)
	for {
		if idle, err := b.tellDropped(ctx); err != nil || idle && !doubt {
			return err
		}
		var receive func() (*pb.BatchEvent, error)
		server, err := sentTo, error(nil)
		if last == 0 {
			server, err = b.client.server(ctx, doubt)
		}
		switch {
		case err != nil:
		case doubt && server != sentTo:
			return b.lose(ctx)
		case doubt:
			receive, err = b.watch(ctx, last)
		default:
			sentTo = server
			receive, err = b.execute(ctx)
		}
		for err == nil {
			var event *pb.BatchEvent
			if event, err = receive(); err != nil {
				break
			}
			t.reset()
			doubt, last = true, event.GetSequence()
			if summary := event.GetFinished(); summary != nil {
				return b.summarise(ctx, summary)
			}
			if err := b.take(ctx, event); err != nil {
				return err
			}
		}
		b.detach()
		switch {
		case doubt && status.Code(err) == codes.NotFound && last > 0:
			return b.lose(ctx)
		case doubt && status.Code(err) == codes.NotFound: // the same server never saw it
			doubt = false
			continue
		case !lostConnection(err):
			return err
		}
		doubt = doubt || sentTo != "" && !notTaken(err)
		if !t.pause(ctx) {
			if doubt {
				err = fmt.Errorf("the connection was lost, and calls of the batch may have run: %w", err)
			}
			return err
		}
	}
}

// execute opens a stream that takes calls, and sends those that no server has.
func (b *Batch) execute(ctx context.Context) (func() (*pb.BatchEvent, error), error) {
	stream, err := b.client.Tools.ExecuteBatch(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.stream, b.joined, b.came = stream, true, nil
	b.outbox = []*pb.ExecuteBatchRequest{{Kind: &pb.ExecuteBatchRequest_Start{Start: b.start}}}
	for _, call := range b.calls {
		if !call.heard {
			b.outbox = append(b.outbox, &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: call.request}})
		}
	}
	b.mu.Unlock()
	go b.sendAll(stream)
	return receiverOfBatch(stream), nil
}

// sendAll sends what is in the outbox as it comes, until no call follows or the stream
// is gone.
func (b *Batch) sendAll(stream batchStream) {
	for {
		b.mu.Lock()
		if b.stream != stream { // another took its place
			b.stir()
			b.mu.Unlock()
			return
		}
		messages, end := b.outbox, b.closed
		b.outbox = nil
		for _, message := range messages {
			if call := message.GetCall(); call != nil {
				known := b.byID[call.GetCallId()]
				known.sent = true
				b.came = append(b.came, known)
			}
		}
		b.mu.Unlock()
		for _, message := range messages {
			if err := stream.Send(message); err != nil {
				return // the receiving side is told why
			}
		}
		if end {
			stream.CloseSend()
			return
		}
		select {
		case <-b.wake:
		case <-stream.Context().Done():
			return
		}
	}
}

// watch follows the batch of the server after an event.
func (b *Batch) watch(ctx context.Context, last uint64) (func() (*pb.BatchEvent, error), error) {
	stream, err := b.client.Tools.WatchBatch(ctx, &pb.WatchBatchRequest{
		SessionId: b.start.GetSessionId(), BatchId: b.start.GetBatchId(), AfterSequence: last,
	})
	if err != nil {
		return nil, err
	}
	return receiverOfBatch(stream), nil
}

func receiverOfBatch[R interface{ GetEvent() *pb.BatchEvent }](stream interface{ Recv() (R, error) }) func() (*pb.BatchEvent, error) {
	return func() (*pb.BatchEvent, error) {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unavailable, "the stream ended before the batch did")
		}
		return response.GetEvent(), err
	}
}

// detach says that no stream takes orders.
func (b *Batch) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream, b.outbox = nil, nil
	b.stir()
}

// take notes what an event says of its call, and gives it out.
func (b *Batch) take(ctx context.Context, event *pb.BatchEvent) error {
	b.mu.Lock()
	switch kind := event.GetKind().(type) {
	case *pb.BatchEvent_Started:
		if b.number > 0 { // it continues a batch
			b.mu.Unlock()
			return nil
		}
	case *pb.BatchEvent_Call:
		if call := b.byID[kind.Call.GetCallId()]; call != nil {
			kind.Call.Position = call.position
			happened := kind.Call.GetEvent()
			if call.ended || happened.GetSequence() <= call.sequence && happened.GetHeartbeat() == nil {
				b.mu.Unlock() // it was sent twice, and is told from its beginning
				return nil
			}
			call.heard, call.ended = true, happened.GetFinished() != nil
			call.executionID, call.sequence = happened.GetExecutionId(), happened.GetSequence()
		}
	case *pb.BatchEvent_Refused:
		call, position := b.byID[kind.Refused.GetCallId()], int(kind.Refused.GetPosition())
		if call == nil && position > 0 && position <= len(b.came) { // the id was cut
			call = b.came[position-1]
		}
		if call != nil && position > 0 {
			if call.ended {
				b.mu.Unlock()
				return nil
			}
			kind.Refused.Position, kind.Refused.CallId = call.position, call.request.GetCallId()
			call.heard, call.ended = true, true
		}
	}
	b.mu.Unlock()
	b.number++
	event.Sequence = b.number
	return b.give(ctx, event)
}

func (b *Batch) give(ctx context.Context, event *pb.BatchEvent) error {
	select {
	case b.events <- event:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// summarise adds the summary of a batch to that of all. It is the last word on what the
// batch had: a call of which more should have come is lost, and one of which nothing came
// goes into the next batch, a few times.
func (b *Batch) summarise(ctx context.Context, summary *pb.BatchFinished) error {
	b.detach()
	b.finished.Calls = append(b.finished.Calls, summary.GetCalls()...)
	b.finished.Duration = durationpb.New(b.finished.GetDuration().AsDuration() + summary.GetDuration().AsDuration())
	named := make(map[string]bool)
	for _, call := range summary.GetCalls() {
		named[call.GetCallId()] = true
	}
	return b.loseIf(ctx, func(call *batchCall) bool {
		if call.heard || named[call.request.GetCallId()] {
			return true
		}
		call.passed++
		return call.passed >= maxPassed
	})
}

// lose ends the calls that a server has which is gone.
func (b *Batch) lose(ctx context.Context) error {
	return b.loseIf(ctx, func(*batchCall) bool { return true })
}

// loseIf ends the calls that a server may have and of which that holds.
func (b *Batch) loseIf(ctx context.Context, holds func(*batchCall) bool) error {
	b.mu.Lock()
	var gone []*batchCall
	for _, call := range b.calls {
		if call.sent && !call.ended && holds(call) {
			call.heard, call.ended = true, true
			gone = append(gone, call)
		}
	}
	b.mu.Unlock()
	for _, call := range gone {
		if err := b.end(ctx, call, lost(call.executionID, call.sequence, call.request.GetCallId())); err != nil {
			return err
		}
	}
	return nil
}
