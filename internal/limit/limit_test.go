// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/tools"
)

var (
	readFile  = &tools.Spec{Name: "read_file", Aliases: []string{"cat"}}
	writeFile = &tools.Spec{Name: "write_file"}
	remote    = &tools.Spec{Name: "remote", Kind: tools.MCP}
)

func newLimiter(t testing.TB, config limit.Config) *limit.Limiter {
	t.Helper()
	l, err := limit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func call(spec *tools.Spec, principal, session string) limit.Key {
	return limit.Key{Spec: spec, Principal: principal, Session: session}
}

// script runs steps against a limiter under a fake clock. A step is one of
//
//	TOOL[@PRINCIPAL[/SESSION]] = ok | wait 1s RULE | full RULE | shadow RULE
//	sleep 1s
//	release N        the permit of step N, counted from 1 among the calls
func script(t *testing.T, config limit.Config, steps string) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, config)
		specs := map[string]*tools.Spec{"read_file": readFile, "write_file": writeFile, "remote": remote}
		var permits []*limit.Permit
		for i, step := range strings.Split(strings.TrimSpace(steps), "\n") {
			step = strings.TrimSpace(step)
			if text, ok := strings.CutPrefix(step, "sleep "); ok {
				d, err := time.ParseDuration(text)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(d)
				continue
			}
			if text, ok := strings.CutPrefix(step, "release "); ok {
				var n int
				fmt.Sscan(text, &n)
				permits[n-1].Release()
				continue
			}
			who, want, _ := strings.Cut(step, " = ")
			tool, who, _ := strings.Cut(who, "@")
			principal, session, _ := strings.Cut(who, "/")
			permit, refusal := l.Take(call(specs[tool], principal, session))
			permits = append(permits, permit)
			got := "ok"
			switch {
			case refusal != nil && refusal.RetryAfter > 0:
				got = fmt.Sprintf("wait %s %s", refusal.RetryAfter, refusal.Limit)
			case refusal != nil:
				got = fmt.Sprintf("full %s", refusal.Limit)
			}
			for _, shadow := range permit.Shadows() {
				got = "shadow " + shadow.Limit
				if shadow.Message == "" {
					t.Errorf("shadow %+v", shadow)
				}
			}
			if got != want {
				t.Errorf("step %d: %s: got %s", i+1, step, got)
			}
		}
	})
}

