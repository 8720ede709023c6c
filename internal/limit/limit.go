// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package limit decides whether a call comes too often: it counts calls against
// rules of rate and concurrency, and notices a caller that goes in circles. It
// does no I/O and has no goroutine, unless servers share the limits; see [Shared].
//
// Locks: that of a [Limiter] guards every count, that of a [Shared] whether the entries can be
// reached. Neither is held while the entries are asked, and none while the other is taken.
//
// Goroutines: where servers share the limits, tokens that will soon be missing are fetched on one for each
// bucket, which ends within askTime.
package limit

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// Config is what limits there are. The zero value limits nothing.
type Config struct {
	Limits    []Limit
	LoopLimit LoopLimit
}

// Check returns what is wrong with a configuration.
func (c Config) Check() error {
	for i, rule := range c.Limits {
		if err := rule.Check(); err != nil {
			return fmt.Errorf("limit %d: %w", i+1, err)
		}
	}
	return c.LoopLimit.Check()
}

// A Key is what a call is counted by.
type Key struct {
	// Spec is the tool. Give the same pointer for the same tool: what applies to
	// it is looked up by that, and must not change.
	Spec *tools.Spec

	// Principal and Session name the session. Session ids are those of their
	// principal: two principals may have the same.
	Principal, Session string

	// Outermost is the session that this one is below, if it is, and that shares its limits
	// with it. The guard against loops looks at each by itself.
	Outermost string

	// Digest stands for the input. The guard against loops passes over calls
	// whose digest is zero.
	Digest [32]byte
}

// A Limiter counts calls. It is safe for concurrent use. Make one with [New].
type Limiter struct {
	began   time.Time
	current atomic.Pointer[limits]
	shared  *Shared // nil where this server counts alone
	space   string  // that the limits are shared in

	// mu guards every count. One lock for all of them makes a call that several
	// rules apply to all or nothing; it is held for a tenth of a microsecond.
	mu    sync.Mutex
	loops loops
}

// New returns a limiter.
func New(config Config) (*Limiter, error) {
	l := &Limiter{began: time.Now()}
	l.current.Store(new(limits))
	return l, l.Replace(config)
}

// Replace puts another configuration in force for all calls that come later.
// What was counted by a rule that stays as it is goes on; a rule that changed
// begins with full buckets, but calls that run still count against it as long as
// it has the same name, tools and scope. A configuration that is not valid
// changes nothing.
func (l *Limiter) Replace(config Config) error {
	if err := config.Check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := slices.Clone(l.current.Load().rules)
	next := &limits{guard: config.LoopLimit}
	for _, rule := range config.Limits {
		next.rules = append(next.rules, inherit(rule, old))
	}
	l.current.Store(next)
	return nil
}

// inherit returns a counter for the rule, with the counts of one in old where
// there is one for the same; that is set to nil.
func inherit(rule Limit, old []*counter) *counter {
	rule.Tools = slices.Clone(rule.Tools)
	for _, fits := range []func(Limit, Limit) bool{Limit.equal, Limit.countsTheSame} {
		for i, c := range old {
			if c == nil || !fits(c.rule, rule) {
				continue
			}
			old[i] = nil
			if c.rule.equal(rule) {
				return c
			}
			next := newCounter(rule)
			next.running = c.running
			return next
		}
	}
	return newCounter(rule)
}

// limits is one configuration in force.
type limits struct {
	rules []*counter
	guard LoopLimit

	// byTool holds which rules apply to a tool: *tools.Spec → []*counter.
	byTool sync.Map
	known  atomic.Int32 // about how many entries it has
}

// maxKnown bounds the tools that a configuration remembers; many more come only
// from tools that are replaced again and again.
const maxKnown = 10_000

// of returns the rules that apply to a tool.
func (s *limits) of(spec *tools.Spec) []*counter {
	if len(s.rules) == 0 {
		return nil
	}
	if known, ok := s.byTool.Load(spec); ok {
		return known.([]*counter)
	}
	var found []*counter
	for _, c := range s.rules {
		if c.rule.appliesTo(spec) {
			found = append(found, c)
		}
	}
	if s.known.Add(1) > maxKnown {
		s.byTool.Clear()
		s.known.Store(1)
	}
	s.byTool.Store(spec, found)
	return found
}

