// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
)

// record keeps what a watcher gets, in words, until the watch ends.
type record struct {
	mu    sync.Mutex
	words []string
	err   error
	done  chan struct{}
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.words, " ")
}

func watch(ctx context.Context, f *fixture, who approval.Viewer) *record {
	r := &record{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for change, err := range f.Watch(ctx, who) {
			r.mu.Lock()
			switch {
			case err != nil:
				r.err = err
			case change.Kind == approval.Snapshot:
				r.words = append(r.words, fmt.Sprint("all:", len(change.Pending)))
			case change.Kind == approval.Asked:
				r.words = append(r.words, "asked:"+change.Question.CallID)
			default:
				r.words = append(r.words, change.Answer.Kind.String()+":"+change.Question.CallID)
			}
			r.mu.Unlock()
		}
	}()
	return r
}

func (f *fixture) askAs(callID string) *approval.Question {
	f.t.Helper()
	q := f.question()
	q.CallID = callID
	asked, err := f.Ask(q)
	if err != nil {
		f.t.Fatal(err)
	}
	return asked
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, approval.Config{Expiry: time.Minute})
		first := f.askAs("a")
		ctx, cancel := context.WithCancelCause(t.Context())
		of := map[approval.Viewer]*record{bob: watch(ctx, f, bob), alice: watch(ctx, f, alice), mal: watch(ctx, f, mal)}
		synctest.Wait()
		second := f.askAs("b")
		if _, err := f.Resolve(bob, first.ID, allow()); err != nil {
			t.Fatal(err)
		}
		f.Withdraw(second.ID)
		f.askAs("c")
		time.Sleep(2 * time.Minute)
		late := watch(ctx, f, bob)
		synctest.Wait()
		want := "all:1 asked:b allow_once:a withdrawn:b asked:c expired:c"
		for who, want := range map[approval.Viewer]string{bob: want, alice: want, mal: "all:0"} {
			if got := of[who].String(); got != want {
				t.Errorf("%s gets %q, want %q", who.Owner, got, want)
			}
		}
		if got := late.String(); got != "all:0" {
			t.Errorf("a late watcher gets %q", got)
		}
		enough := errors.New("enough")
		cancel(enough)
		<-of[bob].done
		if !errors.Is(of[bob].err, enough) {
			t.Errorf("the watch ends with %v", of[bob].err)
		}

		closing := watch(t.Context(), f, bob)
		synctest.Wait()
		f.Close()
		<-closing.done
		if after := watch(t.Context(), f, bob); true {
			<-after.done
			if !errors.Is(closing.err, approval.ErrClosed) || !errors.Is(after.err, approval.ErrClosed) {
				t.Errorf("of a closed store: %v, %v", closing.err, after.err)
			}
		}
	})
}

func TestCloseTellsTheAsker(t *testing.T) {
	f := newFixture(t, approval.Config{})
	_, box := f.ask(f.question())
	f.Close()
	if a := <-box; a.Kind != approval.Withdrawn {
		t.Errorf("the asker gets %v", a.Kind)
	}
}

// TestWatchLosesNothing has many ask and answer at once: watchers see every
// question begin and end, once and in this order. There are no more changes than
// may wait for a watcher, so that all of them keep up.
func TestWatchLosesNothing(t *testing.T) {
	const askers, each = 8, 60
	f := newFixture(t, approval.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watchers sync.WaitGroup
	ready := make(chan struct{}, 4)
	for range 4 {
		watchers.Go(func() {
			state, seen := map[string]bool{}, map[string]int{}
			for change, err := range f.Watch(ctx, bob) {
				if err != nil {
					t.Error(err)
					return
				}
				switch change.Kind {
				case approval.Snapshot:
					if len(seen) > 0 {
						t.Error("a watcher that keeps up begins again")
					}
					ready <- struct{}{}
				case approval.Asked:
					state[change.Question.ID] = true
					seen[change.Question.ID]++
				case approval.Ended:
					if !state[change.Question.ID] {
						t.Error("it ended before it began")
					}
					delete(state, change.Question.ID)
					seen[change.Question.ID] += 10
				}
				if len(seen) == askers*each && len(state) == 0 {
					break
				}
			}
			for id, n := range seen {
				if n != 11 {
					t.Errorf("%s: %d", id, n)
				}
			}
		})
	}
	for range 4 {
		<-ready
	}
	var group sync.WaitGroup
	for range askers {
		group.Go(func() {
			for i := range each {
				q, _ := f.ask(f.question())
				if i%3 == 0 {
					f.Withdraw(q.ID)
				} else if _, err := f.Resolve(bob, q.ID, allow()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	watchers.Wait()
}

// TestSlowWatcher proves that a watcher that stops holds nobody up, costs no
// more than its queue, and knows everything once it moves again.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, approval.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		move := make(chan struct{})
		kinds := make(chan approval.Change, 1<<20)
		go func() {
			for change, err := range f.Watch(ctx, bob) {
				if err != nil {
					close(kinds)
					return
				}
				kinds <- change
				<-move
			}
		}()
		synctest.Wait()
		<-kinds // the first snapshot; it stops here
		for range 2000 {
			f.Withdraw(f.askAs("x").ID)
		}
		left := f.askAs("left")
		close(move)
		synctest.Wait()
		cancel()
		synctest.Wait()
		var got []approval.Change
		for change := range kinds {
			got = append(got, change)
		}
		if len(got) != 1 || got[0].Kind != approval.Snapshot || len(got[0].Pending) != 1 || got[0].Pending[0] != left {
			t.Errorf("got %d changes, want one snapshot with what is left", len(got))
		}
		f.Withdraw(left.ID)
	})
}

// TestLargeQuestionsBoundAWatcher proves that the queue is bounded by bytes too.
func TestLargeQuestionsBoundAWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, approval.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stopped := make(chan int, 100)
		move := make(chan struct{})
		go func() {
			for change, err := range f.Watch(ctx, bob) {
				if err != nil {
					close(stopped)
					return
				}
				stopped <- int(change.Kind)
				<-move
			}
		}()
		synctest.Wait()
		<-stopped
		q := f.question()
		q.Preview.Text = strings.Repeat("x", 1<<20)
		for range 8 {
			q, _ := f.ask(q)
			f.Withdraw(q.ID)
		}
		close(move)
		synctest.Wait()
		cancel()
		for kind := range stopped {
			if kind != int(approval.Snapshot) {
				t.Errorf("got %d, want a snapshot only", kind)
			}
		}
	})
}
