// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/schedule"
)

// TestTimes has the times of schedules, also where clocks are changed.
func TestTimes(t *testing.T) {
	for _, test := range []struct {
		when schedule.When
		from string
		want string // in UTC
	}{
		{schedule.When{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "29T01:30 30T00:30"},                     // there is no 2:30 on the 29th
		{schedule.When{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24T12:00:00Z", "25T00:30 26T01:30"},                     // and twice on the 25th
		{schedule.When{Cron: "*/30 * * * *", Zone: "Europe/Berlin"}, "2026-10-25T00:20:00Z", "25T00:30 25T01:00 25T01:30 25T02:00"}, // which are all times
		{schedule.When{Cron: "0 9 * * 1-5"}, "2026-11-13T10:00:00Z", "16T09:00 17T09:00"},                                           // over a weekend
		{schedule.When{Every: "90m"}, "2026-11-13T10:00:00Z", "13T11:30 13T13:00"},
		{schedule.When{At: "2026-11-14T08:00:00+01:00"}, "2026-11-13T10:00:00Z", "14T07:00 never"},
	} {
		from, _ := time.Parse(time.RFC3339, test.from)
		all, err := timesOf(test.when, from)
		if err != nil {
			t.Errorf("%v: %v", test.when, err)
			continue
		}
		var got []string
		for at := from; len(got) < len(strings.Fields(test.want)); {
			if at = all.next(at); at.IsZero() {
				got = append(got, "never")
			} else {
				got = append(got, at.Format("02T15:04"))
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.when.Text(), got, test.want)
		}
	}
	for want, when := range map[string]schedule.When{
		"never fires":          {Cron: "0 0 31 2 *"},
		"want five fields":     {Cron: "TZ=UTC"},
		"such as 30 8 * * 1-5": {Cron: "* * * * * *"},
		"is not known":         {Cron: "0 0 * * *", Zone: "Europe/Nowhere"},
		"is no interval":       {Every: "-5m"},
		"is no time":           {At: "tomorrow"},
		"want exactly one":     {At: "2030-01-31T08:00:00Z", Every: "5m"},
		"an interval every":    {Cron: "@every 1s"},
	} {
		if _, err := timesOf(when, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", when, err, want)
		}
	}
}

// TestAdvance has what becomes of missed and overlapping times.
func TestAdvance(t *testing.T) {
	began := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		missed, overlap string
		away            time.Duration
		running         bool
		want            string // begun, queued, and the last of the history
	}{
		{"skip", "skip", 0, false, "1 0 "},
		{"skip", "skip", time.Hour, false, "0 0 missed"},
		{"once", "skip", time.Hour, false, "1 0 missed"},
		{"all", "skip", time.Hour, false, "1 12 "},
		{"all", "allow", 24 * time.Hour, false, "100 0 missed"},
		{"skip", "skip", 0, true, "0 0 skipped"},
		{"skip", "queue", 0, true, "0 1 "},
		{"skip", "replace", 0, true, "1 0 "},
		{"skip", "allow", 0, true, "1 0 "},
	} {
		r := &record{Name: "x", Created: began, When: schedule.When{Every: "5m"}, Missed: test.missed, Overlap: test.overlap, Next: began.Add(5 * time.Minute)}
		r.times, _ = timesOf(r.When, began)
		if test.running {
			r.Running = []firing{{At: began, By: "other"}}
		}
		now := r.Next.Add(test.away + 10*time.Millisecond)
		if test.away > 0 {
			now = now.Add(2 * time.Minute) // after a time, and before the next
		}
		begun := r.advance(now, "me")
		last := ""
		if n := len(r.History); n > 0 {
			last = r.History[n-1].Outcome
		}
		if got := fmt.Sprintf("%d %d %s", len(begun), len(r.Queue), last); got != test.want {
			t.Errorf("%s, %s, away %s, running %t: %s, want %s", test.missed, test.overlap, test.away, test.running, got, test.want)
		}
		if !r.Next.After(now) || r.Next.Sub(now) > 5*time.Minute {
			t.Errorf("%s: next %s at %s", test.missed, r.Next, now)
		}
		if test.overlap == "replace" && !r.Running[0].Replaced {
			t.Error("the firing before is not replaced")
		}
	}
}

// door is one that claims call ids as the executor does, in a state that several share.
type door struct {
	Door
	name    string
	claims  state.KV
	mu      sync.Mutex
	calls   map[string]int // by session
	hold    chan struct{}  // if set, calls end with it
	preview errand.Preview
	below   string // the session that the one of the caller is below
	away    int    // calls for which the server is away
	shut    func(session string)
}

func (d *door) SettingsOf(context.Context, errand.Who, string) (errand.Settings, error) {
	return errand.Settings{Mode: 2, Below: d.below}, nil
}
func (d *door) Open(context.Context, errand.Who, string, errand.Settings) error { return nil }
func (d *door) Shut(_ context.Context, _ errand.Who, session string) {
	if d.shut != nil {
		d.shut(session)
	}
}
func (d *door) Check(context.Context, errand.Who, string, string, json.RawMessage) (errand.Preview, error) {
	return d.preview, nil
}

func (d *door) Call(ctx context.Context, _ errand.Who, call errand.Call, _ func(*errand.Event)) (*errand.End, error) {
	if d.claims != nil {
		if !d.claim(ctx, call.Session+"/"+call.ID) {
			return &errand.End{Outcome: errand.Lost}, nil
		}
	}
	d.mu.Lock()
	if d.away > 0 {
		d.away--
		d.mu.Unlock()
		return nil, errand.ErrAway
	}
	d.calls[call.Session]++
	hold := d.hold
	d.mu.Unlock()
	if hold != nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-hold:
		}
	}
	return &errand.End{}, nil
}

