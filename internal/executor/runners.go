// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

// runners are goroutines that wait for calls to run. A call that finds one
// waiting runs on a stack that earlier calls have grown, which for a short call
// costs less than a stack of its own; one that finds none gets a goroutine of
// its own, so that no call ever waits for another.
type runners struct{ calls chan func() }

// waiting is how many runners there are. More would help only if as many short
// calls ran at once.
const waiting = 64

func newRunners() runners {
	r := runners{make(chan func())}
	for range waiting {
		go func() {
			for call := range r.calls {
				call()
			}
		}()
	}
	return r
}

// run runs a call and does not wait for it.
func (r runners) run(call func()) {
	select {
	case r.calls <- call:
	default:
		go call()
	}
}

// close ends the runners once their calls have ended. Nothing is run after it.
func (r runners) close() { close(r.calls) }
