// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestHuge holds that no text takes the process down, and that none of them is
// clear.
func TestHuge(t *testing.T) {
	for name, text := range map[string]string{
		"150 KB of (":          strings.Repeat("(", 150<<10),
		"1 MiB":                strings.Repeat("true; ", 1<<20/6),
		"32 KB of (":           strings.Repeat("(", 32<<10),
		"( behind quoted )":    strings.Repeat(`(")"`, 8<<10),
		"( behind commented )": strings.Repeat("(#)\n", 8<<10),
		"{ ":                   strings.Repeat("{ ", 16<<10),
		"$(":                   strings.Repeat("$(", 16<<10),
		`"$(`:                  strings.Repeat(`"$(`, 10<<10),
		"$((":                  strings.Repeat("$((", 10<<10),
		"$(((":                 "$((" + strings.Repeat("(", 30<<10),
		"${":                   strings.Repeat("${x:-", 6<<10),
		"${a[":                 strings.Repeat("${a[", 8<<10),
		"a[":                   "(( " + strings.Repeat("a[", 15<<10),
		"`":                    strings.Repeat("`", 32<<10),
		"<(":                   strings.Repeat("cat <(", 5<<10),
		"here-docs":            strings.Repeat("cat <<E\n$(", 3<<10),
		"many here-docs":       "cat" + strings.Repeat(" <<E", 6<<10) + "\n",
		"if":                   strings.Repeat("if ", 10<<10),
		"while":                strings.Repeat("while ", 5<<10),
		"until do":             strings.Repeat("until x; do ", 2<<10),
		"case":                 strings.Repeat("case x in x) ", 2<<10),
		"for":                  strings.Repeat("for x in y; do ", 2<<10),
		"function":             strings.Repeat("f() { ", 5<<10),
		"function (":           strings.Repeat("f() ( ", 5<<10),
		"coproc":               strings.Repeat("coproc { ", 3<<10),
		"time":                 strings.Repeat("time ", 6<<10),
		"!":                    strings.Repeat("! ", 16<<10),
		"[[ (":                 "[[ " + strings.Repeat("( ", 15<<10),
		"[[ !":                 "[[ " + strings.Repeat("! ", 15<<10),
		"((-":                  "((" + strings.Repeat("-", 30<<10),
		"extglob":              strings.Repeat("@(", 15<<10),
		"array":                strings.Repeat("a=($(", 6<<10),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			effects := shell.Effects(text, place)
			runtime.ReadMemStats(&after)
			if !slices.ContainsFunc(effects, func(e tools.Effect) bool { return e.Unclear != "" }) {
				t.Errorf("it is clear: %v", effects)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("it took %d MiB", used>>20)
			}
		})
	}
}

// TestHostile holds that texts made to be much to follow end soon: with few effects
// that have few words. None of them is clear.
func TestHostile(t *testing.T) {
	calls := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "f%d() { f%[2]d; f%[2]d; f%[2]d; }; ", i, i+1)
		}
		return b.String() + "f0"
	}
	for name, text := range map[string]string{
		"sudo":          strings.Repeat("sudo ", 6000) + "ls",
		"env":           strings.Repeat("env ", 8000) + "ls",
		"nice":          strings.Repeat("nice ", 6000) + "ls",
		"xargs":         strings.Repeat("xargs ", 5000) + "ls",
		"timeout":       strings.Repeat("timeout 1 ", 3000) + "ls",
		"find -exec":    strings.Repeat("find . -exec ", 2300) + "ls \\;",
		"eval":          strings.Repeat("eval ", 6000) + "ls",
		"command":       strings.Repeat("command ", 4000) + "ls",
		"submodules":    strings.Repeat("git submodule foreach ", 1300) + "ls",
		"unknown words": strings.Repeat("$a ", 10000),
		"many actions":  "find d0 d1 d2 d3 d4 d5 d6 d7 " + strings.Repeat("-exec ls {} \\; ", 2000),
		"braces":        "rm " + strings.Repeat(strings.Repeat("{a,b}", 9)+" ", 600),
		"deep braces":   "rm " + strings.Repeat("{a,", 5000) + strings.Repeat("}", 5000),
		"pattern":       "cat " + strings.Repeat("*a", 15000),
		"quotes":        "cat " + strings.Repeat(`"a"'b'`, 5000) + "$x",
		"operands":      "for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5 6 7 8; do rm " + strings.Repeat("$i$j ", 6000) + "; done; done",
		"calls":         calls(800) + "; $x",
		"directories":   strings.Repeat("cd aaaa && ", 2900) + "rm x",
		"traps":         strings.Repeat("trap ls DEBUG; ", 2000) + "$x",
		"texts":         strings.Repeat("bash -c 'ls $('; ", 1800),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			effects := shell.Effects(text, place)
			runtime.ReadMemStats(&after)
			words := 0
			for _, e := range effects {
				words += len(e.Argv)
			}
			if len(effects) > 20_001 || words > 80_000 {
				t.Errorf("%d effects, %d words", len(effects), words)
			}
			if !slices.ContainsFunc(effects, func(e tools.Effect) bool { return e.Unclear != "" }) {
				t.Errorf("it is clear")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("it took %d MiB", used>>20)
			}
		})
	}
}

