// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/schedule"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

const (
	maxAtOnce   = 64 // records that are changed at once
	maxReason   = 500
	maxAnew     = 3  // times that a firing is begun anew because nothing came of it
	maxWaits    = 50 // times that a run is waited for anew, after a restart each
	endPatience = 10 * time.Second
	awayRetry   = 500 * time.Millisecond
)

// begin has firings run, each apart.
func (s *Schedules) begin(k *buckets, r *record, list []firing) {
	for _, f := range list {
		s.enter(func() { s.fire(k, r, f) })
	}
}

// fire sees to a firing, unless this process does so already.
func (s *Schedules) fire(k *buckets, r *record, f firing) {
	ctx, cancel := context.WithCancelCause(s.base)
	defer cancel(nil)
	id := r.session(f.At)
	s.mu.Lock()
	if s.running[id] != nil {
		s.mu.Unlock()
		return
	}
	s.running[id] = cancel
	s.mu.Unlock()
	begin := s.seeTo(ctx, k, r, f)
	s.mu.Lock()
	delete(s.running, id)
	s.mu.Unlock()
	if next, _, there := k.records.Get(r.key()); there {
		s.begin(k, next, begin)
	}
}

// seeTo makes the call of a schedule, in a session of its own, notes how it ended, and returns what waited for that. The
// session is closed when the end is stored and not before: in one that is made anew the call would be another,
// and whoever takes the firing over would make it again.
func (s *Schedules) seeTo(ctx context.Context, k *buckets, r *record, f firing) (begin []firing) {
	var how schedule.Past
	for over := false; !over; {
		now, there, err := s.holds(k, r, f)
		switch {
		case s.base.Err() != nil:
			return nil // another process, or the next one, takes it over
		case err == nil && !there:
			s.shut(r, f)
			return nil
		case err == nil && now == nil:
			return nil
		case err == nil && now.Replaced: // before this process began it
			how, over = schedule.Past{Outcome: "cancelled", Reason: errReplaced.Error()}, true
		case err == nil && s.forgotten(r, now):
			how, over = schedule.Past{Outcome: "lost", Reason: "the server was away for so long that nobody knows what came of it"}, true
		case err == nil:
			how, over = s.call(ctx, r, *now)
		}
		if !over {
			sleep(s.base, awayRetry) // and then under the same call id: what was accepted is not made twice
		}
	}
	how.At, how.Ended = f.At, s.now()
	how.Reason = output.Short(how.Reason, maxReason)
	for s.base.Err() == nil {
		taken := false
		s.slots <- struct{}{}
		_, err := s.change(s.base, k, r.key(), func(now *record) (ended bool) {
			begin, taken = nil, false
			switch {
			case now.id() != r.id():
				return false // another one of its name
			case now.sees(f.At) && now.seenBy(f.At, s.me) == nil:
				taken = true
				return false
			}
			if begin, ended = now.end(f.At, how, s.now(), s.me); !ended {
				begin = s.unbegun(now)
			}
			return ended
		})
		<-s.slots
		if err == nil {
			if !taken { // else whoever has it needs the session
				s.shut(r, f)
			}
			return begin
		}
		s.options.Logger.Warn("the end of a firing could not be stored", zap.String("schedule", r.id()), zap.Error(err))
		sleep(s.base, retryAfter)
	}
	return nil
}

