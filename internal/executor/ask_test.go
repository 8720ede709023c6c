// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

var bob = approval.Viewer{Owner: "bob", Approver: true}

// approving is a fixture with approvals.
type approving struct {
	*fixture
	approvals *approval.Store
}

func newApproving(t *testing.T, config executor.Config, rules approval.Config) *approving {
	t.Helper()
	f := new(approving)
	rules.Sessions = newSessions(t)
	f.approvals = approval.NewStore(rules)
	config.Sessions, config.Approvals = rules.Sessions, f.approvals
	f.fixture = newFixture(t, config)
	return f
}

var asks = policy.Verdict{Action: policy.Ask, Rule: "mode ask", Reason: "The session asks."}

// asking is an order that waits for an answer before it runs.
func (f *approving) asking(call callFunc) *executor.Job {
	order := f.order(call)
	order.Verdict = asks
	order.Purpose = "to see"
	order.Question = &approval.Question{
		Digest: [32]byte{7}, Verdict: asks, Policy: "v1",
		Effects: []policy.Judged{{Effect: tools.Effect{Kind: tools.WritesPath, Path: "a"}, Verdict: asks}},
		Preview: tools.Preview{Kind: tools.PreviewDiff, Text: "+a"},
		Tiers:   []policy.Tier{{Kind: policy.TierFile, Pattern: "a", Label: "this file"}},
	}
	return order
}

// question returns the one question that waits.
func (f *approving) question() *approval.Question {
	f.t.Helper()
	list := f.approvals.List(bob, "")
	if len(list) != 1 {
		f.t.Fatalf("%d questions wait, want one", len(list))
	}
	return list[0]
}

func (f *approving) resolve(answer approval.Answer) approval.Answer {
	f.t.Helper()
	got, err := f.approvals.Resolve(bob, f.question().ID, answer)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

const respected = "\nIt did not run. Respect that: go on without it, or ask what to do instead."

func TestApproval(t *testing.T) {
	var starting atomic.Int32
	f := newApproving(t, executor.Config{Steps: testSteps{starting: func() { starting.Add(1) }}}, approval.Config{})
	ran := false
	x := f.start(f.asking(func(context.Context, tools.Sink) (tools.Result, error) {
		ran = true
		return tools.TextResult("written"), nil
	}))
	q := f.question()
	if q.Session != f.session.Ref() || q.ExecutionID != x.ID || q.CallID != x.Order.CallID ||
		q.Tool != "test" || q.Purpose != "to see" || q.Digest != [32]byte{7} || q.Policy != "v1" || len(q.Tiers) != 1 {
		t.Errorf("question %+v", q)
	}
	if info := x.Info(); info.State != executor.Waiting || info.LastSeq != 2 || !info.Started.IsZero() {
		t.Errorf("while it waits: %+v", info)
	}
	if stats := f.Stats(); stats.Waiting != 1 || stats.Running != 0 {
		t.Errorf("while it waits: %+v", stats)
	}
	if ran || starting.Load() != 0 {
		t.Fatal("it ran before the answer")
	}
	f.resolve(approval.Answer{Kind: approval.AllowAlways, Tier: 1, Comment: "mind the gap", From: "10.0.0.7"})

	events := read(t, x, 0)
	if got := kinds(events); got != "1:accepted 2:approvalrequested 3:approvalresolved 4:started 5:finished" {
		t.Fatal(got)
	}
	if accepted := events[0].Body.(executor.Accepted); accepted.Verdict != asks {
		t.Errorf("accepted with %+v", accepted.Verdict)
	}
	if requested := events[1].Body.(executor.ApprovalRequested); requested.Question != q || !events[1].Time.Equal(q.Created) {
		t.Errorf("requested %+v", requested.Question)
	}
	resolved := events[2].Body.(executor.ApprovalResolved)
	if a := resolved.Answer; resolved.QuestionID != q.ID || a.Kind != approval.AllowAlways || a.By != "bob" || a.From != "10.0.0.7" || a.Grant == nil {
		t.Errorf("resolved %+v", resolved)
	}
	end := events[4].Body.(executor.Finished)
	if end.Outcome != executor.Succeeded || len(end.Result.Content) != 2 ||
		end.Result.Content[0] != tools.Text("bob allowed the call and said: mind the gap") || end.Result.Content[1] != tools.Text("written") {
		t.Errorf("%v %q", end.Outcome, end.Result.Content)
	}
	if got := kinds(read(t, x, 2)); got != "3:approvalresolved 4:started 5:finished" {
		t.Errorf("a reader that comes back: %s", got)
	}
	if len(f.approvals.Grants(f.session.Ref())) != 1 || f.Stats().Waiting != 0 || starting.Load() != 1 {
		t.Errorf("afterwards: %+v", f.Stats())
	}
}

// TestReaderWaitsForTheAnswer follows a call from before the question to the end,
// and has another reader come while it waits.
func TestReaderWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{}, approval.Config{})
		order := f.asking(says("ok"))
		order.CallID = "call-1"
		x := f.start(order)
		var group sync.WaitGroup
		for after, want := range map[uint64]string{
			0: "1:accepted 2:approvalrequested 2:heartbeat 3:approvalresolved 4:started 5:finished",
			1: "2:approvalrequested 2:heartbeat 3:approvalresolved 4:started 5:finished",
			2: "2:heartbeat 3:approvalresolved 4:started 5:finished",
		} {
			group.Go(func() {
				if got := kinds(read(t, x, after)); got != want {
					t.Errorf("after %d: %s, want %s", after, got, want)
				}
			})
		}
		time.Sleep(20 * time.Second)
		if again := f.start(order); again != x {
			t.Error("the same call id is another execution")
		}
		f.resolve(approval.Answer{Kind: approval.AllowOnce})
		group.Wait()
	})
}

