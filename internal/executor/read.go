// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
)

// Events returns the events after a number, and those to come, up to the last
// one. A reader that follows counts for as long as it iterates; for one that looks on,
// the execution goes on or ends as without it. The data of an [Output] is the reader's
// own until it calls Release. An error is about the reading, never about the call:
// [ErrAhead], or the cause of ctx.
func (x *Execution) Events(ctx context.Context, after uint64, follows bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { x.read(ctx, after, follows, yield) }
}

func (x *Execution) read(ctx context.Context, after uint64, follows bool, yield func(Event, error) bool) {
	if x.unnumbered {
		yield(x.lastFor(after), nil)
		return
	}
	if _, last := x.log.bounds(); after > last {
		yield(Event{}, fmt.Errorf("%w: event %d of %d", ErrAhead, after, last))
		return
	}
	var reader *reader
	if follows {
		reader = x.callersPlace(after)
		x.followed(+1)
		defer x.followed(-1)
	}
	if reader == nil {
		reader = x.log.follow(after)
	}
	defer x.log.unfollow(reader)
	for {
		event, ok, err := x.log.next(ctx, reader, x.executor.config.Heartbeat)
		if !ok && err == nil || !yield(event, err) || err != nil {
			return
		}
	}
}

// callersPlace returns the place in the log that was kept for the caller, once.
// It is there before the tool runs: one that is faster than its caller would
// otherwise fill the log before anybody is known to read.
func (x *Execution) callersPlace(after uint64) *reader {
	x.mu.Lock()
	defer x.mu.Unlock()
	place := x.caller
	if place == nil || after != 0 {
		return nil
	}
	x.caller = nil
	return place
}

// followed counts followers, and acts when the last one left before the end.
func (x *Execution) followed(change int) {
	x.mu.Lock()
	x.followers += change
	if x.grace != nil {
		x.grace.Stop()
		x.grace = nil
	}
	abandoned := x.followers == 0 && x.state != Ended
	if abandoned && x.Order.OnDisconnect == Grace {
		grace := x.executor.config.DisconnectGrace
		x.grace = time.AfterFunc(grace, func() {
			x.Cancel(fmt.Sprintf("the client was disconnected and did not come back within %s", grace), auth.Server)
		})
	}
	x.mu.Unlock()
	if abandoned && x.Order.OnDisconnect == CancelAtOnce {
		x.Cancel("the client disconnected", auth.Server)
	}
}

// isAsked reports whether the call waits for an answer before it runs.
func (x *Execution) isAsked() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked
}
