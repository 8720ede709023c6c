// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent runs agents, those of the operator and those that runtimes serve: a task goes to a
// [Runner], which works in a session of its own below that of the caller. A runner is a caller like any other: each of
// its calls goes through the chain of the server, on behalf of whom the task is for, and
// nothing is decided here.
//
// The parts:
//
//	agent.go       what a runner is given, tells and returns
//	definition.go  agents in the configuration and in Markdown files of folders
//	agents.go      which loops there are: begins and finds them
//	loop.go        one of them: steered, followed, ended
//	crew.go        several of them for one call, each after those that it depends on
//	context.go     what one is told of the conversation of its caller
//	worktree.go    a git worktree for one that works apart
//	runner.go      the runner of models: model → calls → results, until the task is done
//	turn.go        one turn of it: calls begin while the model writes
//	nested.go      what the caller's stream is told of it
//	served.go      the runtimes that serve agents: which there are, and who is given what
//	stream.go      the stream of one of them
//	serving.go     the runner of runtimes: a task → a runtime → its report
//	followed.go    what calls do that a runtime makes
//
// Locks: that of [Agents] guards which loops there are, that of a loop what is known of it;
// whoever holds the first may take the second. That of [Runtimes] is independent of both.
// None is held while something is waited for.
//
// Goroutines: a loop has one. A turn with calls has one that receives,
// until the turn has ended. A stage of a crew has one that waits for its loop. The stream of a
// runtime has one that receives and one that sends, until its RPC has ended; a task that a
// runtime works on has one that watches its calls.
package agent

import (
	"context"
	"io"

	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/tools/agent"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A Runner runs tasks of agents: by a model of an endpoint, or by a runtime that serves them.
// It is safe for concurrent use.
type Runner interface {
	// Run works on a task until it is done, and tells what happens meanwhile. It stops soon
	// after ctx is done. An error says in words why the task was not done: a
	// [*tools.Failure], or the cause of ctx. The report tells what was done all the same.
	Run(ctx context.Context, task *Task, tell func(*Update)) (Report, error)
}

// A Task is one thing for one agent to do. Its session is there already, with the rights that
// the agent has below its caller, and is closed by whoever made it.
type Task struct {
	// ID is the id of the loop, and of the session that it works in.
	ID string

	// Agent is who is to do it.
	Agent *Definition

	// Description is what the task is in a few words. Prompt is what is to be done; Before
	// is what was said before it, of the conversation of the caller, of which the agent is told a
	// summary where Summarize is set.
	Description, Prompt, Before string
	Summarize                   bool

	// ResultSchema is the JSON Schema of what the report has as its result; nil where it is
	// a text.
	ResultSchema []byte

	// Conn calls the server as the one whom the task is for.
	Conn grpc.ClientConnInterface

	// Principal is whose budget it counts against, as an [auth.Owner]: principals of two
	// tenants may have the same name.
	Principal string

	// OnBehalfOf is for whom it works; empty: for itself.
	OnBehalfOf string

	// Broken is told of a panic, which ends the task and nothing else.
	Broken func(reason any)

	// Steering returns what was said to the agent since it was last asked, and the report
	// that the tool summary has taken; nil where there is none.
	Steering func() (heard []string, summary *agent.Summary)

	// News has something when Steering has; it has room for one.
	News <-chan struct{}

	// Accept returns what is wrong with the report of an agent that ends without that tool,
	// in words for its model, or nil. When it is wrong again, the ctx of the runner ends.
	Accept func(agent.Summary) error

	// Said takes what was said in the loop so far.
	Said func([]model.Message)
}

// Conn is a connection to the chain. Close it after use.
type Conn = interface {
	grpc.ClientConnInterface
	io.Closer
}

// An Update is what happened in a loop, as the stream of its caller tells it. The one who
// is told fills in which loop it is.
type Update = pb.Nested

// A Report is what came of a task.
type Report = agent.Report