func TestDenials(t *testing.T) {
	for _, c := range []struct {
		name      string
		answer    approval.Answer
		rule      string
		says      string
		retryable bool
	}{
		{"once", approval.Answer{Kind: approval.DenyOnce}, "approver bob", "bob denied the call." + respected, false},
		{"with a comment", approval.Answer{Kind: approval.DenyOnce, Comment: "use rg"}, "approver bob", "bob denied the call: use rg" + respected, false},
		{"always", approval.Answer{Kind: approval.DenyAlways, Tier: 1, Comment: "never"}, "approver bob",
			`bob denied the call, and for the rest of the session what is covered by "this file": never` + respected, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newApproving(t, executor.Config{}, approval.Config{})
			x := f.start(f.asking(func(context.Context, tools.Sink) (tools.Result, error) {
				t.Error("it ran")
				return tools.Result{}, nil
			}))
			f.resolve(c.answer)
			end := finished(t, x)
			if end.Outcome != executor.Denied || end.Failure.Code != "denied" || end.Failure.Message != c.says ||
				end.Failure.Retryable || end.Result.Content[0] != tools.Text(c.says) {
				t.Errorf("%v %+v %q", end.Outcome, end.Failure, end.Result.Content)
			}
			if end.Verdict == nil || *end.Verdict != (policy.Verdict{Action: policy.Deny, Rule: c.rule, Reason: c.says}) {
				t.Errorf("verdict %+v", end.Verdict)
			}
			if got := kinds(read(t, x, 0)); got != "1:accepted 2:approvalrequested 3:approvalresolved 4:finished" {
				t.Error(got)
			}
		})
	}
}

