// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/soaktest"
)

// A question is something to ask the engine and ripgrep alike.
type question struct {
	pattern search.Pattern
	scope   search.Scope
	options search.Options
	glob    bool // the files of the scope, whatever is in them
}

func (q question) String() string {
	return fmt.Sprintf("pattern %+v\nscope %+v\noptions %+v\nglob %t", q.pattern, q.scope, q.options, q.glob)
}

// ask makes up a question.
func (x *tree) ask() question {
	q := question{glob: x.r.IntN(4) == 0}
	q.scope = search.Scope{Hidden: x.r.IntN(4) == 0, NoIgnore: x.r.IntN(4) == 0}
	if x.r.IntN(4) == 0 {
		q.scope.Path = pick(x.r, x.dirs...)
	}
	if x.r.IntN(6) == 0 {
		q.scope.MaxDepth = 1 + x.r.IntN(3)
	}
	if x.r.IntN(3) == 0 {
		for range 1 + x.r.IntN(2) {
			q.scope.Globs = append(q.scope.Globs, pick(x.r, "", "", "!")+x.glob())
		}
	}
	if x.r.IntN(5) == 0 {
		q.scope.Types = []string{pick(x.r, "go", "js", "md", "txt")}
	}
	if x.r.IntN(8) == 0 {
		q.scope.NotTypes = []string{pick(x.r, "go", "js", "md", "txt")}
	}
	if q.glob {
		return q
	}
	q.pattern = search.Pattern{
		Text: x.expression(), IgnoreCase: x.r.IntN(4) == 0, SmartCase: x.r.IntN(5) == 0, Word: x.r.IntN(5) == 0,
		WholeLine: x.r.IntN(12) == 0, Invert: x.r.IntN(10) == 0,
	}
	if x.r.IntN(4) == 0 {
		q.pattern.Literal, q.pattern.Text = true, pick(x.r, "foo", "a.b", "(err", "x", " ", "größe", "k", "nil", "foobar", "3456", ".", "日本", "zzz", "o b")
	}
	if q.pattern.WholeLine {
		q.pattern.Word = false
	}
	q.options.Mode = pick(x.r, search.Lines, search.Lines, search.Files, search.Counts)
	if q.options.Mode == search.Lines && x.r.IntN(3) == 0 {
		q.options.Before, q.options.After = x.r.IntN(4), x.r.IntN(4)
	}
	if x.r.IntN(8) == 0 && q.options.After == 0 {
		q.options.MaxPerFile = 1 + x.r.IntN(3)
	}
	return q
}

// glob returns a glob that ripgrep reads the same way: to it, ? is a byte.
func (x *tree) glob() string {
	return pick(x.r, "*.go", "*.{go,js}", "**/*.go", "a/**", "a/*", "src/**/*.txt", "*", "**", "f?o*", "[ab]*", "!a", "/a", "/*.go", "a/", "**/src/**", "{a,b}/**",
		"*_test.go", "foo*", ".*", "**/.hid/**", "a{,b}c", "[!a]*", "é*", "a b", "{src,lib}/*.{go,md}", "**/a/*", "node_modules", "*.min.js", "{*.go,a/**}", "a/**/b", "**/{a,foo}*")
}

// expression returns a regular expression that both read the same way: with
// ASCII classes the texts would be told apart, so there are few of those.
func (x *tree) expression() string {
	atom := func() string {
		return pick(x.r, "foo", "bar", "err", "o", "nil", ".", "[a-z]", "[0-9]", "fo+", "(foo|bar)", "x?", "[^a]", "größe", "a1", `\(`, `\.`, "é", "(?:fo|ba)", "k", "s", "日", "[fb]", "12", "o*", "(?i:foo)", "K", "[^x]+", "ß")
	}
	re := atom()
	for range x.r.IntN(4) {
		re += pick(x.r, "", "", "", " ", ".*", "|", "[0-9]+") + atom()
	}
	return pick(x.r, "", "", "", "^") + re + pick(x.r, "", "", "", "$")
}

