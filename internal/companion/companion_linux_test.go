// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package companion_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// kit is a set with a real sandbox, and a session.
type kit struct {
	t       *testing.T
	env     tools.Env
	runners *command.Runners
	set     *companion.Set
}

func newKit(t *testing.T, config companion.Config, change ...func(*command.Config)) kit {
	t.Helper()
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := command.Config{Sandbox: s, View: sandbox.View{Read: sandbox.SystemPaths()}, Network: tools.NetworkLoopback, Grace: 2 * time.Second}
	for _, f := range change {
		f(&c)
	}
	runners := command.New(c)
	env := toolstest.Env(t, nil)
	env.Rights = tools.Rights{Confinement: tools.SessionWide, Network: tools.NetworkLoopback}
	return kit{t: t, env: env, runners: runners, set: companion.New(runners, config)}
}

// needs skips a test on a machine without a program.
func (k kit) needs(program string) {
	k.t.Helper()
	if _, ok := k.runners.Find(program); !ok {
		k.t.Skip("there is no " + program)
	}
}

// evaluate runs code and returns what the model reads, and the code of the failure.
func (k kit) evaluate(language, code string) (text, failure string) {
	k.t.Helper()
	all := k.set.Languages()
	i := slices.IndexFunc(all, func(l companion.Language) bool { return l.Name == language })
	if i < 0 {
		k.t.Fatalf("there is no language %s", language)
	}
	result, err := k.set.Evaluate(k.t.Context(), k.env, all[i], code, false, new(toolstest.Recorder))
	if f, ok := errors.AsType[*tools.Failure](err); ok {
		failure = f.Code
	} else if err != nil {
		k.t.Fatalf("%s: %v", code, err)
	}
	return toolstest.Text(result), failure
}

