// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import "sync/atomic"

// runners are goroutines that wait for calls to run. A call that finds one
// waiting runs on a stack that earlier calls have grown, which for a short call
// costs less than a stack of its own. One that finds none gets a goroutine, so
// that no call ever waits for another; the first of these stay as runners.
type runners struct {
	calls chan func()
	count atomic.Int32
}

// maxRunners is how many runners there are at most. More would help only if as
// many short calls ran at once.
const maxRunners = 64

// run runs a call and does not wait for it.
func (r *runners) run(call func()) {
	select {
	case r.calls <- call:
		return
	default:
	}
	if r.count.Load() >= maxRunners || r.count.Add(1) > maxRunners {
		go call()
		return
	}
	go func() {
		call()
		for call := range r.calls {
			call()
		}
	}()
}

// close ends the runners once their calls have ended. Nothing is run after it.
func (r *runners) close() { close(r.calls) }