func TestRules(t *testing.T) {
	all := []string{"*"}
	for name, test := range map[string]struct {
		rules []limit.Limit
		steps string
	}{
		"nothing": {nil, `
			read_file@a/1 = ok
			read_file@a/1 = ok`},
		"another tool": {[]limit.Limit{{Name: "w", Tools: []string{"write_*"}, Rate: 1}}, `
			read_file@a/1 = ok
			read_file@a/1 = ok
			write_file@a/1 = ok
			write_file@a/1 = wait 1s w`},
		"alias": {[]limit.Limit{{Name: "c", Tools: []string{"cat"}, Rate: 1}}, `
			read_file@a/1 = ok
			read_file@a/1 = wait 1s c`},
		"kind": {[]limit.Limit{{Name: "m", Tools: []string{"@mcp"}, Rate: 1}}, `
			remote@a/1 = ok
			remote@a/1 = wait 1s m
			read_file@a/1 = ok`},
		"tools share a rule": {[]limit.Limit{{Name: "all", Tools: all, Rate: 1, Burst: 2}}, `
			read_file@a/1 = ok
			write_file@a/1 = ok
			read_file@a/1 = wait 1s all`},
		"burst and refill": {[]limit.Limit{{Name: "r", Tools: all, Rate: 2, Burst: 3}}, `
			read_file@a/1 = ok
			read_file@a/1 = ok
			read_file@a/1 = ok
			read_file@a/1 = wait 500ms r
			sleep 499999999ns
			read_file@a/1 = wait 1ns r
			sleep 1ns
			read_file@a/1 = ok
			read_file@a/1 = wait 500ms r
			sleep 1h
			read_file@a/1 = ok
			read_file@a/1 = ok
			read_file@a/1 = ok
			read_file@a/1 = wait 500ms r`},
		"burst of a second": {[]limit.Limit{{Name: "r", Tools: all, Rate: 2.5}}, `
			read_file@a/1 = ok
			read_file@a/1 = ok
			read_file@a/1 = ok
			read_file@a/1 = wait 400ms r`},
		"slow": {[]limit.Limit{{Name: "r", Tools: all, Rate: 1.0 / 3600}}, `
			read_file@a/1 = ok
			sleep 10m
			read_file@a/1 = wait 50m0s r`},
		"huge pause": {[]limit.Limit{{Name: "r", Tools: all, Rate: 1}}, `
			read_file@a/1 = ok
			sleep 2000000h
			read_file@a/1 = ok
			read_file@a/1 = wait 1s r`},
		"per session": {[]limit.Limit{{Name: "r", Tools: all, Rate: 1, Per: limit.Session}}, `
			read_file@a/1 = ok
			read_file@a/2 = ok
			read_file@b/1 = ok
			read_file@a/1 = wait 1s r`},
		"per principal": {[]limit.Limit{{Name: "r", Tools: all, Rate: 1, Per: limit.Principal}}, `
			read_file@a/1 = ok
			read_file@a/2 = wait 1s r
			read_file@b/1 = ok`},
		"per server": {[]limit.Limit{{Name: "r", Tools: all, Rate: 1, Per: limit.Server}}, `
			read_file@a/1 = ok
			read_file@b/1 = wait 1s r`},
		"concurrent": {[]limit.Limit{{Name: "c", Tools: all, Concurrent: 2}}, `
			read_file@a/1 = ok
			write_file@a/1 = ok
			read_file@a/1 = full c
			read_file@a/2 = ok
			release 1
			read_file@a/1 = ok
			release 1
			read_file@a/1 = full c`},
		"concurrent on the server": {[]limit.Limit{{Name: "c", Tools: all, Concurrent: 1, Per: limit.Server}}, `
			read_file@a/1 = ok
			read_file@b/1 = full c
			release 2
			read_file@b/1 = full c
			release 1
			read_file@b/1 = ok`},
		"no token is lost where a slot is missing": {[]limit.Limit{
			{Name: "rate", Tools: all, Rate: 1, Burst: 2},
			{Name: "one", Tools: all, Concurrent: 1},
		}, `
			read_file@a/1 = ok
			read_file@a/1 = full one
			read_file@a/1 = full one
			release 1
			read_file@a/1 = ok
			release 4
			read_file@a/1 = wait 1s rate`},
		"no slot is lost where a token is missing": {[]limit.Limit{
			{Name: "two", Tools: all, Concurrent: 2},
			{Name: "rate", Tools: all, Rate: 1},
		}, `
			read_file@a/1 = ok
			read_file@a/1 = wait 1s rate
			read_file@a/1 = wait 1s rate
			sleep 1s
			read_file@a/1 = ok
			sleep 1s
			read_file@a/1 = full two`},
		"the longest wait is told": {[]limit.Limit{
			{Name: "fast", Tools: all, Rate: 10, Burst: 1},
			{Name: "slow", Tools: all, Rate: 0.1},
			{Name: "one", Tools: all, Concurrent: 1},
		}, `
			read_file@a/1 = ok
			read_file@a/1 = wait 10s slow`},
		"shadow": {[]limit.Limit{
			{Name: "s", Tools: all, Rate: 1, Shadow: true},
			{Name: "r", Tools: all, Rate: 1, Burst: 3},
		}, `
			read_file@a/1 = ok
			read_file@a/1 = shadow s
			read_file@a/1 = shadow s
			read_file@a/1 = wait 1s r
			sleep 1s
			read_file@a/1 = ok`},
		"shadow of slots": {[]limit.Limit{{Name: "s", Tools: all, Concurrent: 1, Shadow: true}}, `
			read_file@a/1 = ok
			read_file@a/1 = shadow s
			release 2
			read_file@a/1 = shadow s
			release 1
			read_file@a/1 = ok`},
		"many rules": {[]limit.Limit{
			{Name: "a", Tools: all, Concurrent: 9}, {Name: "b", Tools: all, Concurrent: 9},
			{Name: "c", Tools: all, Concurrent: 9}, {Name: "d", Tools: all, Concurrent: 9},
			{Name: "e", Tools: all, Concurrent: 9}, {Name: "f", Tools: all, Concurrent: 1},
		}, `
			read_file@a/1 = ok
			read_file@a/1 = full f
			release 1
			read_file@a/1 = ok`},
	} {
		t.Run(name, func(t *testing.T) { script(t, limit.Config{Limits: test.rules}, test.steps) })
	}
}

