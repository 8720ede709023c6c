// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
)

// model is a token bucket written down as one thinks of it: tokens come back
// steadily, to a most, and every call takes one. It counts in fractions.
type model struct {
	tokens, burst *big.Rat
	interval      int64
	last          int64
}

func (m *model) take(now int64) bool {
	m.tokens.Add(m.tokens, big.NewRat(now-m.last, m.interval))
	m.last = now
	if m.tokens.Cmp(m.burst) > 0 {
		m.tokens.Set(m.burst)
	}
	one := big.NewRat(1, 1)
	if m.tokens.Cmp(one) < 0 {
		return false
	}
	m.tokens.Sub(m.tokens, one)
	return true
}

// TestBucketIsATokenBucket holds the bucket against the model, and against what
// a rule promises: in any time t at most Burst + Rate·t calls.
func TestBucketIsATokenBucket(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rule := Limit{
			Rate:  []float64{0.001, 0.3, 1, 3, 7, 99.9, 1000, 123456.7, 1e6}[random.IntN(9)],
			Burst: 1 + random.IntN(20),
		}
		c := newCounter(rule)
		m := model{big.NewRat(int64(rule.Burst), 1), big.NewRat(int64(rule.Burst), 1), c.interval, 0}
		var b bucket
		var taken []int64
		now := int64(0)
		for range 300 {
			switch random.IntN(4) {
			case 0: // at once
			case 1:
				now += random.Int64N(2 * c.interval)
			case 2:
				now += random.Int64N(c.depth + 1)
			case 3: // exactly when it is allowed
				if _, wait := b.next(now, c.interval, c.depth); wait > 0 {
					now += wait
				}
			}
			after, wait := b.next(now, c.interval, c.depth)
			if got, want := wait <= 0, m.take(now); got != want {
				t.Fatalf("%+v at %d: got %t, the model says %t", rule, now, got, want)
			}
			if wait > 0 {
				if _, left := b.next(now+wait-1, c.interval, c.depth); left != 1 {
					t.Fatalf("%+v at %d: waiting %d leaves %d", rule, now, wait-1, left)
				}
				if _, left := b.next(now+wait, c.interval, c.depth); left > 0 {
					t.Fatalf("%+v at %d: waiting %d is not enough", rule, now, wait)
				}
				continue
			}
			b = after
			taken = append(taken, now)
		}
		for i := range taken {
			for j := i; j < len(taken); j++ {
				seconds := float64(taken[j]-taken[i]) / 1e9
				if n := float64(j - i + 1); n > float64(rule.Burst)+rule.Rate*seconds+1e-6 {
					t.Fatalf("%+v: %v calls in %vs", rule, n, seconds)
				}
			}
		}
	}
}

// TestClockGoesBack proves that a clock that is set back neither gives calls
// away nor keeps callers waiting for longer than an empty bucket would.
func TestClockGoesBack(t *testing.T) {
	c := newCounter(Limit{Rate: 1, Burst: 5})
	now := int64(time.Hour)
	var b bucket
	take := func() bool {
		after, wait := b.next(now, c.interval, c.depth)
		if wait > 0 {
			if wait > c.interval {
				t.Errorf("a wait of %s", time.Duration(wait))
			}
			return false
		}
		b = after
		return true
	}
	for range 5 {
		if !take() {
			t.Error("refused in the burst")
		}
	}
	now = int64(time.Second)
	if take() {
		t.Error("the bucket was empty, and going back filled it")
	}
	now += c.interval - 1
	if _, wait := b.next(now, c.interval, c.depth); wait <= 0 {
		t.Error("given away")
	}
	now = 10 * int64(time.Hour)
	n := 0
	for take() {
		n++
	}
	if n != 5 {
		t.Errorf("%d after a leap ahead: want one burst", n)
	}
}

// TestIdleIsForgotten proves that any number of sessions leaves nothing behind, and
// that what is still owed is never forgotten.
func TestIdleIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Config{
			Limits:    []Limit{{Name: "r", Tools: []string{"*"}, Rate: 1, Burst: 10, Concurrent: 5}},
			LoopLimit: LoopLimit{Repeat: 100},
		})
		if err != nil {
			t.Fatal(err)
		}
		spec := &tools.Spec{Name: "x"}
		busy := Key{Spec: spec, Principal: "busy", Session: "1", Digest: [32]byte{1}}
		counter := l.current.Load().rules[0]
		taken, most, mostLoops := 0, 0, 0
		sessions := soaktest.Times(30_000, 1_000_000)
		for i := range sessions {
			permit, refusal := l.Take(Key{Spec: spec, Principal: "p", Session: fmt.Sprint(i), Digest: [32]byte{1}})
			if refusal != nil {
				t.Fatal(refusal)
			}
			permit.Release()
			if i%10 == 0 { // a hundred times as often as the rule allows
				busy.Digest[1]++
				if permit, refusal := l.Take(busy); refusal == nil {
					taken++
					permit.Release()
				}
			}
			time.Sleep(time.Millisecond)
			most = max(most, counter.buckets.size())
			mostLoops = max(mostLoops, l.loops.sessions.size())
		}
		// A bucket with one call taken is full after a second, the busy one after
		// ten: two generations are 20 seconds, with a thousand sessions each.
		t.Logf("at most %d buckets and %d histories for %d sessions", most, mostLoops, sessions)
		if most > 25_000 {
			t.Errorf("%d buckets were kept", most)
		}
		if limit := int(3 * loopMemory / time.Millisecond); mostLoops > limit {
			t.Errorf("%d histories were kept, want at most %d", mostLoops, limit)
		}
		if want := sessions/1000 + 9; taken < want-1 || taken > want+1 {
			t.Errorf("the busy session took %d, want %d", taken, want)
		}
		if n := len(counter.running); n != 0 {
			t.Errorf("%d sessions run still", n)
		}
		time.Sleep(time.Hour)
		for range 2 { // the busy one keeps those of its age for a while
			l.Take(busy)
			l.Take(Key{Spec: spec, Principal: "after a pause", Session: time.Now().String(), Digest: [32]byte{1}})
			time.Sleep(time.Hour)
		}
		l.Take(Key{Spec: spec, Principal: "after a pause", Session: time.Now().String(), Digest: [32]byte{1}})
		if n, m := counter.buckets.size(), l.loops.sessions.size(); n > minGeneration || m > minGeneration {
			t.Errorf("%d buckets and %d histories are left after a pause", n, m)
		}
		for i := range 3 * minGeneration {
			l.Take(Key{Spec: spec, Principal: "q", Session: fmt.Sprint(i), Digest: [32]byte{1}})
			time.Sleep(10 * time.Second)
		}
		if n := counter.buckets.size(); n > 2*minGeneration {
			t.Errorf("%d buckets are left", n)
		}
		if n := l.loops.sessions.size(); n > 3*minGeneration {
			t.Errorf("%d histories are left", n)
		}
	})
}

// TestToolsThatComeAndGo proves that a limiter does not remember every tool
// there ever was.
func TestToolsThatComeAndGo(t *testing.T) {
	l, err := New(Config{Limits: []Limit{{Name: "r", Tools: []string{"x"}, Rate: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxKnown {
		l.Take(Key{Spec: &tools.Spec{Name: "y"}})
	}
	n := 0
	l.current.Load().byTool.Range(func(any, any) bool { n++; return true })
	if n > maxKnown {
		t.Errorf("%d tools are known", n)
	}
}

// size returns how many values are kept.
func (a *aging[V]) size() int { return len(a.young.values) + len(a.old.values) }
