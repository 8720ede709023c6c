// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package tools is the vocabulary of the server: what a tool is, what a call
// of it would touch, and what comes out. It knows nothing of gRPC, policy or
// how calls are run; the families of tools live in its subdirectories.
package tools

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"
)

// A Tool is one thing a caller may ask the server to do. Its methods are safe
// for concurrent use.
type Tool interface {
	// Spec describes the tool. It never changes.
	Spec() Spec

	// InputSchema is the JSON Schema of the input; [New] infers it from the
	// input type.
	//
	// A struct is an object with the fields that have a json tag, in their
	// order; no other keys are allowed. A field without omitempty or omitzero
	// is required. The jsonschema tag describes the field; the check tag limits
	// it: min=N and max=N bound a number, the length of a string in characters,
	// or the number of items; enum=a|b|c lists the strings allowed.
	InputSchema() json.RawMessage

	// Decode checks input against the schema and returns the call it asks for
	// in env. Unknown, duplicate and case-variant keys are errors. An input
	// that does not fit gives an [*InputError].
	Decode(env *Env, input json.RawMessage) (Call, error)
}

// A Call is one decoded request. What Effects tells is what Run does: both
// work on the same decoded value.
type Call interface {
	// Input returns the canonical JSON of the decoded value: one text for all
	// spellings of one input. Whoever judges, shows or remembers a call looks at it
	// and at nothing else. It must not be changed.
	Input() json.RawMessage

	// Effects lists what the call would read, write, run or reach.
	Effects() []Effect

	// Run performs the call with the rights that its verdict gave it: it reports to
	// out, stops soon after ctx is done, and returns the result or the reason there
	// is none. It is called at most once. A result that comes with an error is kept: a tool that was stopped
	// half-way returns what it has.
	Run(ctx context.Context, rights Rights, out Sink) (Result, error)
}

// A Previewer is a call that can show a person what it would do.
type Previewer interface {
	// Preview returns what the call would do, for the person who is asked
	// whether it may. It changes nothing.
	Preview(ctx context.Context) Preview
}

// A Renewer is a call that can be judged anew, long after it was decoded.
type Renewer interface {
	// Renew returns the same call with its effects told by restrictions and by what the
	// workspace is now. What the call has pinned stays pinned. The error says which
	// of its names leads elsewhere by now, so that it is no longer the same call.
	Renew(restrictions Restrictions) (Call, error)
}

// A Foreseer is a call that may be known to fail before it runs.
type Foreseer interface {
	// Foresee returns the [*Failure] that the call would end with if it ran now, or nil
	// where that is not known. Nobody is asked whether such a call may run.
	Foresee() error
}

// A Timed is a call, or an input type, that says itself how long it may run.
type Timed interface {
	// Timeout returns how long the call may run, or 0 where it does not say.
	Timeout() time.Duration
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

// Fenced returns a text as a block of Markdown, whatever is in it.
func Fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}

// New returns a tool whose input is the Go type In: it gives the JSON Schema
// and the decoder, so that neither can say what the other does not. See
// [Tool.InputSchema] for how a type becomes a schema; an input type may also be
// a [Checker]. effects may be nil for a tool that touches nothing.
//
// The tool panics when it is first used if In has no schema: that is a mistake
// in the program.
func New[In any](
	spec Spec,
	effects func(env Env, in In) []Effect,
	run func(ctx context.Context, env Env, in In, out Sink) (Result, error),
) Tool {
	return &typed[In]{
		spec: spec, effects: effects, run: run,
		shape: sync.OnceValue(func() *shape { return newShape(reflect.TypeFor[In]()) }),
	}
}

// WithPreview returns tool, which [New] made for the same In, with calls that
// are a [Previewer]. It panics if it is another tool: that is a mistake in the
// program.
func WithPreview[In any](tool Tool, preview func(ctx context.Context, env Env, in In) Preview) Tool {
	shown := *tool.(*typed[In])
	shown.preview = preview
	return &shown
}

