// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// found is a run as its owner sees it, whichever process carries it on.
type found struct {
	w   *Workflows
	k   *buckets
	env tools.Env
	id  string
}

// ID is what the run is called.
func (f *found) ID() string { return f.id }

func (f *found) key() string { return runKey(ownerOf(f.env), f.id) }

// Status tells how the run is, with its steps.
func (f *found) Status(ctx context.Context) (workflow.Status, error) {
	h, _, there := f.k.heads.Get(f.key())
	if !there {
		return workflow.Status{}, noRun(f.id)
	}
	status := h.status()
	steps, err := loadSteps(ctx, f.k.runs, f.id)
	if err != nil {
		return status, unavailable(err)
	}
	var open []workflow.StepStatus
	for _, path := range slices.Sorted(maps.Keys(steps)) {
		s := steps[path]
		one := workflow.StepStatus{Step: path, State: s.State, Attempt: s.Attempt, Reason: s.Reason}
		switch {
		case s.State != "":
			status.Steps = append(status.Steps, one)
		case !s.Until.IsZero() || s.Reason != "":
			one.State = "waiting"
			open = append(open, one)
		}
	}
	if h.State == workflow.Running {
		for _, id := range h.running(steps) {
			open = append(open, workflow.StepStatus{Step: id, State: "running"})
		}
	}
	status.Steps = append(status.Steps, open...)
	return status, nil
}