func TestMessages(t *testing.T) {
	for _, test := range []struct {
		rule limit.Limit
		want string
	}{
		{limit.Limit{Rate: 5, Burst: 1}, `read_file is limited to 5 calls a second in one session, with bursts of 1 (limit "x"). Call it again in 200ms, or do something else meanwhile.`},
		{limit.Limit{Rate: 1.0 / 3, Per: limit.Principal}, `read_file is limited to 20 calls a minute for one caller, with bursts of 1 (limit "x"). Call it again in 3s, or do something else meanwhile.`},
		{limit.Limit{Rate: 2.0 / 3600, Per: limit.Server}, `read_file is limited to 2 calls an hour on this server, with bursts of 1 (limit "x"). Call it again in 30m0s, or do something else meanwhile.`},
		{limit.Limit{Concurrent: 1}, `read_file is limited to one call at a time in one session, and one is running (limit "x"). Call it again when one has ended.`},
	} {
		synctest.Test(t, func(t *testing.T) {
			test.rule.Name, test.rule.Tools = "x", []string{"read_file"}
			l := newLimiter(t, limit.Config{Limits: []limit.Limit{test.rule}})
			l.Take(call(readFile, "a", "1"))
			_, refusal := l.Take(call(readFile, "a", "1"))
			if refusal == nil || refusal.Message != test.want {
				t.Errorf("got  %+v\nwant %s", refusal, test.want)
			}
		})
	}
}

func TestInvalidConfig(t *testing.T) {
	all := []string{"*"}
	for _, test := range []struct {
		config limit.Config
		want   string
	}{
		{limit.Config{Limits: []limit.Limit{{Tools: all, Rate: 1}}}, "no name"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Rate: 1}}}, "no tools"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: []string{"["}, Rate: 1}}}, "without its ]"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all}}}, "neither"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all, Rate: -1}}}, "rate"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all, Rate: 1e9}}}, "rate"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all, Rate: 1e-12}}}, "year"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all, Burst: 5}}}, "burst"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all, Rate: 1, Burst: -5}}}, "burst"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all, Concurrent: -5}}}, "at once"},
		{limit.Config{Limits: []limit.Limit{{Name: "x", Tools: all, Rate: 1, Per: 7}}}, "scope"},
		{limit.Config{LoopLimit: limit.LoopLimit{Repeat: -1}}, "repeat"},
		{limit.Config{LoopLimit: limit.LoopLimit{Alternate: -1}}, "alternate"},
	} {
		if _, err := limit.New(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q", test.config, err, test.want)
		}
	}
}

// TestReplace proves that a new configuration keeps the counts of rules that
// stay, begins anew with those that changed, and takes back what permits of the
// old one held.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"*"}
		stays := limit.Limit{Name: "stays", Tools: all, Rate: 1, Burst: 2}
		slots := limit.Limit{Name: "slots", Tools: []string{"write_file"}, Concurrent: 2}
		l := newLimiter(t, limit.Config{Limits: []limit.Limit{stays, slots}})
		take := func(spec *tools.Spec, want string) *limit.Permit {
			t.Helper()
			permit, refusal := l.Take(call(spec, "a", "1"))
			got := ""
			if refusal != nil {
				got = refusal.Limit
			}
			if got != want {
				t.Errorf("refused by %q, want %q", got, want)
			}
			return permit
		}
		replace := func(rules ...limit.Limit) {
			t.Helper()
			if err := l.Replace(limit.Config{Limits: rules}); err != nil {
				t.Fatal(err)
			}
		}
		first := take(writeFile, "")
		second := take(writeFile, "")
		take(readFile, "stays")

		replace(slots, stays) // another order
		take(readFile, "stays")

		if err := l.Replace(limit.Config{Limits: []limit.Limit{{Name: "bad"}}}); err == nil {
			t.Error("a rule that is not valid was taken")
		}
		take(readFile, "stays")

		faster := stays
		faster.Burst = 3
		one := slots
		one.Concurrent = 1
		replace(faster, one)
		take(writeFile, "slots") // two run still
		first.Release()
		take(writeFile, "slots")
		second.Release()
		third := take(writeFile, "")
		take(readFile, "")
		take(readFile, "")
		take(readFile, "stays")

		replace()
		third.Release()
		third.Release()
		take(readFile, "")

		replace(one)
		fourth := take(writeFile, "")
		take(writeFile, "slots")
		third.Release()
		take(writeFile, "slots")
		fourth.Release()
		take(writeFile, "")
	})
}