// claim reports whether a call is this door's to make. It is not interrupted, and what a write
// that failed did is looked at.
func (d *door) claim(ctx context.Context, key string) (mine bool) {
	ctx = context.WithoutCancel(ctx)
	for wrote := false; ; wrote = true {
		_, err := d.claims.Create(ctx, key, []byte(d.name), 0)
		if err == nil {
			return true
		}
		if errors.Is(err, state.ErrConflict) {
			e, err := d.claims.Get(ctx, key)
			return wrote && err == nil && string(e.Value) == d.name
		}
	}
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, times := range d.calls {
		n += times
	}
	return n
}

func newDoor() *door {
	return &door{calls: make(map[string]int), preview: errand.Preview{Allowed: true}}
}

var env = tools.Env{Principal: "alice", SessionID: "s"}

func (s *Schedules) must(t *testing.T, n schedule.New) {
	t.Helper()
	if _, _, err := s.Create(t.Context(), env, n); err != nil {
		t.Fatal(err)
	}
}

// clock is one on the wall that can be set.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// open returns schedules on an engine, which end with the test.
func open(t *testing.T, engine state.Engine, options Options) *Schedules {
	t.Helper()
	options.Engine = func(context.Context) (state.Engine, error) { return engine, nil }
	s := New(options)
	t.Cleanup(func() { s.Close() })
	return s
}

