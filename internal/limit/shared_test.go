// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// entries are a bucket of the state in memory, without what limits do not use.
type entries struct {
	state.KV
	away atomic.Bool

	mu       sync.Mutex
	values   map[string]state.Entry
	revision state.Revision
	asked    int
}

func (e *entries) Get(_ context.Context, key string) (state.Entry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	found, ok := e.values[key]
	switch {
	case e.away.Load():
		return state.Entry{}, state.ErrUnavailable
	case !ok:
		return state.Entry{}, state.ErrNotFound
	}
	return found, nil
}

func (e *entries) Update(_ context.Context, key string, value []byte, last state.Revision, _ time.Duration) (state.Revision, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	switch {
	case e.away.Load():
		return 0, state.ErrUnavailable
	case e.values[key].Revision != last:
		return 0, state.ErrConflict
	}
	e.revision++
	e.values[key] = state.Entry{Key: key, Value: value, Revision: e.revision}
	return e.revision, nil
}

var someTool = &tools.Spec{Name: "tool"}

// sharing returns limiters of as many servers, with one limit.
func sharing(t *testing.T, kv state.KV, servers int, rule limit.Limit) (list []*limit.Limiter, shared *limit.Shared) {
	t.Helper()
	rule.Name, rule.Tools = "rule", []string{"*"}
	for range servers {
		limiter, err := limit.New(limit.Config{Limits: []limit.Limit{rule}})
		if err != nil {
			t.Fatal(err)
		}
		shared = limit.NewShared(limit.SharedConfig{Entries: kv, Servers: func() int { return servers }})
		limiter.Share(shared, "test")
		list = append(list, limiter)
	}
	return list, shared
}

// offer makes calls of all servers for a time, each server one at a time, and returns how many
// were allowed, and made.
func offer(limiters []*limit.Limiter, every, during time.Duration) (allowed, made int) {
	var counts [2]atomic.Int64
	var all sync.WaitGroup
	for i, limiter := range limiters {
		all.Go(func() {
			time.Sleep(every * time.Duration(i) / time.Duration(len(limiters)))
			for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(every) {
				counts[1].Add(1)
				if _, refusal := limiter.Take(limit.Key{Spec: someTool}); refusal == nil {
					counts[0].Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(counts[0].Load()), int(counts[1].Load())
}

// TestSharedRate: three servers keep to one rate, neither above it nor much below, in few
// messages; and to a third of it each while they cannot ask.
func TestSharedRate(t *testing.T) {
	const rate, burst, seconds = 1000, 200, 3
	for name, test := range map[string]struct {
		every       time.Duration // between the calls of a server
		away        bool
		least, most int
	}{
		"far too many": {time.Millisecond, false, rate * seconds * 98 / 100, rate*seconds + burst},
		"fewer":        {4 * time.Millisecond, false, 750 * seconds * 98 / 100, 750*seconds + 3},
		"away":         {time.Millisecond, true, rate * seconds * 98 / 100, rate*seconds + burst},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv := &entries{values: make(map[string]state.Entry)}
				kv.away.Store(test.away)
				limiters, shared := sharing(t, kv, 3, limit.Limit{Rate: rate, Burst: burst, Per: limit.Server})
				allowed, made := offer(limiters, test.every, seconds*time.Second)
				if allowed < test.least || allowed > test.most {
					t.Errorf("%d of %d calls were allowed, want %d to %d", allowed, made, test.least, test.most)
				}
				if kv.asked > made/5 {
					t.Errorf("%d calls took %d messages", made, kv.asked)
				}
				if (shared.Away() != nil) != test.away {
					t.Errorf("away: %v", shared.Away())
				}
				t.Logf("%d of %d calls, %d messages", allowed, made, kv.asked)

				kv.away.Store(false) // and it goes on by itself
				time.Sleep(2 * time.Second)
				if again, _ := offer(limiters, time.Millisecond, seconds*time.Second); again < rate*seconds*98/100 || again > rate*seconds+burst || shared.Away() != nil {
					t.Errorf("afterwards %d calls were allowed, %v", again, shared.Away())
				}
				synctest.Wait()
			})
		})
	}
}

// TestSharedBurst: many calls at once on two servers, by the real engine, are no more than one
// server would allow.
func TestSharedBurst(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	kv, err := engine.KV(t.Context(), state.Space{Name: "limits", Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	const burst = 10
	limiters, shared := sharing(t, kv, 2, limit.Limit{Rate: 1. / 3600, Burst: burst, Per: limit.Session})
	for _, session := range []string{"a", "b"} {
		var allowed atomic.Int64
		var all sync.WaitGroup
		for i := range 8 * burst {
			all.Go(func() {
				if _, refusal := limiters[i%2].Take(limit.Key{Spec: someTool, Principal: "p", Session: session}); refusal == nil {
					allowed.Add(1)
				} else if refusal.RetryAfter <= 0 {
					t.Errorf("%+v", refusal)
				}
			})
		}
		all.Wait()
		for i := range 2 * burst { // what lost the race above is there for those who ask again
			if _, refusal := limiters[i%2].Take(limit.Key{Spec: someTool, Principal: "p", Session: session}); refusal == nil {
				allowed.Add(1)
			}
		}
		if allowed.Load() != burst || shared.Away() != nil {
			t.Errorf("session %s: %d calls were allowed, want %d; %v", session, allowed.Load(), burst, shared.Away())
		}
	}
}
