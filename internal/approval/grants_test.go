// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// grant has bob answer a question for always.
func (f *fixture) grant(a approval.Answer) *policy.Grant {
	f.t.Helper()
	q, _ := f.ask(f.question())
	got, err := f.Resolve(bob, q.ID, a)
	if err != nil {
		f.t.Fatal(err)
	}
	return got.Grant
}

func TestGrants(t *testing.T) {
	f := newFixture(t, approval.Config{})
	if got := f.Grants(f.session.Ref()); got != nil {
		t.Errorf("a new session has %v", got)
	}
	g := f.grant(always(2))
	if g.Action != policy.Allow || g.Tier != tiers[1] || g.Tool != "shell" || g.By != "bob" || g.Given.IsZero() || len(g.ID) < 26 {
		t.Errorf("grant %+v", g)
	}
	f.grant(approval.Answer{Kind: approval.DenyAlways, Tier: 3})
	if got := f.Grants(f.session.Ref()); len(got) != 2 || got[0] != *g || got[1].Action != policy.Deny || got[1].Tier != tiers[2] {
		t.Errorf("grants %+v", got)
	}

	// The newest word on a tier counts.
	f.grant(approval.Answer{Kind: approval.DenyAlways, Tier: 2})
	if got := f.Grants(f.session.Ref()); len(got) != 2 || got[1].Action != policy.Deny || got[1].Tier != tiers[1] {
		t.Errorf("grants %+v", got)
	}
	if _, err := f.Revoke(bob, g.ID); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("a grant that another took the place of: %v", err)
	}
}

func TestRevoke(t *testing.T) {
	f := newFixture(t, approval.Config{})
	allowed := f.grant(always(1))
	denied := f.grant(approval.Answer{Kind: approval.DenyAlways, Tier: 2})
	for _, c := range []struct {
		name string
		who  approval.Viewer
		id   string
		want error
	}{
		{"a guess", bob, "no-such-grant", approval.ErrNotFound},
		{"a stranger", mal, allowed.ID, approval.ErrNotFound},
		{"what was denied, by the one it was denied to", alice, denied.ID, approval.ErrSelf},
		{"what was allowed, by the one it was allowed to", alice, allowed.ID, nil},
		{"the same again", alice, allowed.ID, approval.ErrNotFound},
		{"by an approver", carol, denied.ID, nil},
	} {
		got, err := f.Revoke(c.who, c.id)
		if !errors.Is(err, c.want) || err == nil && (got.ID != c.id || got.Session != f.session.Ref()) {
			t.Errorf("%s: %+v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if got := f.Grants(f.session.Ref()); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	f.grant(always(1)) // and it begins anew
	if got := f.Grants(f.session.Ref()); len(got) != 1 {
		t.Errorf("%+v, want one", got)
	}
}

func TestListGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, approval.Config{})
		first := f.grant(always(1))
		time.Sleep(time.Second)
		f.session = f.newSession("other")
		second := f.grant(always(1))
		for _, c := range []struct {
			who  approval.Viewer
			in   string
			want []string
		}{
			{bob, "", []string{first.ID, second.ID}},
			{alice, "", []string{first.ID, second.ID}},
			{alice, "other", []string{second.ID}},
			{mal, "", nil},
		} {
			var got []string
			for _, g := range f.ListGrants(c.who, c.in) {
				got = append(got, g.ID)
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("%s with %+v sees %v, want %v", c.who.Owner, c.in, got, c.want)
			}
		}
	})
}

// TestGrantEndsWithItsSession closes sessions in every way: a session with the
// same id has nothing of the one before.
func TestGrantEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, approval.Config{})
		f.grant(always(1))
		if _, err := f.sessions.Remove("alice", "work"); err != nil {
			t.Fatal(err)
		}
		old := f.session
		f.session = f.newSession("work")
		if len(f.Grants(old.Ref()))+len(f.Grants(f.session.Ref()))+len(f.ListGrants(bob, "")) != 0 {
			t.Error("a closed session left grants")
		}

		idle, err := f.sessions.Create("alice", session.Request{Settings: session.Settings{IdleTTL: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		f.session = idle
		g := f.grant(always(1))
		time.Sleep(2 * time.Minute)
		if len(f.Grants(idle.Ref())) != 0 {
			t.Error("a session that was closed for being idle left grants")
		}
		if _, err := f.Revoke(bob, g.ID); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("its grant is known: %v", err)
		}

		q, box := f.ask(f.question()) // of a session that ended
		if _, err := f.Resolve(bob, q.ID, always(1)); !errors.Is(err, approval.ErrWithdrawn) || len(box) != 0 {
			t.Errorf("a grant to a session that ended: %v", err)
		}
		f.Withdraw(q.ID)
	})
}