// TestLong holds that long but plain commands are taken apart in full: no number
// of subcommands, operators or words is too many.
func TestLong(t *testing.T) {
	for name, text := range map[string]string{
		"60 subcommands": strings.Repeat("true; ", 60) + "touch x",
		"lines":          strings.Repeat("true\n", 5000) + "touch x",
		"&&":             strings.Repeat("true && ", 3000) + "touch x",
		"|":              strings.Repeat("cat | ", 4000) + "touch x",
		"+":              "echo $((" + strings.Repeat("1+", 10000) + "1)); touch x",
		"words":          "echo " + strings.Repeat("x ", 15000) + "; touch x",
		"branches":       strings.Repeat("if true; then a=1; fi; ", 1200) + "touch x",
		"subshells":      strings.Repeat("(x=1; cd y); ", 2000) + "touch x",
		"substitutions":  "echo " + strings.Repeat("$(ls) ", 4000) + "; touch x",
		"cases":          strings.Repeat("case x in a) b=1;; *) c=2;; esac; ", 800) + "touch x",
		"loops":          strings.Repeat("for i in a b c; do echo $i; done; ", 800) + "touch x",
		"code in text":   "cat > x.py <<'E'\n" + strings.Repeat("print((((1))))\n", 1500) + "E\ntouch x",
		"nested loops":   strings.Repeat("for i in 1 2 3 4 5 6 7 8; do ", 60) + "echo; " + strings.Repeat("done; ", 60) + "touch x",
		"wide loops":     strings.Repeat("for i in 1 2 3 4 5 6 7 8; do ", 5) + "echo " + strings.Repeat("$i ", 9000) + "; " + strings.Repeat("done; ", 5) + "touch x",
		"many different": different(3000) + "touch x",
		"many parts":     "echo " + strings.Repeat(`"a"'b'$c`, 3500) + "; touch x",
		"many options":   "sort" + strings.Repeat(" --xx", 6000) + "; touch x",
		"many names":     "curl -" + strings.Repeat("O", 1000) + strings.Repeat(" h/a", 1000) + "; touch x",
		"many variables": strings.Replace(different(2500), "a ", "x=", -1) + "touch x",
		"doubling calls": doubling(40) + "touch x",
		"doubling texts": strings.Repeat("bash -c '", 1) + strings.Repeat("true; ", 100) + "'; touch x",
	} {
		t.Run(name, func(t *testing.T) {
			found := false
			for _, e := range shell.Effects(text, place) {
				found = found || e.Kind == tools.RunsProgram && e.Program == "touch" && slices.Equal(e.Argv, []string{"touch", "x"}) && e.Unclear == ""
				if e.Program == tools.UnknownWord {
					t.Errorf("unclear: %s", e.Unclear)
				}
			}
			if !found {
				t.Error("touch x was not seen")
			}
		})
	}
}

// doubling defines functions of which each calls the one before twice.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("f0() { echo; }; ")
	for i := range n {
		name, before := string(rune('a'+i/26))+string(rune('a'+i%26)), "f0"
		if i > 0 {
			before = string(rune('a'+(i-1)/26)) + string(rune('a'+(i-1)%26))
		}
		b.WriteString("g" + name + "() { " + g(before) + "; " + g(before) + "; }; ")
	}
	return b.String() + "g" + string(rune('a'+(n-1)/26)) + string(rune('a'+(n-1)%26)) + "; "
}

// different makes n different commands.
func different(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a %d; ", i)
	}
	return b.String()
}

func g(name string) string {
	if name == "f0" {
		return name
	}
	return "g" + name
}

// TestGuesses holds that what cannot be parsed still shows the names of its
// commands, so that rules that deny them apply.
func TestGuesses(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("true; ", 1<<18) + "touch x",
		"((((((; touch x",
		"touch x\r",
		"ls; to\\\nuch x; (",
		"sudo -u root env A=1 touch x; (",
		"if true; then touch x",
		"echo $(touch x",
		"x=`touch x",
		strings.Repeat("(", 20<<10) + "touch x",
		"echo \xff; touch x",
		"\x01touch x; touch x",
	} {
		found := false
		for _, e := range shell.Effects(text, place) {
			found = found || e.Program == "touch" && len(e.Argv) > 1 && e.Argv[1] == "x"
			if e.Unclear == "" {
				t.Errorf("%.40q: clear: %v", text, e)
			}
		}
		if !found {
			t.Errorf("%.40q: touch was not seen", text)
		}
	}
}