// WithForesight returns tool, which [New] made for the same In, with calls that are known to
// fail for what foresee returns. It changes nothing, and the call itself has to look again.
func WithForesight[In any](tool Tool, foresee func(env Env, in In) error) Tool {
	foreseeing := *tool.(*typed[In])
	foreseeing.foresee = foresee
	return &foreseeing
}

// Around returns tool, which [New] made, with something that is done before each call
// of it runs, and after.
func Around(tool Tool, before func(env Env) (after func())) Tool { return tool.(shaped).around(before) }

// After returns tool, which [New] made, with something that is done with the result of each
// call that did not fail, when all of the call is done.
func After(tool Tool, then func(ctx context.Context, env Env, result Result) Result) Tool {
	return tool.(shaped).after(then)
}

// WithChoices returns tool, which [New] made, with a string field that allows
// only what the server knows when it starts. Later tools made from it allow the
// same.
func WithChoices(tool Tool, field string, choices ...string) Tool {
	return tool.(shaped).reshaped(func(s *shape) *shape { return s.choosing(field, choices) })
}

// WithMaximum returns tool, which [New] made, with a field whose maximum, of a number
// or a count, is at most this one: what the server allows is then what the schema
// tells. A tool without such a field is returned as it is.
func WithMaximum(tool Tool, field string, most float64) Tool {
	t, ok := tool.(shaped)
	if !ok {
		return tool
	}
	return t.reshaped(func(s *shape) *shape { return s.bounded(field, most) })
}

// shaped is a tool of [New], whatever its input.
type shaped interface {
	inputShape() *shape

	// reshaped returns a copy with the shape that change makes of its own.
	reshaped(change func(*shape) *shape) Tool

	// around is [Around].
	around(before func(env Env) (after func())) Tool

	// after is [After].
	after(then func(ctx context.Context, env Env, result Result) Result) Tool

	// withUnavailable is [WithUnavailable]; whyUnavailable returns the reason.
	withUnavailable(reason string) Tool
	whyUnavailable() string
}

// typed is a tool of [New].
type typed[In any] struct {
	spec    Spec
	shape   func() *shape // compiled when it is first needed: a start needs none
	effects func(env Env, in In) []Effect
	run     func(ctx context.Context, env Env, in In, out Sink) (Result, error)
	preview func(ctx context.Context, env Env, in In) Preview // nil where there is none
	foresee func(env Env, in In) error                        // nil where nothing is known before

	unavailable string // why it cannot be called; empty when it can
}

// WithUnavailable returns tool, which [New] made, as one that is listed and cannot be called,
// for a reason.
func WithUnavailable(tool Tool, reason string) Tool { return tool.(shaped).withUnavailable(reason) }

func (t *typed[In]) withUnavailable(reason string) Tool {
	other := *t
	other.unavailable = reason
	return &other
}

func (t *typed[In]) whyUnavailable() string { return t.unavailable }

func (t *typed[In]) inputShape() *shape { return t.shape() }

func (t *typed[In]) reshaped(change func(*shape) *shape) Tool {
	other := *t
	other.shape = sync.OnceValue(func() *shape { return change(t.shape()) })
	return &other
}

func (t *typed[In]) around(before func(env Env) (after func())) Tool {
	other := *t
	other.run = func(ctx context.Context, env Env, in In, out Sink) (Result, error) {
		defer before(env)()
		return t.run(ctx, env, in, out)
	}
	return &other
}

func (t *typed[In]) after(then func(ctx context.Context, env Env, result Result) Result) Tool {
	other := *t
	other.run = func(ctx context.Context, env Env, in In, out Sink) (Result, error) {
		result, err := t.run(ctx, env, in, out)
		if err == nil {
			result = then(ctx, env, result)
		}
		return result, err
	}
	return &other
}

func (t *typed[In]) Spec() Spec { return t.spec }

