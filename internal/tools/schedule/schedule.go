// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package schedule is the family of tools that have calls made later, at times. It knows what
// a schedule is, and nothing of who sees to it.
package schedule

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// Schedules keeps schedules, and sees to them. What one principal has, another cannot tell
// from nothing. Its methods are safe for concurrent use. Errors are [*tools.Failure]s.
type Schedules interface {
	// Check returns why a schedule cannot be kept, as far as that can be told before.
	Check(env tools.Env, s New) error

	// Create keeps a schedule. A note says what its owner had better know.
	Create(ctx context.Context, env tools.Env, s New) (_ Status, note string, err error)

	// CheckName returns why there is no schedule of a name.
	CheckName(env tools.Env, name string) error

	// List returns the schedules, by name; with a name, that one.
	List(ctx context.Context, env tools.Env, name string) ([]Status, error)

	// Pause has a schedule not fire until it is resumed.
	Pause(ctx context.Context, env tools.Env, name string, paused bool) (Status, error)

	Delete(ctx context.Context, env tools.Env, name string) error

	// Fire has it fire now, besides, or reports that it does when the firing before has ended.
	Fire(ctx context.Context, env tools.Env, name string) (queued bool, err error)

	// Lasting reports whether all this outlives the server.
	Lasting() bool
}

// When is when a schedule fires: exactly one of Cron, Every and At.
type When struct {
	Cron  string `json:"cron,omitempty"`
	Zone  string `json:"time_zone,omitempty"`
	Every string `json:"every,omitempty"`
	At    string `json:"at,omitempty"`
}

// Text is a When in words.
func (w When) Text() string {
	switch {
	case w.Every != "":
		return "every " + w.Every
	case w.At != "":
		return "once, at " + w.At
	case w.Zone != "":
		return w.Cron + " in " + w.Zone
	}
	return w.Cron + " in UTC"
}

// New is a schedule that is to be kept.
type New struct {
	Name  string
	Tool  string
	Input json.RawMessage
	When
	Missed, Overlap string
}

// What becomes of times that were missed, and of those at which the firing before still runs.
const (
	MissedSkip, MissedOnce, MissedAll                             = "skip", "once", "all"
	OverlapAllow, OverlapSkip, OverlapQueue, OverlapReplaceBefore = "allow", "skip", "queue", "replace"
)

// Status is what is told of a schedule.
type Status struct {
	Name    string          `json:"name"`
	Tool    string          `json:"tool"`
	Input   json.RawMessage `json:"input,omitempty"`
	When    When            `json:"when"`
	Missed  string          `json:"missed"`
	Overlap string          `json:"overlap"`
	Paused  bool            `json:"paused,omitempty"`
	Next    time.Time       `json:"next,omitzero"`
	Running int             `json:"running,omitempty"`
	History []Past          `json:"history,omitempty"` // the newest last
}

// runTool runs workflows.
const runTool = "workflow_run"

// What is what a schedule has called, or the workflow that it has run.
func (s *Status) What() string {
	var of struct{ Name string }
	if s.Tool == runTool && json.Unmarshal(s.Input, &of) == nil && of.Name != "" {
		return "the workflow " + of.Name
	}
	return s.Tool
}

// Past is one time that a schedule fired, or did not.
type Past struct {
	At        time.Time `json:"at"`
	Began     time.Time `json:"began,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Outcome   string    `json:"outcome"` // succeeded, failed, refused, lost, skipped, missed
	Reason    string    `json:"reason,omitempty"`
	Output    string    `json:"output,omitempty"` // the beginning of what came of it
	Execution string    `json:"execution,omitempty"`
}
