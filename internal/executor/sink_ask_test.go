// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/tools"
)

var colour = []tools.Question{{Text: "Which colour?", Options: []tools.Option{{Label: "red"}, {Label: "green"}}}}

// wonders is a call that asks, and tells what it heard.
func wonders(ctx context.Context, out tools.Sink) (tools.Result, error) {
	answers, err := out.Ask(ctx, colour)
	if err != nil {
		return tools.Result{}, err
	}
	return tools.TextResult(strings.Join(answers[0].Chosen, ",")), nil
}

var green = approval.Answer{Kind: approval.Answered, Answers: []tools.Answer{{Chosen: []string{"green"}}}}

func TestToolAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{}, approval.Config{})
		x := f.start(f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
			out.Emit(tools.Progress{Message: "one"})
			out.Emit(tools.Progress{Message: "two"}) // joined, and before the question
			return wonders(ctx, out)
		}))
		synctest.Wait()
		q := f.question()
		if q.ExecutionID != x.ID || len(q.Questions) != 1 || len(q.Tiers) != 0 || q.Session.Owner != "alice" {
			t.Errorf("question %+v", q)
		}
		if info := x.Info(); info.State != executor.Running || f.Stats().Running != 1 {
			t.Errorf("while it waits: %+v", info)
		}
		f.resolve(green)
		end := finished(t, x)
		if end.Outcome != executor.Succeeded || end.Result.Content[0] != tools.Text("green") {
			t.Errorf("%v %q", end.Outcome, end.Result.Content)
		}
		if got := kinds(read(t, x, 0)); got != "1:accepted 2:started 3:progress 4:progress 5:approvalrequested 6:approvalresolved 7:finished" {
			t.Error(got)
		}
	})
}

func TestToolGetsNoAnswer(t *testing.T) {
	for _, c := range []struct {
		name, code, says string
		retryable        bool
		act              func(f *approving)
	}{
		{"declined", "declined", "bob declined to answer.", false,
			func(f *approving) { f.resolve(approval.Answer{Kind: approval.DenyOnce}) }},
		{"declined with a comment", "declined", "bob declined to answer: you choose", false,
			func(f *approving) { f.resolve(approval.Answer{Kind: approval.DenyOnce, Comment: "you choose"}) }},
		{"nobody there", "unanswered", "Nobody answered within 2m0s.", true, func(*approving) { time.Sleep(2 * time.Minute) }},
		{"approvals closed", "unanswered", "withdrawn", false, func(f *approving) { f.approvals.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newApproving(t, executor.Config{Limits: executor.Limits{DefaultTimeout: time.Second}}, approval.Config{})
				x := f.start(f.order(wonders))
				synctest.Wait()
				c.act(f)
				end := finished(t, x)
				if end.Outcome != executor.Failed || end.Failure.Code != c.code || end.Failure.Retryable != c.retryable ||
					!strings.Contains(end.Failure.Message, c.says) {
					t.Errorf("%v %+v", end.Outcome, end.Failure)
				}
				if got := kinds(read(t, x, 0)); got != "1:accepted 2:started 3:approvalrequested 4:approvalresolved 5:finished" {
					t.Error(got)
				}
			})
		})
	}
	t.Run("no approvals", func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		if end := finished(t, f.start(f.order(wonders))); end.Failure.Code != "unanswered" {
			t.Errorf("%+v", end.Failure)
		}
	})
	t.Run("full", func(t *testing.T) {
		f := newApproving(t, executor.Config{}, approval.Config{MaxPending: 1})
		f.start(f.asking(says("ok")))
		if end := finished(t, f.start(f.order(wonders))); end.Failure.Code != "unanswered" || !end.Failure.Retryable {
			t.Errorf("%+v", end.Failure)
		}
	})
}

// TestTimeStandsStill proves that a tool keeps what was left of its time when it
// asked, however long the answer takes, and not more.
func TestTimeStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{Limits: executor.Limits{DefaultTimeout: 10 * time.Second}}, approval.Config{Expiry: time.Hour})
		x := f.start(f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
			time.Sleep(4 * time.Second)
			var group sync.WaitGroup
			for range 2 { // two at once
				group.Go(func() { wonders(ctx, out) })
			}
			group.Wait()
			time.Sleep(3 * time.Second)
			if _, err := wonders(ctx, out); err != nil {
				return tools.Result{}, err
			}
			return waits(ctx, out) // three seconds are left
		}))
		begin := time.Now()
		answer := func(wait time.Duration) {
			time.Sleep(wait)
			q := f.approvals.List(bob, "")[0]
			if _, err := f.approvals.Resolve(bob, q.ID, green); err != nil {
				t.Fatal(err)
			}
		}
		answer(10 * time.Minute)
		answer(20 * time.Minute)
		answer(30 * time.Minute)
		end := finished(t, x)
		// 4 s of work before minute 30, then 3 s of work and a question that is
		// answered at an hour.
		if took := time.Since(begin); end.Outcome != executor.TimedOut || took != time.Hour+3*time.Second {
			t.Errorf("%v after %s, want timed out 3 s after the last answer", end.Outcome, took)
		}
	})
}

// TestStopWhileAsking cancels a tool that waits for an answer, and leaves one
// behind that does not stop: its question goes with the execution.
func TestStopWhileAsking(t *testing.T) {
	for _, detached := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newApproving(t, executor.Config{}, approval.Config{Expiry: time.Hour})
			heard := make(chan error, 1)
			x := f.start(f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
				if detached {
					ctx = context.WithoutCancel(ctx)
				}
				_, err := out.Ask(ctx, colour)
				heard <- err
				return tools.Result{}, err
			}))
			synctest.Wait()
			id := f.question().ID
			x.Cancel("enough", "alice")
			if end := finished(t, x); end.Outcome != executor.Cancelled {
				t.Errorf("detached: %t: %v", detached, end.Outcome)
			}
			err := <-heard
			_, failed := errors.AsType[*tools.Failure](err)
			_, cancelled := errors.AsType[*executor.Cancellation](err)
			if failed != detached || cancelled == detached {
				t.Errorf("detached: %t: the tool hears %v", detached, err)
			}
			if _, err := f.approvals.Resolve(bob, id, green); !errors.Is(err, approval.ErrWithdrawn) {
				t.Errorf("detached: %t: %v, want ErrWithdrawn", detached, err)
			}
		})
	}
}

func TestBadQuestions(t *testing.T) {
	f := newApproving(t, executor.Config{}, approval.Config{})
	long := strings.Repeat("x", 10<<10)
	for name, questions := range map[string][]tools.Question{
		"none":              nil,
		"too many":          make([]tools.Question, 17),
		"a long text":       {{Text: long}},
		"a long header":     {{Header: long}},
		"many options":      {{Text: "x", Options: make([]tools.Option, 65)}},
		"a long label":      {{Text: "x", Options: []tools.Option{{Label: long}}}},
		"a long descripton": {{Text: "x", Options: []tools.Option{{Description: long}}}},
	} {
		x := f.start(f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
			_, err := out.Ask(ctx, questions)
			return tools.Result{}, err
		}))
		if end := finished(t, x); end.Failure == nil || end.Failure.Code != "bad_question" {
			t.Errorf("%s: %+v", name, end.Failure)
		}
	}
}
