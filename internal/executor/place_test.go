// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// as puts the fixture into a new session of an owner.
func (f *fixture) as(owner auth.Owner, settings session.Settings) {
	f.t.Helper()
	s, err := f.sessions.Create(owner, session.Request{Settings: settings})
	if err != nil {
		f.t.Fatal(err)
	}
	f.session = s
}

var (
	ann  = auth.NewOwner("acme", "ann")
	amy  = auth.NewOwner("acme", "amy")
	ben  = auth.NewOwner("beta", "ben")
	carl = auth.NewOwner("gamma", "carl")
)

// TestTurnsOfTenants: calls that find no place run tenant by tenant, and in a tenant
// principal by principal.
func TestTurnsOfTenants(t *testing.T) {
	for name, test := range map[string]struct {
		most  int
		calls string // the owners, in the order they call, one call of a second each
		want  string
	}{
		"no bound":          {0, "ann ann ben", "00:ann1 00:ann2 00:ben3"},
		"enough":            {3, "ann ann ben", "00:ann1 00:ann2 00:ben3"},
		"one tenant":        {1, "ann ann ann", "00:ann1 01:ann2 02:ann3"},
		"two tenants":       {1, "ann ann ann ben ben", "00:ann1 00:ben4 01:ann2 01:ben5 02:ann3"},
		"three tenants":     {1, "ann ann ben ben carl carl", "00:ann1 00:ben3 00:carl5 01:ann2 01:ben4 01:carl6"},
		"two principals":    {1, "ann ann ann amy amy", "00:ann1 01:ann2 02:amy4 03:ann3 04:amy5"},
		"many before a few": {2, "ann ann ann ann ann ann ben ben", "00:ann1 00:ann2 00:ben7 01:ann3 01:ben8 02:ann4 02:ann5 03:ann6"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, executor.Config{Limits: executor.Limits{MaxActive: test.most}})
				d := &diary{begun: time.Now()}
				var all []*executor.Execution
				for i, who := range strings.Fields(test.calls) {
					f.as(map[string]auth.Owner{"ann": ann, "amy": amy, "ben": ben, "carl": carl}[who], session.Settings{})
					all = append(all, f.start(f.takes(d, fmt.Sprint(who, i+1), 1)))
				}
				for _, x := range all {
					if end := finished(t, x); end.Outcome != executor.Succeeded {
						t.Errorf("%+v", end)
					}
				}
				var begins []string
				for _, line := range strings.Fields(d.String()) {
					if !strings.Contains(line, "/") {
						begins = append(begins, line)
					}
				}
				if got := strings.Join(begins, " "); got != test.want {
					t.Errorf("%s\nwant %s", got, test.want)
				}
				if stats := f.Stats(); stats.Running != 0 || stats.Waiting != 0 {
					t.Errorf("%+v", stats)
				}
			})
		})
	}
}

// TestLongCallsKeepNobodyOut: whoever runs nothing has a place, however long others
// keep theirs; a call that is cancelled while it waits leaves no gap.
func TestLongCallsKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{MaxActive: 2, DefaultTimeout: time.Hour}})
		d := &diary{begun: time.Now()}
		f.as(ann, session.Settings{})
		long := []*executor.Execution{f.start(f.takes(d, "long", 1000)), f.start(f.takes(d, "long", 1000))}
		cancelled, last := f.start(f.takes(d, "never", 1)), f.start(f.takes(d, "last", 1))
		f.as(ben, session.Settings{})
		first, second := f.start(f.takes(d, "first", 1)), f.start(f.takes(d, "second", 1))
		if stats := f.Stats(); stats.Running != 3 || stats.Waiting != 3 {
			t.Errorf("%+v", stats)
		}
		cancelled.Cancel("", "ann")
		finished(t, first)
		finished(t, second)
		if since := time.Since(d.begun); since != 2*time.Second {
			t.Errorf("ben's calls took %s", since)
		}
		long[0].Cancel("", "ann")
		finished(t, last)
		long[1].Cancel("", "ann")
		finished(t, long[1])
		if got := d.String(); strings.Contains(got, "never") || !strings.Contains(got, "02:last") {
			t.Error(got)
		}
	})
}

// TestPlacesUnderLoad runs and cancels calls of many at once, in order and not: never
// more than may, and all of them end.
func TestPlacesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, tenants = 4, 3
		f := newFixture(t, executor.Config{Limits: executor.Limits{MaxActive: most}})
		var mu sync.Mutex
		running, wait := 0, sync.WaitGroup{}
		for n := range tenants * 2 {
			f.as(auth.NewOwner(fmt.Sprint("t", n%tenants), fmt.Sprint("p", n)), session.Settings{Ordered: n%2 == 0})
			for i := range 60 {
				job := f.order(func(context.Context, tools.Sink) (tools.Result, error) {
					mu.Lock()
					running++
					if running > most+tenants {
						t.Errorf("%d run", running)
					}
					mu.Unlock()
					time.Sleep(time.Duration(i%4) * time.Second)
					mu.Lock()
					running--
					mu.Unlock()
					return tools.Result{}, nil
				})
				job.ConcurrencySafe = i%3 > 0
				wait.Go(func() {
					x, err := f.Start(context.Background(), job)
					if err != nil {
						t.Error(err)
						return
					}
					if i%5 == 0 {
						x.Cancel("", "somebody")
					}
					<-x.Done()
				})
			}
		}
		wait.Wait()
		if stats := f.Stats(); stats.Waiting != 0 || stats.Running != 0 {
			t.Errorf("%+v", stats)
		}
	})
}

// TestRunningOfTenants: a tenant has its quota, and a server that is full takes the
// first call of another.
func TestRunningOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{MaxRunning: 4, MaxRetained: 4}, Tenants: quota.Tenants{{Name: "acme", MaxRunning: 2}}})
		d := &diary{begun: time.Now()}
		start := func(owner auth.Owner) (*executor.Execution, error) {
			f.as(owner, session.Settings{})
			return f.Start(t.Context(), f.takes(d, "x", 1))
		}
		var all []*executor.Execution
		for _, owner := range []auth.Owner{ann, amy, ben, ben} {
			x, err := start(owner)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		_, err := start(ben)
		if !errors.Is(err, executor.ErrFull) {
			t.Errorf("one too many: %v", err)
		}
		last, err := start(carl)
		if err != nil {
			t.Errorf("the first of another tenant: %v", err)
		}
		for _, x := range append(all, last) {
			finished(t, x)
		}
		if _, err = start(ann); err != nil {
			t.Error(err)
		}
		if _, err = start(ann); err != nil {
			t.Error(err)
		}
		_, err = start(amy)
		if over, ok := errors.AsType[*quota.Error](err); !ok || over.Quota != "max_running" || over.Limit != "2" || over.RetryAfter == 0 {
			t.Errorf("over the quota: %v", err)
		}
		time.Sleep(2 * time.Second)
		for range 10 { // drive out none of another tenant's results
			x, err := start(ben)
			if err != nil {
				t.Fatal(err)
			}
			finished(t, x)
		}
		synctest.Wait()
		if _, err := f.Find(carl, last.ID); err != nil {
			t.Errorf("the result of another tenant was driven out: %v", err)
		}
	})
}