// holds returns a firing as it is stored, or nil if it is not this process's to see to, and whether its schedule is there.
func (s *Schedules) holds(k *buckets, r *record, f firing) (mine *firing, there bool, err error) {
	entry, err := k.kv.Get(s.base, r.key())
	if errors.Is(err, state.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	now, err := decodeRecord(entry.Value)
	if err != nil {
		return nil, true, err
	}
	return now.seenBy(f.At, s.me), now.id() == r.id(), nil
}

// forgotten reports whether a firing that was taken over began so long ago that the server may not know its call id any
// more. The run of a workflow is known by its own.
func (s *Schedules) forgotten(r *record, f *firing) bool {
	return f.Taken && r.Digest == "" && s.options.Remembered > 0 && s.now().Sub(f.Began) > s.options.Remembered*9/10
}

// unbegun returns the firings of a schedule that are this process's and that it has not begun: their write was
// told as failed.
func (s *Schedules) unbegun(r *record) (list []firing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range r.Running {
		if f.By == s.me && s.running[r.session(f.At)] == nil {
			list = append(list, f)
		}
	}
	return list
}

// shut closes the session of a firing.
func (s *Schedules) shut(r *record, f firing) {
	ctx, done := context.WithTimeout(context.WithoutCancel(s.base), endPatience)
	defer done()
	s.options.Door.Shut(ctx, r.Who, r.session(f.At))
}

// call makes the call, and reports whether that is over.
func (s *Schedules) call(ctx context.Context, r *record, f firing) (how schedule.Past, over bool) {
	who := r.Who
	if s.options.Known != nil {
		var err error
		if who, err = s.options.Known(who); err != nil {
			return schedule.Past{Outcome: "refused", Reason: err.Error()}, true
		}
	}
	if r.Digest != "" && !f.Taken { // what has begun goes on, and what has not is refused when it begins
		now, err := s.digest(ctx, who, r)
		away, ok := errors.AsType[*tools.Failure](err)
		switch {
		case ok && away.Retryable:
			return how, false
		case err != nil:
			return schedule.Past{Outcome: "refused", Reason: err.Error()}, true
		case now != r.Digest:
			return schedule.Past{Outcome: "refused", Reason: "the workflow, or one that it runs, is not what it was when the schedule was made: delete the schedule and make it again, if it is to run what the workflow is now"}, true
		}
	}
	session := r.session(f.At)
	if err := s.options.Door.Open(ctx, who, session, r.Settings); err != nil {
		switch cause := context.Cause(ctx); {
		case s.base.Err() != nil:
			return how, false
		case cause != nil:
			return schedule.Past{Outcome: "cancelled", Reason: cause.Error()}, true
		case errors.Is(err, errand.ErrAway):
			return how, false
		}
		return schedule.Past{Outcome: "refused", Reason: "there was no session to work in: " + err.Error()}, true
	}
	var began time.Time
	accepted := func(*errand.Event) {
		if began.IsZero() {
			began = s.now()
		}
	}
	for attempt := 1; ; attempt++ {
		call := errand.Call{Session: session, ID: fmt.Sprintf("fire-%d", attempt), Tool: r.Tool, Input: r.input(), Purpose: "the schedule " + r.Name}
		end, err := s.options.Door.Call(ctx, who, call, accepted)
		if err == nil && ctx.Err() == nil {
			end, err = s.ended(ctx, who, call, end)
		}
		switch {
		case s.base.Err() != nil, errors.Is(err, errand.ErrAway) && ctx.Err() == nil:
			return how, false
		case err == nil && end.Outcome == errand.Unstarted && attempt < maxAnew:
			continue
		}
		if cause := context.Cause(ctx); cause != nil {
			return schedule.Past{Began: began, Outcome: "cancelled", Reason: cause.Error()}, true
		}
		if err != nil {
			return schedule.Past{Outcome: "refused", Reason: err.Error()}, true
		}
		how = schedule.Past{Began: began, Outcome: outcomes[end.Outcome], Reason: end.Message, Execution: end.Execution}
		switch {
		case end.Outcome == errand.Succeeded:
			how.Output = output.Short(end.Text(), maxReason)
		case end.Code == workflow.ChangedCode: // since it was looked at
			how.Outcome = "refused"
		}
		return how, true
	}
}

// ended returns how a call ended. Where it began a run that outlives it, as where the server was
// restarted, that is how the run ended.
func (s *Schedules) ended(ctx context.Context, who errand.Who, begun errand.Call, end *errand.End) (*errand.End, error) {
	if s.options.Run == nil || !lost(end) {
		return end, nil
	}
	run := s.options.Run(who, begun.Session, begun.ID, begun.Tool, begun.Input)
	if run == "" {
		return end, nil
	}
	for n := 1; ; n++ {
		call := begun
		call.ID, call.Input = fmt.Sprintf("%s/wait-%d", begun.ID, n), fmt.Appendf(nil, `{"run": %q}`, run)
		over, err := s.options.Door.Call(ctx, who, call, nil)
		switch {
		case err != nil:
			return nil, err
		case over.Code == "no_such_run": // it was never begun
			return end, nil
		case !lost(over) || n == maxWaits:
			return over, nil
		}
	}
}

// lost reports whether a call ended without the run that it began.
func lost(end *errand.End) bool {
	return end.Outcome == errand.Lost || end.Outcome == errand.Unstarted || end.Code == workflow.GoesOnCode
}

var outcomes = map[errand.Outcome]string{
	errand.Succeeded: "succeeded", errand.Failed: "failed", errand.Refused: "refused", errand.Limited: "refused", errand.Lost: "lost", errand.Unstarted: "lost",
}