// TestNobodyAnswers proves that no answer is a denial, in its own time: neither
// the timeout of the tool nor the idle time of the session ends the wait.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{}, approval.Config{Expiry: 5 * time.Minute})
		store := f.sessions
		s, err := store.Create("alice", session.Request{ID: "short", Settings: session.Settings{IdleTTL: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		order := f.asking(says("no"))
		order.Session, order.Timeout = s.Ref(), time.Second
		begin := time.Now()
		x := f.start(order)
		end := finished(t, x)
		if end.Outcome != executor.Denied || end.Failure.Code != "approval_expired" || !end.Failure.Retryable || time.Since(begin) != 5*time.Minute {
			t.Errorf("%v %+v after %s", end.Outcome, end.Failure, time.Since(begin))
		}
		if !strings.Contains(end.Failure.Message, "Nobody answered within 5m0s") || end.Verdict.Rule != "approval expired" || end.Waited != 5*time.Minute {
			t.Errorf("%q by %q, waited %s", end.Failure.Message, end.Verdict.Rule, end.Waited)
		}
		if _, err := store.Get("alice", "short"); err != nil {
			t.Errorf("the session of a call that waits was closed: %v", err)
		}
	})
}

// TestTimeoutBeginsWithTheRun proves that a tool has all of its time after an
// answer that took long.
func TestTimeoutBeginsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{}, approval.Config{Expiry: time.Hour})
		order := f.asking(waits)
		order.Timeout = 3 * time.Second
		x := f.start(order)
		time.Sleep(30 * time.Minute)
		f.resolve(approval.Answer{Kind: approval.AllowOnce})
		begin := time.Now()
		if end := finished(t, x); end.Outcome != executor.TimedOut || time.Since(begin) != 3*time.Second || end.Waited != 30*time.Minute {
			t.Errorf("%v after %s, waited %s", end.Outcome, time.Since(begin), end.Waited)
		}
	})
}

// TestStopWhileWaiting ends calls that wait in every way but by an answer: at
// once, and the question goes with them.
func TestStopWhileWaiting(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason string
		stop   func(f *approving, x *executor.Execution)
		after  time.Duration
	}{
		{"cancel", "enough", func(_ *approving, x *executor.Execution) { x.Cancel("enough", "alice") }, 0},
		{"session closed", "closed", func(f *approving, x *executor.Execution) {
			if n, err := f.CancelWhere(context.Background(), func(x *executor.Execution) bool { return x.Order.Session == f.session.Ref() }, "closed", "alice"); n != 1 || err != nil {
				f.t.Errorf("%d cancelled: %v", n, err)
			}
		}, 0},
		{"drain", "going down", func(f *approving, _ *executor.Execution) { f.Drain(context.Background(), "going down") }, 0},
		{"approvals closed", "nobody can be asked any more", func(f *approving, _ *executor.Execution) { f.approvals.Close() }, 0},
		{"disconnect", "the client was disconnected", func(f *approving, x *executor.Execution) { readTwo(f.t, x) }, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newApproving(t, executor.Config{Limits: executor.Limits{StopGrace: time.Hour}}, approval.Config{})
				x := f.start(f.asking(func(context.Context, tools.Sink) (tools.Result, error) {
					t.Error("it ran")
					return tools.Result{}, nil
				}))
				id := f.question().ID
				begin := time.Now()
				c.stop(f, x)
				end := finished(t, x)
				if end.Outcome != executor.Cancelled || !strings.Contains(end.Cancelled.Reason, c.reason) || time.Since(begin) != c.after {
					t.Errorf("%v %+v after %s", end.Outcome, end.Cancelled, time.Since(begin))
				}
				if got := kinds(read(t, x, 0)); got != "1:accepted 2:approvalrequested 3:approvalresolved 4:finished" {
					t.Error(got)
				}
				if _, err := f.approvals.Resolve(bob, id, approval.Answer{Kind: approval.AllowOnce}); !errors.Is(err, approval.ErrWithdrawn) {
					t.Errorf("the question: %v, want ErrWithdrawn", err)
				}
				if f.approvals.Pending() != 0 || f.Stats().Waiting != 0 {
					t.Error("something waits on")
				}
			})
		})
	}
}

