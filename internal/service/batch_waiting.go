// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"slices"
	"sync"
)

// waitingCalls are calls of a batch that hooks have to pass first, in the order they came.
// They are decided one after the other: each has its place in the batch already. The zero
// value has none.
type waitingCalls struct {
	mu      sync.Mutex
	calls   []*batchCall // the first is being decided
	busy    bool         // somebody decides
	working sync.WaitGroup
}

// add has a call decided when those before it are.
func (w *waitingCalls) add(ctx context.Context, c *batchCall, decide func(context.Context, *batchCall)) {
	c.ctx, c.stop = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, c)
	if w.busy {
		return
	}
	w.busy = true
	w.working.Go(func() {
		for next := w.first(); next != nil; next = w.first() {
			decide(ctx, next)
		}
	})
}

// first returns the call that is to be decided next; nil where there is none.
func (w *waitingCalls) first() *batchCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 {
		w.busy = false
		return nil
	}
	return w.calls[0]
}

// leave takes out the call that was decided, once f was called, in which no order can come
// between. It is the first.
func (w *waitingCalls) leave(c *batchCall, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	c.stop(nil)
	w.calls = slices.Delete(w.calls, 0, 1)
}

// stop ends the waiting of a call with an id, or of all.
func (w *waitingCalls) stop(callID string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if callID == "" || c.request.GetCallId() == callID {
			c.stop(cause)
		}
	}
}

// drain waits until all calls are decided. None is added any more.
func (w *waitingCalls) drain() { w.working.Wait() }
