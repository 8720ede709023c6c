// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// TestAnswers: what is an answer at which point, and why it is none.
func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		point Point
		text  string
		want  string // the answer as JSON, or what the error says
	}{
		{BeforeCall, "", `{}`},
		{BeforeCall, " \n", `{}`},
		{BeforeCall, "{}\n", `{}`},
		{BeforeCall, `{"context":"mind"}`, `{"context":"mind"}`},
		{BeforeCall, `{"block":{"reason":"no"}}`, `{"block":{"reason":"no"}}`},
		{BeforeCall, `{"ask":{"reason":"sure?"},"rewrite":{"input":{"a":1}},"context":"x"}`, `{"ask":{"reason":"sure?"},"rewrite":{"input":{"a":1}},"context":"x"}`},
		{AfterCall, `{"block":{"reason":"no"}}`, `{"block":{"reason":"no"}}`},
		{AfterCall, "two\nlines", `{"context":"two\nlines"}`},
		{FileChanged, "[1]", `{"context":"[1]"}`},
		{FileChanged, `{"context":"x"}`, `{"context":"x"}`},
		{BeforeUpdate, `{"suppress":true}`, `{"suppress":true}`},
		{BeforeUpdate, `{"suppress":false}`, `{}`},
		{Denied, `{}`, `{}`},

		{BeforeCall, "allow", "one JSON object"},
		{BeforeCall, "null", "one JSON object"},
		{BeforeCall, `["context"]`, "one JSON object"},
		{BeforeCall, `{`, "not valid"},
		{BeforeCall, `{}{}`, "not valid"},
		{BeforeCall, `{} x`, "not valid"},
		{BeforeCall, `{"allow":true}`, "allow"},
		{BeforeCall, `{"Context":"x"}`, "not valid"},
		{BeforeCall, `{"context":"x","context":"y"}`, "not valid"},
		{BeforeCall, `{"context":1}`, "not valid"},
		{BeforeCall, `{"block":true}`, "not valid"},
		{BeforeCall, `{"block":{}}`, "not valid"},
		{BeforeCall, `{"block":{"reason":"no","allow":1}}`, "not valid"},
		{BeforeCall, `{"block":{"reason":" "}}`, "no reason"},
		{BeforeCall, `{"ask":{"reason":""}}`, "no reason"},
		{BeforeCall, `{"block":{"reason":"no"},"ask":{"reason":"or"}}`, "want one of them"},
		{BeforeCall, `{"block":{"reason":"no"},"rewrite":{"input":{}}}`, "want one of them"},
		{BeforeCall, `{"suppress":true}`, "suppress, which means nothing"},
		{AfterCall, `{"ask":{"reason":"sure?"}}`, "ask, which means nothing"},
		{AfterCall, `{"rewrite":{"input":{}}}`, "rewrite, which means nothing"},
		{AfterCall, `{"contxt":"x"}`, "not valid"},
		{FileChanged, `{"block":{"reason":"no"}}`, "block, which means nothing"},
		{BeforeUpdate, `{"context":"x"}`, "context, which means nothing"},
		{BeforeUpdate, "yes", "one JSON object"},
		{SessionStart, `{"context":"x"}`, "context, which means nothing"},
		{Denied, "thanks", "one JSON object"},
	} {
		answer, err := parseAnswer(test.point, test.text)
		got, _ := json.Marshal(answer)
		if err != nil && !strings.Contains(err.Error(), test.want) || err == nil && string(got) != test.want {
			t.Errorf("%s, %s: %s, %v, want %s", test.point, test.text, got, err, test.want)
		}
	}
}

