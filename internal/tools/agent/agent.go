// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the family of tools that give tasks to agents, and steer
// them. It knows what a task is and nothing of how agents work on one.
package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/tools"
)

// Agents run tasks. Its methods are safe for concurrent use. Errors are [*tools.Failure]s.
type Agents interface {
	// All returns the agents of the operator, by name, and a number that changes when they do.
	All() ([]About, uint64)

	// Served returns the agents that runtimes of the caller of env serve, by name.
	Served(env tools.Env) []About

	// Begin has an agent work on a task for the caller of env, and tells out what happens.
	// A loop that is not in the background ends with ctx.
	Begin(ctx context.Context, env tools.Env, task Task, out tools.Sink) (Loop, error)

	// Crew has agents work on the stages of a crew until all have ended, and tells out what
	// happens. What came of them is in the order of the stages. Without that nothing began,
	// and the error says why.
	Crew(ctx context.Context, env tools.Env, crew *Crew, out tools.Sink) ([]Ending, error)

	// Find returns a loop that the session of env began.
	Find(env tools.Env, id string) (Loop, error)

	// Loops returns what the session of env began, the newest first.
	Loops(env tools.Env) []Status

	// Summarize takes the report of the agent whose session is that of env.
	Summarize(env tools.Env, summary Summary) error
}

// A Loop is an agent at work, or one that has ended and is still kept.
type Loop interface {
	// Wait waits until the loop has ended. What is said to out meanwhile, the agent hears.
	Wait(ctx context.Context, out tools.Sink) (Report, error)

	// Follow has out told what happens, until stop is called.
	Follow(out tools.Sink) (stop func())

	// Send says something to the agent, which hears it before its next turn.
	Send(message string) error

	// Stop ends the loop, for a reason, and waits until nothing of it runs.
	Stop(ctx context.Context, reason string) error

	// Status tells how it is.
	Status() Status
}

// About is what is told of an agent.
type About struct {
	Name, Description string
}

// A Task is what a caller wants done.
type Task struct {
	Agent, Description, Prompt string

	// Stage is the name of the stage of a crew that it is; empty where it is none.
	Stage string

	// Background says that the loop outlives the call that began it.
	Background bool

	// ReadOnly says that the agent is to change nothing.
	ReadOnly bool

	// Isolation says that the agent works in a git worktree of its own.
	Isolation Isolation

	// Context is what of the caller's conversation the agent is told.
	Context Context

	// ResultSchema is the JSON Schema of the result; empty where it is a text.
	ResultSchema json.RawMessage
}

// Isolation is where an agent works.
type Isolation string

// Where agents work.
const (
	Shared   Isolation = ""         // in the workspace of the caller
	Worktree Isolation = "worktree" // in a git worktree, on a branch of its own
)

// Context is what an agent is told of the conversation of its caller.
type Context struct {
	Strategy Strategy
	Messages []Message // that the caller sends; none: those the server has
}

// Strategy is how much that is.
type Strategy string

// The strategies.
const (
	None     Strategy = "none"
	Digest   Strategy = "summary"
	Filtered Strategy = "filtered"
	Full     Strategy = "full"
)

// A Message is one of a conversation.
type Message struct {
	Role string `json:"role" check:"enum=user|assistant"`
	Text string `json:"text" check:"min=1,max=200000"`

	Tools bool // it is of calls and results
}

// A Summary is how an agent ends its own loop.
type Summary struct {
	Text   string
	Result json.RawMessage
}

// A Report is what came of a task.
type Report struct {
	// Text is what the agent said at the end; Result is that as data, where a schema asked
	// for it.
	Text   string
	Result json.RawMessage

	// Turns, Calls and Usage are what it took.
	Turns, Calls int
	Usage        model.Usage

	// Branch is where the changes of an isolated agent are kept; empty where they were
	// merged, or there are none.
	Branch string
}

// Status is how a loop is.
type Status struct {
	ID, Agent, Description string
	Running                bool
	Doing                  string // in a few words
	Began, Ended           time.Time
	Report                 Report // so far
	Err                    error  // that ended it
}

// SummaryName is the tool by which an agent hands over its report.
const SummaryName = "summary"
