// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"time"
)

// LoopLimit is when a session counts as going in circles. Calls count when they are
// let through, whatever becomes of them: a model that gets the same answer to the
// same call does not need it again, and one that waits for a change can say so by
// calling something else in between. A refused call leaves the count where it is.
type LoopLimit struct {
	// Repeat is how often the same tool may be called with the same input in a
	// row; 0 means any number.
	Repeat int `yaml:"repeat"`

	// Alternate is how many rounds two calls may take turns: A B A B are two. 0
	// means any number.
	Alternate int `yaml:"alternate"`
}

// Check returns what is wrong with it.
func (g LoopLimit) Check() error {
	if g.Repeat < 0 || g.Repeat > maxCount {
		return fmt.Errorf("guard: repeat %d: want 0 to %d", g.Repeat, maxCount)
	}
	if g.Alternate < 0 || g.Alternate > maxCount {
		return fmt.Errorf("guard: alternate %d: want 0 to %d", g.Alternate, maxCount)
	}
	return nil
}

// The names of the limit in a refusal.
const (
	RepeatRule    = "guard.repeat"
	AlternateRule = "guard.alternate"
)

// loopMemory is the pause after which a call begins anew: who asks for the same
// every quarter of an hour looks after something.
const loopMemory = 15 * time.Minute

// pastCall is one call that was made.
type pastCall struct {
	tool   string
	digest [32]byte
}

// history is what is remembered of a session.
type history struct {
	last, before pastCall
	repeats      int   // how often last was called in a row
	turns        int   // how many calls at the end take turns between two
	until        int64 // when it is forgotten
}

// add notes a call.
func (h *history) add(d pastCall) {
	switch d {
	case h.last:
		h.repeats, h.turns = h.repeats+1, 1
	case h.before:
		h.repeats, h.turns = 1, h.turns+1
	default:
		h.repeats, h.turns = 1, 2
	}
	h.last, h.before = d, h.last
}

// loops is the guard: the histories of all sessions.
type loops struct{ sessions aging[history] }

// A judgedCall is a call that the guard has looked at.
type judgedCall struct {
	history *history
	did     pastCall
	key     key
}

// judge judges a call by what its session did before.
func (l *loops) judge(guard LoopLimit, call *Key, now int64) (judgedCall, *Refusal) {
	t := judgedCall{did: pastCall{call.Spec.Name, call.Digest}, key: key{call.Principal, call.Session}}
	t.history = l.sessions.find(t.key)
	h := t.history
	if h == nil || h.until <= now || call.Digest == [32]byte{} {
		return t, nil
	}
	l.sessions.keep(h.until)
	switch {
	case guard.Repeat > 0 && t.did == h.last && h.repeats >= guard.Repeat:
		return t, &Refusal{Limit: RepeatRule, Message: fmt.Sprintf(
			"You have called %s with the same input %s in a row. Calling it again will not help: use what it returned, change the input, or do something else first.",
			t.did.tool, times(h.repeats))}
	case guard.Alternate > 0 && t.did != h.last && t.did == h.before && h.turns >= 2*guard.Alternate:
		return t, &Refusal{Limit: AlternateRule, Message: fmt.Sprintf(
			"You have gone back and forth between %s %s, with the same input each time. Going on will not help: use what they returned, change the input, or do something else first.",
			between(h.before.tool, h.last.tool), times(h.turns/2))}
	}
	return t, nil
}

// take notes the call that was looked at.
func (l *loops) take(t judgedCall, now int64) {
	if t.history == nil {
		t.history = l.sessions.add(t.key, now)
	}
	if t.history.until <= now || t.did.digest == [32]byte{} {
		*t.history = history{}
	}
	if t.did.digest != [32]byte{} {
		t.history.add(t.did)
	}
	t.history.until = now + int64(loopMemory)
	l.sessions.keep(t.history.until)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

func between(a, b string) string {
	if a == b {
		return "two calls of " + a
	}
	return a + " and " + b
}
