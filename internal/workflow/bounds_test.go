// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/state/statetest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// door answers calls by a function.
type door func(call errand.Call) (*errand.End, error)

func (d door) Call(_ context.Context, _ errand.Who, call errand.Call, _ func(*errand.Event)) (*errand.End, error) {
	return d(call)
}
func (door) Made(context.Context, errand.Who, string) (time.Time, error) { return time.Unix(1, 0), nil }
func (door) Away() bool                                                  { return false }

var env = tools.Env{Principal: "alice", SessionID: "s"}

func open(t *testing.T, d door) *Workflows {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return openWith(t, engine, d)
}

func openWith(t *testing.T, engine state.Engine, d door) *Workflows {
	t.Helper()
	w := New(Options{Door: d, Engine: func(context.Context) (state.Engine, error) { return engine, nil }})
	t.Cleanup(func() { w.Close(); engine.Close() })
	return w
}

func (w *Workflows) must(t *testing.T, name, text string) {
	t.Helper()
	if _, err := w.Save(t.Context(), env, name, text, false); err != nil {
		t.Fatal(err)
	}
}

// ends runs a workflow to its end.
func (w *Workflows) ends(t *testing.T, name string) workflow.Status {
	t.Helper()
	r, err := w.Start(t.Context(), env, name, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	status, err := r.Wait(t.Context(), new(toolstest.Recorder))
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// TestFilledBounds has a step whose input would have more than it may.
func TestFilledBounds(t *testing.T) {
	long := `"` + strings.Repeat("x", 200<<10) + `"`
	w := open(t, func(errand.Call) (*errand.End, error) { return &errand.End{Output: []byte(long)}, nil })
	for name, input := range map[string]string{
		"text":  `"` + strings.Repeat("${steps.a.output}-", 90) + `"`,
		"lists": "[" + strings.Repeat(`"${steps.a.output}",`, 90) + "]",
	} {
		w.must(t, name, "steps:\n- {id: a, tool: x}\n- {id: b, tool: x, input: {v: "+input+"}}\n")
		if s := w.ends(t, name); s.Code != "invalid_expression" || !strings.Contains(s.Reason, "more than 1048576 bytes") {
			t.Errorf("%s: %s %s", name, s.Code, s.Reason)
		}
	}
	_, err := w.Validate(t.Context(), env, "steps:\n- {id: a, tool: x, input: {v: \""+strings.Repeat("${1}", 1000)+"\"}}\n")
	if err == nil || !strings.Contains(err.Error(), "at most 100 expressions") {
		t.Error(err)
	}
}

// TestManyBelow has workflows that run each other many times over read once each, and no deeper
// than they may be.
func TestManyBelow(t *testing.T) {
	w := open(t, nil)
	w.must(t, "w0", "steps: [{id: a, tool: x}]")
	for i := range 5 {
		text := "steps:\n"
		for step := range 50 {
			text += fmt.Sprintf("- {id: s%d, workflow: w%d}\n", step, i)
		}
		w.must(t, fmt.Sprintf("w%d", i+1), text)
	}
	_, err := w.Save(t.Context(), env, "w6", "steps: [{id: a, workflow: w1}, {id: b, workflow: w5}]", false)
	if err == nil || !strings.Contains(err.Error(), "more than 5 workflows run each other") {
		t.Error(err)
	}
	_, err = w.Save(t.Context(), env, "w0", "steps: [{id: a, workflow: w2}]", true)
	if err == nil || !strings.Contains(err.Error(), "w0 runs w2 runs w1 runs w0") {
		t.Error(err)
	}
}

// TestStepPanics has a panic fail its step alone.
func TestStepPanics(t *testing.T) {
	w := open(t, func(errand.Call) (*errand.End, error) { panic("mistake") })
	w.must(t, "one", "steps: [{id: a, tool: x}]")
	w.must(t, "each", "steps: [{id: a, map: \"${[1, 2]}\", tool: x}]")
	for name, step := range map[string]string{"one": "a", "each": "a/"} {
		if s := w.ends(t, name); s.State != workflow.Failed || s.Code != "internal" || !strings.HasPrefix(s.Step, step) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestUsersApart has two users of one runtime not see each other's workflows.
func TestUsersApart(t *testing.T) {
	w := open(t, nil)
	w.must(t, "one", "steps: [{id: a, tool: x}]")
	bob := env
	bob.OnBehalfOf = "bob"
	if list, err := w.List(t.Context(), bob); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	self := env
	self.OnBehalfOf = env.Principal
	if list, err := w.List(t.Context(), self); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

// TestStepsGo: with a run that is forgotten, what is kept of its steps goes.
func TestStepsGo(t *testing.T) {
	w := open(t, func(errand.Call) (*errand.End, error) { return &errand.End{Output: []byte("1")}, nil })
	w.options.MaxKept = 1
	w.must(t, "a", "x >> y")
	first := w.ends(t, "a")
	for range 2 {
		w.ends(t, "a")
	}
	for {
		steps, err := loadSteps(t.Context(), w.kept.runs, first.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) == 0 {
			break
		}
	}
}

// TestAnswersAreLost has the write that begins a run, and one that keeps it, made and told as failed: the run begins once,
// and goes on.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel() // it waits until a lease is renewed twice
	memory, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	engine := &statetest.Unsure{Engine: memory}
	begun, over := make(chan struct{}, 10), make(chan struct{})
	w := openWith(t, engine, func(errand.Call) (*errand.End, error) {
		begun <- struct{}{}
		<-over
		return &errand.End{Output: []byte("1")}, nil
	})
	w.must(t, "a", "steps: [{id: a, tool: x}]")
	engine.Lost.Store(1)
	r, err := w.Start(t.Context(), env, "a", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	engine.Lost.Store(1)
	for engine.Lost.Load() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(leaseRenew + time.Second) // until it is renewed once more
	close(over)
	status, err := r.Wait(t.Context(), new(toolstest.Recorder))
	if err != nil || status.State != workflow.Succeeded || len(begun) > 0 {
		t.Errorf("%+v, %v, and the step began %d times more", status, err, len(begun))
	}
}
