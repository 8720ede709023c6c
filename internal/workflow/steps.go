// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/internal/errand"
)

// Bounds of a run.
const (
	maxAtOnce   = 8 // steps of one workflow
	maxItems    = 1000
	maxRunSteps = 10_000
	mapAtOnce   = 4

	maxKeptOutput = 16 << 20 // bytes of the outputs of all steps
)

// ended is how a step ended, for those after it.
type ended struct {
	step    *ready
	output  any
	skipped bool
	err     error
}

// workflow runs the steps of a workflow, each when those are done that it comes after, and
// returns its result.
func (r *run) workflow(ctx context.Context, w *Workflow, prefix string, parameters json.RawMessage) (json.RawMessage, error) {
	values, err := decode(parameters)
	if err != nil {
		return nil, failed(prefix, "invalid_parameters", "%v", err)
	}
	over := make(map[*ready]*ended)
	begun := make(map[*ready]bool)
	ends := make(chan *ended)
	running := 0
	var stopped error
	for {
		if stopped == nil && r.paused() {
			stopped = errPaused
		}
		for _, s := range w.steps {
			if begun[s] || running >= maxAtOnce || stopped != nil || !isReady(s, over) {
				continue
			}
			begun[s] = true
			running++
			scope := scopeOf(values, over)
			go func() {
				e := &ended{step: s}
				defer func() { ends <- e }()
				defer r.recovered(prefix+s.ID, &e.err)
				e = r.step(ctx, s, prefix+s.ID, scope, over)
			}()
		}
		if running == 0 {
			break
		}
		e := <-ends
		running--
		r.mu.Lock() // steps that begin look at it
		over[e.step] = e
		r.mu.Unlock()
		if e.err != nil && (stopped == nil || stopped == errPaused) {
			stopped = e.err
		}
	}
	if stopped != nil {
		return nil, stopped
	}
	return r.result(w, prefix, values, over)
}

func (r *run) paused() bool {
	select {
	case <-r.pausing:
		return true
	default:
		return false
	}
}

// isReady reports whether all are over that a step comes after.
func isReady(s *ready, over map[*ready]*ended) bool {
	return !slices.ContainsFunc(s.after, func(before *ready) bool { return over[before] == nil || over[before].err != nil })
}

// scopeOf returns what expressions may speak of once the steps are over that are.
func scopeOf(parameters any, over map[*ready]*ended) map[string]any {
	steps := make(map[string]any)
	for before, e := range over {
		state := stepDone
		if e.skipped {
			state = stepSkipped
		}
		steps[before.ID] = map[string]any{"output": e.output, "state": state}
	}
	return map[string]any{"params": parameters, "steps": steps}
}

// result returns the result of a workflow whose steps are done: what it says, or else the
// output of the last step.
func (r *run) result(w *Workflow, prefix string, parameters any, over map[*ready]*ended) (json.RawMessage, error) {
	var value any
	if w.result != nil {
		var err error
		if value, err = w.result.fill(scopeOf(parameters, over)); err != nil {
			return nil, failed(prefix, "invalid_expression", "result: %v", err)
		}
	} else {
		value = over[w.steps[len(w.steps)-1]].output
	}
	text, err := encode(value)
	if err != nil {
		return nil, failed(prefix, "invalid_result", "%v", err)
	}
	if len(text) > maxOutput {
		return nil, failed(prefix, "result_too_large", "the result has %d bytes: at most %d", len(text), maxOutput)
	}
	if w.fits != nil {
		if err := w.fits.ValidateText(text); err != nil {
			return nil, failed(prefix, "invalid_result", "the result does not fit result_schema: %v", err)
		}
	}
	return text, nil
}

// step runs one step, unless it has run before.
func (r *run) step(ctx context.Context, s *ready, path string, scope map[string]any, over map[*ready]*ended) *ended {
	e := &ended{step: s}
	defer func() {
		if why, ok := e.err.(*stepError); ok {
			why.approval = why.approval || s.Approval != ""
		}
	}()
	known := r.record(path)
	switch known.State {
	case stepDone:
		e.output, e.err = decode(known.Output)
		return e
	case stepSkipped:
		e.skipped = true
		return e
	case stepFailed:
		if known.Round == r.head.Round {
			e.err = failed(path, known.Code, "%s", known.Reason)
			return e
		}
	}
	skip, err := r.skips(s, scope, over)
	switch {
	case err != nil:
		e.err = failed(path, "invalid_expression", "when: %v", err)
	case skip:
		e.skipped = true
		e.err = r.store(path, stepRecord{State: stepSkipped})
		r.tell(errand.Changed(r.place(path), errand.Skipped, "its condition does not hold, or all before it were skipped"))
		return e
	default:
		var output json.RawMessage
		if output, e.err = r.perform(ctx, s, path, scope); e.err == nil {
			record := r.record(path)
			record.State, record.Output, record.Until, record.Reason = stepDone, output, time.Time{}, ""
			if e.err = r.store(path, record); e.err == nil {
				e.output, e.err = decode(output)
				r.tell(errand.Changed(r.place(path), errand.Done, ""))
			}
		}
	}
	r.fail(path, e.err)
	return e
}

// fail stores that a step failed; what failed below it is stored there.
func (r *run) fail(path string, err error) {
	why, ok := err.(*stepError)
	if !ok {
		return
	}
	r.tell(errand.Changed(r.place(path), errand.Wrong, why.reason))
	if why.path == path && why.code != fullCode { // else the call is found by its id when the run is resumed
		record := r.record(path)
		record.State, record.Code, record.Reason, record.Round = stepFailed, why.code, why.reason, r.head.Round
		r.store(path, record)
	}
}

