// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools/schedule"
)

const (
	recordVersion = 1
	schedules     = "sched/"
	replicas      = "replica/"

	maxInput    = 64 << 10 // bytes
	maxHistory  = 30
	maxQueue    = 100
	maxCatchUp  = 100             // times that were missed and are made up for
	missedAfter = 1 * time.Minute // a time that is over for longer was missed
)

// record is a schedule as it is stored. It is changed by compare-and-set alone: whoever moves
// Next on has the times between to see to, and nobody else has.
type record struct {
	Version  int             `json:"v"`
	Name     string          `json:"name"`
	Created  time.Time       `json:"created"`
	Who      errand.Who      `json:"who"`
	Settings errand.Settings `json:"settings"` // of the sessions that it fires in
	Tool     string          `json:"tool"`
	Input    json.RawMessage `json:"input"`
	Digest   string          `json:"digest,omitempty"` // of the workflow that it runs, as it was
	When     schedule.When   `json:"when"`
	Missed   string          `json:"missed"`
	Overlap  string          `json:"overlap"`
	Paused   bool            `json:"paused,omitempty"`
	Next     time.Time       `json:"next,omitzero"`
	Running  []firing        `json:"running,omitempty"`
	Queue    []time.Time     `json:"queue,omitempty"`
	History  []schedule.Past `json:"history,omitempty"`

	times times // of When; nil where it cannot be read
}

// firing is one that has begun and not ended.
type firing struct {
	At       time.Time `json:"at"`
	Began    time.Time `json:"began"`
	By       string    `json:"by"` // the process
	Replaced bool      `json:"replaced,omitempty"`
	Taken    bool      `json:"taken,omitempty"` // over from a process that is gone: it may have begun
}

func scheduleKey(owner, name string) string { return schedules + state.Key(owner, name) }
func (r *record) key() string               { return scheduleKey(r.Who.Owner(), r.Name) }

// id names the schedule for ever: one of the same name that is made later is another.
func (r *record) id() string {
	sum := sha256.Sum256([]byte(state.Key(r.Who.Owner(), r.Name, strconv.FormatInt(r.Created.UnixNano(), 10))))
	return hex.EncodeToString(sum[:8])
}

// session is where the schedule fires at a time.
func (r *record) session(at time.Time) string {
	return fmt.Sprintf("schedule-%s-%d", r.id(), at.UnixMilli())
}

// input is what the tool is called with: the workflow that it runs has to be the one that was meant.
func (r *record) input() json.RawMessage {
	if r.Digest == "" {
		return r.Input
	}
	fields := make(map[string]json.RawMessage)
	if json.Unmarshal(r.Input, &fields) != nil {
		return r.Input // which the tool refuses
	}
	fields["digest"], _ = json.Marshal(r.Digest)
	input, err := json.Marshal(fields)
	if err != nil {
		return r.Input
	}
	return input
}

func decodeRecord(text []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if r.Version > recordVersion {
		return nil, fmt.Errorf("it is of version %d, and this server knows %d", r.Version, recordVersion)
	}
	r.times, _ = timesOf(r.When, r.Created) // it was read before
	return r, nil
}

func (r *record) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return text
}

// clone returns a copy that can be changed.
func (r *record) clone() *record {
	c := *r
	c.Running, c.Queue, c.History = slices.Clone(r.Running), slices.Clone(r.Queue), slices.Clone(r.History)
	return &c
}

// past adds to the history.
func (r *record) past(p schedule.Past) {
	r.History = append(r.History, p)
	if n := len(r.History); n > maxHistory {
		r.History = slices.Clone(r.History[n-maxHistory:])
	}
}

// fired reports whether a time has been seen to already, as where the clock was set back.
func (r *record) fired(at time.Time) bool {
	return slices.ContainsFunc(r.History, func(p schedule.Past) bool { return p.At.Equal(at) && p.Outcome != "skipped" && p.Outcome != "missed" }) ||
		r.sees(at)
}