// TestAnswerCancelAndExpiryAtOnce proves that whatever comes first, the call
// ends once, the log tells a story that holds together, and nothing runs without
// an answer that allows it.
func TestAnswerCancelAndExpiryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{Limits: executor.Limits{MaxRetained: 10}}, approval.Config{Expiry: time.Second})
		outcomes := map[string]int{}
		for i := range 300 {
			var ran atomic.Int32
			x := f.start(f.asking(func(ctx context.Context, _ tools.Sink) (tools.Result, error) {
				ran.Add(1)
				return tools.TextResult("ran"), context.Cause(ctx)
			}))
			id := f.question().ID
			var allowed atomic.Bool
			at := func(act func()) { time.AfterFunc(time.Second-time.Duration(i%2), act) }
			for range 3 {
				at(func() {
					if _, err := f.approvals.Resolve(bob, id, approval.Answer{Kind: approval.AllowOnce}); err == nil {
						allowed.Store(true)
					}
				})
				at(func() { x.Cancel("enough", "alice") })
			}
			end := finished(t, x)
			synctest.Wait()
			story := kinds(read(t, x, 0))
			resolved := read(t, x, 2)[0].Body.(executor.ApprovalResolved).Answer
			if resolved.Allows() != allowed.Load() {
				t.Fatalf("the approver got %t, and the log says %v", allowed.Load(), resolved.Kind)
			}
			started := strings.Contains(story, "started")
			if n := ran.Load(); n > 1 || started != (n == 1) || started && !allowed.Load() {
				t.Fatalf("%d runs: %s", n, story)
			}
			want := "1:accepted 2:approvalrequested 3:approvalresolved 4:finished"
			if started {
				want = "1:accepted 2:approvalrequested 3:approvalresolved 4:started 5:finished"
			}
			if story != want {
				t.Fatalf("%s, want %s", story, want)
			}
			outcomes[resolved.Kind.String()+" "+end.Outcome.String()]++
			if stats := f.Stats(); stats.Waiting != 0 || stats.Running != 0 {
				t.Fatalf("%+v", stats)
			}
		}
		t.Log(outcomes)
	})
}

func TestNobodyToAsk(t *testing.T) {
	f := &approving{fixture: newFixture(t, executor.Config{})}
	end := finished(t, f.start(f.asking(says("no"))))
	if end.Outcome != executor.Denied || end.Failure.Message != "The session asks. Nobody can be asked for approval on this server." || end.Verdict == nil {
		t.Errorf("%v %+v", end.Outcome, end.Failure)
	}

	full := newApproving(t, executor.Config{}, approval.Config{MaxPending: 1})
	full.start(full.asking(says("no")))
	end = finished(t, full.start(full.asking(says("no"))))
	if end.Outcome != executor.Denied || end.Failure.Code != "too_many_questions" || !end.Failure.Retryable || end.Verdict == nil {
		t.Errorf("%v %+v", end.Outcome, end.Failure)
	}

	closed := newApproving(t, executor.Config{}, approval.Config{})
	closed.approvals.Close()
	end = finished(t, closed.start(closed.asking(says("no"))))
	if end.Outcome != executor.Cancelled || end.Cancelled == nil {
		t.Errorf("%v %+v", end.Outcome, end.Failure)
	}
}