// running returns the steps that run, as far as what is stored tells: those whose turn it is, and
// of which nothing is known yet. Those of workflows below are one step here.
func (h *head) running(steps map[string]*stepRecord) (ids []string) {
	parsed, err := Parse(h.Text, World{})
	if err != nil {
		return nil
	}
	over := func(s *ready) bool {
		r := steps[s.ID]
		return r != nil && (r.State == stepDone || r.State == stepSkipped)
	}
	for _, s := range parsed.steps {
		r := steps[s.ID]
		begun := r == nil || r.State == "" && r.Until.IsZero() && r.Reason == ""
		if begun && !slices.ContainsFunc(s.after, func(before *ready) bool { return !over(before) }) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// Wait tells out what happens until the run has ended or is paused.
func (f *found) Wait(ctx context.Context, out tools.Sink) (workflow.Status, error) {
	for {
		f.w.mu.Lock()
		news, r := f.w.news, f.w.local[f.id]
		f.w.mu.Unlock()
		stop := func() {}
		if r != nil {
			stop = r.follow(out)
		}
		h, _, there := f.k.heads.Get(f.key())
		if !there || h.over() && r == nil { // where it is carried on here, what its last steps told comes first
			stop()
			return f.Status(context.WithoutCancel(ctx))
		}
		var left <-chan struct{}
		if r != nil {
			left = r.left
		}
		select {
		case <-news:
		case <-left:
		case <-time.After(time.Second):
			if f.w.options.Door.Away() { // the server ends, and does not have to wait for what goes on later
				stop()
				return f.last(ctx), errClosed
			}
		case <-f.w.base.Done():
			stop()
			return f.last(ctx), errClosed
		case <-ctx.Done():
			stop()
			return f.last(ctx), context.Cause(ctx)
		}
		stop()
	}
}

// last is the status of a run that can be waited for no longer.
func (f *found) last(ctx context.Context) workflow.Status {
	status, _ := f.Status(context.WithoutCancel(ctx))
	return status
}

// change changes what is stored of the run, as change says, or fails with its error.
func (f *found) change(ctx context.Context, change func(*head) error) error {
	return f.w.changeHead(ctx, f.k, f.key(), change)
}

// changeHead changes what is stored of a run. What others change meanwhile is seen.
func (w *Workflows) changeHead(ctx context.Context, k *buckets, key string, change func(*head) error) error {
	for {
		entry, err := k.runs.Get(ctx, key)
		if errors.Is(err, state.ErrNotFound) {
			k.heads.Forget(key)
			return noRun(state.LastPart(key))
		}
		if err != nil {
			return unavailable(err)
		}
		h, err := decodeRecord[head](entry.Value)
		if err != nil {
			return unavailable(err)
		}
		if err := change(h); err != nil {
			return err
		}
		var ttl time.Duration
		switch h.State {
		case workflow.Succeeded, workflow.Cancelled:
			ttl = w.options.Retention
		case workflow.Failed, workflow.Paused:
			ttl = stepTTL // as long as what it would go on with
		}
		revision, err := k.runs.Update(ctx, key, encodeRecord(h), entry.Revision, ttl)
		if errors.Is(err, state.ErrConflict) {
			continue
		}
		if err != nil {
			return unavailable(err)
		}
		k.heads.Note(key, h, revision)
		return nil
	}
}

// Pause lets steps that run end, and begins no further ones.
func (f *found) Pause(ctx context.Context) error {
	return f.change(ctx, func(h *head) error {
		if h.over() {
			return tools.Failf("not_running", "The run %s is %s, and cannot be paused.", h.ID, h.State)
		}
		h.Want = workflow.Paused
		return nil
	})
}

// Cancel ends the run.
func (f *found) Cancel(ctx context.Context, reason string) error {
	return f.change(ctx, func(h *head) error {
		switch h.State {
		case workflow.Running:
			h.Want, h.Reason = workflow.Cancelled, reason
		case workflow.Succeeded, workflow.Cancelled:
			return tools.Failf("not_running", "The run %s is %s already.", h.ID, h.State)
		default:
			h.State, h.Reason, h.Ended = workflow.Cancelled, reason, time.Now().UTC()
		}
		return nil
	})
}

// Abandon cancels the run because the call that began it has ended, unless that is the end of
// the server: then it goes on later.
func (f *found) Abandon(ctx context.Context, reason string) {
	if f.w.base.Err() == nil && !f.w.options.Door.Away() {
		f.Cancel(ctx, reason)
	}
}

// Resume has a run go on that is paused or has failed.
func (f *found) Resume(ctx context.Context, env tools.Env, done bool) error {
	var failed string
	err := f.change(ctx, func(h *head) error {
		if h.State != workflow.Paused && h.State != workflow.Failed {
			return tools.Failf("not_paused", "The run %s is %s: only one that is paused or has failed can be resumed.", h.ID, h.State)
		}
		if failed = h.Step; done && failed == "" {
			return tools.Failf("nothing_failed", "No step of the run %s has failed: resume it without done.", h.ID)
		}
		if done && h.Approval {
			return tools.Failf("not_approved", "The step %s of the run %s asks a person, whose approval nothing else is: resume the run without done, and the person is asked again.", failed, h.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if done {
		record := &stepRecord{State: stepDone, Reason: "said to be done by who resumed the run", Output: []byte("null")}
		if _, err := f.k.runs.Put(ctx, stepKey(f.id, failed), encodeRecord(record), stepTTL); err != nil {
			return unavailable(err)
		}
	}
	made, err := f.w.options.Door.Made(ctx, errand.Of(env), env.SessionID)
	if err != nil {
		return noSession(env, err)
	}
	err = f.change(ctx, func(h *head) error {
		if !h.over() {
			return tools.Failf("not_paused", "Somebody else has resumed the run %s.", h.ID)
		}
		h.State, h.Want, h.Step, h.Code, h.Reason, h.Approval, h.Ended = workflow.Running, "", "", "", "", false, time.Time{}
		h.Session, h.SessionMade, h.Who = env.SessionID, made, errand.Of(env)
		h.Round++
		return nil
	})
	if err != nil {
		return err
	}
	if h, _, there := f.k.heads.Get(f.key()); there {
		f.w.settle(ctx, f.id)
		f.w.carry(f.k, h, 0)
	}
	return nil
}

// settle waits until this process no longer carries on a run that has ended.
func (w *Workflows) settle(ctx context.Context, id string) {
	w.mu.Lock()
	r := w.local[id]
	w.mu.Unlock()
	if r != nil {
		select {
		case <-r.left:
		case <-ctx.Done():
		}
	}
}