// advance sees to all times that are due: it moves Next on, and returns which are to be begun.
func (r *record) advance(now time.Time, by string) (begin []firing) {
	if r.Paused || r.times == nil || r.Next.IsZero() || r.Next.After(now) {
		return nil
	}
	var due []time.Time
	missed := 0
	at := r.Next
	for ; !at.IsZero() && !at.After(now); at = r.times.next(at) {
		if due = append(due, at); len(due) > maxCatchUp { // the oldest are only counted
			due = due[1:]
			missed++
		}
		if missed > 10*maxCatchUp { // after a long time away
			at = r.times.next(now)
			break
		}
	}
	r.Next = at
	late := 0
	for late < len(due) && now.Sub(due[late]) > missedAfter {
		late++
	}
	missed += late
	var makeUp []time.Time
	switch {
	case missed == 0 || r.Missed == schedule.MissedSkip:
	case r.Missed == schedule.MissedOnce && late == len(due): // else the one that is due makes up for it
		makeUp, missed = due[late-1:late], missed-1
	case r.Missed == schedule.MissedAll:
		makeUp, missed = due[:late], missed-late
	}
	if missed > 0 {
		r.past(schedule.Past{At: due[max(late-1, 0)], Outcome: "missed", Reason: fmt.Sprintf("%d times were over when nobody was there to see to them", missed)})
	}
	for _, at := range makeUp {
		begin = append(begin, r.begin(at, now, by, true)...)
	}
	for _, at := range due[late:] {
		begin = append(begin, r.begin(at, now, by, false)...)
	}
	return begin
}

// begin sees to one time: it fires, waits, or does neither. One that is made up for waits for
// others like it.
func (r *record) begin(at, now time.Time, by string, madeUp bool) []firing {
	overlap := r.Overlap
	if madeUp && overlap == schedule.OverlapSkip {
		overlap = schedule.OverlapQueue
	}
	switch {
	case r.fired(at):
		return nil
	case len(r.Running) == 0 || overlap == schedule.OverlapAllow:
	case overlap == schedule.OverlapQueue && len(r.Queue) < maxQueue:
		r.Queue = append(r.Queue, at)
		return nil
	case overlap == schedule.OverlapReplaceBefore:
		for i := range r.Running {
			r.Running[i].Replaced = true
		}
	default:
		r.past(schedule.Past{At: at, Outcome: "skipped", Reason: "the firing before has not ended"})
		return nil
	}
	f := firing{At: at, Began: now, By: by}
	r.Running = append(r.Running, f)
	return []firing{f}
}

// sees reports whether somebody sees to a time now.
func (r *record) sees(at time.Time) bool {
	return slices.ContainsFunc(r.Running, func(f firing) bool { return f.At.Equal(at) })
}

// seenBy returns the firing of a time that a process sees to; nil if it does not.
func (r *record) seenBy(at time.Time, by string) *firing {
	i := slices.IndexFunc(r.Running, func(f firing) bool { return f.At.Equal(at) && f.By == by })
	if i < 0 {
		return nil
	}
	return &r.Running[i]
}

// end takes that a firing has ended, unless that is known, and returns the one that waited for that.
func (r *record) end(at time.Time, how schedule.Past, now time.Time, by string) (begin []firing, ended bool) {
	before := len(r.Running)
	r.Running = slices.DeleteFunc(r.Running, func(f firing) bool { return f.At.Equal(at) })
	if len(r.Running) == before {
		return nil, false
	}
	r.past(how)
	if len(r.Queue) > 0 && len(r.Running) == 0 {
		next := r.Queue[0]
		r.Queue = r.Queue[1:]
		begin = r.begin(next, now, by, true)
	}
	return begin, true
}

func (r *record) status() schedule.Status {
	return schedule.Status{
		Name: r.Name, Tool: r.Tool, Input: r.Input, When: r.When, Missed: r.Missed, Overlap: r.Overlap, Paused: r.Paused,
		Next: r.Next, Running: len(r.Running), History: r.History,
	}
}