// TestQuestionsAreSendable proves that nobody is shown a part of something
// without knowing it, and that nothing shown breaks a message.
func TestQuestionsAreSendable(t *testing.T) {
	f := newApproving(t, executor.Config{}, approval.Config{})
	order := f.asking(says("ok"))
	order.Question.Preview.Text = strings.Repeat("x", 200<<10) + "\xff"
	big := strings.Repeat("w", 60<<10)
	order.Question.Effects = []policy.Judged{
		{Effect: tools.Effect{Kind: tools.RunsProgram, Program: "ls", Argv: []string{"ls", big}}, Verdict: policy.Verdict{Action: policy.Allow}},
		{Effect: tools.Effect{Kind: tools.RunsProgram, Program: "rm", Argv: []string{"rm", "\xff"}}, Verdict: asks},
		{Effect: tools.Effect{Kind: tools.RunsProgram, Program: "cp", Argv: []string{"cp", big, big}}, Verdict: asks},
		{Effect: tools.Effect{Kind: tools.RunsProgram, Program: "mv", Argv: []string{"mv", big[:4<<10]}}, Verdict: asks},
	}
	order.Question.Tiers = append(order.Question.Tiers,
		policy.Tier{Kind: policy.TierCommand, Pattern: strings.Repeat("w", 2000), Label: "long"},
		policy.Tier{Kind: policy.TierCommand, Pattern: "\xff", Label: "broken"})
	given := order.Question.Effects
	f.start(order)
	q := f.question()
	if len(q.Preview.Text) != 128<<10 || q.HiddenBytes < 72<<10 {
		t.Errorf("%d bytes are shown, %d are said to be hidden", len(q.Preview.Text), q.HiddenBytes)
	}
	var shown []string
	for _, judged := range q.Effects {
		shown = append(shown, judged.Effect.Program)
		for _, word := range judged.Effect.Argv {
			if !utf8.ValidString(word) {
				t.Errorf("%q is no text", word)
			}
		}
	}
	if strings.Join(shown, " ") != "rm mv" || q.MoreEffects != 2 {
		t.Errorf("effects %v and %d more, want those that are asked about first", shown, q.MoreEffects)
	}
	if len(q.Tiers) != 1 {
		t.Errorf("tiers %+v, want the one that can be read whole", q.Tiers)
	}
	if given[0].Effect.Program != "ls" || given[1].Effect.Argv[1] != "\xff" {
		t.Error("the order was changed")
	}
}

// TestManyWaitForAnswers has ten thousand calls wait: none of them has a
// goroutine. Then all are allowed.
func TestManyWaitForAnswers(t *testing.T) {
	const n = 10_000
	f := newApproving(t, executor.Config{}, approval.Config{MaxPerSession: n})
	var ran atomic.Int32
	call := func(context.Context, tools.Sink) (tools.Result, error) {
		ran.Add(1)
		return tools.TextResult("ok"), nil
	}
	before := runtime.NumGoroutine()
	all := make([]*executor.Execution, n)
	for i := range all {
		all[i] = f.start(f.asking(call))
	}
	if more := runtime.NumGoroutine() - before; more > n/100 {
		t.Errorf("%d goroutines for %d calls that wait", more, n)
	}
	if stats := f.Stats(); stats.Waiting != n || stats.Running != 0 {
		t.Errorf("%+v", stats)
	}
	for _, q := range f.approvals.List(bob, "") {
		if _, err := f.approvals.Resolve(bob, q.ID, approval.Answer{Kind: approval.AllowOnce}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range all {
		if end := finished(t, x); end.Outcome != executor.Succeeded {
			t.Fatalf("%v", end.Outcome)
		}
	}
	if ran.Load() != n || f.Stats().Waiting != 0 {
		t.Errorf("%d ran, %+v", ran.Load(), f.Stats())
	}
}

// BenchmarkWaiting tells how many bytes a call holds that waits for an answer.
func BenchmarkWaiting(b *testing.B) {
	store := session.NewStore(session.Config{
		WorkspaceRoot: b.TempDir(), MaxLevel: tools.ReadOnly,
		Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk},
	})
	defer store.Close()
	s, err := store.Get("alice", "")
	if err != nil {
		b.Fatal(err)
	}
	approvals := approval.NewStore(approval.Config{Sessions: store, MaxPending: 1 << 30, MaxPerSession: 1 << 30, MaxBytes: 1 << 40})
	e := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: store, Approvals: approvals, Limits: executor.Limits{MaxRunning: 1 << 30}})
	f := &approving{fixture: &fixture{Executor: e, session: s}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		if _, err := e.Start(b.Context(), f.asking(says("ok"))); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := after.HeapAlloc + after.StackInuse - before.HeapAlloc - before.StackInuse
	b.ReportMetric(float64(held)/float64(approvals.Pending()), "held-B/call")
	e.Drain(b.Context(), "end of benchmark")
	e.Close()
}

