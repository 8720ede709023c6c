// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package workflow is the family of tools that write workflows down and run them. It knows
// what a workflow and a run are, and nothing of how one is carried on.
package workflow

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// Workflows keeps workflows, and runs them. What one principal has, another cannot tell from
// nothing. Its methods are safe for concurrent use. Errors are [*tools.Failure]s.
type Workflows interface {
	// Save keeps a definition under a name: a new one, or one that is there.
	Save(ctx context.Context, env tools.Env, name, text string, replace bool) (About, error)

	// CheckSave, Check and CheckRun return why something would fail, as far as that can be told
	// before: Save; Start, or without parameters Delete; Find.
	CheckSave(env tools.Env, name, text string, replace bool) error
	Check(env tools.Env, name string, parameters json.RawMessage) error
	CheckRun(env tools.Env, id string) error

	// Get returns a definition, List all of them, by name.
	Get(ctx context.Context, env tools.Env, name string) (About, error)
	List(ctx context.Context, env tools.Env) ([]About, error)

	// Delete forgets a definition. Runs of it go on.
	Delete(ctx context.Context, env tools.Env, name string) error

	// Validate returns what a definition is, or everything that is wrong with it.
	Validate(ctx context.Context, env tools.Env, text string) (About, error)

	// Start begins a run. The same call of the same session begins one run, however often it
	// is made. Where a digest is given, it fails with [ChangedCode] for a workflow that has another.
	Start(ctx context.Context, env tools.Env, name string, parameters json.RawMessage, digest string) (Run, error)

	// Find returns a run.
	Find(ctx context.Context, env tools.Env, id string) (Run, error)

	// Runs returns the runs that are kept, the newest first; of one workflow, or of all.
	Runs(ctx context.Context, env tools.Env, name string) ([]Status, error)

	// Lasting reports whether all this outlives the server.
	Lasting() bool
}

// A Run is a run of a workflow.
type Run interface {
	ID() string
	Status(ctx context.Context) (Status, error)

	// Wait tells out what happens until the run has ended or is paused, or ctx is done.
	Wait(ctx context.Context, out tools.Sink) (Status, error)

	// Pause lets steps that run end, and begins no further ones; Cancel ends those that run.
	Pause(ctx context.Context) error
	Cancel(ctx context.Context, reason string) error

	// Abandon cancels it because the call that began it has ended, unless the server ends.
	Abandon(ctx context.Context, reason string)

	// Resume has a run go on that is paused or has failed, in the session of env: from the
	// steps that failed, or after them where done says that what they were to do is done.
	Resume(ctx context.Context, env tools.Env, done bool) error
}

// About is what is told of a workflow.
type About struct {
	Name, Description, Text string
	Version                 int
	Changed                 time.Time
	Steps                   int
	Outline                 string
	Warnings                []string
}

// State is how a run is.
type State string

// How runs are.
const (
	Running   State = "running"
	Paused    State = "paused"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Succeeded State = "succeeded"
)

// Status is what is told of a run.
type Status struct {
	ID       string          `json:"run"`
	Workflow string          `json:"workflow"`
	State    State           `json:"state"`
	Step     string          `json:"step,omitempty"`   // that failed
	Code     string          `json:"code,omitempty"`   // of the failure
	Reason   string          `json:"reason,omitempty"` // in words
	Began    time.Time       `json:"began"`
	Ended    time.Time       `json:"ended,omitzero"`
	Result   json.RawMessage `json:"result,omitempty"`
	Pausing  bool            `json:"pausing,omitempty"` // it is to be paused
	Steps    []StepStatus    `json:"steps,omitempty"`
}

// StepStatus is what is told of a step that has begun.
type StepStatus struct {
	Step    string `json:"step"`
	State   string `json:"state"` // running, waiting, done, skipped, failed
	Attempt int    `json:"attempt,omitempty"`
	Reason  string `json:"reason,omitempty"`
}
