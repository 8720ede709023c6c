// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/errand"
)

const (
	maxOutput  = 256 << 10 // bytes of the output of a step
	maxAnew    = 50        // times that a step is begun anew because nothing came of it
	limitedFor = 2 * time.Second
)

// call makes the call of a step, again where it failed and may be tried again. What a restart
// left is found by its call id: an end that is known is taken, and a call whose effects are not
// known is not made again by itself unless the step says that this does no harm.
func (r *run) call(ctx context.Context, s *ready, path string, scope map[string]any) (json.RawMessage, error) {
	call, err := r.callOf(s, path, scope)
	if err != nil {
		return nil, err
	}
	for {
		end, err := r.attempt(ctx, s, path, call)
		if err != nil {
			return nil, err
		}
		if end != nil {
			output, err := fits(s, path, end.Output)
			if err == nil || !r.again(s, path) {
				return output, err
			}
			if err := r.next(s, path, 0, true); err != nil {
				return nil, err
			}
		}
	}
}

// callOf returns the call that a step makes.
func (r *run) callOf(s *ready, path string, scope map[string]any) (errand.Call, error) {
	call := errand.Call{Session: r.head.Session, Tool: s.Tool, Input: json.RawMessage("{}"), Timeout: s.Timeout, Purpose: "step " + path + " of the workflow " + r.head.Workflow}
	if s.kind() == "agent" {
		prompt, err := s.text.fill(scope)
		if err != nil {
			return call, failed(path, "invalid_expression", "prompt: %v", err)
		}
		input := map[string]any{"agent": s.Agent, "prompt": fmt.Sprint(prompt), "description": path}
		if s.Output != nil {
			input["result_schema"] = s.Output
		}
		call.Tool = "agent"
		call.Input, err = encode(input)
		return call, err
	}
	if s.input == nil {
		return call, nil
	}
	var err error
	call.Input, err = r.filled(s.input, path, scope)
	return call, err
}

// attempt makes a call once. It returns no end where the step is to be tried anew.
func (r *run) attempt(ctx context.Context, s *ready, path string, call errand.Call) (*errand.End, error) {
	record := r.record(path)
	if record.State == stepFailed { // and the run was resumed
		record = stepRecord{Attempt: max(record.Attempt, 1) + 1}
		if err := r.store(path, record); err != nil {
			return nil, err
		}
	}
	if err := r.until(ctx, record.Until); err != nil {
		return nil, err
	}
	call.ID = callID(r.head.ID, path, max(record.Attempt, 1))
	who := r.head.Who
	if r.w.options.Known != nil {
		var err error
		if who, err = r.w.options.Known(who); err != nil {
			return nil, failed(path, "not_allowed", "%v", err)
		}
	}
	if !r.head.SessionMade.IsZero() {
		made, err := r.w.options.Door.Made(ctx, who, call.Session)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, errand.ErrAway):
			return nil, errLeft
		case err == nil && !made.Equal(r.head.SessionMade):
			return nil, failed(path, "session_ended", "the session %s of the run has ended, and another one has its id: resume the run from a session that is meant", call.Session)
		case err != nil && !errors.Is(err, errand.ErrNoSession): // which the call tells
			return nil, failed(path, "not_called", "%v", err)
		}
	}
	end, err := r.w.options.Door.Call(ctx, who, call, func(event *errand.Event) {
		r.asks(path, event)
		r.tell(errand.Happened(r.place(path), &call, event))
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errand.ErrAway):
		return nil, errLeft
	case errors.Is(err, errand.ErrNoSession):
		return nil, failed(path, "session_ended", "the session %s of the run has ended, and with it what was known of its calls: resume the run from another session", call.Session)
	case err != nil:
		return nil, failed(path, "not_called", "%v", err)
	}
	switch end.Outcome {
	case errand.Succeeded:
		return end, nil
	case errand.Limited:
		return nil, r.anew(s, path, end, max(min(end.After, time.Minute), limitedFor))
	case errand.Unstarted:
		return nil, r.anew(s, path, end, 0)
	case errand.Lost:
		if s.Idempotent {
			return nil, r.anew(s, path, end, 0)
		}
		return nil, failed(path, cmp.Or(end.Code, "interrupted"), "%s It is not made again by itself: look, and resume the run, with done where it is done", end.Message)
	case errand.Failed:
		if r.again(s, path) {
			return nil, r.next(s, path, 0, true)
		}
	}
	return nil, failed(path, end.Code, "%s", end.Message)
}

