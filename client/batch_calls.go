// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// batchCall is what is known of a call.
type batchCall struct {
	request      *pb.ExecuteToolRequest
	position     uint32 // from 1, in the order the calls were added
	sent         bool   // a server may have it
	heard, ended bool   // an event of it came, or its ending
	executionID  string
	sequence     uint64
	unheard      int       // batches that ended without a word of it, though it was sent
	unsent       *pb.Event // its ending, where no server had it
}

// maxUnheard is in how many batches a call is sent of which no word comes.
const maxUnheard = 3

func byPosition(a, b *batchCall) int { return cmp.Compare(a.position, b.position) }

// ended notes that a call has ended. The caller holds the lock.
func (b *Batch) ended(call *batchCall) {
	call.heard, call.ended = true, true
	b.open--
	b.closeIfEnded()
}

// closeIfEnded closes the batch for Results, where all calls have ended. The caller
// holds the lock.
func (b *Batch) closeIfEnded() {
	if b.open > 0 {
		return
	}
	b.closed = b.closed || b.ending
	b.stir()
}

// callAt returns the call that the batch of the server has at a position; nil where that
// is none. The caller holds the lock.
func (b *Batch) callAt(position uint32, id string, before int) *batchCall {
	call := b.byPosition[position]
	if call == nil && b.watched && position > 0 {
		call = &batchCall{request: &pb.ExecuteToolRequest{CallId: &id}, position: uint32(before) + position, sent: true}
		b.calls, b.byPosition[position] = append(b.calls, call), call
		b.open++
	}
	return call
}

// take notes what an event says of its call, and gives it out. So many calls are of the
// batches before.
func (b *Batch) take(ctx context.Context, event *pb.BatchEvent, before int) error {
	if !b.note(event, before) {
		return nil
	}
	b.number++
	event.Sequence = b.number
	return b.give(ctx, event)
}

// note notes what an event says of its call. It reports whether it is news, which a sign
// of life is not, nor what is told again of a call that was sent twice.
func (b *Batch) note(event *pb.BatchEvent, before int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch kind := event.GetKind().(type) {
	case *pb.BatchEvent_Started:
		return b.number == 0 // else it continues a batch
	case *pb.BatchEvent_Call:
		call, happened := b.callAt(kind.Call.GetPosition(), kind.Call.GetCallId(), before), kind.Call.GetEvent()
		if call == nil {
			return true
		}
		if call.ended || happened.GetSequence() <= call.sequence && happened.GetHeartbeat() == nil {
			return false
		}
		kind.Call.Position = call.position
		call.heard, call.executionID, call.sequence = true, happened.GetExecutionId(), happened.GetSequence()
		if happened.GetFinished() != nil {
			b.ended(call)
		}
	case *pb.BatchEvent_Refused:
		call := b.callAt(kind.Refused.GetPosition(), kind.Refused.GetCallId(), before)
		if call == nil {
			return true
		}
		if call.ended {
			return false
		}
		kind.Refused.Position, kind.Refused.CallId = call.position, call.request.GetCallId() // which may have been cut
		b.ended(call)
	case *pb.BatchEvent_SteeringPoint:
	default:
		return false
	}
	return true
}

func (b *Batch) give(ctx context.Context, event *pb.BatchEvent) error {
	select {
	case b.events <- event:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-b.client.link.closed:
		return errClientClosed
	}
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

// endUnsent ends a call that no server has. The caller holds the lock.
func (b *Batch) endUnsent(call *batchCall, ending *pb.Event) {
	call.unsent = ending
	b.unsent = append(b.unsent, call)
	b.ended(call)
}

// tellUnsent gives out the endings of calls that no server had. It reports whether there is
// nothing left to run.
func (b *Batch) tellUnsent(ctx context.Context) (idle bool, err error) {
	b.mu.Lock()
	unsent := b.unsent
	b.unsent, idle = nil, b.closed && b.open == 0 && len(b.calls) > 0
	b.mu.Unlock()
	for _, call := range unsent {
		if err := b.end(ctx, call, call.unsent); err != nil {
			return false, err
		}
	}
	return idle, nil
}

// cancelledEvent is the ending of a call that was cancelled before any server had it.
func cancelledEvent(reason string) *pb.Event {
	const message = "The call was cancelled before it was sent. Nothing of it ran."
	return unsent(&pb.Finished{
		Outcome:      pb.Outcome_OUTCOME_CANCELLED,
		Failure:      &pb.Failure{Code: "cancelled", Message: message},
		Cancellation: &pb.Cancellation{Reason: reason, By: "client"},
	})
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
		call.unheard++
		return call.heard || named[call.request.GetCallId()] || call.unheard >= maxUnheard
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
			b.ended(call)
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