func memory(t *testing.T) state.Engine {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	return engine
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// outcomes returns how the firings of a schedule ended, by their order.
func (s *Schedules) outcomes(t *testing.T, name string) (list []string) {
	t.Helper()
	found, err := s.List(t.Context(), env, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found[0].History {
		list = append(list, p.Outcome)
	}
	return list
}

// TestClockIsSet fires a schedule while the clock on the wall is set on by a day and back again:
// no time fires twice, what was missed is made up for once, and it goes on by the clock.
func TestClockIsSet(t *testing.T) {
	c, d := new(clock), newDoor()
	s := open(t, memory(t), Options{Door: d, Now: c.now})
	s.must(t, schedule.New{Name: "x", Tool: "bash", When: schedule.When{Every: "5m"}})
	set := func(by time.Duration, want int, outcomes string) {
		t.Helper()
		c.ahead.Add(int64(by))
		s.wake <- struct{}{}
		waitFor(t, fmt.Sprintf("set by %s: %d calls and %v, want %d and %s", by, d.count(), s.outcomes(t, "x"), want, outcomes), func() bool {
			return d.count() == want && strings.Join(s.outcomes(t, "x"), " ") == outcomes
		})
	}
	set(5*time.Minute, 1, "succeeded")
	set(24*time.Hour+2*time.Minute, 2, "succeeded missed succeeded")
	set(-24*time.Hour-2*time.Minute, 2, "succeeded missed succeeded")
	waitFor(t, "it does not go on by the clock", func() bool {
		list, err := s.List(t.Context(), env, "x")
		return err == nil && list[0].Next.Sub(c.now()) <= 5*time.Minute
	})
	set(5*time.Minute, 3, "succeeded missed succeeded succeeded")
	for session, times := range d.calls {
		if times != 1 {
			t.Errorf("%s fired %d times", session, times)
		}
	}
}

// TestOwners has what one may make, and what another sees of it.
func TestOwners(t *testing.T) {
	d, c := newDoor(), new(clock)
	lost := errors.New("alice may not call tools any more")
	var gone atomic.Bool
	s := open(t, memory(t), Options{Door: d, Now: c.now, Config: Config{MaxPerPrincipal: 2}, Known: func(w errand.Who) (errand.Who, error) {
		if gone.Load() {
			return w, lost
		}
		return w, nil
	}})
	every := schedule.When{Every: "1h"}
	s.must(t, schedule.New{Name: "a/b", Tool: "bash", When: every})
	refused := func(code string, n schedule.New) {
		t.Helper()
		var failure *tools.Failure
		if _, _, err := s.Create(t.Context(), env, n); !errors.As(err, &failure) || failure.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	refused("schedule_exists", schedule.New{Name: "a/b", Tool: "bash", When: every})
	refused("too_often", schedule.New{Name: "c", Tool: "bash", When: schedule.When{Every: "59s"}})
	refused("invalid_time", schedule.New{Name: "c", Tool: "bash", When: schedule.When{At: "2020-01-01T00:00:00Z"}})
	refused("invalid_time", schedule.New{Name: "c", Tool: "bash", When: schedule.When{Cron: "0 0 31 2 *"}})
	d.preview = errand.Preview{Reason: "No."}
	refused("denied", schedule.New{Name: "c", Tool: "bash", When: every})
	d.preview = errand.Preview{Allowed: true}
	s.must(t, schedule.New{Name: "c", Tool: "bash", When: every})
	refused("too_many_schedules", schedule.New{Name: "d", Tool: "bash", When: every})
	for _, other := range []tools.Env{{Principal: "bob"}, {Principal: "alice", Tenant: "acme"}, {Principal: "alice/a"}} {
		_, listed := s.List(t.Context(), other, "a/b")
		_, paused := s.Pause(t.Context(), other, "a/b", true)
		_, fired := s.Fire(t.Context(), other, "a/b")
		for _, err := range []error{listed, paused, s.Delete(t.Context(), other, "a/b"), fired} {
			var failure *tools.Failure
			if !errors.As(err, &failure) || failure.Code != "no_such_schedule" || strings.Contains(failure.Message, "There are:") {
				t.Errorf("%s/%s: %v", other.Tenant, other.Principal, err)
			}
		}
		if all, err := s.List(t.Context(), other, ""); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
	}
	gone.Store(true)
	if _, err := s.Fire(t.Context(), env, "c"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the firing was not refused", func() bool { return strings.Join(s.outcomes(t, "c"), " ") == "refused" })
	if d.count() != 0 {
		t.Error("it was called all the same")
	}
}

// TestOverlaps has two firings overlap.
func TestOverlaps(t *testing.T) {
	d := newDoor()
	d.hold = make(chan struct{})
	s := open(t, memory(t), Options{Door: d})
	for _, overlap := range []string{"skip", "queue", "replace", "allow"} {
		s.must(t, schedule.New{Name: overlap, Tool: "bash", When: schedule.When{Every: "1h"}, Overlap: overlap})
		before := d.count()
		if queued, err := s.Fire(t.Context(), env, overlap); err != nil || queued {
			t.Fatal(queued, err)
		}
		waitFor(t, "it does not fire", func() bool { return d.count() == before+1 })
		queued, err := s.Fire(t.Context(), env, overlap)
		if queued != (overlap == "queue") || (err != nil) != (overlap == "skip") {
			t.Errorf("%s: queued %t, %v", overlap, queued, err)
		}
		if overlap == "replace" || overlap == "allow" {
			waitFor(t, "it does not fire beside the first", func() bool { return d.count() == before+2 })
		}
	}
	waitFor(t, "nothing was replaced", func() bool { return strings.Join(s.outcomes(t, "replace"), " ") == "cancelled" && d.count() == 6 })
	close(d.hold)
	for overlap, want := range map[string]string{"skip": "skipped succeeded", "queue": "succeeded succeeded", "replace": "cancelled succeeded", "allow": "succeeded succeeded"} {
		waitFor(t, fmt.Sprintf("%s: %v, want %s", overlap, s.outcomes(t, overlap), want), func() bool { return strings.Join(s.outcomes(t, overlap), " ") == want })
	}
}

// TestHeapStaysSmall has what is changed again and again, or deleted, not be waited for as often.
func TestHeapStaysSmall(t *testing.T) {
	s := open(t, memory(t), Options{Door: newDoor(), Config: Config{MaxPerPrincipal: 5000}})
	for i := range 1200 {
		name := fmt.Sprint(i)
		s.must(t, schedule.New{Name: name, Tool: "bash", When: schedule.When{Every: "24h"}})
		if _, err := s.Pause(t.Context(), env, name, i%2 == 0); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), env, name); err != nil {
			t.Fatal(err)
		}
	}
	s.must(t, schedule.New{Name: "last", Tool: "bash", When: schedule.When{Every: "24h"}})
	waitFor(t, "what was deleted is waited for", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waited) == 1 && len(s.heap) <= 1100
	})
}