func TestTooManyGrants(t *testing.T) {
	f := newFixture(t, approval.Config{MaxGrants: 2})
	f.grant(always(1))
	second := f.grant(always(2))
	q, box := f.ask(f.question())
	if _, err := f.Resolve(bob, q.ID, always(3)); !errors.Is(err, approval.ErrFull) || len(box) != 0 {
		t.Fatalf("%v, want ErrFull, and a question that waits", err)
	}
	if _, err := f.Revoke(bob, second.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Resolve(bob, q.ID, always(3)); err != nil || !(<-box).Allows() {
		t.Errorf("after one was revoked: %v", err)
	}
}

// TestGrantAnswersOthers proves that what a grant covers is not asked again,
// also where it waits already.
func TestGrantAnswersOthers(t *testing.T) {
	f := newFixture(t, approval.Config{})
	actions := map[string]policy.Action{"allow": policy.Allow, "deny": policy.Deny, "ask": policy.Ask}
	f.rejudge = func(q *approval.Question) policy.Verdict {
		grants := f.Grants(q.Session)
		if len(grants) != 1 || grants[0].Tier != tiers[2] || q.Session != f.session.Ref() || len(q.Questions) != 0 {
			t.Errorf("%+v is judged with %+v", q, grants)
		}
		return policy.Verdict{Action: actions[q.CallID]}
	}
	judged := func(callID string) approval.Question {
		q := f.question()
		q.CallID = callID
		return q
	}
	_, covered := f.ask(judged("allow"))
	_, forbidden := f.ask(judged("deny"))
	asks, waits := f.ask(judged("ask"))
	ofTool := judged("allow")
	ofTool.Questions = []tools.Question{{Text: "Which?"}}
	plain, silent := f.ask(ofTool)
	elsewhere := judged("allow")
	elsewhere.Session = f.newSession("other").Ref()
	far, unheard := f.ask(elsewhere)

	g := f.grant(always(3))
	if a := <-covered; a.Kind != approval.AllowOnce || a.By != "bob" || a.Grant.ID != g.ID {
		t.Errorf("covered: %+v", a)
	}
	if a := <-forbidden; a.Kind != approval.DenyOnce || a.Grant.ID != g.ID {
		t.Errorf("forbidden: %+v", a)
	}
	if len(waits)+len(silent)+len(unheard) != 0 || !f.Withdraw(asks.ID) || !f.Withdraw(plain.ID) || !f.Withdraw(far.ID) {
		t.Error("a question that the grant does not cover was answered")
	}
}

// TestGrantsWhileTheyChange reads grants while others give and revoke them.
func TestGrantsWhileTheyChange(t *testing.T) {
	f := newFixture(t, approval.Config{})
	var group sync.WaitGroup
	for tier := range tiers {
		group.Go(func() {
			for range 200 {
				g := f.grant(always(tier + 1))
				if _, err := f.Revoke(bob, g.ID); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 2000 {
				for _, g := range f.Grants(f.session.Ref()) {
					if g.ID == "" || g.Tier.Label == "" {
						t.Error("half a grant")
					}
				}
				f.ListGrants(bob, "")
			}
		})
	}
	group.Wait()
	if got := f.Grants(f.session.Ref()); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func BenchmarkGrants(b *testing.B) {
	f := newFixture(b, approval.Config{})
	b.Run("none", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				f.Grants(f.session.Ref())
			}
		})
	})
	f.grant(always(1))
	b.Run("one", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				f.Grants(f.session.Ref())
			}
		})
	})
}

func BenchmarkAskAndResolve(b *testing.B) {
	f := newFixture(b, approval.Config{})
	for b.Loop() {
		q, err := f.Ask(f.question())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Resolve(bob, q.ID, allow()); err != nil {
			b.Fatal(err)
		}
	}
}
