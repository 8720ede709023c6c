// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a store, its asker, and sessions to ask in.
type fixture struct {
	*approval.Store
	*asker
	t        testing.TB
	sessions *session.Store
	session  *session.Session // of alice
}

func newFixture(t testing.TB, config approval.Config) *fixture {
	t.Helper()
	store := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly,
		Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk},
	})
	t.Cleanup(store.Close)
	config.Sessions = store
	f := &fixture{Store: approval.NewStore(config), asker: new(asker), t: t, sessions: store}
	f.SetAsker(f.asker)
	f.session = f.newSession("work")
	return f
}

func (f *fixture) newSession(id string) *session.Session {
	f.t.Helper()
	s, err := f.sessions.Create("alice", session.Request{ID: id})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

var (
	alice = approval.Viewer{Owner: "alice"}                 // makes the calls
	bob   = approval.Viewer{Owner: "bob", Approver: true}   // approves
	carol = approval.Viewer{Owner: "carol", Approver: true} // approves too
	mal   = approval.Viewer{Owner: "mal"}                   // has nothing to do with it
)

var tiers = []policy.Tier{
	{Kind: policy.TierCall, Pattern: "abcd", Label: "this exact call"},
	{Kind: policy.TierCommand, Pattern: "git pull", Label: "git pull *"},
	{Kind: policy.TierProgram, Pattern: "git", Label: "git *"},
}

func (f *fixture) question() approval.Question {
	return approval.Question{
		Session: f.session.Ref(), ExecutionID: "x-1", CallID: "c-1", Tool: "shell",
		Digest: [32]byte{1, 2, 3}, Tiers: tiers,
		Verdict: policy.Verdict{Action: policy.Ask, Rule: "mode ask"}, Policy: "v1",
	}
}

// inbox takes the answer to a question.
type inbox chan approval.Answer

// asker keeps the answers to all questions. More than one answer to a question is a
// panic.
type asker struct {
	resolved func(*approval.Question, approval.Answer)
	answered func(*approval.Question, approval.Answer)
	rejudge  func(*approval.Question) policy.Verdict

	mu    sync.Mutex
	boxes map[string]inbox
}

func (a *asker) Resolved(q *approval.Question, answer approval.Answer) {
	if a.resolved != nil {
		a.resolved(q, answer)
	}
}

func (a *asker) Answered(q *approval.Question, answer approval.Answer) {
	if a.answered != nil {
		a.answered(q, answer)
	}
	select {
	case a.box(q.ID) <- answer:
	default:
		panic("answered twice")
	}
}

func (a *asker) Rejudge(q *approval.Question) policy.Verdict {
	if a.rejudge == nil {
		return policy.Verdict{Action: policy.Ask}
	}
	return a.rejudge(q)
}

func (a *asker) box(id string) inbox {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.boxes == nil {
		a.boxes = make(map[string]inbox)
	}
	if a.boxes[id] == nil {
		a.boxes[id] = make(inbox, 1)
	}
	return a.boxes[id]
}

// ask asks a question and returns it, and where the answer will be.
func (f *fixture) ask(q approval.Question) (*approval.Question, inbox) {
	f.t.Helper()
	asked, err := f.Ask(q)
	if err != nil {
		f.t.Fatal(err)
	}
	return asked, f.box(asked.ID)
}

func allow() approval.Answer { return approval.Answer{Kind: approval.AllowOnce} }

func always(tier int) approval.Answer { return approval.Answer{Kind: approval.AllowAlways, Tier: tier} }

func TestAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed []approval.AnswerKind
		f := newFixture(t, approval.Config{})
		f.resolved = func(_ *approval.Question, a approval.Answer) { observed = append(observed, a.Kind) }
		q, box := f.ask(f.question())
		if len(q.ID) < 26 || q.Expires.Sub(q.Created) != 2*time.Minute || !q.Created.Equal(time.Now()) {
			t.Errorf("question %q from %s to %s", q.ID, q.Created, q.Expires)
		}
		time.Sleep(time.Minute)
		given := approval.Answer{Kind: approval.DenyOnce, Comment: "not today", From: "10.0.0.7", Digest: q.Digest}
		got, err := f.Resolve(bob, q.ID, given)
		if err != nil {
			t.Fatal(err)
		}
		if got.By != "bob" || !got.At.Equal(time.Now()) || got.From != "10.0.0.7" || got.Digest != q.Digest || got.Grant != nil {
			t.Errorf("%+v does not tell who, when, from where and about what", got)
		}
		answer := <-box
		if answer.Kind != approval.DenyOnce || answer.Comment != "not today" || answer.Allows() || answer.By != "bob" {
			t.Errorf("the asker gets %+v", answer)
		}
		if f.Withdraw(q.ID) {
			t.Error("an answered question was withdrawn")
		}
		if f.Pending() != 0 || len(f.List(bob, "")) != 0 {
			t.Error("an answered question is pending")
		}
		if !slices.Equal(observed, []approval.AnswerKind{approval.DenyOnce}) {
			t.Errorf("observed %v", observed)
		}
	})
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, approval.Config{Expiry: time.Minute})
		begin := time.Now()
		q, box := f.ask(f.question())
		answer := <-box
		if answer.Kind != approval.Expired || answer.Allows() || time.Since(begin) != time.Minute || answer.By != "" {
			t.Errorf("%+v after %s, want expired after a minute", answer, time.Since(begin))
		}
		for _, c := range []struct {
			who  approval.Viewer
			want error
		}{{bob, approval.ErrExpired}, {alice, approval.ErrExpired}, {mal, approval.ErrNotFound}} {
			if _, err := f.Resolve(c.who, q.ID, allow()); !errors.Is(err, c.want) {
				t.Errorf("%s after expiry: %v, want %v", c.who.Owner, err, c.want)
			}
		}

		long := f.question()
		long.Expires = time.Now().Add(time.Hour) // as the asker says
		_, box = f.ask(long)
		begin = time.Now()
		if <-box; time.Since(begin) != time.Hour {
			t.Errorf("expired after %s, want an hour", time.Since(begin))
		}
	})
}