func (t *typed[In]) InputSchema() json.RawMessage { return t.shape().schema }

func (t *typed[In]) Decode(env *Env, input json.RawMessage) (Call, error) {
	c := &typedCall[In]{tool: t, env: *env}
	c.env.judged = new(judged)
	if err := t.shape().decode(input, &c.in); err != nil {
		return nil, err
	}
	if err := check(&c.in); err != nil {
		return nil, err
	}
	if t.preview != nil {
		return shownCall[In]{c}, nil
	}
	return c, nil
}

type typedCall[In any] struct {
	tool *typed[In]
	env  Env
	in   In

	input        json.RawMessage // nil before somebody asked for it
	effectsKnown bool
	effects      []Effect
}

func (c *typedCall[In]) Input() json.RawMessage {
	if c.input == nil {
		c.input = c.tool.shape().appendCanonical(nil, reflect.ValueOf(&c.in).Elem())
	}
	return c.input
}

// Effects tells the same whenever it is asked: what the first answer resolved
// is what Run opens.
func (c *typedCall[In]) Effects() []Effect {
	if !c.effectsKnown && c.tool.effects != nil {
		c.resolve()
	}
	c.effectsKnown = true
	return c.effects
}

// resolve asks the tool what the call touches. Its frame holds an [Env], which calls of
// tools that touch nothing need no stack for.
//
//go:noinline
func (c *typedCall[In]) resolve() { c.effects = c.tool.effects(c.env, c.in) }

func (c *typedCall[In]) Run(ctx context.Context, rights Rights, out Sink) (Result, error) {
	c.Effects()
	c.env.Rights = rights
	result, err := c.tool.run(ctx, c.env, c.in, out)
	if c.tool.spec.Pages && err == nil {
		err = c.showLess(ctx, &result, out)
	}
	c.env.Fit(c.tool.spec.Name, &result)
	return result, err
}

// showLess has a tool that shows pages show less, where its answer has more than it has room
// for.
//
//go:noinline
func (c *typedCall[In]) showLess(ctx context.Context, result *Result, out Sink) (err error) {
	less := c.env
	for step := range 4 { // what it shows may not become less at once
		takes := c.env.room(result)
		if err != nil || takes <= c.env.answer() {
			break
		}
		less.Answer = max(less.answer()*c.env.answer()/takes*(19-3*step)/20, MinAnswer/2)
		*result, err = c.tool.run(ctx, less, c.in, out)
	}
	return err
}

func (c *typedCall[In]) Renew(restrictions Restrictions) (Call, error) {
	next := &typedCall[In]{tool: c.tool, env: c.env, in: c.in, input: c.input}
	next.env.Restrictions = restrictions
	next.env.judged = &judged{pins: maps.Clone(c.env.judged.pins)}
	next.Effects()
	if err := c.env.judged.same(next.env.judged); err != nil {
		return nil, err
	}
	maps.Copy(next.env.judged.pins, c.env.judged.pins) // whatever it is by now
	return next, nil
}

func (c *typedCall[In]) Foresee() error {
	if c.tool.foresee == nil {
		return nil
	}
	return c.tool.foresee(c.env, c.in)
}

// Timeout returns what the input says.
func (c *typedCall[In]) Timeout() time.Duration {
	if in, ok := any(&c.in).(Timed); ok {
		return in.Timeout()
	}
	return 0
}

// shownCall is a typedCall that has a preview.
type shownCall[In any] struct{ *typedCall[In] }

func (c shownCall[In]) Renew(restrictions Restrictions) (Call, error) {
	next, err := c.typedCall.Renew(restrictions)
	if err != nil {
		return nil, err
	}
	return shownCall[In]{next.(*typedCall[In])}, nil
}

func (c shownCall[In]) Preview(ctx context.Context) Preview {
	c.Effects() // it opens what they name
	return c.tool.preview(ctx, c.env, c.in)
}
