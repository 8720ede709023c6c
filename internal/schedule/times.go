// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/toolserver/toolserver/internal/tools/schedule"
)

// times is when a schedule fires.
type times interface {
	// next returns the first time after another; zero where there is none.
	next(after time.Time) time.Time
}

// parser knows the five fields of cron, and words such as @daily.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// timesOf reads when a schedule fires: exactly one of cron, every and at. The interval begins
// at the time begin.
func timesOf(w schedule.When, begin time.Time) (times, error) {
	switch {
	case w.Cron != "" && w.Every == "" && w.At == "":
		return cronOf(w.Cron, w.Zone)
	case w.Every != "" && w.Cron == "" && w.At == "":
		d, err := time.ParseDuration(w.Every)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("every: %.64q is no interval: want one such as 90s, 15m or 24h", w.Every)
		}
		return interval{begin.Truncate(time.Second), d}, nil
	case w.At != "" && w.Cron == "" && w.Every == "":
		at, err := time.Parse(time.RFC3339, w.At)
		if err != nil {
			return nil, fmt.Errorf("at: %.64q is no time: want one such as 2030-01-31T08:00:00Z or 2030-01-31T08:00:00+01:00", w.At)
		}
		return once{at.UTC()}, nil
	}
	return nil, errors.New("want exactly one of cron, every and at")
}

// daily is a schedule of cron in a time zone.
type daily struct {
	cron.Schedule
	zone  *time.Location
	hours bool // it names hours
}

func cronOf(text, zone string) (times, error) {
	if strings.Contains(text, "=") || strings.HasPrefix(text, "@every") {
		return nil, fmt.Errorf("cron: %.64q: want five fields (minute hour day month weekday), or @hourly, @daily, @weekly, @monthly; the time zone is time_zone, an interval every", text)
	}
	location, err := time.LoadLocation(zone) // empty: UTC
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("time_zone: %.64q is not known: want one such as Europe/Berlin or UTC", zone)
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cron: %.100q: %v: want five fields: minute hour day month weekday, such as 30 8 * * 1-5", text, err)
	}
	fields := strings.Fields(text)
	d := daily{parsed, location, len(fields) != 5 || !strings.HasPrefix(fields[1], "*")}
	if d.next(time.Now()).IsZero() {
		return nil, fmt.Errorf("cron: %.100q never fires: there is no such day", text)
	}
	return d, nil
}

// next returns the first time after another. In the hour that a change of clocks leaves out,
// what would fire does so as much later; in the hour that comes twice, what names an hour
// fires in the first of them alone.
func (d daily) next(after time.Time) time.Time {
	at := d.Next(after.In(d.zone))
	for d.hours && !at.IsZero() && again(at) {
		at = d.Next(at)
	}
	if at.IsZero() {
		return at
	}
	return at.UTC()
}

// again reports whether a time is in an hour that comes for the second time.
func again(at time.Time) bool {
	for _, back := range []time.Duration{time.Hour, 30 * time.Minute} {
		if before := at.Add(-back); before.Hour() == at.Hour() && before.Minute() == at.Minute() {
			return true
		}
	}
	return false
}

// interval fires again and again.
type interval struct {
	begin time.Time
	every time.Duration
}

func (i interval) next(after time.Time) time.Time {
	if after.Before(i.begin) {
		return i.begin.Add(i.every).UTC()
	}
	return i.begin.Add((after.Sub(i.begin)/i.every + 1) * i.every).UTC()
}

// once fires at a time.
type once struct{ at time.Time }

func (o once) next(after time.Time) time.Time {
	if o.at.After(after) {
		return o.at
	}
	return time.Time{}
}

// shortest returns the shortest time between two firings, of the next ones.
func shortest(t times, from time.Time) time.Duration {
	const looked = 100
	least := time.Duration(1<<63 - 1)
	last := t.next(from)
	for range looked {
		if last.IsZero() {
			break
		}
		at := t.next(last)
		if at.IsZero() {
			break
		}
		least = min(least, at.Sub(last))
		last = at
	}
	return least
}
