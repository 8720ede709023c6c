// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

type batchStream = grpc.BidiStreamingClient[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]

// outgoing is a message for the stream of a batch, and the call that is in it, if one is.
type outgoing struct {
	message *pb.ExecuteBatchRequest
	call    *batchCall
}

func callMessage(request *pb.ExecuteToolRequest) *pb.ExecuteBatchRequest {
	return &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: request}}
}

// send has the stream, if there is one, send a message. The caller holds the lock.
func (b *Batch) send(message outgoing) {
	if b.stream != nil {
		b.outbox = append(b.outbox, message)
	}
	b.stir()
}

// stir wakes who waits for a change.
func (b *Batch) stir() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// run runs the batch, and those that continue it, to the end of all calls.
func (b *Batch) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for n := 2; ; n++ {
		err := b.runOne(ctx)
		if b.watched && n > 2 && status.Code(err) == codes.NotFound { // nobody continued it
			return b.finish(ctx)
		}
		if err != nil {
			return err
		}
		more, err := b.waitForMore(ctx)
		if err != nil {
			return err
		}
		if !more && !b.watched {
			return b.finish(ctx)
		}
		id := continued(b.id, n)
		b.start.BatchId = &id
	}
}

// finish gives out the summary of all.
func (b *Batch) finish(ctx context.Context) error {
	b.number++
	return b.give(ctx, &pb.BatchEvent{Sequence: b.number, Kind: &pb.BatchEvent_Finished{Finished: b.finished}})
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
		if _, err := b.tellUnsent(ctx); err != nil {
			return false, err
		}
		b.mu.Lock()
		left, closed, unsent := b.open > 0, b.closed, len(b.unsent) > 0
		b.mu.Unlock()
		if unsent {
			continue
		}
		if left || closed {
			return left, nil
		}
		select {
		case <-b.changed:
		case <-ctx.Done():
			return false, status.FromContextError(ctx.Err()).Err()
		case <-b.client.link.closed:
			return false, errClientClosed
		}
	}
}

// runOne runs one batch of the server to its end, over as many streams as it takes.
func (b *Batch) runOne(ctx context.Context) error {
	b.mu.Lock()
	before := len(b.calls)
	b.byPosition = make(map[uint32]*batchCall)
	b.mu.Unlock()
	var (
		retries = b.client.retries()
		last    uint64      // of the server's batch
		sentTo  string      // the server; empty where that is not known
		doubt   = b.watched // the server may have the batch
	)
	for {
		if idle, err := b.tellUnsent(ctx); err != nil || idle && !doubt {
			return err
		}
		var receive func() (*pb.BatchEvent, error)
		var err error
		if doubt {
			receive, err = b.watch(ctx, sentTo, last)
		} else if sentTo, err = b.client.server(ctx); err == nil {
			receive, err = b.execute(ctx, sentTo)
		}
		for err == nil {
			var event *pb.BatchEvent
			if event, err = receive(); err != nil {
				break
			}
			retries.reset()
			doubt, last = true, event.GetSequence()
			if summary := event.GetFinished(); summary != nil {
				return b.summarise(ctx, summary)
			}
			if err := b.take(ctx, event, before); err != nil {
				return err
			}
		}
		b.detach()
		other := b.client.replaced(err)
		switch {
		case doubt && (other || last > 0 && status.Code(err) == codes.NotFound):
			return b.lose(ctx)
		case doubt && !b.watched && status.Code(err) == codes.NotFound: // the same server never saw it
			doubt = false
			continue
		case !other && !lostConnection(err):
			return err
		}
		doubt = doubt || sentTo != "" && !other && !notTaken(err)
		if !retries.wait(ctx) {
			if doubt && !b.watched {
				err = fmt.Errorf("the connection was lost, and calls of the batch may have run: %w", err)
			}
			return err
		}
	}
}

// execute opens a stream that takes calls, and sends those that no server has.
func (b *Batch) execute(ctx context.Context, server string) (func() (*pb.BatchEvent, error), error) {
	stream, err := b.client.Tools.ExecuteBatch(addressed(ctx, server))
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.stream, b.connected = stream, true
	b.outbox = []outgoing{{message: &pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: b.start}}}}
	for _, call := range b.calls {
		if !call.heard {
			b.outbox = append(b.outbox, outgoing{callMessage(call.request), call})
		}
	}
	clear(b.byPosition)
	b.mu.Unlock()
	go b.sendAll(stream)
	return receiver[*pb.BatchEvent](stream, nil)
}

// sendAll sends what is in the outbox as it comes, until all calls have ended and none
// follows, or the stream is gone.
func (b *Batch) sendAll(stream batchStream) {
	for {
		messages, end, mine := b.takeOutbox(stream)
		if !mine {
			return
		}
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
		case <-b.changed:
		case <-stream.Context().Done():
			return
		}
	}
}

// takeOutbox returns what a stream is to send, whether that is all, and whether the
// stream still takes it.
func (b *Batch) takeOutbox(stream batchStream) (messages []*pb.ExecuteBatchRequest, end, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream != stream { // another took its place
		b.stir()
		return nil, false, false
	}
	for _, next := range b.outbox {
		if call := next.call; call != nil {
			if call.ended { // it was cancelled
				continue
			}
			if refused := b.client.tooLarge(call.request); refused != nil {
				b.endUnsent(call, refused)
				continue
			}
			call.sent = true
			b.byPosition[uint32(len(b.byPosition)+1)] = call
		}
		messages = append(messages, next.message)
	}
	b.outbox = nil
	return messages, b.closed && b.open == 0, true
}

// watch follows the batch of the server after an event.
func (b *Batch) watch(ctx context.Context, server string, last uint64) (func() (*pb.BatchEvent, error), error) {
	stream, err := b.client.Tools.WatchBatch(addressed(ctx, server), &pb.WatchBatchRequest{
		SessionId: b.start.GetSessionId(), BatchId: b.start.GetBatchId(), AfterSequence: last,
	})
	return receiver[*pb.BatchEvent](stream, err)
}

// detach says that no stream takes orders.
func (b *Batch) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream, b.outbox = nil, nil
	b.stir()
}

var errClientClosed = status.Error(codes.Canceled, "the client was closed")