// start starts a background process.
func (k kit) start(text string) *companion.Process {
	k.t.Helper()
	script := command.Script{Command: command.Command{Dir: ".", Rights: k.env.Rights}, Text: text}
	p, err := k.set.Start(k.t.Context(), k.env, script, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// ended waits for the end of a process.
func (k kit) ended(p *companion.Process) {
	k.t.Helper()
	if _, err := p.WaitFor(k.t.Context(), nil, nil); err != nil {
		k.t.Fatal(err)
	}
}

// TestProcess follows a process from its start to its end.
func TestProcess(t *testing.T) {
	k := newKit(t, companion.Config{})
	p := k.start("echo ready; read line; echo got $line; read line; exit 3")
	if found, err := p.WaitFor(t.Context(), nil, regexp.MustCompile("^ready")); !found || err != nil {
		t.Fatalf("ready: %v %v", found, err)
	}
	if got := p.State(); !got.Running || got.String() != "is running" {
		t.Errorf("%+v", got)
	}
	for _, offset := range []int64{0, 3, 6} { // what was written is not written again
		if n, err := p.Write(t.Context(), []byte("hello\n")[offset:], &offset, false); n != 6 || err != nil {
			t.Errorf("offset %d: %d %v", offset, n, err)
		}
	}
	gap := int64(100)
	if _, err := p.Write(t.Context(), []byte("x"), &gap, false); err == nil || !strings.Contains(err.Error(), "leaves a gap") {
		t.Errorf("a gap: %v", err)
	}
	if found, err := p.WaitFor(t.Context(), nil, regexp.MustCompile("got hello")); !found || err != nil {
		t.Fatalf("got: %v %v", found, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.WaitFor(stopped, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who stops waiting: %v", err)
	}
	if _, err := p.Write(t.Context(), nil, nil, true); err != nil {
		t.Errorf("the end of input: %v", err)
	}
	k.ended(p)
	if got := p.State(); got.Running || got.String() != "ended with exit status 3" || got.Output != 16 {
		t.Errorf("%+v", got)
	}
	if err := p.Signal("TERM"); err == nil || !strings.Contains(err.Error(), "Nothing was sent") {
		t.Errorf("a signal after the end: %v", err)
	}
	for from, want := range map[int64]string{0: "ready\ngot hello\n", 6: "got hello\n", -6: "hello\n", 99: ""} {
		if got := p.Output(&from, 100); string(got.Data) != want || got.More != 0 {
			t.Errorf("from %d: %q, %d more", from, got.Data, got.More)
		}
	}
	if got := p.Output(nil, 8); string(got.Data) != "ready\n" || got.Next != 6 || got.More != 10 {
		t.Errorf("a part ends with a line: %q %+v", got.Data, got)
	}
	if found, err := k.set.Process(k.env, p.ID); found != p || err != nil {
		t.Errorf("by its id: %v %v", found, err)
	}
	if _, err := k.set.Process(k.env, "p9"); err == nil || !strings.Contains(err.Error(), "There are: p1.") {
		t.Errorf("by another id: %v", err)
	}
}

// TestEndsWithSession has a session end: nothing of it is left, and nothing is started
// after that.
func TestEndsWithSession(t *testing.T) {
	k := newKit(t, companion.Config{})
	if text, failure := k.evaluate("bash", "x=1"); failure != "" {
		t.Fatalf("%q %s", text, failure)
	}
	p := k.start("sleep 300")
	session := k.env.Session.(*toolstest.Session)
	if got := session.Uses(); got != 1 {
		t.Errorf("the session is used by %d, want the process", got)
	}
	session.Close()
	if got := p.State(); got.Running {
		k.ended(p) // it has ended, and is about to say so
	}
	if list := k.set.Processes(session); list != nil {
		t.Errorf("%d processes are known", len(list))
	}
	script := command.Script{Command: command.Command{Dir: ".", Rights: k.env.Rights}, Text: "true"}
	if _, err := k.set.Start(t.Context(), k.env, script, 0); err == nil {
		t.Error("something was started")
	}
}

// TestHalt ends what a session has, by whatever it is kept alive, and the session goes on.
func TestHalt(t *testing.T) {
	k := newKit(t, companion.Config{})
	k.needs("python3")
	if n := k.set.Halt(k.env.Session, ""); n != 0 {
		t.Errorf("%d of a session that has nothing", n)
	}
	first, second := k.start("trap '' TERM; sleep 600 & wait; sleep 600"), k.start("echo done")
	k.ended(second)
	if text, failure := k.evaluate("python", "x = 7"); failure != "" {
		t.Fatal(text, failure)
	}
	if n := k.set.Halt(k.env.Session, ""); n != 2 {
		t.Errorf("%d were ended, want a process and an interpreter", n)
	}
	if state := first.State(); state.Running {
		t.Errorf("%+v", state)
	}
	if n := k.runners.Running(); n != 0 {
		t.Errorf("%d commands run", n)
	}
	if text, failure := k.evaluate("python", "'x' in globals()"); failure != "" || !strings.Contains(text, "False") {
		t.Errorf("a new interpreter: %s %s", text, failure)
	}
	k.ended(k.start("echo again"))
}

// TestHaltOfAUser ends what runs for one user of a runtime, and leaves the rest.
func TestHaltOfAUser(t *testing.T) {
	k := newKit(t, companion.Config{})
	k.needs("python3")
	own := k.start("sleep 600")
	k.env.OnBehalfOf = "user:ann"
	first := k.start("sleep 600")
	if text, failure := k.evaluate("python", "x = 7"); failure != "" {
		t.Fatal(text, failure)
	}
	k.env.OnBehalfOf = "user:bob"
	other := k.start("sleep 600")
	for user, want := range map[string]int{"user:eve": 0, "user:ann": 2} {
		if n := k.set.Halt(k.env.Session, user); n != want {
			t.Errorf("%d were ended for %s, want %d", n, user, want)
		}
	}
	if first.State().Running || !own.State().Running || !other.State().Running {
		t.Errorf("of the user: %s; of others: %s, %s", first.State(), own.State(), other.State())
	}
	if text, failure := k.evaluate("python", "'x' in globals()"); failure != "" || !strings.Contains(text, "False") {
		t.Errorf("a new interpreter: %s %s", text, failure)
	}
}

// TestTimeLimit has a process that runs longer than it may.
func TestTimeLimit(t *testing.T) {
	k := newKit(t, companion.Config{})
	script := command.Script{Command: command.Command{Dir: ".", Rights: k.env.Rights}, Text: "sleep 300"}
	p, err := k.set.Start(t.Context(), k.env, script, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	k.ended(p)
	if got := p.State().String(); got != "was ended: its time was over" {
		t.Error(got)
	}
}

// TestKept has less kept than usual.
func TestKept(t *testing.T) {
	k := newKit(t, companion.Config{Limits: companion.Limits{Output: 100, EndedOutput: 150, Ended: 2, Idle: time.Millisecond}})
	k.needs("python3")
	for range 3 {
		k.ended(k.start("seq 1000"))
	}
	var list []*companion.Process
	for list = k.set.Processes(k.env.Session); len(list) > 2; list = k.set.Processes(k.env.Session) { // that it ended is known first
	}
	if list[0].ID != "p2" || list[1].ID != "p3" {
		t.Errorf("what is remembered: %s, %s", list[0].ID, list[1].ID)
	}
	for i, want := range []uint64{3893, 3793} {
		if got := list[i].Output(new(int64), 1000); got.Dropped != want || got.Offset != want {
			t.Errorf("%s: %+v, want %d dropped", list[i].ID, got, want)
		}
	}
	// An interpreter goes, soon and not at once, and who comes next is told.
	for {
		k.evaluate("python", "x = 1")
		text, failure := k.evaluate("python", "x")
		if said := strings.Contains(text, "what was defined before is lost: the last one was ended because nobody used it for 1ms.)"); said != (failure == "exception") {
			t.Errorf("%q %s", text, failure)
		}
		if failure == "exception" {
			break
		}
	}
}

// TestOutputIsTheEnd writes outputs of several lengths: what is kept is the end of what was written.
func TestOutputIsTheEnd(t *testing.T) {
	k := newKit(t, companion.Config{Limits: companion.Limits{Output: 64}})
	for _, n := range []int{1, 63, 64, 65, 200} {
		p := k.start(fmt.Sprintf("for i in $(seq %d); do printf %%d $((i %% 10)); done", n))
		k.ended(p)
		var want strings.Builder
		for i := 1; i <= n; i++ {
			fmt.Fprint(&want, i%10)
		}
		got := p.Output(new(int64), 1000)
		if kept := min(n, 64); string(got.Data) != want.String()[n-kept:] || got.Dropped != uint64(n-kept) || got.Next != uint64(n) {
			t.Errorf("%d bytes: %q %+v", n, got.Data, got)
		}
	}
}