// TestManyAtOnce proves under the race detector that no more calls run at once,
// and no more are let through, than the rules allow, whatever is replaced
// meanwhile.
func TestManyAtOnce(t *testing.T) {
	const burst, concurrent = 500, 3
	config := limit.Config{Limits: []limit.Limit{
		{Name: "slots", Tools: []string{"*"}, Concurrent: concurrent, Per: limit.Server},
		{Name: "total", Tools: []string{"*"}, Rate: 1e-4, Burst: burst, Per: limit.Principal},
	}, LoopLimit: limit.LoopLimit{Repeat: 1 << 18}}
	l := newLimiter(t, config)
	other := config
	other.Limits = append([]limit.Limit{{Name: "more", Tools: []string{"read_file"}, Concurrent: 100}}, config.Limits...)

	var running, taken atomic.Int64
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := range 2000 {
				if worker == 0 && i%50 == 0 {
					if err := l.Replace([]limit.Config{config, other}[i/50%2]); err != nil {
						t.Error(err)
					}
				}
				c := call(readFile, "a", fmt.Sprint(worker))
				c.Digest[0] = 1
				permit, refusal := l.Take(c)
				if refusal != nil {
					continue
				}
				taken.Add(1)
				if n := running.Add(1); n > concurrent {
					t.Errorf("%d at once", n)
				}
				running.Add(-1)
				permit.Release()
				permit.Release()
			}
		})
	}
	wg.Wait()
	if taken.Load() != burst {
		t.Errorf("%d let through, want %d", taken.Load(), burst)
	}
}

func TestGuard(t *testing.T) {
	for name, test := range map[string]struct {
		guard limit.LoopLimit
		calls string // a letter is an input of read_file, a capital one of write_file, ! is refused, _ is a pause
	}{
		"off":                       {limit.LoopLimit{}, "aaaaaaaaaa"},
		"repeat":                    {limit.LoopLimit{Repeat: 3}, "aaaa!a!a!"},
		"another resets":            {limit.LoopLimit{Repeat: 3}, "aaaa!baaaa!"},
		"another tool resets":       {limit.LoopLimit{Repeat: 3}, "aaaAaaaa!"},
		"repeat once":               {limit.LoopLimit{Repeat: 1}, "aa!bab"},
		"alternate":                 {limit.LoopLimit{Alternate: 2}, "ababa!bb"},
		"alternate two tools":       {limit.LoopLimit{Alternate: 2}, "aAaAa!a!b"},
		"alternation broken":        {limit.LoopLimit{Alternate: 2}, "ababcababa!"},
		"a third begins anew":       {limit.LoopLimit{Alternate: 2}, "abcabcabcabc"},
		"repeats do not take turns": {limit.LoopLimit{Alternate: 1, Repeat: 9}, "aabbaabb"},
		"both":                      {limit.LoopLimit{Repeat: 2, Alternate: 2}, "aaa!baba!bb!ca"},
		"a pause":                   {limit.LoopLimit{Repeat: 2, Alternate: 2}, "aa_aaa!_abab_abab"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, limit.Config{LoopLimit: test.guard})
				for i := 0; i < len(test.calls); i++ {
					letter := test.calls[i]
					if letter == '_' {
						time.Sleep(time.Hour)
						continue
					}
					c := call(readFile, "a", "1")
					if letter < 'a' {
						c.Spec, letter = writeFile, letter-'A'+'a'
					}
					c.Digest[0] = letter
					_, refusal := l.Take(c)
					want := i+1 < len(test.calls) && test.calls[i+1] == '!'
					if (refusal != nil) != want {
						t.Errorf("%s at %d: %+v", test.calls, i, refusal)
					}
					if want {
						i++
					}
				}
			})
		})
	}
}

