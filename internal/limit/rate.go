// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Limit bounds the calls of some tools, which share it: five calls a second
// for "read_*" are five calls of all tools that begin so, together.
type Limit struct {
	// Name is what a refusal gives as its reason.
	Name string

	// Tools are patterns as [tools.Matches] takes them; a call counts when one
	// matches.
	Tools []string

	// Rate is how many calls a second there may be in the long run; 0 means any
	// number.
	Rate float64

	// Burst is how many calls may come at once after a pause; 0 means those of a
	// second, and at least one. In any time t there are at most Burst + Rate·t.
	Burst int

	// Concurrent is how many calls may run at once; 0 means any number.
	Concurrent int

	// Per is whose calls are counted together.
	Per Scope

	// Shadow makes the rule count and report, but not refuse.
	Shadow bool
}

// Scope is whose calls a rule counts together.
type Scope int

const (
	Session   Scope = iota // each session by itself
	Principal              // all sessions of a principal
	Server                 // everybody
)

var scopeNames = [...]string{"session", "principal", "server"}

func (s Scope) String() string { return scopeNames[s] }

// UnmarshalText reads the word for a scope.
func (s *Scope) UnmarshalText(text []byte) error {
	i := slices.Index(scopeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no scope: want session, principal or server", text)
	}
	*s = Scope(i)
	return nil
}

// Limits of rules. An empty bucket must fill up in a time that can be counted
// in, and a nanosecond more or less between calls must not matter.
const (
	maxRate    = 1e6
	maxCount   = 1_000_000
	maxRefill  = 366 * 24 * time.Hour
	maxPattern = 256
)

// Check returns what is wrong with a rule.
func (r Limit) Check() error {
	switch {
	case r.Name == "":
		return errors.New("it has no name")
	case len(r.Tools) == 0:
		return fmt.Errorf("%s: it names no tools: \"*\" is all of them", r.Name)
	case len(r.Tools) > maxPattern:
		return fmt.Errorf("%s: %d patterns of tools: at most %d", r.Name, len(r.Tools), maxPattern)
	case math.IsNaN(r.Rate) || r.Rate < 0 || r.Rate > maxRate:
		return fmt.Errorf("%s: a rate of %v calls a second: want 0 to %v", r.Name, r.Rate, maxRate)
	case r.Burst < 0 || r.Burst > maxCount:
		return fmt.Errorf("%s: a burst of %d: want 0 to %d", r.Name, r.Burst, maxCount)
	case r.Burst > 0 && r.Rate == 0:
		return fmt.Errorf("%s: a burst without a rate limits nothing", r.Name)
	case r.Concurrent < 0 || r.Concurrent > maxCount:
		return fmt.Errorf("%s: %d calls at once: want 0 to %d", r.Name, r.Concurrent, maxCount)
	case r.Rate == 0 && r.Concurrent == 0:
		return fmt.Errorf("%s: it has neither a rate nor a number of concurrent calls", r.Name)
	case r.Per < Session || r.Per > Server:
		return fmt.Errorf("%s: unknown scope %d", r.Name, r.Per)
	case r.Rate > 0 && float64(r.burst())/r.Rate > maxRefill.Seconds():
		return fmt.Errorf("%s: %d calls at %v a second take more than a year to come back", r.Name, r.burst(), r.Rate)
	}
	if err := (tools.Selection{Include: r.Tools}).Check(); err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	return nil
}

func (r Limit) burst() int {
	if r.Burst > 0 {
		return r.Burst
	}
	return max(1, int(math.Ceil(r.Rate)))
}

// interval is the time in which one call comes back: rounded up, so that the
// rate is never exceeded.
func (r Limit) interval() int64 { return int64(math.Ceil(1e9 / r.Rate)) }

func (r Limit) appliesTo(spec *tools.Spec) bool {
	return slices.ContainsFunc(r.Tools, func(pattern string) bool { return tools.Matches(pattern, spec) })
}

func (r Limit) equal(other Limit) bool {
	return r.countsTheSame(other) &&
		r.Rate == other.Rate && r.Burst == other.Burst && r.Concurrent == other.Concurrent
}

// countsTheSame reports whether both rules count the same calls by the same
// name, whatever number they allow.
func (r Limit) countsTheSame(other Limit) bool {
	return r.Name == other.Name && r.Per == other.Per && r.Shadow == other.Shadow && slices.Equal(r.Tools, other.Tools)
}

// tooOften tells the model that it called too often.
func (r Limit) tooOften(tool string, retry time.Duration) string {
	return fmt.Sprintf("%s is limited to %s %s, with bursts of %d (limit %q). Call it again in %s, or do something else meanwhile.",
		tool, r.often(), r.where(), r.burst(), r.Name, readable(retry))
}

// tooMany tells the model that too many calls run.
func (r Limit) tooMany(tool string) string {
	calls, running := fmt.Sprintf("%d calls", r.Concurrent), fmt.Sprintf("%d are running", r.Concurrent)
	if r.Concurrent == 1 {
		calls, running = "one call", "one is running"
	}
	return fmt.Sprintf("%s is limited to %s at a time %s, and %s (limit %q). Call it again when one has ended.",
		tool, calls, r.where(), running, r.Name)
}

// often says the rate in a unit that gives a number above 1.
func (r Limit) often() string {
	switch {
	case r.Rate >= 1:
		return fmt.Sprintf("%.4g calls a second", r.Rate)
	case r.Rate*60 >= 1:
		return fmt.Sprintf("%.4g calls a minute", r.Rate*60)
	default:
		return fmt.Sprintf("%.4g calls an hour", r.Rate*3600)
	}
}

func (r Limit) where() string {
	switch r.Per {
	case Principal:
		return "for one caller"
	case Server:
		return "on this server"
	default:
		return "in one session"
	}
}

// readable rounds a time up to what is worth saying.
func readable(d time.Duration) time.Duration {
	unit := time.Millisecond
	if d > 10*time.Second {
		unit = time.Second
	} else if d > time.Second {
		unit = 100 * time.Millisecond
	}
	return (d + unit - 1).Truncate(unit)
}
