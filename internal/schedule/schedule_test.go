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
	"testing"
	"testing/synctest"
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
		{"all", "skip", time.Hour, false, "1 11 "},
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
		if got := fmt.Sprint(len(begun), len(r.Queue), " ", last); strings.TrimSpace(got) != strings.TrimSpace(strings.Replace(test.want, " ", " ", 1)) && fmt.Sprintf("%d %d %s", len(begun), len(r.Queue), last) != test.want {
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
	claims  state.KV
	mu      sync.Mutex
	calls   map[string]int // by session
	hold    chan struct{}  // if set, calls end with it
	preview errand.Preview
}

func (d *door) SettingsOf(context.Context, errand.Who, string) (errand.Settings, error) {
	return errand.Settings{Mode: 2}, nil
}
func (d *door) Open(context.Context, errand.Who, string, errand.Settings) error { return nil }
func (d *door) Shut(context.Context, errand.Who, string)                        {}
func (d *door) Check(context.Context, errand.Who, string, string, json.RawMessage) (errand.Preview, error) {
	return d.preview, nil
}

func (d *door) Call(ctx context.Context, _ errand.Who, call errand.Call, _ func(*errand.Event)) (*errand.End, error) {
	if d.claims != nil {
		if _, err := d.claims.Create(ctx, call.Session+"/"+call.ID, nil, 0); errors.Is(err, state.ErrConflict) {
			return &errand.End{Outcome: errand.Lost}, nil
		}
	}
	d.mu.Lock()
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
