// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// probeEvery is how often an engine is asked that cannot be used, and how often the room on
	// its disk is looked at.
	probeEvery = time.Second

	// probeCluster is how often a cluster is asked that can be used, as far as is known.
	probeCluster = 5 * time.Second
)

// condition is whether an engine can be used, by what was heard of it last. Who would wait for
// an engine that does not answer is refused at once instead.
type condition struct {
	doubt chan struct{} // holds one where an operation failed

	mu   sync.Mutex
	err  error // nil: it can be used
	tell []func(error)
}

func newCondition() *condition { return &condition{doubt: make(chan struct{}, 1)} }

// get returns why the engine cannot be used; nil where it can.
func (c *condition) get() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// refuses is get for operations, which find out by themselves whether there is room.
func (c *condition) refuses() error {
	if err := c.get(); errors.Is(err, ErrUnavailable) {
		return err
	}
	return nil
}

// suspect has the engine asked now, because of how an operation ended.
func (c *condition) suspect(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFull) {
		select {
		case c.doubt <- struct{}{}:
		default:
		}
	}
	return err
}

// set tells of a change, and reports whether it is one.
func (c *condition) set(err error) bool {
	c.mu.Lock()
	changed := (c.err == nil) != (err == nil)
	c.err = err
	tell := c.tell
	c.mu.Unlock()
	if changed {
		for _, f := range tell {
			f(err)
		}
	}
	return changed
}

func (e *engine) Condition() error { return e.condition.get() }

func (e *engine) Notify(f func(error)) {
	e.condition.mu.Lock()
	e.condition.tell = append(e.condition.tell, f)
	err := e.condition.err
	e.condition.mu.Unlock()
	if err != nil {
		f(err)
	}
}

// watchCondition asks the engine, as often as there is reason to, until it is closed.
func (e *engine) watchCondition() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.unwatch = func() { cancel(); <-done }
	go func() {
		defer close(done)
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		for asked := time.Now(); ; {
			doubted := false
			select {
			case <-ctx.Done():
				return
			case <-e.condition.doubt:
				doubted = e.condition.get() == nil
			case <-tick.C:
			}
			switch down := e.condition.get() != nil; {
			case doubted || down && time.Since(asked) >= probeEvery, e.local == nil && time.Since(asked) >= probeCluster:
				asked = time.Now()
				e.judge(ctx, e.Health(ctx))
			case !down && e.local != nil:
				e.judge(ctx, e.room(e.storage, 0))
			}
		}
	}()
}

// judge takes note of how the engine is.
func (e *engine) judge(ctx context.Context, err error) {
	if ctx.Err() != nil || err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull) {
		return
	}
	if !e.condition.set(err) {
		return
	}
	if err != nil {
		e.log.Warn("the state cannot be written: until it can, reads go on, and what changes something is refused", zap.Error(err))
		return
	}
	e.log.Info("the state can be written again")
}

// unanswered is ErrUnavailable for an engine that did not answer, with how long it had.
func unanswered() error { return fmt.Errorf("%w: no answer within %v", ErrUnavailable, patience) }