// skips reports whether a step is left out: its condition does not hold, or everything that it
// comes after was left out.
func (r *run) skips(s *ready, scope map[string]any, over map[*ready]*ended) (bool, error) {
	r.mu.Lock()
	some := slices.ContainsFunc(s.after, func(before *ready) bool { return !over[before].skipped })
	r.mu.Unlock()
	if len(s.after) > 0 && !some {
		return true, nil
	}
	if s.when == nil {
		return false, nil
	}
	holds, err := truth(s.when.Value(scope))
	return !holds, err
}

func truth(value any, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	holds, ok := value.(bool)
	if !ok {
		return false, fmt.Errorf("it gives %v: want true or false", value)
	}
	return holds, nil
}

// perform does what a step is to do, and returns its output.
func (r *run) perform(ctx context.Context, s *ready, path string, scope map[string]any) (json.RawMessage, error) {
	if s.Map == "" {
		return r.once(ctx, s, path, scope)
	}
	value, err := s.over.fill(scope)
	if err != nil {
		return nil, failed(path, "invalid_expression", "map: %v", err)
	}
	list, ok := value.([]any)
	if !ok || len(list) > maxItems {
		return nil, failed(path, "invalid_list", "map gives no list of at most %d items", maxItems)
	}
	outputs := make([]json.RawMessage, len(list))
	items, itemsCtx := errgroup.WithContext(ctx)
	items.SetLimit(cmp.Or(s.Parallel, mapAtOnce))
	for i, item := range list {
		items.Go(func() (err error) {
			if r.paused() || itemsCtx.Err() != nil {
				return errPaused
			}
			at := fmt.Sprintf("%s/%d", path, i)
			defer r.recovered(at, &err)
			known := r.record(at)
			switch {
			case known.State == stepDone:
				outputs[i] = known.Output
				return nil
			case known.State == stepFailed && known.Round == r.head.Round:
				return failed(at, known.Code, "%s", known.Reason)
			}
			inner := maps.Clone(scope)
			inner["item"], inner["index"] = item, i
			if outputs[i], err = r.once(ctx, s, at, inner); err != nil { // one that failed lets the others end
				r.fail(at, err)
				return err
			}
			record := r.record(at)
			record.State, record.Output, record.Until, record.Reason = stepDone, outputs[i], time.Time{}, ""
			return r.store(at, record)
		})
	}
	if err := items.Wait(); err != nil {
		return nil, err
	}
	return encode(outputs)
}

// once does what a step is to do, for one item where there are several.
func (r *run) once(ctx context.Context, s *ready, path string, scope map[string]any) (json.RawMessage, error) {
	r.mu.Lock()
	r.done++
	many := r.done > maxRunSteps
	r.mu.Unlock()
	if many {
		return nil, failed(path, "too_many_steps", "the run has more than %d steps", maxRunSteps)
	}
	switch s.kind() {
	case "condition":
		holds, err := truth(s.condition.Value(scope))
		if err != nil {
			return nil, failed(path, "invalid_expression", "condition: %v", err)
		}
		return encode(holds)
	case "wait":
		return r.wait(ctx, s, path, scope)
	case "workflow":
		return r.below(ctx, s, path, scope)
	case "approval":
		return r.approval(ctx, s, path, scope)
	}
	return r.call(ctx, s, path, scope)
}

// wait waits, also over restarts.
func (r *run) wait(ctx context.Context, s *ready, path string, scope map[string]any) (json.RawMessage, error) {
	record := r.record(path)
	if record.Until.IsZero() {
		text, err := s.text.fill(scope)
		if err != nil {
			return nil, failed(path, "invalid_expression", "wait: %v", err)
		}
		if record.Until, err = waitUntil(fmt.Sprint(text), time.Now()); err != nil {
			return nil, failed(path, "invalid_wait", "%v", err)
		}
		record.Until = record.Until.UTC()
		if err := r.store(path, record); err != nil {
			return nil, err
		}
	}
	r.tell(errand.Changed(r.place(path), errand.Waiting, "until "+record.Until.Format(time.RFC3339)))
	return json.RawMessage("null"), r.until(ctx, record.Until)
}

// until waits for a time by the clock on the wall, which may be changed meanwhile.
func (r *run) until(ctx context.Context, at time.Time) error {
	for {
		left := time.Until(at.Round(0))
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(min(left, 30*time.Second)):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.pausing:
			return errPaused
		}
	}
}

// below runs another workflow as a step.
func (r *run) below(ctx context.Context, s *ready, path string, scope map[string]any) (json.RawMessage, error) {
	other := r.others[s.Workflow]
	if other == nil {
		return nil, failed(path, "no_such_workflow", "there was no workflow %s when the run began", s.Workflow)
	}
	parameters := json.RawMessage("{}")
	if s.input != nil {
		var err error
		if parameters, err = r.filled(s.input, path, scope); err != nil {
			return nil, err
		}
	}
	parameters, err := other.parameters.Check(parameters)
	if err != nil {
		return nil, failed(path, "invalid_parameters", "the parameters of %s do not fit: %v", s.Workflow, err)
	}
	output, err := r.workflow(ctx, other, path+"/", parameters)
	if err != nil {
		return nil, err
	}
	return fits(s, path, output)
}

// filled returns the input of a step as JSON.
func (r *run) filled(t *template, path string, scope map[string]any) (json.RawMessage, error) {
	value, err := t.fill(scope)
	if err != nil {
		return nil, failed(path, "invalid_expression", "input: %v", err)
	}
	text, err := encode(value)
	if err != nil {
		return nil, failed(path, "invalid_expression", "input: %v", err)
	}
	return text, nil
}