// TestRejudgeThatPanics: a call that cannot be judged again is denied, and the one
// who answered hears nothing of it.
func TestRejudgeThatPanics(t *testing.T) {
	f := newApproving(t, executor.Config{Steps: testSteps{rejudge: func(*executor.Execution) policy.Verdict { panic("secret of the rules") }}}, approval.Config{})
	order := f.asking(func(context.Context, tools.Sink) (tools.Result, error) {
		t.Error("it ran")
		return tools.Result{}, nil
	})
	x := f.start(order)
	f.resolve(approval.Answer{Kind: approval.AllowOnce})
	end := finished(t, x)
	if end.Outcome != executor.Denied || end.Verdict.Rule != "internal" || strings.Contains(end.Failure.Message, "secret") ||
		!strings.Contains(end.Failure.Message, x.ID) {
		t.Errorf("it ended with %+v", end)
	}
}

// widened has calls asked about again with other rights than those that were shown.
type widened struct {
	executor.NoSteps
	rights tools.Rights
}

func (w widened) Rejudge(_ *executor.Execution, call tools.Call) executor.Rejudged {
	return executor.Rejudged{Verdict: asks, Rights: w.rights, Call: call}
}

// TestApprovedAccess has an approval not be good for more access than its question
// showed, whatever widened it while the call waited: settings of the session, a policy.
func TestApprovedAccess(t *testing.T) {
	shown := tools.Rights{Confinement: tools.Named, Write: []string{"a"}, Network: tools.NetworkLoopback}
	for name, test := range map[string]struct {
		now  func(*tools.Rights)
		runs bool
	}{
		"the same":        {func(*tools.Rights) {}, true},
		"less network":    {func(r *tools.Rights) { r.Network = tools.NetworkNone }, true},
		"more network":    {func(r *tools.Rights) { r.Network = tools.NetworkHosts }, false},
		"wider":           {func(r *tools.Rights) { r.Confinement = tools.SessionWide }, false},
		"another path":    {func(r *tools.Rights) { r.Write = []string{"a", "b"} }, false},
		"a path to read":  {func(r *tools.Rights) { r.Read = []string{"/srv"} }, false},
		"a host to reach": {func(r *tools.Rights) { r.Hosts = []string{"a:443"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := shown
			test.now(&now)
			f := newApproving(t, executor.Config{Steps: widened{rights: now}}, approval.Config{})
			ran := false
			job := f.asking(func(context.Context, tools.Sink) (tools.Result, error) { ran = true; return tools.Result{}, nil })
			job.Access = shown.Access()
			x := f.start(job)
			f.resolve(approval.Answer{Kind: approval.AllowOnce})
			end := finished(t, x)
			if ran != test.runs || !test.runs && !strings.Contains(end.Failure.Message, "more than bob was shown") {
				t.Errorf("ran %t: %+v", ran, end)
			}
		})
	}
}

// TestAskedWhileDraining: a question that comes when the server stops already is not waited for.
func TestAskedWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *approving
		drained := make(chan struct{})
		f = newApproving(t, executor.Config{Steps: testSteps{proposed: func(*executor.Execution) {
			go func() {
				defer close(drained)
				f.Drain(context.Background(), "going down")
			}()
			synctest.Wait()
		}}}, approval.Config{})
		end := finished(t, f.start(f.asking(nil)))
		if end.Outcome != executor.Cancelled || end.Cancelled.Reason != "going down" || end.Waited != 0 {
			t.Errorf("it ended with %+v", end)
		}
		<-drained
	})
}
