// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// run is a run that this process carries on.
type run struct {
	w      *Workflows
	k      *buckets
	head   *head // as it was when this process took it on
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // of all its steps
	others map[string]*Workflow
	left   chan struct{} // closed when this process no longer carries it on

	pause   func()        // closes pausing
	pausing chan struct{} // closed when no further step is to begin

	mu        sync.Mutex
	steps     map[string]*stepRecord // by path
	done      int                    // steps that ran here
	kept      int                    // bytes of all outputs
	followers []tools.Sink
}

var (
	errPaused    = errors.New("the run is paused")
	errCancelled = errors.New("the run is cancelled")
	errLeft      = errors.New("somebody else carries the run on")
)

// A stepError is why a run failed, and where.
type stepError struct {
	path, code, reason string
	approval           bool // the step asks a person
}

func (e *stepError) Error() string { return "step " + e.path + ": " + e.reason }

func failed(path, code, format string, args ...any) error {
	return &stepError{path: path, code: code, reason: fmt.Sprintf(format, args...)}
}

func newRun(w *Workflows, k *buckets, h *head) *run {
	r := &run{w: w, k: k, head: h, left: make(chan struct{}), pausing: make(chan struct{}), steps: make(map[string]*stepRecord)}
	r.pause = sync.OnceFunc(func() { close(r.pausing) })
	r.ctx, r.cancel = context.WithCancelCause(w.base)
	return r
}

// applyWanted does what was asked of the run meanwhile.
func (r *run) applyWanted(h *head, there bool) {
	switch {
	case !there || h.Round != r.head.Round:
		r.cancel(errLeft)
	case h.Want == workflow.Cancelled:
		r.cancel(errCancelled)
	case h.Want == workflow.Paused:
		r.pause()
	}
}

// carryOn runs what is left of the run, and notes how it ended.
func (r *run) carryOn(lease state.Revision) {
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		r.keepLease(lease)
	}()
	r.applyWanted(r.head, true)
	result, err := r.carried()
	r.note(result, err)
	r.cancel(errLeft)
	<-kept
	r.w.mu.Lock()
	delete(r.w.local, r.head.ID)
	r.w.mu.Unlock()
	close(r.left)
}

// recovered has a panic be the failure of a step. It is deferred.
func (r *run) recovered(path string, err *error) {
	if reason := recover(); reason != nil {
		r.w.options.Logger.Error("a workflow panicked", zap.String("run", r.head.ID), zap.String("step", path), zap.Any("panic", reason), zap.ByteString("stack", debug.Stack()))
		*err = failed(path, "internal", "a mistake of the server, which its log tells under %s", r.head.ID)
	}
}

// carried runs what is left of the run.
func (r *run) carried() (result json.RawMessage, err error) {
	defer r.recovered("", &err)
	then := World{Workflow: func(name string) (string, bool) { text, there := r.head.Others[name]; return text, there }}
	parsed, err := Parse(r.head.Text, then)
	if err != nil {
		return nil, failed("", "invalid_workflow", "%v", err)
	}
	r.others = make(map[string]*Workflow)
	for name, text := range r.head.Others {
		if r.others[name], err = Parse(text, then); err != nil {
			return nil, failed("", "invalid_workflow", "%s: %v", name, err)
		}
	}
	if r.steps, err = loadSteps(r.ctx, r.k.runs, r.head.ID); err != nil {
		return nil, errLeft
	}
	for _, s := range r.steps {
		r.kept += len(s.Output)
	}
	return r.workflow(r.ctx, parsed, "", r.head.Parameters)
}

// note stores how the run ended, unless somebody else carries it on.
func (r *run) note(result json.RawMessage, err error) {
	cause := context.Cause(r.ctx)
	if errors.Is(cause, errCancelled) {
		err = errCancelled
	}
	var step *stepError
	switch {
	case err == nil, errors.Is(err, errPaused), errors.Is(err, errCancelled):
	case r.ctx.Err() != nil, !errors.As(err, &step): // it goes on elsewhere, or later
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(r.ctx), leaseTime)
	defer done()
	stored := r.w.changeHead(ctx, r.k, r.head.key(), func(h *head) error {
		if h.Round != r.head.Round || h.over() {
			return errLeft
		}
		h.Want = ""
		switch {
		case step != nil:
			h.State, h.Step, h.Code, h.Reason, h.Approval = workflow.Failed, step.path, step.code, step.reason, step.approval
		case errors.Is(err, errPaused):
			h.State = workflow.Paused
			return nil
		case errors.Is(err, errCancelled):
			h.State = workflow.Cancelled
		default:
			h.State, h.Result, h.Reason = workflow.Succeeded, result, ""
		}
		h.Ended = time.Now().UTC()
		return nil
	})
	if stored != nil && !errors.Is(stored, errLeft) {
		r.w.options.Logger.Warn("the end of a workflow could not be stored: it will be carried on", zap.String("run", r.head.ID), zap.Error(stored))
	}
}

