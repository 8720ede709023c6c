// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// ErrDetached says that no stream takes orders for a batch, and its text why: it is not
// connected yet, has ended, or is only watched. Calls can be cancelled all the same.
var ErrDetached = errors.New("the order does not reach the batch")

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
	for _, id := range slices.Backward(b.cancelUnsent(callID, reason)) { // so that none begins for the end of another
		_, err := b.client.Cancel(ctx, id, reason)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// order sends what steers the batch.
func (b *Batch) order(request *pb.ExecuteBatchRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed && b.open == 0 && !b.watched:
		return fmt.Errorf("%w: it is closed, and all its calls have ended", ErrDetached)
	case b.stream == nil && !b.connected:
		return fmt.Errorf("%w: it is not connected yet", ErrDetached)
	case b.stream == nil:
		return fmt.Errorf("%w: it has no stream of its own any more and is only watched", ErrDetached)
	}
	b.send(outgoing{message: request})
	return nil
}

// cancelUnsent ends calls that no server has: all, or those with an id. It returns the
// ids of those that a server may have.
func (b *Batch) cancelUnsent(callID, reason string) []string {
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
			b.endUnsent(call, cancelledEvent(reason))
		}
	}
	b.stir()
	return ids
}