func TestGuardWords(t *testing.T) {
	guard := limit.LoopLimit{Repeat: 5, Alternate: 3}
	l := newLimiter(t, limit.Config{LoopLimit: guard, Limits: []limit.Limit{{Name: "r", Tools: []string{"*"}, Rate: 1e-3, Burst: 10}}})
	a, b := call(readFile, "a", "1"), call(writeFile, "a", "1")
	a.Digest[0], b.Digest[0] = 1, 1
	var refusal *limit.Refusal
	for range 6 {
		_, refusal = l.Take(a)
	}
	want := "You have called read_file with the same input 5 times in a row. "
	if refusal == nil || refusal.Limit != limit.RepeatRule || !strings.HasPrefix(refusal.Message, want) {
		t.Errorf("got %+v", refusal)
	}
	elsewhere := a
	elsewhere.Session = "2"
	if _, refusal := l.Take(elsewhere); refusal != nil {
		t.Errorf("another session: %+v", refusal)
	}
	for i := range 5 { // with the last of those before, three rounds
		if _, refusal = l.Take([]limit.Key{b, a}[i%2]); refusal != nil {
			t.Errorf("turn %d: %+v", i, refusal)
		}
	}
	_, refusal = l.Take(a)
	want = "You have gone back and forth between read_file and write_file 3 times, "
	if refusal == nil || refusal.Limit != limit.AlternateRule || !strings.HasPrefix(refusal.Message, want) {
		t.Errorf("got %+v", refusal)
	}
	// The loops took no tokens: of 10, a took 5 + 2 and b 3.
	c := a
	c.Digest[0] = 2
	if _, refusal = l.Take(c); refusal == nil || refusal.Limit != "r" {
		t.Errorf("got %+v", refusal)
	}
	// What the rate refused does not break the loop.
	if _, refusal = l.Take(a); refusal == nil || refusal.Limit != limit.AlternateRule {
		t.Errorf("got %+v", refusal)
	}
}

func BenchmarkTake(b *testing.B) {
	all := []string{"*"}
	fast := func(per limit.Scope) limit.Limit {
		return limit.Limit{Name: "r", Tools: all, Rate: 1e6, Burst: 1e6, Per: per}
	}
	slots := limit.Limit{Name: "c", Tools: all, Concurrent: 1e6, Per: limit.Session}
	for _, bench := range []struct {
		name   string
		config limit.Config
	}{
		{"nothing", limit.Config{}},
		{"unlimited tool", limit.Config{Limits: []limit.Limit{{Name: "w", Tools: []string{"write_file"}, Rate: 1}}}},
		{"server", limit.Config{Limits: []limit.Limit{fast(limit.Server)}}},
		{"session", limit.Config{Limits: []limit.Limit{fast(limit.Session)}}},
		{"session and server", limit.Config{Limits: []limit.Limit{fast(limit.Session), fast(limit.Server)}}},
		{"concurrent", limit.Config{Limits: []limit.Limit{slots}}},
		{"guard", limit.Config{LoopLimit: limit.LoopLimit{Repeat: 1e6, Alternate: 1e6}}},
		{"all", limit.Config{Limits: []limit.Limit{fast(limit.Session), fast(limit.Server), slots}, LoopLimit: limit.LoopLimit{Repeat: 1e6, Alternate: 1e6}}},
		{"refused", limit.Config{Limits: []limit.Limit{{Name: "r", Tools: all, Rate: 1e-3, Burst: 1}}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := newLimiter(b, bench.config)
			c := call(readFile, "somebody", "a-session-of-theirs")
			b.ReportAllocs()
			for n := 1; b.Loop(); n++ {
				if n%1e6 == 0 { // the bucket is empty
					l = newLimiter(b, bench.config)
				}
				c.Digest[0], c.Digest[1] = byte(n), 1
				permit, _ := l.Take(c)
				permit.Release()
			}
		})
	}
}

// BenchmarkTakeTogether is all callers at once, each in a session of its own.
func BenchmarkTakeTogether(b *testing.B) {
	l := newLimiter(b, limit.Config{Limits: []limit.Limit{{Name: "r", Tools: []string{"*"}, Rate: 1e6, Burst: 1e6}}})
	b.ReportAllocs()
	var workers atomic.Int32
	b.RunParallel(func(pb *testing.PB) {
		c := call(readFile, "somebody", "")
		for n := 0; pb.Next(); n++ {
			if n%1e6 == 0 {
				c.Session = fmt.Sprintf("a-session-of-theirs-%d", workers.Add(1))
			}
			permit, _ := l.Take(c)
			permit.Release()
		}
	})
}
