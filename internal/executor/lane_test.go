// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// ordered puts the fixture into a session whose calls run in order.
func (f *fixture) ordered(ordered bool) {
	f.t.Helper()
	s, err := f.sessions.Create("alice", session.Request{Settings: session.Settings{Ordered: ordered}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.session = s
}

// diary notes what runs when.
type diary struct {
	mu    sync.Mutex
	begun time.Time
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%02d:", int(time.Since(d.begun)/time.Second))+fmt.Sprintf(format, args...))
}

// String tells it; what happened within one second has no order.
func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(d.lines)), " ")
}

// takes is an order of a call that takes some seconds. A name in capitals is that of
// a tool that is not concurrency-safe.
func (f *fixture) takes(d *diary, name string, seconds int) *executor.Job {
	order := f.order(func(ctx context.Context, _ tools.Sink) (tools.Result, error) {
		d.note("%s", name)
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return tools.Result{}, context.Cause(ctx)
		}
		d.note("/%s", name)
		return tools.Result{}, nil
	})
	order.ConcurrencySafe = name == strings.ToLower(name)
	return order
}

func TestOrder(t *testing.T) {
	for _, test := range []struct {
		name    string
		ordered bool
		want    string
	}{
		{"free", false, "00:B 00:E 00:a 00:c 00:d 01:/E 02:/a 02:/c 03:/B 04:/d"},
		{"safe", true, "00:a 02:/a 02:B 05:/B 05:c 05:d 07:/c 09:/d 09:E 10:/E"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, executor.Config{})
				f.ordered(test.ordered)
				d := &diary{begun: time.Now()}
				var last *executor.Execution
				for _, call := range []struct {
					name    string
					seconds int
				}{{"a", 2}, {"B", 3}, {"c", 2}, {"d", 4}, {"E", 1}} {
					last = f.start(f.takes(d, call.name, call.seconds))
					synctest.Wait()
				}
				if stats := f.Stats(); test.ordered && (stats.Waiting != 4 || stats.Running != 1 || last.Info().State != executor.Waiting) {
					t.Errorf("%+v", stats)
				}
				time.Sleep(time.Minute)
				if got := d.String(); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				if got := finished(t, last); got.Outcome != executor.Succeeded || test.ordered && got.Waited != 9*time.Second {
					t.Errorf("the last ended with %+v", got)
				}
				if stats := f.Stats(); stats.Waiting != 0 || stats.Running != 0 {
					t.Errorf("at the end: %+v", stats)
				}
			})
		})
	}
}

// TestOrderAndCancel: a call that is cancelled before its turn ends at once, and
// holds nobody up.
func TestOrderAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		f.ordered(true)
		d := &diary{begun: time.Now()}
		f.start(f.takes(d, "a", 5))
		cancelled := f.start(f.takes(d, "B", 1))
		after := f.start(f.takes(d, "c", 1))
		time.Sleep(time.Second)
		cancelled.Cancel("changed my mind", "alice")
		if end := finished(t, cancelled); end.Outcome != executor.Cancelled || end.Ran != 0 {
			t.Errorf("it ended with %+v", end)
		}
		finished(t, after)
		time.Sleep(time.Minute)
		if got := d.String(); got != "00:a 01:c 02:/c 05:/a" {
			t.Error(got)
		}
	})
}

// TestNothingBeginsForAStop: where many calls are stopped together, none gets its turn because another
// ends.
func TestNothingBeginsForAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		f.ordered(true)
		d := &diary{begun: time.Now()}
		f.start(f.takes(d, "a", 5))
		for range 20 {
			f.start(f.takes(d, "B", 1))
			f.start(f.takes(d, "c", 1))
		}
		synctest.Wait()
		if n, err := f.CancelWhere(t.Context(), func(*executor.Execution) bool { return true }, "enough", "alice"); n != 41 || err != nil {
			t.Errorf("%d were cancelled: %v", n, err)
		}
		if got := d.String(); got != "00:a" {
			t.Errorf("it ran %s", got)
		}
	})
}

// TestLeftBeforeItsTurn: a call that ended before it came to its place holds nobody up.
func TestLeftBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := true
		f := newFixture(t, executor.Config{Limits: executor.Limits{StopGrace: time.Second, MaxActive: 1}, Steps: testSteps{proposed: func(x *executor.Execution) {
			if slow {
				slow = false
				x.Cancel("too late", "alice")
				time.Sleep(2 * time.Second)
			}
		}}})
		f.ordered(true)
		d := &diary{begun: time.Now()}
		if end := finished(t, f.start(f.takes(d, "A", 1))); end.Outcome != executor.Cancelled {
			t.Errorf("it ended with %+v", end)
		}
		if end := finished(t, f.start(f.takes(d, "B", 1))); end.Outcome != executor.Succeeded || end.Waited != 0 {
			t.Errorf("the next ended with %+v", end)
		}
	})
}