// Take counts a call, or refuses it. Every rule that applies must agree: a call
// that one refuses takes nothing from any. The permit is to be released when the
// call has ended; it may be nil, which is as good as any other.
//
// The guard against loops is asked first: a caller that goes in circles must not
// be told to try again later.
func (l *Limiter) Take(call Key) (*Permit, *Refusal) {
	current := l.current.Load()
	rules := current.of(call.Spec)
	if len(rules) == 0 && current.guard == (LoopLimit{}) {
		return nil, nil
	}
	var attempt attempt
	if l.shared != nil {
		attempt = l.takeShared(rules, current.guard, &call)
	} else {
		l.take(&attempt, rules, current.guard, &call, int64(time.Since(l.began)))
	}
	// What is said about it is put into words without the lock.
	if attempt.loop != nil {
		return nil, attempt.loop
	}
	if attempt.worst.counter != nil {
		refusal := attempt.worst.refusal(call.Spec)
		return nil, &refusal
	}
	for i := range attempt.shadows {
		attempt.permit.shadows = append(attempt.permit.shadows, attempt.shadows[i].refusal(call.Spec))
	}
	return attempt.permit, nil
}

// attempt is what becomes of a call: it loops, or the worst of the rules that
// refuse it, or its permit and the shadow rules that would have refused it.
type attempt struct {
	loop    *Refusal
	worst   check
	permit  *Permit
	shadows []check

	// Where servers share the limits: whether tokens are taken, and not this server's share;
	// those that are missing, in which case nothing was decided; and those that soon will be.
	leased  bool
	lacking []lacking
	soon    []lacking
}

// take counts a call, unless the guard or a rule refuses it.
func (l *Limiter) take(v *attempt, rules []*counter, guard LoopLimit, call *Key, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var turn judgedCall
	guarded := guard != LoopLimit{}
	if guarded {
		if turn, v.loop = l.loops.judge(guard, call, now); v.loop != nil {
			return
		}
	}
	var few [3]check
	fits := few[:0]
	held := false
	for _, c := range rules {
		asked := check{counter: c, leased: v.leased, servers: l.servers(v.leased)}
		switch {
		case asked.ask(call, now):
			fits = append(fits, asked)
			held = held || c.rule.Concurrent > 0
		case asked.lacks:
			v.lacking = append(v.lacking, lacking{c, asked.lease, c.key(call)})
			v.worst = asked
		case c.rule.Shadow:
			v.shadows = append(v.shadows, asked)
		case v.worst.counter == nil || asked.wait > v.worst.wait:
			v.worst = asked
		}
	}
	if v.worst.counter != nil {
		return
	}
	if guarded {
		l.loops.take(turn, now)
	}
	if held || v.shadows != nil {
		v.permit = &Permit{limiter: l}
	}
	for i := range fits {
		fits[i].take(call, now, v.permit)
		if v.leased && fits[i].lease != nil {
			v.soon = append(v.soon, fits[i].takeLeased(call, now)...)
		}
	}
}

// servers returns by how many a rate is divided.
func (l *Limiter) servers(leased bool) int64 {
	if l.shared == nil || leased {
		return 1
	}
	return l.shared.servers()
}

// A Permit is the right of a call to run. The nil permit holds nothing.
type Permit struct {
	limiter *Limiter
	shadows []Refusal
	slots   []slot // guarded by limiter.mu
	first   [1]slot
}

// Shadows returns what would have refused the call if it were not in shadow
// mode.
func (p *Permit) Shadows() []Refusal {
	if p == nil {
		return nil
	}
	return p.shadows
}

// Release gives back what the call held while it ran. Only the first Release
// counts.
func (p *Permit) Release() {
	if p == nil {
		return
	}
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	for _, s := range p.slots {
		s.leave()
	}
	p.slots = nil
}

// hold takes a slot; the limiter's lock must be held.
func (p *Permit) hold(s slot) {
	s.running[s.key]++
	if p.slots == nil {
		p.slots = p.first[:0]
	}
	p.slots = append(p.slots, s)
}

// A Refusal says why a call may not run now.
type Refusal struct {
	// Limit is the name of the rule that refused, or of the loop guard.
	Limit string

	// RetryAfter is when the call would pass if nobody else came first. It is 0
	// where time alone does not help: a call has to end, or another to be made.
	RetryAfter time.Duration

	// Message tells the model, in a sentence or two.
	Message string
}