// TestLastMoment answers at the moment of expiry: the answer is late, whichever
// comes first.
func TestLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, approval.Config{Expiry: time.Minute})
		for range 100 {
			q, box := f.ask(f.question())
			time.Sleep(time.Minute)
			if _, err := f.Resolve(bob, q.ID, allow()); !errors.Is(err, approval.ErrExpired) {
				t.Fatalf("%v, want ErrExpired", err)
			}
			if answer := <-box; answer.Kind != approval.Expired {
				t.Fatalf("the asker gets %v", answer.Kind)
			}
		}
	})
}

// TestRefusals has a row for each answer that is not taken. The question waits
// on, and then somebody answers it.
func TestRefusals(t *testing.T) {
	once := func(kind approval.AnswerKind) approval.Answer { return approval.Answer{Kind: kind} }
	yes := []tools.Answer{{Text: "yes"}}
	for _, c := range []struct {
		name   string
		who    approval.Viewer
		answer approval.Answer
		want   error
	}{
		{"the caller", alice, allow(), approval.ErrSelf},
		{"the caller denies", alice, once(approval.DenyOnce), approval.ErrSelf},
		{"the caller as approver", approval.Viewer{Owner: "alice", Approver: true}, allow(), approval.ErrSelf},
		{"a stranger", mal, allow(), approval.ErrNotFound},
		{"nobody", approval.Viewer{}, allow(), approval.ErrNotFound},
		{"nothing", bob, once(0), approval.ErrInvalid},
		{"beyond", bob, once(99), approval.ErrInvalid},
		{"negative", bob, once(-1), approval.ErrInvalid},
		{"expired", bob, once(approval.Expired), approval.ErrInvalid},
		{"withdrawn", bob, once(approval.Withdrawn), approval.ErrInvalid},
		{"an answer to no question", bob, approval.Answer{Kind: approval.Answered, Answers: yes}, approval.ErrInvalid},
		{"an answer beside", bob, approval.Answer{Kind: approval.AllowOnce, Answers: yes}, approval.ErrInvalid},
		{"always without a tier", bob, always(0), approval.ErrInvalid},
		{"always at a tier too high", bob, always(4), approval.ErrInvalid},
		{"always at a negative tier", bob, always(-1), approval.ErrInvalid},
		{"never without a tier", bob, once(approval.DenyAlways), approval.ErrInvalid},
		{"once at a tier", bob, approval.Answer{Kind: approval.AllowOnce, Tier: 1}, approval.ErrInvalid},
		{"another digest", bob, approval.Answer{Kind: approval.AllowOnce, Digest: [32]byte{9}}, approval.ErrInvalid},
		{"a long comment", bob, approval.Answer{Kind: approval.AllowOnce, Comment: strings.Repeat("x", 4097)}, approval.ErrInvalid},
		{"a broken comment", bob, approval.Answer{Kind: approval.AllowOnce, Comment: "\xff"}, approval.ErrInvalid},
		{"from too far", bob, approval.Answer{Kind: approval.AllowOnce, From: strings.Repeat("x", 257)}, approval.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, approval.Config{})
			q, box := f.ask(f.question())
			_, err := f.Resolve(c.who, q.ID, c.answer)
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if len(box) != 0 || len(f.Grants(f.session.Ref())) != 0 {
				t.Fatal("it counts all the same")
			}
			if _, err := f.Resolve(bob, q.ID, allow()); err != nil || !(<-box).Allows() {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestGuessedID(t *testing.T) {
	f := newFixture(t, approval.Config{})
	q, _ := f.ask(f.question())
	defer f.Withdraw(q.ID)
	for _, id := range []string{"", "1", strings.ToUpper(q.ID), q.ID[1:], strings.Repeat("a", 1<<20)} {
		_, err := f.Resolve(bob, id, allow())
		if !errors.Is(err, approval.ErrNotFound) || len(err.Error()) > 200 {
			t.Errorf("%.30q: %.200v, want ErrNotFound", id, err)
		}
	}
}

func TestSelfApproval(t *testing.T) {
	f := newFixture(t, approval.Config{SelfApproval: true})
	q, box := f.ask(f.question())
	if _, err := f.Resolve(mal, q.ID, allow()); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := f.Resolve(alice, q.ID, allow()); err != nil || !(<-box).Allows() {
		t.Errorf("the caller: %v", err)
	}
}

// TestTwice answers a question again.
func TestTwice(t *testing.T) {
	f := newFixture(t, approval.Config{})
	q, _ := f.ask(f.question())
	id := q.ID
	answer := approval.Answer{Kind: approval.AllowAlways, Tier: 2, Comment: "fine", Digest: q.Digest}
	first, err := f.Resolve(bob, id, answer)
	if err != nil {
		t.Fatal(err)
	}
	answer.From = "somewhere else"
	again, err := f.Resolve(bob, id, answer)
	if err != nil || !again.At.Equal(first.At) || again.Grant.ID != first.Grant.ID || again.From != first.From {
		t.Errorf("the same again: %+v, %v; want the first", again, err)
	}
	if n := len(f.Grants(f.session.Ref())); n != 1 {
		t.Errorf("%d grants, want one", n)
	}
	for _, c := range []struct {
		name   string
		who    approval.Viewer
		change func(*approval.Answer)
	}{
		{"somebody else", carol, func(*approval.Answer) {}},
		{"the caller", alice, func(*approval.Answer) {}},
		{"another kind", bob, func(a *approval.Answer) { a.Kind = approval.DenyAlways }},
		{"another tier", bob, func(a *approval.Answer) { a.Tier = 1 }},
		{"another comment", bob, func(a *approval.Answer) { a.Comment = "" }},
		{"another digest", bob, func(a *approval.Answer) { a.Digest[0]++ }},
	} {
		other := answer
		c.change(&other)
		if _, err := f.Resolve(c.who, id, other); !errors.Is(err, approval.ErrAnswered) || !strings.Contains(err.Error(), "bob") {
			t.Errorf("%s: %v, want ErrAnswered that names bob", c.name, err)
		}
	}
	if _, err := f.Resolve(mal, id, answer); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("a stranger: %v", err)
	}
}

func TestWithdraw(t *testing.T) {
	f := newFixture(t, approval.Config{})
	q, box := f.ask(f.question())
	if !f.Withdraw(q.ID) || f.Withdraw(q.ID) {
		t.Error("want to withdraw once")
	}
	if _, err := f.Resolve(bob, q.ID, allow()); !errors.Is(err, approval.ErrWithdrawn) {
		t.Errorf("%v, want ErrWithdrawn", err)
	}
	if len(box) != 0 {
		t.Error("who withdrew gets an answer")
	}
}

// TestManyApprovers has a hundred of them answer at once: one wins, and the
// asker gets that answer.
func TestManyApprovers(t *testing.T) {
	f := newFixture(t, approval.Config{})
	for range 20 {
		q, box := f.ask(f.question())
		var won atomic.Pointer[approval.Answer]
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				answer := allow()
				if i%2 == 0 {
					answer.Kind = approval.DenyOnce
				}
				got, err := f.Resolve(approval.Viewer{Owner: auth.Owner(fmt.Sprint("approver-", i)), Approver: true}, q.ID, answer)
				switch {
				case err == nil && !won.CompareAndSwap(nil, &got):
					t.Error("two have won")
				case err != nil && !errors.Is(err, approval.ErrAnswered):
					t.Error(err)
				}
			})
		}
		group.Wait()
		if answer := <-box; won.Load() == nil || answer.By != won.Load().By || answer.Kind != won.Load().Kind {
			t.Fatalf("the asker gets %+v, and %+v won", answer, won.Load())
		}
	}
}