// TestOrderAndApproval: a call that waits for a person holds nobody up, and takes
// its turn when it is allowed.
func TestOrderAndApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newApproving(t, executor.Config{}, approval.Config{})
		f.ordered(true)
		d := &diary{begun: time.Now()}
		asks := f.asking(nil)
		takes := f.takes(d, "A", 2)
		asks.Call, asks.ConcurrencySafe = takes.Call, takes.ConcurrencySafe
		x := f.start(asks)
		f.start(f.takes(d, "B", 3))
		time.Sleep(time.Second)
		f.resolve(approval.Answer{Kind: approval.AllowOnce})
		late := f.start(f.takes(d, "c", 1))
		time.Sleep(time.Minute)
		if got := d.String(); got != "00:B 03:/B 03:A 05:/A 05:c 06:/c" {
			t.Error(got)
		}
		if finished(t, x).Outcome != executor.Succeeded || finished(t, late).Outcome != executor.Succeeded {
			t.Error("they did not end well")
		}
	})
}

// TestForbiddenBeforeItsTurn: what is denied by the time of its turn does not run.
func TestForbiddenBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Steps: testSteps{rejudge: func(x *executor.Execution) policy.Verdict {
			if x.Order.Purpose == "forbidden" {
				return policy.Verdict{Action: policy.Deny, Rule: "rule new", Reason: "No more."}
			}
			return policy.Verdict{Action: policy.Allow}
		}}})
		f.ordered(true)
		d := &diary{begun: time.Now()}
		f.start(f.takes(d, "A", 1))
		order := f.takes(d, "B", 1)
		order.Purpose = "forbidden"
		x := f.start(order)
		last := f.start(f.takes(d, "C", 1))
		if end := finished(t, x); end.Outcome != executor.Denied || end.Verdict.Rule != "rule new" || !strings.Contains(end.Failure.Message, "No more.") {
			t.Errorf("it ended with %+v", end)
		}
		finished(t, last)
		if got := d.String(); got != "00:A 01:/A 01:C 02:/C" {
			t.Error(got)
		}
	})
}

// TestCancelledBeforeItsTurn: a call that ends between the end of the call before it and
// its own turn holds up neither that call nor those behind.
func TestCancelledBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancelled *executor.Execution
		f := newFixture(t, executor.Config{Steps: testSteps{rejudge: func(x *executor.Execution) policy.Verdict {
			if x != cancelled {
				cancelled.Cancel("", "alice")
			}
			return policy.Verdict{Action: policy.Allow}
		}}})
		f.ordered(true)
		d := &diary{begun: time.Now()}
		first := f.start(f.takes(d, "A", 1))
		f.start(f.takes(d, "b", 1)) // has its turn together with c
		cancelled = f.start(f.takes(d, "c", 1))
		last := f.start(f.takes(d, "D", 1))
		finished(t, first)
		if end := finished(t, cancelled); end.Outcome != executor.Cancelled {
			t.Errorf("it ended with %+v", end)
		}
		finished(t, last)
		if got := d.String(); got != "00:A 01:/A 01:b 02:/b 02:D 03:/D" {
			t.Error(got)
		}
	})
}

// TestOrderUnderLoad runs and cancels many at once: never two beside one that runs
// alone, and all of them end.
func TestOrderUnderLoad(t *testing.T) {
	f := newFixture(t, executor.Config{})
	f.ordered(true)
	var mu sync.Mutex
	safe, alone := 0, 0
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			unsafe := i%3 == 0
			order := f.order(func(context.Context, tools.Sink) (tools.Result, error) {
				count := &safe
				if unsafe {
					count = &alone
				}
				mu.Lock()
				*count++
				if alone > 1 || alone == 1 && safe > 0 {
					t.Errorf("%d run alone beside %d others", alone, safe)
				}
				mu.Unlock()
				mu.Lock()
				*count--
				mu.Unlock()
				return tools.Result{}, nil
			})
			order.ConcurrencySafe = !unsafe
			x, err := f.Start(context.Background(), order)
			if err != nil {
				t.Error(err)
				return
			}
			if i%5 == 0 {
				x.Cancel("", "alice")
			}
			<-x.Done()
		})
	}
	wait.Wait()
	if stats := f.Stats(); stats.Waiting != 0 || stats.Running != 0 {
		t.Errorf("%+v", stats)
	}
}
