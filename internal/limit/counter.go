// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"cmp"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// key says whose calls are counted: of one session, of one principal with an
// empty session, of everybody with both empty.
type key struct{ principal, session string }

// A counter is a rule and what was counted by it.
type counter struct {
	rule     Limit
	interval int64 // nanoseconds in which one call comes back
	depth    int64 // nanoseconds in which an empty bucket fills

	buckets aging[bucket]
	leases  aging[lease] // the same, where servers share the limits
	running running
}

func newCounter(rule Limit) *counter {
	c := &counter{rule: rule, running: make(running)}
	if rule.Rate > 0 {
		c.interval = rule.interval()
		c.depth = c.interval * int64(rule.burst())
	}
	return c
}

// A bucket holds the calls that may come at once. It is kept as the time when
// it will be full again (the "theoretical arrival time" of GCRA, the generic
// cell rate algorithm): every call moves that time on by one interval, and may
// do so as long as it is no further away than the bucket is deep. A bucket whose
// time has come is full, and as good as none.
type bucket int64

// next returns what taking one call at now makes of the bucket, and how long to
// wait until that is allowed.
func (b bucket) next(now, interval, depth int64) (after bucket, wait int64) {
	full := max(int64(b), now)
	// Further away than an empty bucket is only where the clock went back: then
	// the bucket is empty, and nobody waits for the time to come around again.
	full = min(full, now+depth)
	return bucket(full + interval), full + interval - (now + depth)
}

// A check is what a rule says to one call, before anything is counted.
type check struct {
	counter *counter
	bucket  *bucket // nil where there is none yet
	after   bucket  // what the bucket becomes when the call is taken
	wait    int64   // how long until the bucket allows the call

	leased  bool   // servers share the bucket; else
	servers int64  // so many divide it
	lease   *lease // of a shared bucket
	lacks   bool   // it has no token, and may have some when asked
}

// ask asks the rule about a call.
func (k *check) ask(call *Key, now int64) (fits bool) {
	c := k.counter
	if c.interval > 0 && k.leased {
		if !k.askLeased(call, now) {
			return false
		}
		k.wait = 0
	} else if c.interval > 0 {
		var at bucket
		if k.bucket = c.buckets.find(c.key(call)); k.bucket != nil {
			at = *k.bucket
		}
		interval := c.interval * k.servers
		if k.after, k.wait = at.next(now, interval, max(interval, c.depth)); k.wait > 0 {
			return false
		}
		k.wait = 0
	}
	return c.rule.Concurrent == 0 || c.running[c.key(call)] < c.rule.Concurrent
}

// take counts the call that was asked about.
func (k *check) take(call *Key, now int64, permit *Permit) {
	c := k.counter
	if c.interval > 0 && !k.leased {
		if k.bucket == nil {
			k.bucket = c.buckets.add(c.key(call), now)
		}
		*k.bucket = k.after
		c.buckets.keep(int64(k.after))
	}
	if c.rule.Concurrent > 0 {
		permit.hold(slot{c.running, c.key(call)})
	}
}

// refusal tells why the call that was asked about does not fit.
func (k *check) refusal(spec *tools.Spec) Refusal {
	rule := &k.counter.rule
	refusal := Refusal{Limit: rule.Name}
	if k.wait > 0 {
		refusal.RetryAfter = time.Duration(k.wait)
		refusal.Message = rule.tooOften(spec.Name, refusal.RetryAfter)
	} else {
		refusal.Message = rule.tooMany(spec.Name)
	}
	return refusal
}

// key returns whose calls a call is counted with.
func (c *counter) key(call *Key) key {
	switch c.rule.Per {
	case Session:
		return key{call.Principal, cmp.Or(call.Outermost, call.Session)}
	case Principal:
		return key{call.Principal, ""}
	default:
		return key{}
	}
}

// running counts the calls that run. What does not run is not in it.
type running map[key]int

// A slot is the place that one call has among those that run.
type slot struct {
	running running
	key     key
}

func (s slot) leave() {
	if s.running[s.key]--; s.running[s.key] == 0 {
		delete(s.running, s.key)
	}
}