// asks notes that a step waits for a person, or no longer does, for those who look at the run.
func (r *run) asks(path string, event *errand.Event) {
	record := r.record(path)
	switch {
	case event.GetApprovalRequested() != nil:
		record.Reason = "a person is asked: approval " + event.GetApprovalRequested().GetApproval().GetApprovalId()
	case event.GetApprovalResolved() != nil && record.Reason != "":
		record.Reason = ""
	default:
		return
	}
	r.store(path, record) // where it fails the step goes on all the same
}

// again reports whether a step that failed is to be tried once more.
func (r *run) again(s *ready, path string) bool { return r.record(path).Tries < s.Retry.Times }

// anew has a step begun once more of which nothing came.
func (r *run) anew(s *ready, path string, end *errand.End, wait time.Duration) error {
	if r.record(path).Attempt >= maxAnew+s.Retry.Times {
		return failed(path, end.Code, "%s It was tried %d times", end.Message, maxAnew)
	}
	return r.next(s, path, wait, false)
}

// next stores that a step is tried once more, and when.
func (r *run) next(s *ready, path string, wait time.Duration, counts bool) error {
	record := r.record(path)
	record.Attempt = max(record.Attempt, 1) + 1
	if counts {
		wait = s.Retry.Wait << min(record.Tries, 10)
		record.Tries++
	}
	record.Until, record.Reason = time.Time{}, ""
	if wait > 0 {
		record.Until = time.Now().Add(min(wait, time.Hour)).UTC()
	}
	return r.store(path, record)
}

// fits returns the output of a step as its schema wants it.
func fits(s *ready, path string, output json.RawMessage) (json.RawMessage, error) {
	if len(output) > maxOutput {
		return nil, failed(path, "output_too_large", "its output has %d bytes: at most %d are kept; have it written to a file", len(output), maxOutput)
	}
	if s.output == nil {
		return output, nil
	}
	err := s.output.ValidateText(output)
	if err == nil {
		return output, nil
	}
	var text string
	if json.Unmarshal(output, &text) == nil && json.Valid([]byte(text)) { // what it wrote is JSON
		if inner := s.output.ValidateText([]byte(text)); inner == nil {
			return json.RawMessage(text), nil
		} else {
			err = inner
		}
	}
	return nil, failed(path, "invalid_output", "its output does not fit its schema: %v. It was: %.200s", err, output)
}

// approval asks a person, until the step's time is over.
func (r *run) approval(ctx context.Context, s *ready, path string, scope map[string]any) (json.RawMessage, error) {
	question, err := s.text.fill(scope)
	if err != nil {
		return nil, failed(path, "invalid_expression", "approval: %v", err)
	}
	input, err := encode(map[string]any{"questions": []any{map[string]any{
		"header": "Approval", "question": fmt.Sprint(question), "options_only": true,
		"options": []any{map[string]any{"label": approve, "description": "the workflow " + r.head.Workflow + " goes on"}, map[string]any{"label": deny, "description": "it ends"}},
	}}})
	if err != nil {
		return nil, err
	}
	call := errand.Call{Session: r.head.Session, Tool: "ask_user", Input: input, Purpose: "step " + path + " of the workflow " + r.head.Workflow}
	began := time.Now()
	for {
		end, err := r.attempt(ctx, s, path, call)
		var why *stepError
		switch {
		case errors.As(err, &why) && why.code == "unanswered" && time.Since(began) < s.Timeout:
			if err := r.next(s, path, 0, false); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		case end != nil:
			return answered(path, end)
		}
	}
}

// What people choose from.
const (
	approve = "Approve"
	deny    = "Deny"
)

// answered returns what a person said.
func answered(path string, end *errand.End) (json.RawMessage, error) {
	var details struct {
		Answers []struct {
			Chosen []string `json:"chosen"`
		} `json:"answers"`
	}
	if json.Unmarshal(end.Details, &details) == nil && len(details.Answers) == 1 && len(details.Answers[0].Chosen) == 1 && details.Answers[0].Chosen[0] == approve {
		return json.RawMessage("true"), nil
	}
	return nil, failed(path, "denied", "a person did not approve it")
}