// TestRaces lets answer, expiry, withdrawal and the end of the store happen at
// once: the question ends once, and everybody learns the same.
func TestRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 200 {
			var observed, answers atomic.Int32
			var kind atomic.Int32
			f := newFixture(t, approval.Config{Expiry: time.Second})
			f.resolved = func(_ *approval.Question, a approval.Answer) {
				observed.Add(1)
				kind.Store(int32(a.Kind))
			}
			f.answered = func(_ *approval.Question, a approval.Answer) {
				answers.Add(1)
				if int32(a.Kind) != kind.Load() {
					t.Errorf("the asker gets %v", a.Kind)
				}
			}
			q, _ := f.ask(f.question())
			at := func(f func()) { time.AfterFunc(time.Second-time.Duration(i%2), f) } // or just before
			var withdrew, answered atomic.Bool
			at(func() { withdrew.Store(f.Withdraw(q.ID)) })
			at(func() {
				_, err := f.Resolve(bob, q.ID, allow())
				answered.Store(err == nil)
			})
			at(f.Close)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if observed.Load() != 1 || f.Pending() != 0 {
				t.Fatalf("ended %d times", observed.Load())
			}
			want := int32(1)
			if withdrew.Load() {
				want = 0
			}
			if answers.Load() != want || answered.Load() != (approval.AnswerKind(kind.Load()) == approval.AllowOnce) {
				t.Fatalf("%v: answered %d times, want %d; answered %t", approval.AnswerKind(kind.Load()), answers.Load(), want, answered.Load())
			}
		}
	})
}

