// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/state/statetest"
	"github.com/toolserver/toolserver/internal/tools/schedule"
)

// TestReplicas has three schedulers see to the same schedules, of which one is killed: each time
// fires once, and what the dead one began is taken over.
func TestReplicas(t *testing.T) {
	engine, c := memory(t), new(clock)
	claims, err := engine.KV(t.Context(), state.Space{Name: "claims"})
	if err != nil {
		t.Fatal(err)
	}
	const count, rounds = 50, 4
	var doors []*door
	var replicas []*Schedules
	for range 3 {
		d := newDoor()
		d.claims, d.name = claims, rand.Text()
		s := open(t, engine, Options{Door: d, Now: c.now, Lasting: true, Config: Config{MaxPerPrincipal: count}})
		s.replicaTime, s.replicaTell = 2*time.Second, 200*time.Millisecond
		s.Begin()
		doors, replicas = append(doors, d), append(replicas, s)
	}
	for i := range count {
		replicas[i%3].must(t, schedule.New{Name: fmt.Sprint(i), Tool: "bash", When: schedule.When{Every: "5m"}, Overlap: schedule.OverlapAllow})
	}
	all := func() int { return doors[0].count() + doors[1].count() + doors[2].count() }
	doors[0].hold = make(chan struct{}) // what the first begins does not end
	for round := range rounds {
		if round == 2 {
			replicas[0].end(errKilled)
			replicas = replicas[1:]
		}
		waitFor(t, "not all replicas know of all schedules", func() bool {
			for _, s := range replicas {
				if len(s.kept.records.Keys(schedules)) != count {
					return false
				}
			}
			return true
		})
		due := c.now().Add(5 * time.Minute)
		c.ahead.Add(int64(5 * time.Minute))
		for _, s := range replicas {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
		waitFor(t, "not all times were seen to", func() bool {
			for i := range count {
				list, err := replicas[len(replicas)-1].List(t.Context(), env, fmt.Sprint(i))
				if err != nil || !list[0].Next.After(due) {
					return false
				}
			}
			return true
		})
	}
	waitFor(t, "something is still running", func() bool {
		for i := range count {
			list, err := replicas[0].List(t.Context(), env, fmt.Sprint(i))
			if err != nil || list[0].Running > 0 {
				return false
			}
		}
		return true
	})
	fired := make(map[string]int)
	for _, d := range doors {
		for session, times := range d.calls {
			fired[session] += times
		}
	}
	for session, times := range fired {
		if times != 1 {
			t.Errorf("%s fired %d times", session, times)
		}
	}
	if len(fired) != count*rounds {
		t.Errorf("%d fired, want %d", len(fired), count*rounds)
	}
	t.Logf("%d fired, %d by the one that was killed", all(), doors[0].count())
}

// TestAway has a firing made once the server takes calls again, and the next one after it.
func TestAway(t *testing.T) {
	d := newDoor()
	d.away = 2
	s := open(t, memory(t), Options{Door: d})
	s.must(t, schedule.New{Name: "a", Tool: "bash", Input: []byte("{}"), When: schedule.When{Every: "24h"}})
	if _, err := s.Fire(t.Context(), env, "a"); err != nil {
		t.Fatal(err)
	}
	for {
		list, err := s.List(t.Context(), env, "a")
		if err != nil {
			t.Fatal(err)
		}
		if past := list[0].History; len(past) > 0 {
			if past[0].Outcome != "succeeded" || d.count() != 1 {
				t.Error(past, d.count())
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestSessionOutlivesTheEnd has the session of a firing there until its end is stored: whoever takes the firing over
// before finds the call in it. One whose firing another process has taken over leaves both to that one.
func TestSessionOutlivesTheEnd(t *testing.T) {
	d := newDoor()
	d.hold = make(chan struct{})
	s := open(t, memory(t), Options{Door: d})
	s.must(t, schedule.New{Name: "a", Tool: "bash", Input: []byte("{}"), When: schedule.When{Every: "24h"}, Overlap: schedule.OverlapQueue})
	shut := make(chan []firing, 10) // with what was stored then as running
	stored := func() *record {
		k, err := s.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		entry, err := k.kv.Get(context.Background(), scheduleKey(ownerOf(env), "a"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := decodeRecord(entry.Value)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	d.shut = func(string) { shut <- stored().Running }
	fire := func(calls int) {
		t.Helper()
		if _, err := s.Fire(t.Context(), env, "a"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "it did not fire", func() bool { return d.count() == calls })
	}
	fire(1)
	d.hold <- struct{}{}
	if running := <-shut; len(running) != 0 {
		t.Errorf("the session was closed while %v was stored as running", running)
	}
	waitFor(t, "the end was not stored", func() bool { return len(s.outcomes(t, "a")) == 1 })

	fire(2)
	if _, err := s.change(t.Context(), s.kept, scheduleKey(ownerOf(env), "a"), func(r *record) bool { r.Running[0].By = "another"; return true }); err != nil {
		t.Fatal(err)
	}
	d.hold <- struct{}{}
	waitFor(t, "the firing goes on", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.running) == 0
	})
	if r := stored(); len(r.Running) != 1 || len(r.History) != 1 || len(shut) != 0 {
		t.Errorf("running %v, history %v, %d sessions closed: want one of another, one, none", r.Running, r.History, len(shut))
	}
}

// TestAnswersAreLost has the writes of a firing made and told as failed: it fires once all the same, and ends.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel() // it waits until writes are made again
	d, c, shut := newDoor(), new(clock), make(chan string, 10)
	d.shut = func(session string) { shut <- session }
	e := &statetest.Unsure{Engine: memory(t)}
	s := open(t, e, Options{Door: d, Now: c.now})
	s.must(t, schedule.New{Name: "a", Tool: "bash", Input: []byte("{}"), When: schedule.When{Every: "5m"}})
	<-shut          // the session of the preview
	e.Lost.Store(2) // that it begins, and that it has ended
	c.ahead.Add(int64(5 * time.Minute))
	s.wake <- struct{}{}
	if session := <-shut; d.count() != 1 || d.calls[session] != 1 {
		t.Errorf("%v were called, and %s was closed", d.calls, session)
	}
	if got := strings.Join(s.outcomes(t, "a"), " "); got != "succeeded" || e.Lost.Load() > 0 {
		t.Errorf("%s, and %d writes are not lost yet", got, e.Lost.Load())
	}
}

// TestTakenOver has firings of a process that is gone made, unless they were replaced, or began so long ago that the server
// does not know their calls any more.
func TestTakenOver(t *testing.T) {
	d, engine := newDoor(), memory(t)
	s := open(t, engine, Options{Door: d, Lasting: true, Alone: true, Remembered: time.Hour})
	for name, test := range map[string]struct {
		firing
		want string
	}{
		"a": {firing{Began: s.now().Add(-time.Minute)}, "succeeded"},
		"b": {firing{Began: s.now().Add(-2 * time.Hour)}, "lost"},
		"c": {firing{Began: s.now().Add(-time.Minute), Replaced: true}, "cancelled"},
	} {
		s.must(t, schedule.New{Name: name, Tool: "bash", Input: []byte("{}"), When: schedule.When{Every: "24h"}})
		test.By, test.At = "gone", s.now()
		if _, err := s.change(t.Context(), s.kept, scheduleKey(ownerOf(env), name), func(r *record) bool { r.Running = []firing{test.firing}; return true }); err != nil {
			t.Fatal(err)
		}
		s.adopt(s.kept)
		waitFor(t, name+" did not end", func() bool { return len(s.outcomes(t, name)) > 0 })
		if got := s.outcomes(t, name); len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
	if d.count() != 1 {
		t.Errorf("%d were called, want the one that is known", d.count())
	}
}