// FuzzParseAnswer: what is taken is an object, or a finding as it was written, and says
// only what may be said at that point.
func FuzzParseAnswer(f *testing.F) {
	for _, text := range []string{"", "{}", "fine", `{"block":{"reason":"no"}}`, `{"rewrite":{"input":{"a":[1,null]}},"context":"x"}`, `{"suppress":true}`, `{"context":"\ud800"}`, "{\"context\":\"\xff\"}", `{"a":` + strings.Repeat("[", 2000)} {
		for i := range points {
			f.Add(i, text)
		}
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		point := points[uint(i)%uint(len(points))]
		a, err := parseAnswer(point, text)
		if err != nil {
			return
		}
		switch trimmed := strings.TrimSpace(text); {
		case trimmed == "":
			if a != (Answer{}) {
				t.Errorf("nothing means %+v", a)
			}
		case trimmed[0] != '{':
			if a != (Answer{Context: trimmed}) || point != AfterCall && point != FileChanged {
				t.Errorf("%s: %q means %+v", point, text, a)
			}
		case !json.Valid([]byte(trimmed)):
			t.Errorf("%q was taken", text)
		}
		if err := a.check(point); err != nil {
			t.Errorf("%s: %q: %v", point, text, err)
		}
	})
}

// TestEffects: which effects a hook is about. What cannot be told may be anything.
func TestEffects(t *testing.T) {
	unclear := tools.Effect{Kind: tools.RunsProgram, Program: tools.UnknownWord}
	for _, test := range []struct {
		pattern string
		effect  tools.Effect
		want    bool
	}{
		{"writes", tools.Effect{Kind: tools.WritesPath, Path: "a"}, true},
		{"writes", tools.Effect{Kind: tools.ReadsPath, Path: "a"}, false},
		{"writes *.go", tools.Effect{Kind: tools.WritesPath, Path: "sub/a.go"}, true},
		{"writes *.go", tools.Effect{Kind: tools.WritesPath, Path: "sub/a.txt"}, false},
		{"writes src/**", tools.Effect{Kind: tools.WritesPath, Path: "src/deep/a"}, true},
		{"writes src/**", tools.Effect{Kind: tools.WritesPath, Path: "other/a"}, false},
		{"writes src/**", tools.Effect{Kind: tools.WritesPath, Path: ".", Tree: true}, true},
		{"writes src/**", tools.Effect{Kind: tools.WritesPath, Path: "*", Glob: true}, true},
		{"reads /etc/**", tools.Effect{Kind: tools.ReadsPath, Path: "/etc/passwd"}, true},
		{"reads /etc/**", tools.Effect{Kind: tools.ReadsPath, Path: "etc/passwd"}, false},
		{"runs git", tools.Effect{Kind: tools.RunsProgram, Program: "/usr/bin/git", Complete: true}, true},
		{"runs git", tools.Effect{Kind: tools.RunsProgram, Program: "gitk", Complete: true}, false},
		{"runs git", unclear, true},
		{"runs git push", tools.Effect{Kind: tools.RunsProgram, Program: "/usr/bin/git", Argv: []string{"git", "push", "origin"}, Complete: true}, true},
		{"runs git push", tools.Effect{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", "-C", "x", "--bare", "push"}, Complete: true}, true},
		{"runs git push", tools.Effect{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", "status"}, Complete: true}, false},
		{"runs git push", tools.Effect{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git"}, Complete: true}, false},
		{"runs git push", tools.Effect{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", tools.UnknownWord}, Complete: true}, true},
		{"runs git push", tools.Effect{Kind: tools.RunsProgram, Program: "git", Complete: true}, true},
		{"runs git remote add", tools.Effect{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", "remote", "-v", "add"}, Complete: true}, true},
		{"runs git remote add", tools.Effect{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", "remote", "rm", "add"}, Complete: true}, false},
		{"runs git push", unclear, true},
		{"writes a.txt", unclear, true},
		{"reaches x", unclear, true},
		{"writes a.txt", tools.Effect{Kind: tools.RunsProgram, Program: "make", ReadOnly: true}, false},
		{"writes a.txt", tools.Effect{Kind: tools.RunsProgram, Program: "touch", Complete: true}, false},
		{"reaches *.example.com", tools.Effect{Kind: tools.ReachesHost, Host: "a.example.com"}, true},
		{"reaches *.example.com", tools.Effect{Kind: tools.ReachesHost, Host: "example.org"}, false},
	} {
		m, err := Effect(test.pattern).compile()
		if err != nil {
			t.Error(err)
		} else if got := m.matches(&test.effect); got != test.want {
			t.Errorf("%s: %+v: %t", test.pattern, test.effect, got)
		}
	}
	for _, bad := range []string{"", "eats", "Writes", "writes a[", "runs {a", "runs git --force", "reaches a b"} {
		if _, err := Effect(bad).compile(); err == nil {
			t.Errorf("%q is an effect", bad)
		}
	}
}

// TestTellEffects: what is left out is counted, and a hook is about it all the same.
func TestTellEffects(t *testing.T) {
	var effects []tools.Effect
	for i := range maxListed {
		effects = append(effects, tools.Effect{Kind: tools.ReadsPath, Path: fmt.Sprint(i)})
	}
	effects = append(effects, tools.Effect{Kind: tools.UsesTool}, tools.Effect{Kind: tools.WritesPath, Path: "last"})
	var event Event
	if event.TellEffects(effects, 0); len(event.Effects) != maxListed || event.MoreEffects != 1 {
		t.Errorf("told %d, and %d more", len(event.Effects), event.MoreEffects)
	}
	if event.TellEffects(effects[:2], 7); len(event.Effects) != 2 || event.MoreEffects != 7 {
		t.Errorf("told %d, and %d more", len(event.Effects), event.MoreEffects)
	}
	hooks, err := New(Config{{On: Points{BeforeCall}, Run: Command{"x"}, Effects: []string{"writes last"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer hooks.Close()
	if len(hooks.About(BeforeCall, &tools.Spec{Name: "x"}, effects)) != 1 || len(hooks.About(BeforeCall, &tools.Spec{Name: "x"}, effects[:maxListed])) != 0 {
		t.Error("it is not about the effect that is not told")
	}

	argv := []string{"rm", tools.UnknownWord}
	event.TellEffects([]tools.Effect{{Kind: tools.RunsProgram, Program: "rm", Argv: argv}}, 0)
	if got := event.Effects[0]; got.Kind != "runs" || !slices.Equal(got.Argv, []string{"rm", "…"}) || argv[1] != tools.UnknownWord {
		t.Errorf("told %+v of %q", got, argv)
	}
}

// TestArguments: no path is an option, and there are not too many.
func TestArguments(t *testing.T) {
	if got := arguments([]string{"a", "-rf", "--", "b c"}); !slices.Equal(got, []string{"a", "./-rf", "./--", "b c"}) {
		t.Errorf("%q", got)
	}
	if got := arguments(slices.Repeat([]string{"a"}, maxArgs+1)); len(got) != maxArgs {
		t.Errorf("%d arguments", len(got))
	}
	long := strings.Repeat("x", maxArgBytes/2)
	if got := arguments([]string{long, long, "a"}); len(got) != 1 {
		t.Errorf("%d arguments", len(got))
	}
	if got := arguments(nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reached returns hooks with one at a point whose endpoint is reached through f, and what
// was reported of it.
func reached(t *testing.T, point Point, timeout time.Duration, f transport) (*Hooks, *Hook, func() []Run) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Name: "remote", On: Points{point}, URL: "https://hooks.example.com", SecretFile: secret, Timeout: timeout}
	hooks, err := New(Config{spec}, Options{Client: &http.Client{Transport: f}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hooks.Close() })
	var mu sync.Mutex
	var runs []Run
	hooks.Watch(func(run Run) {
		mu.Lock()
		defer mu.Unlock()
		runs = append(runs, run)
	})
	return hooks, hooks.At(point)[0], func() []Run {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(runs)
	}
}

// TestAskedNoMore: a hook that nobody waits for has not failed; one that is late has.
func TestAskedNoMore(t *testing.T) {
	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	hooks, hook, _ := reached(t, BeforeCall, time.Hour, func(r *http.Request) (*http.Response, error) {
		cancel(gone)
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	if answer, run, err := hooks.Ask(ctx, hook, Where{}, Event{}); !errors.Is(err, gone) || run != (Run{}) || answer != (Answer{}) {
		t.Errorf("%+v, %+v, %v", answer, run, err)
	}
	hooks, hook, _ = reached(t, BeforeCall, time.Nanosecond, func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	if _, run, err := hooks.Ask(t.Context(), hook, Where{}, Event{}); err != nil || run.Outcome != Failed || !strings.Contains(run.Message, "within 1ns") {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestFairTurns: a tenant whose hooks are slow leaves places to others, and has all of
// them where it is alone.
func TestFairTurns(t *testing.T) {
	short := func() context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx
	}
	alone := newTurns(4)
	for range 4 {
		if !alone.take(short(), "a") {
			t.Fatal("a tenant that is alone has not all places")
		}
	}
	if alone.take(short(), "a") || alone.try("b") {
		t.Error("there are more places than four")
	}
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(4)
		turns.take(t.Context(), "b")
		turns.back("b")
		var got []string
		var mu sync.Mutex
		var all sync.WaitGroup
		ask := func(tenant string) {
			all.Go(func() {
				turns.take(t.Context(), tenant)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, tenant)
			})
			synctest.Wait()
		}
		for range 8 {
			ask("a") // of which five wait
		}
		ask("b") // has the place that is left
		ask("b") // waits behind them
		if want := []string{"a", "a", "a", "b"}; !slices.Equal(got, want) {
			t.Fatalf("%q have places, want %q", got, want)
		}
		turns.back("a")
		synctest.Wait()
		if got[4] != "b" {
			t.Errorf("the next place is for %s, which has more", got[4])
		}
		for range 6 {
			turns.back(got[0])
			synctest.Wait()
			mu.Lock()
			got = got[1:]
			mu.Unlock()
		}
		all.Wait()
	})
}

// TestNotifiesAllTenants: notifications of one tenant do not keep those of others away.
func TestNotifiesAllTenants(t *testing.T) {
	release := make(chan struct{})
	hooks, hook, runs := reached(t, Denied, time.Minute, func(r *http.Request) (*http.Response, error) {
		<-release
		return nil, errors.New("enough")
	})
	var delivered sync.WaitGroup
	notify := func(tenant string) {
		delivered.Add(1)
		hooks.Notify([]*Hook{hook}, Where{}, Event{Tenant: tenant}, delivered.Done)
	}
	notify("b")
	for range maxNotices {
		notify("a")
	}
	before := len(runs())
	notify("b")
	if after := len(runs()); before == 0 || after != before {
		t.Errorf("%d notifications of one tenant were dropped, and %d of another", before, after-before)
	}
	close(release)
	delivered.Wait()
}

// TestNames: what a hook is called that has no name.
func TestNames(t *testing.T) {
	for want, command := range map[string]Command{
		"gofmt": {"/bin/sh", "-c", "gofmt -l -w . && go vet ./...", "hook"},
		"check": {"/etc/hooks/check", "--strict"},
		"lint":  {"/bin/sh", "-c", "sh /etc/hooks/lint", "hook"},
		"a.py":  {"env", "python3", "/etc/hooks/a.py"},
		"b.sh":  {"bash", "/etc/hooks/b.sh", "x"},
		"sh":    {"sh", "-c", "exit 1"},
	} {
		if got := command.name(); got != want {
			t.Errorf("%q is called %s, want %s", command, got, want)
		}
	}
}

// TestNotifyPanics: a hook that cannot be told by a mistake of ours ends nothing else.
func TestNotifyPanics(t *testing.T) {
	hooks, hook, runs := reached(t, Denied, 0, func(*http.Request) (*http.Response, error) { panic("oh") })
	done := make(chan struct{})
	hooks.Notify([]*Hook{hook, hook}, Where{}, Event{}, func() { close(done) })
	<-done
	got := runs()
	if len(got) != 2 || got[0].Outcome != Failed || !strings.Contains(got[0].Message, "oh") || got[0].Point != Denied {
		t.Errorf("reported %+v", got)
	}
}
