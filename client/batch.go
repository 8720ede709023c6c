// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// ErrClosed says that a call came after Close, or after Results had all results.
var ErrClosed = errors.New("the batch is closed: a call that comes later belongs in a new one")

// A Batch is the calls of one turn of a model. Each is sent when it is added and
// starts when its turn is there. Its methods are safe for concurrent use.
//
// A batch that loses its stream is watched to its end; calls that no server has seen
// go into another, after it. To the caller it is one.
type Batch struct {
	client  *Client
	id      string
	start   *pb.BatchStart // of the batch of the server: the first, or one that continues it
	watched bool           // another client began it, and its calls are known by their events
	events  chan *pb.BatchEvent
	err     error // once events is closed

	mu     sync.Mutex
	calls  []*batchCall // in the order they were added
	open   int          // how many of them have not ended
	closed bool         // no call follows
	ending bool         // no call follows once all have ended

	byPosition map[uint32]*batchCall // what the batch of the server was sent, by its position there
	unsent     []*batchCall          // ended before any server had them, and not told yet

	connected bool          // there was a stream
	stream    batchStream   // takes calls and orders; nil where none does
	outbox    []outgoing    // for that stream
	changed   chan struct{} // has room for one; filled when there is something to send, or nothing more

	// Of the goroutine that runs the batch.
	number   uint64 // of the last event that was given out
	finished *pb.BatchFinished
}

// maxID is how many bytes the id of a call or a batch has at most.
const maxID = 256

// Batch begins a batch in the session of the client. The start says how it runs; nil:
// as the server decides. The batch ends with its summary after Close, or with ctx.
func (c *Client) Batch(ctx context.Context, start *pb.BatchStart) *Batch {
	id := newID("batch")
	if start != nil && start.BatchId != nil {
		id = start.GetBatchId()
	}
	return c.newBatch(ctx, false, &pb.BatchStart{
		SessionId: c.session, BatchId: &id, Strategy: start.GetStrategy(), Parallel: start.GetParallel(),
		OnDisconnect: start.GetOnDisconnect(), Answer: start.GetAnswer(),
	})
}

// WatchBatch returns a batch of the session that was begun before, also by another
// process, as its ID names it. It yields all events from the first, and has the results.
// It takes no calls; Cancel is the one order that it takes.
func (c *Client) WatchBatch(ctx context.Context, id string) *Batch {
	return c.newBatch(ctx, true, &pb.BatchStart{SessionId: c.session, BatchId: &id})
}

func (c *Client) newBatch(ctx context.Context, watched bool, start *pb.BatchStart) *Batch {
	b := &Batch{
		client: c, id: start.GetBatchId(), start: start, watched: watched, closed: watched, connected: watched,
		events: make(chan *pb.BatchEvent), changed: make(chan struct{}, 1), finished: new(pb.BatchFinished),
	}
	go func() {
		defer close(b.events)
		b.err = b.run(ctx)
	}()
	return b
}

// ID is what [Client.WatchBatch] finds the batch by.
func (b *Batch) ID() string { return b.id }

// Call adds a call, and returns its id. Its OnDisconnect is that of the batch. An id that
// the batch has already is an error in the result of this call, as all that a model can
// do wrong is.
func (b *Batch) Call(call Call) (string, error) {
	call.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_UNSPECIFIED
	request, err := call.request("")
	if err != nil {
		return "", err
	}
	return request.GetCallId(), b.add(request)
}

func (b *Batch) add(request *pb.ExecuteToolRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	added := &batchCall{request: request, position: uint32(len(b.calls) + 1)}
	b.calls = append(b.calls, added)
	b.open++
	b.send(outgoing{callMessage(request), added})
	return nil
}

// Close says that no call follows. The batch ends once all its calls have; until then
// it can be steered.
func (b *Batch) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.stir()
}

// Events yields what happens in the batch, to its summary: what all calls do, each
// event once. They are numbered anew where the batch lost its stream. An error ends
// them, and is about the caller or the connection. Who leaves early can go on later;
// until then the batch waits, and ends with the context of [Client.Batch] or with
// [Client.Close].
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
	Tool     string // empty where it was not taken, of a batch that is watched
	Finished *pb.Finished
	Err      error // a status: the call was not taken, and nothing of it ran
}

// Results reads the events of the batch to its end, and returns the results in the order
// of the calls. The batch is closed when all its calls have ended: until then others can
// steer it and add calls.
func (b *Batch) Results() ([]BatchResult, error) {
	b.mu.Lock()
	b.ending = true
	b.closeIfEnded()
	b.mu.Unlock()
	results := make(map[uint32]BatchResult)
	for event, err := range b.Events() {
		if err != nil {
			return nil, err
		}
		if call := event.GetCall(); call.GetEvent().GetFinished() != nil {
			results[call.GetPosition()] = BatchResult{Finished: call.GetEvent().GetFinished()}
		}
		if refused := event.GetRefused(); refused.GetPosition() > 0 {
			results[refused.GetPosition()] = BatchResult{Err: status.Error(codes.Code(refused.GetCode()), refused.GetMessage())}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	tools := make(map[string]string) // of calls that another client added
	for _, call := range b.finished.GetCalls() {
		tools[call.GetCallId()] = call.GetTool()
	}
	var list []BatchResult
	for _, call := range slices.SortedFunc(slices.Values(b.calls), byPosition) {
		result, known := results[call.position]
		if !known {
			result.Err = fmt.Errorf("the events of the batch were read by somebody else, so the result is not known")
		}
		result.CallID = call.request.GetCallId()
		result.Tool = cmp.Or(call.request.GetTool(), tools[result.CallID])
		list = append(list, result)
	}
	return list, nil
}
