// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/tools"
)

// input is what an execution was sent. It stays when the call no longer
// listens, so that a repeated request is known from a new one.
type input struct {
	turn  chan struct{} // holds one value: the writer that has it may send data
	taken atomic.Uint64 // bytes of data; changed by the writer that has the turn
	ended bool          // no more data comes; for the writer that has the turn

	listener *listener // guarded by the execution's mutex
}

// listener is a tool that takes input.
type listener struct {
	ctx  context.Context // ends when it takes no more
	take func(context.Context, tools.Input) (int, error)
	busy sync.WaitGroup // calls of take
}

var errStopped = errors.New("the call takes no more input")

// Listen has take called with the input of callers.
func (s *sink) Listen(ctx context.Context, take func(context.Context, tools.Input) (int, error)) (stop func()) {
	x := (*Execution)(s)
	ctx, cancel := context.WithCancelCause(ctx)
	l := &listener{ctx: ctx, take: take}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.input == nil {
		x.input = &input{turn: make(chan struct{}, 1)}
		x.input.turn <- struct{}{}
	}
	x.input.listener = l
	return func() {
		x.mu.Lock()
		if x.input.listener == l {
			x.input.listener = nil
		}
		x.mu.Unlock()
		cancel(errStopped)
		l.busy.Wait()
	}
}

// Write sends data that follows the first offset bytes to the call; without an
// offset it follows all there was. What was taken before is not sent again, so
// that the same data may come more than once, also at the same time. It returns
// how many bytes the call has taken in all, once it has taken these: [ErrGap]
// where some are missing, [ErrNoInput], or the cause of ctx.
func (x *Execution) Write(ctx context.Context, offset *uint64, data []byte) (taken uint64, err error) {
	in, err := x.takeTurn(ctx)
	if err != nil {
		return 0, err
	}
	defer in.giveTurn()
	if offset != nil {
		known, err := in.known(*offset, len(data))
		if err != nil {
			return in.taken.Load(), err
		}
		data = data[known:]
	}
	if len(data) == 0 {
		return in.taken.Load(), nil
	}
	if in.ended {
		return in.taken.Load(), fmt.Errorf("%w: its end was sent before", ErrNoInput)
	}
	n, err := x.send(ctx, tools.Data(data))
	return in.taken.Add(uint64(n)), err
}

// EndInput says that no data follows, or nothing where that was said before.
// With an offset, it is [ErrGap] where data is missing before it.
func (x *Execution) EndInput(ctx context.Context, offset *uint64) (taken uint64, err error) {
	in, err := x.takeTurn(ctx)
	if err != nil {
		return 0, err
	}
	defer in.giveTurn()
	if offset != nil {
		if _, err := in.known(*offset, 0); err != nil {
			return in.taken.Load(), err
		}
	}
	if in.ended {
		return in.taken.Load(), nil
	}
	if _, err = x.send(ctx, tools.EndOfInput{}); err == nil {
		in.ended = true
	}
	return in.taken.Load(), err
}

// Control sends a signal or a window size to the call, also while data waits to
// be taken.
func (x *Execution) Control(ctx context.Context, in tools.Input) error {
	_, err := x.send(ctx, in)
	return err
}

// Taken returns how many bytes of data the call has taken.
func (x *Execution) Taken() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.input == nil {
		return 0
	}
	return x.input.taken.Load()
}

// takeTurn waits until nobody else sends data.
func (x *Execution) takeTurn(ctx context.Context) (*input, error) {
	x.mu.Lock()
	in := x.input
	x.mu.Unlock()
	if in == nil {
		return nil, x.noInput()
	}
	select {
	case <-in.turn:
		return in, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (in *input) giveTurn() { in.turn <- struct{}{} }

// known returns how many of n bytes behind offset were taken before.
func (in *input) known(offset uint64, n int) (int, error) {
	taken := in.taken.Load()
	if offset > taken {
		return 0, fmt.Errorf("%w: this follows byte %d, and the call has taken %d: send what is between first", ErrGap, offset, taken)
	}
	return int(min(taken-offset, uint64(n))), nil
}

// send hands input to the tool, if it listens.
func (x *Execution) send(ctx context.Context, in tools.Input) (int, error) {
	l := x.listening()
	if l == nil {
		return 0, x.noInput()
	}
	defer l.busy.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(x.noInput()) })()
	n, err := l.take(ctx, in)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return n, nil
	case cause != nil:
		return n, cause
	default:
		return n, fmt.Errorf("%w: %w", ErrNoInput, err)
	}
}

// listening returns the listener of now, and counts a call of its take.
func (x *Execution) listening() *listener {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancel == nil || x.input == nil || x.input.listener == nil || x.input.listener.ctx.Err() != nil {
		return nil
	}
	x.input.listener.busy.Add(1)
	return x.input.listener
}

// noInput says why the execution takes no input.
func (x *Execution) noInput() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.cancel == nil:
		return fmt.Errorf("%w: execution %s has ended", ErrNoInput, x.ID)
	case x.stopping:
		return fmt.Errorf("%w: execution %s is stopping", ErrNoInput, x.ID)
	case x.state != Running:
		return fmt.Errorf("%w: execution %s does not run yet", ErrNoInput, x.ID)
	case x.input == nil:
		return fmt.Errorf("%w: execution %s, a call of %s, takes none, or none yet: run it interactively if the tool can", ErrNoInput, x.ID, x.Order.Tool)
	default:
		return fmt.Errorf("%w: %w", ErrNoInput, errStopped)
	}
}