// keepLease keeps others from carrying the run on, until it is over here, and has its session
// known as used.
func (r *run) keepLease(lease state.Revision) {
	key := leaseKey(r.head.ID)
	touched, renewed := time.Now(), time.Now()
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			ctx, done := context.WithTimeout(context.WithoutCancel(r.ctx), 2*time.Second)
			defer done()
			if r.k.holders.Delete(ctx, key, lease) == nil {
				r.k.leases.Forget(key)
			}
			return
		case <-tick.C:
		}
		next, err := r.renew(key, lease)
		switch {
		case err == nil:
			lease, renewed = next, time.Now()
			r.k.leases.Note(key, r.w.me, lease)
		case errors.Is(err, state.ErrConflict), time.Since(renewed) > leaseTime-leaseRenew:
			r.cancel(errLeft)
		}
		if time.Since(touched) > touchEvery {
			touched = time.Now()
			ctx, done := context.WithTimeout(r.ctx, leaseRenew)    // the lease does not wait for it
			r.w.options.Door.Made(ctx, r.head.Who, r.head.Session) // by which the session is known as used
			done()
		}
	}
}

// fullCode is why a step failed whose end had no room.
const fullCode = "state_full"

// renew renews the lease. What it conflicts with may be a write of its own, whose answer was lost.
func (r *run) renew(key string, lease state.Revision) (state.Revision, error) {
	next, err := r.k.holders.Update(r.ctx, key, []byte(r.w.me), lease, leaseTime)
	if !errors.Is(err, state.ErrConflict) {
		return next, err
	}
	held, lost := r.k.holders.Get(r.ctx, key)
	switch {
	case lost != nil && !errors.Is(lost, state.ErrNotFound):
		return 0, lost
	case lost != nil || string(held.Value) != r.w.me:
		return 0, err
	}
	return r.k.holders.Update(r.ctx, key, []byte(r.w.me), held.Revision, leaseTime)
}

// loadSteps returns what is stored of the steps of a run, by path.
func loadSteps(ctx context.Context, kv state.KV, id string) (map[string]*stepRecord, error) {
	steps := make(map[string]*stepRecord)
	err := state.Snapshot(ctx, kv, stepsOf(id), func(e state.Entry) {
		record := new(stepRecord)
		if json.Unmarshal(e.Value, record) == nil {
			steps[state.LastPart(e.Key)] = record
		}
	})
	return steps, err
}

// record returns what is known of a step; a copy.
func (r *run) record(path string) stepRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.steps[path]; s != nil {
		return *s
	}
	return stepRecord{}
}

// store keeps what became of a step, before anything else comes of it.
func (r *run) store(path string, record stepRecord) error {
	r.mu.Lock()
	kept := r.kept + len(record.Output)
	if old := r.steps[path]; old != nil {
		kept -= len(old.Output)
	}
	r.mu.Unlock()
	if kept > maxKeptOutput && len(record.Output) > 0 {
		return failed(path, "outputs_too_large", "the outputs of the run have more than %d bytes together: have them written to files", maxKeptOutput)
	}
	text := encodeRecord(&record)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		_, err := r.k.runs.Put(r.ctx, stepKey(r.head.ID, path), text, stepTTL)
		if err == nil {
			break
		}
		if errors.Is(err, state.ErrTooLarge) {
			return failed(path, "output_too_large", "its output has %d bytes: at most %d are kept", len(record.Output), state.MaxValue)
		}
		if errors.Is(err, state.ErrFull) {
			return failed(path, fullCode, "what runs are kept in is full: it could not be stored how the step ended. Old runs are forgotten by and by: resume the run later")
		}
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		sleep(r.ctx, wait)
	}
	r.mu.Lock()
	r.kept += len(record.Output)
	if old := r.steps[path]; old != nil {
		r.kept -= len(old.Output)
	}
	r.steps[path] = &record
	r.mu.Unlock()
	return nil
}

// follow has out told what happens, until stop is called.
func (r *run) follow(out tools.Sink) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers = append(slices.Clip(r.followers), out)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.Index(r.followers, out)
		r.followers = slices.Concat(r.followers[:i], r.followers[i+1:]) // others may be reading the old one
	}
}

// tell tells those who follow.
func (r *run) tell(report tools.Report) {
	if report == nil {
		return
	}
	r.mu.Lock()
	followers := r.followers
	r.mu.Unlock()
	for _, out := range followers {
		out.Emit(report)
	}
}

func (r *run) place(path string) errand.Place {
	return errand.Place{Run: r.head.ID, Workflow: r.head.Workflow, Step: path}
}