// TestBelow has no schedule made, fired or resumed in the session of an agent that another session asked for.
func TestBelow(t *testing.T) {
	d := newDoor()
	s := open(t, memory(t), Options{Door: d})
	s.must(t, schedule.New{Name: "there", Tool: "bash", Input: []byte("{}"), When: schedule.When{Every: "1h"}})
	d.below = "main"
	_, _, created := s.Create(t.Context(), env, schedule.New{Name: "a", Tool: "bash", Input: []byte("{}"), When: schedule.When{Every: "1h"}})
	_, fired := s.Fire(t.Context(), env, "there")
	if _, err := s.Pause(t.Context(), env, "there", true); err != nil {
		t.Error(err)
	}
	_, resumed := s.Pause(t.Context(), env, "there", false)
	for what, err := range map[string]error{"created": created, "fired": fired, "resumed": resumed} {
		if err == nil || !strings.Contains(err.Error(), "works for the session main") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := s.List(t.Context(), env, "there"); err != nil || !list[0].Paused || len(list[0].History) > 0 || d.count() > 0 {
		t.Errorf("%+v, %v, %d calls", list, err, d.count())
	}
}

// TestInputBound has no more kept than a schedule may have.
func TestInputBound(t *testing.T) {
	_, _, err := open(t, memory(t), Options{Door: newDoor()}).Create(t.Context(), env, schedule.New{Name: "a", Tool: "bash", Input: make([]byte, maxInput+1), When: schedule.When{Every: "1h"}})
	if err == nil || !strings.Contains(err.Error(), "at most 65536") {
		t.Error(err)
	}
}