func TestLimits(t *testing.T) {
	f := newFixture(t, approval.Config{MaxPending: 3, MaxPerSession: 2, MaxBytes: 4000})
	full := func(q approval.Question, says string) {
		t.Helper()
		if _, err := f.Ask(q); !errors.Is(err, approval.ErrFull) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want ErrFull: %s", err, says)
		}
	}
	first, _ := f.ask(f.question())
	f.ask(f.question())
	full(f.question(), "in this session")
	other := f.question()
	other.Session = f.newSession("other").Ref()
	other.Preview.Text = strings.Repeat("x", 4000)
	full(other, "bytes")
	other.Preview.Text = ""
	f.ask(other)
	other.Session = f.newSession("third").Ref()
	full(other, "on this server")
	f.Withdraw(first.ID)
	f.ask(f.question())
	f.Close()
	if _, err := f.Ask(f.question()); !errors.Is(err, approval.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// TestManyWait has ten thousand questions wait, and all of them answered.
func TestManyWait(t *testing.T) {
	const n = 10_000
	f := newFixture(t, approval.Config{MaxPerSession: n})
	var allowed atomic.Int32
	f.answered = func(_ *approval.Question, a approval.Answer) {
		if a.Allows() {
			allowed.Add(1)
		}
	}
	for range n {
		f.ask(f.question())
	}
	list := f.List(bob, "")
	if len(list) != n || !slices.IsSortedFunc(list, func(a, b *approval.Question) int { return a.Created.Compare(b.Created) }) {
		t.Fatalf("%d are listed, or not in order", len(list))
	}
	var group sync.WaitGroup
	for part := range slices.Chunk(list, n/8) {
		group.Go(func() {
			for _, q := range part {
				if _, err := f.Resolve(bob, q.ID, allow()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if allowed.Load() != n || f.Pending() != 0 {
		t.Errorf("%d allowed, %d wait", allowed.Load(), f.Pending())
	}
}

func TestWhoSeesWhat(t *testing.T) {
	f := newFixture(t, approval.Config{})
	q, _ := f.ask(f.question())
	defer f.Withdraw(q.ID)
	for _, c := range []struct {
		who  approval.Viewer
		in   string
		want int
	}{
		{alice, "", 1},
		{bob, "", 1},
		{mal, "", 0},
		{bob, "work", 1},
		{bob, "other", 0},
	} {
		if got := f.List(c.who, c.in); len(got) != c.want {
			t.Errorf("%s with %+v sees %d, want %d", c.who.Owner, c.in, len(got), c.want)
		}
	}
	if _, err := f.Find(mal, q.ID); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("a stranger finds it: %v", err)
	}
	if found, err := f.Find(alice, q.ID); err != nil || found != q {
		t.Errorf("the caller does not find it: %v", err)
	}
}

// TestQuestionsOfATool has a row for each way to answer what a tool wants to
// know.
func TestQuestionsOfATool(t *testing.T) {
	colours := []tools.Option{{Label: "red"}, {Label: "green"}}
	questions := []tools.Question{
		{Text: "Which one?", Options: colours},
		{Text: "Which of these?", Options: colours, Multiple: true, OptionsOnly: true},
		{Text: "Why?"},
	}
	reply := func(a, b, c tools.Answer) approval.Answer {
		return approval.Answer{Kind: approval.Answered, Answers: []tools.Answer{a, b, c}}
	}
	red := tools.Answer{Chosen: []string{"red"}}
	why := tools.Answer{Text: "because"}
	for _, c := range []struct {
		name   string
		who    approval.Viewer
		answer approval.Answer
		want   error
	}{
		{"an option each", bob, reply(red, red, why), nil},
		{"by the caller", alice, reply(red, red, why), nil},
		{"by a stranger", mal, reply(red, red, why), approval.ErrNotFound},
		{"text beside an option", bob, reply(tools.Answer{Chosen: []string{"red"}, Text: "dark"}, red, why), nil},
		{"text instead of an option", bob, reply(tools.Answer{Text: "blue"}, red, why), nil},
		{"several", bob, reply(red, tools.Answer{Chosen: []string{"green", "red"}}, why), nil},
		{"none of several", bob, reply(red, tools.Answer{}, why), nil},
		{"declined", bob, approval.Answer{Kind: approval.DenyOnce, Comment: "ask me later"}, nil},
		{"text where only options count", bob, reply(red, tools.Answer{Text: "blue"}, why), approval.ErrInvalid},
		{"two of one", bob, reply(tools.Answer{Chosen: []string{"red", "green"}}, red, why), approval.ErrInvalid},
		{"one twice", bob, reply(red, tools.Answer{Chosen: []string{"red", "red"}}, why), approval.ErrInvalid},
		{"not an option", bob, reply(tools.Answer{Chosen: []string{"blue"}}, red, why), approval.ErrInvalid},
		{"an option where there is none", bob, reply(red, red, red), approval.ErrInvalid},
		{"nothing", bob, reply(red, red, tools.Answer{}), approval.ErrInvalid},
		{"too few", bob, approval.Answer{Kind: approval.Answered, Answers: []tools.Answer{red}}, approval.ErrInvalid},
		{"too long", bob, reply(red, red, tools.Answer{Text: strings.Repeat("x", 65<<10)}), approval.ErrInvalid},
		{"no text", bob, reply(red, red, tools.Answer{Text: "\xff"}), approval.ErrInvalid},
		{"allowed", bob, allow(), approval.ErrInvalid},
		{"allowed always", bob, always(1), approval.ErrInvalid},
		{"denied always", bob, approval.Answer{Kind: approval.DenyAlways, Tier: 1}, approval.ErrInvalid},
		{"answered at a tier", bob, approval.Answer{Kind: approval.Answered, Tier: 1, Answers: []tools.Answer{red, red, why}}, approval.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, approval.Config{})
			asks := f.question()
			asks.Questions = questions
			q, box := f.ask(asks)
			_, err := f.Resolve(c.who, q.ID, c.answer)
			if !errors.Is(err, c.want) || (err == nil) != (len(box) == 1) {
				t.Fatalf("%v, want %v; %d answers", err, c.want, len(box))
			}
			if !f.Withdraw(q.ID) && len((<-box).Answers) != len(c.answer.Answers) {
				t.Error("the answers got lost")
			}
		})
	}
}
