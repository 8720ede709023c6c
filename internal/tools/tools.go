// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package tools is the vocabulary of the server: what a tool is, what a call
// of it would touch, and what comes out. It knows nothing of gRPC, policy or
// how calls are run; the families of tools live in its subdirectories.
package tools

import (
	"context"
	"encoding/json"

	"github.com/toolserver/toolserver/internal/workspace"
)

// A Tool is one thing a caller may ask the server to do. Its methods are safe
// for concurrent use.
type Tool interface {
	// Spec describes the tool. It never changes.
	Spec() Spec

	// Decode checks input against the schema and returns the call it asks for
	// in env. Unknown, duplicate and case-variant keys are errors. An input
	// that does not fit gives an [*InputError].
	Decode(env Env, input json.RawMessage) (Call, error)
}

// A Call is one decoded request. What Effects tells is what Run does: both
// work on the same decoded value.
type Call interface {
	// Effects lists what the call would read, write, run or reach.
	Effects() []Effect

	// Run performs the call: it reports to out, stops soon after ctx is done,
	// and returns the result or the reason there is none. It is called at most
	// once. A result that comes with an error is kept: a tool that was stopped
	// half-way returns what it has.
	Run(ctx context.Context, out Sink) (Result, error)
}

// A Previewer is a call that can show a person what it would do.
type Previewer interface {
	// Preview returns what the call would do, for the person who is asked
	// whether it may. It changes nothing.
	Preview(ctx context.Context) Preview
}

// Preview shows what a call would do.
type Preview struct {
	Kind PreviewKind
	Text string
}

// PreviewKind is how a preview is to be read.
type PreviewKind int

const (
	PreviewText    PreviewKind = 1 + iota // Markdown
	PreviewDiff                           // a unified diff
	PreviewCommand                        // a shell command
)

// Env is where a call happens.
type Env struct {
	// SessionID and CallID name the call.
	SessionID, CallID string

	// Workspace holds the files of the session.
	Workspace *workspace.Workspace

	// Session is what a call may change of its session.
	Session Session
}

// A Session is what a call may know and change of the session it runs in.
type Session interface {
	// Mode returns the mode of now.
	Mode() Mode

	// SetMode changes the mode. The error, if any, says in a sentence what the
	// operator does not permit.
	SetMode(Mode) error

	// PlanEnd returns the mode the session had before it entered plan mode, or
	// the operator's default where that is not known.
	PlanEnd() Mode
}

// Reads returns the effects of reading paths of the workspace, each in its
// clean form. A path that leads outside stays as it is: opening it would fail.
func (e Env) Reads(paths ...string) []Effect { return e.clean(Reads(paths...)) }

func (e Env) clean(effects []Effect) []Effect {
	for i := range effects {
		effects[i].Rooted = true
		if rel, err := e.Workspace.Rel(effects[i].Path); err == nil {
			effects[i].Path = rel
		}
	}
	return effects
}

// New returns a tool whose input is the Go type In: it gives the JSON Schema
// and the decoder, so that neither can say what the other does not. See
// [Spec.InputSchema] for how a type becomes a schema. effects may be nil for a
// tool that touches nothing.
//
// New panics if In has no schema: that is a mistake in the program.
func New[In any](
	spec Spec,
	effects func(env Env, in In) []Effect,
	run func(ctx context.Context, env Env, in In, out Sink) (Result, error),
) Tool {
	shape := shapeOf[In]()
	spec.InputSchema = shape.schema
	return &typed[In]{spec: spec, shape: shape, effects: effects, run: run}
}

type typed[In any] struct {
	spec    Spec
	shape   *shape
	effects func(Env, In) []Effect
	run     func(context.Context, Env, In, Sink) (Result, error)
}

func (t *typed[In]) Spec() Spec { return t.spec }

func (t *typed[In]) Decode(env Env, input json.RawMessage) (Call, error) {
	c := &typedCall[In]{tool: t, env: env}
	if err := t.shape.decode(input, &c.in); err != nil {
		return nil, err
	}
	return c, nil
}

type typedCall[In any] struct {
	tool *typed[In]
	env  Env
	in   In
}

func (c *typedCall[In]) Effects() []Effect {
	if c.tool.effects == nil {
		return nil
	}
	return c.tool.effects(c.env, c.in)
}

func (c *typedCall[In]) Run(ctx context.Context, out Sink) (Result, error) {
	return c.tool.run(ctx, c.env, c.in, out)
}