// answer is what the engine says, as lines of text.
func answer(t testing.TB, e *engine, q question) []string {
	t.Helper()
	var lines []string
	if q.glob {
		files, _, err := e.Glob(t.Context(), q.scope, search.ByName)
		if err != nil {
			t.Fatalf("%v\n%s", err, q)
		}
		for _, f := range files {
			lines = append(lines, f.Path)
		}
		return lines
	}
	_, err := e.Grep(t.Context(), q.pattern, q.scope, q.options, func(f search.File) bool {
		switch q.options.Mode {
		case search.Files:
			lines = append(lines, f.Path)
		case search.Counts:
			lines = append(lines, f.Path+"\x00"+strconv.Itoa(f.Count))
		default:
			for _, l := range f.Lines {
				lines = append(lines, fmt.Sprintf("%s\x00%d%s%s", f.Path, l.Number, separator(l.Context), l.Text))
			}
		}
		return true
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, q)
	}
	slices.Sort(lines)
	return lines
}

func separator(context bool) string {
	if context {
		return "-"
	}
	return ":"
}

// referenceAnswer is what the reference says.
func referenceAnswer(t testing.TB, root string, q question) []string {
	t.Helper()
	var lines []string
	for _, f := range reference(root, q.scope) {
		if q.glob {
			lines = append(lines, f)
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		found, count, ok := referenceGrep(text, q.pattern, q.options)
		switch {
		case !ok || count == 0:
		case q.options.Mode == search.Files:
			lines = append(lines, f)
		case q.options.Mode == search.Counts:
			lines = append(lines, f+"\x00"+strconv.Itoa(count))
		default:
			for _, l := range found {
				lines = append(lines, fmt.Sprintf("%s\x00%d%s%s", f, l.number, separator(l.context), l.text))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// TestAsReference compares with the reference, in random trees.
func TestAsReference(t *testing.T) {
	x := newTree(t, 2)
	for i := range soaktest.Times(25, 2000) {
		x.clear()
		x.grow(40)
		x.ignore(".gitignore", ".ignore", ".rgignore")
		if x.r.IntN(3) == 0 {
			if err := os.MkdirAll(filepath.Join(x.root, pick(x.r, x.dirs...), ".git"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 {
			q := x.ask()
			q.scope.Types, q.scope.NotTypes = nil, nil // the reference knows none
			if q.pattern.Word {                        // and tries words without what is around them
				q.pattern.Text = strings.Trim(q.pattern.Text, "^$")
			}
			if x.r.IntN(4) == 0 {
				q.scope.Match = x.glob()
				if strings.HasPrefix(q.scope.Match, "!") {
					q.scope.Match = "*"
				}
			}
			if x.r.IntN(4) == 0 {
				q.scope.Exclude = func(path string) bool { return strings.Contains(path, "oo") }
			}
			got, want := answer(t, x.engine(), q), referenceAnswer(t, x.root, q)
			if !slices.Equal(got, want) {
				t.Fatalf("tree %d: %s\ngot  %q\nwant %q\n%s", i, q, got, want, x.describe())
			}
		}
	}
}

// ripgrep returns where ripgrep is, which make ripgrep installs.
func ripgrep(t testing.TB) string {
	t.Helper()
	rg, err := filepath.Abs("../../.bin/rg")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(rg, "--version").Output()
	if err != nil {
		t.Skipf("ripgrep is not installed: make ripgrep installs it where there is npm (%v)", err)
	}
	if !bytes.HasPrefix(out, []byte("ripgrep 15.")) {
		t.Fatalf("want ripgrep 15, and there is %s", out)
	}
	return rg
}

// run runs ripgrep in a tree and returns its lines.
func (x *tree) run(rg string, args ...string) []string {
	x.t.Helper()
	cmd := exec.Command(rg, append([]string{"--no-config", "--no-messages", "--no-ignore-global", "--null", "--color=never"}, args...)...)
	cmd.Dir = x.root
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() > 1) {
		x.t.Fatalf("rg %q: %v", args, err)
	}
	return strings.Split(string(out), "\n")
}

// ripgrepAnswer is what ripgrep says.
func (x *tree) ripgrepAnswer(rg string, q question) []string {
	x.t.Helper()
	var args []string
	flag := func(on bool, words ...string) {
		if on {
			args = append(args, words...)
		}
	}
	p, s, o := q.pattern, q.scope, q.options
	flag(!x.repository(), "--no-require-git")
	flag(s.Hidden, "--hidden")
	flag(s.NoIgnore, "--no-ignore")
	flag(s.MaxDepth > 0, "--max-depth", strconv.Itoa(s.MaxDepth))
	for _, g := range s.Globs {
		args = append(args, "-g", g)
	}
	for _, name := range s.Types {
		args = append(args, "-t", name)
	}
	for _, name := range s.NotTypes {
		args = append(args, "-T", name)
	}
	path := s.Path
	if path == "" {
		path = "."
	}
	if q.glob {
		var files []string
		for _, f := range strings.Split(strings.Join(x.run(rg, append(args, "--files", path)...), "\n"), "\x00") {
			if f != "" {
				files = append(files, strings.TrimPrefix(f, "./"))
			}
		}
		slices.Sort(files)
		return files
	}
	flag(p.Literal, "-F")
	flag(p.IgnoreCase, "-i")
	flag(p.SmartCase && !p.IgnoreCase, "-S")
	flag(p.Word, "-w")
	flag(p.WholeLine, "-x")
	flag(p.Invert, "-v")
	flag(p.Multiline, "-U")
	flag(p.DotAll, "--multiline-dotall")
	flag(o.Before > 0, "-B", strconv.Itoa(o.Before))
	flag(o.After > 0, "-A", strconv.Itoa(o.After))
	flag(o.MaxPerFile > 0, "-m", strconv.Itoa(o.MaxPerFile))
	flag(o.Mode == search.Files, "-l")
	flag(o.Mode == search.Counts, "-c")
	args = append(args, "-n", "--no-heading", "--with-filename", "-e", p.Text, path)
	var lines []string
	for _, line := range x.run(rg, args...) {
		switch {
		case line == "" || line == "--":
		case o.Mode == search.Files:
			for _, f := range strings.Split(line, "\x00") {
				if f != "" {
					lines = append(lines, strings.TrimPrefix(f, "./"))
				}
			}
		default:
			lines = append(lines, strings.TrimPrefix(line, "./"))
		}
	}
	slices.Sort(lines)
	return lines
}

// repository reports whether ripgrep takes the tree for one of git.
func (x *tree) repository() bool {
	_, err := os.Stat(filepath.Join(x.root, ".git"))
	return err == nil
}

// TestAsRipgrep compares with ripgrep, in random trees: what reading the files
// gives, and what is answered from memory directly after edits.
func TestAsRipgrep(t *testing.T) {
	rg := ripgrep(t)
	x := newTree(t, 3)
	questions := 0
	for i := range soaktest.Times(15, 2500) {
		x.clear()
		if i%2 == 0 { // as ripgrep has it, nested repositories count only in a repository
			if err := os.MkdirAll(filepath.Join(x.root, ".git/info"), 0o755); err != nil {
				t.Fatal(err)
			}
			x.write(".git/info/exclude", x.rules())
		}
		x.grow(40)
		x.ignore(".gitignore", ".ignore", ".rgignore")
		if i%2 == 0 && x.r.IntN(3) == 0 {
			if err := os.MkdirAll(filepath.Join(x.root, pick(x.r, x.dirs...), ".git"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		e, edits := x.engine(), []string{}
		if i%4 >= 2 {
			e = x.warmEngine(index.Config{})
		}
		for range 5 {
			q := x.ask()
			questions++
			if i%4 >= 2 {
				edits = append(edits, x.edit())
			}
			if _, err := os.Lstat(filepath.Join(x.root, q.scope.Path)); err != nil {
				q.scope.Path = ""
			}
			got, want := answer(t, e, q), x.ripgrepAnswer(rg, q)
			if !slices.Equal(got, want) {
				t.Fatalf("tree %d: %s\nedits %q\ngot  %q\nwant %q\n%s", i, q, edits, got, want, x.describe())
			}
		}
		e.Close()
	}
	t.Logf("%d questions", questions)
}
