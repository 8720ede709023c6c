// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestPathPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern     string
		match, miss string
	}{
		{"secrets/", "secrets secrets/a a/secrets/b", "secret secretsx a/secretsx"},
		{"secrets", "secrets secrets/a a/secrets/b", "secret secretsx"},
		{"./secrets", "secrets secrets/a", "a/secrets"},
		{"a/b", "a/b a/b/c", "a x/a/b a/bc ab"},
		{"a/b/", "a/b a/b/c", "a x/a/b"},
		{"a/**", "a a/b a/b/c", "b/a ab"},
		{"**/b", "b a/b a/c/b b/x", "ab a/bc"},
		{"a/**/b", "a/b a/x/b a/x/y/b a/b/c", "a b/a a/xb"},
		{"a/**/b/**/c", "a/b/c a/x/b/y/z/c/d", "a/c a/c/b"},
		{"**", "a a/b .", ""},
		{"*", "a a/b .", ""},
		{".", "a a/b .", ""},
		{"*.pem", "x.pem a/x.pem .pem x.pem/y", "xpem x.pemx"},
		{"id_*", "id_ id_rsa a/id_x", "xid_ id"},
		{"a/*", "a/b a/b/c", "a b/a"},
		{"a/*.go", "a/b.go a/.go", "a/b/c.go a/go"},
		{"a?c", "abc aßc a/abc", "ac abbc"},
		{"[ab]c", "ac bc", "cc abc"},
		{"[!ab]c", "cc dc", "ac bc c"},
		{"[^a-c]x", "dx", "ax cx"},
		{"[]]x", "]x", "x"},
		{"{a,b/c}/d", "a/d b/c/d", "a b/d c/d"},
		{"x.{go,rs}", "x.go a/x.rs", "x.g x."},
		{"{a,{b,c}d}", "a bd cd", "b cd/.. d"},
		{`\*`, "* a/*", "a"},
		{`a\{b`, "a{b", "ab"},
		{"*a*b*", "ab xaxbx a/ab", "ba"},
		{"a//b/./c", "a/b/c", "a/b"},
		{"日本*", "日本 日本語/x", "日"},
	} {
		patterns, err := compilePath(test.pattern, false)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		matches := func(p string) bool {
			s := place{"/ws", "/home/u"}.locate(p, nil)
			for i := range patterns {
				if patterns[i].covers(&s) {
					return true
				}
			}
			return false
		}
		for _, p := range strings.Fields(test.match) {
			if !matches(p) {
				t.Errorf("%s does not match %s", test.pattern, p)
			}
		}
		for _, p := range strings.Fields(test.miss) {
			if matches(p) {
				t.Errorf("%s matches %s", test.pattern, p)
			}
		}
		if !strings.HasPrefix(test.pattern, ".") && matches("/out/"+strings.Fields(test.match)[0]) {
			t.Errorf("%s matches outside", test.pattern)
		}
	}
	for pattern, want := range map[string]string{
		"": "empty", "..": "..", "a/../b": "..", "[a": "]", "a/[": "]", "{a": "}", "a}": "{", `a\`: "backslash", "a**": "**", "a/b**/c": "**",
		"~bob/x": "home", "[z-a]": "range", "\xff": "UTF-8", strings.Repeat("{a,b}", 9): "alternatives", strings.Repeat("a", 5000): "bytes", "[a/b]": "]",
	} {
		if _, err := compilePath(pattern, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", pattern, err)
		}
	}
}

// slowMatch is a matcher that is easy to believe: the pattern as a regular
// expression over the path and each directory above it.
func slowMatch(pattern, path string) bool {
	alternatives, err := glob.Expand(pattern)
	if err != nil {
		return false
	}
	for _, alternative := range alternatives {
		re, err := regexp.Compile("(?s)^" + regexpOf(alternative) + "$")
		if err != nil {
			continue
		}
		for p := path; ; p = p[:strings.LastIndexByte(p, '/')] {
			if re.MatchString(p) {
				return true
			}
			if !strings.Contains(p, "/") {
				break
			}
		}
		if re.MatchString("") || path == "" {
			return re.MatchString("")
		}
	}
	return false
}

// regexpOf translates a pattern of letters, *, ?, ** and slashes.
func regexpOf(pattern string) string {
	anywhere := !strings.Contains(strings.TrimRight(pattern, "/"), "/")
	var b strings.Builder
	var names []string
	for name := range strings.SplitSeq(pattern, "/") {
		if name != "" {
			names = append(names, name)
		}
	}
	if anywhere {
		if len(names) == 1 && names[0] == "*" {
			return ".*"
		}
		names = append([]string{"**"}, names...)
	}
	names = slices.CompactFunc(names, func(a, b string) bool { return a == "**" && b == "**" })
	open := true // nothing, or a slash, was written before
	for i, name := range names {
		if name == "**" {
			if i == len(names)-1 {
				if i == 0 {
					b.WriteString(".*")
				} else if open {
					b.WriteString(".*")
				} else {
					b.WriteString("(/.*)?")
				}
				continue
			}
			if !open {
				b.WriteString("/")
			}
			b.WriteString("([^/]+/)*")
			open = true
			continue
		}
		if !open {
			b.WriteString("/")
		}
		for _, c := range name {
			switch c {
			case '*':
				b.WriteString("[^/]*")
			case '?':
				b.WriteString("[^/]")
			default:
				b.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		open = false
	}
	return b.String()
}

// fuzzed makes a pattern or path of what the fuzzer gives, from few characters
// so that they often match.
func fuzzed(data []byte, alphabet string) string {
	var b strings.Builder
	for _, c := range data {
		b.WriteByte(alphabet[int(c)%len(alphabet)])
	}
	return b.String()
}

// FuzzPathPattern compares the matcher with the one that is easy to believe.
func FuzzPathPattern(f *testing.F) {
	f.Add([]byte("a/**/b"), []byte("a/x/b"))
	f.Add([]byte("**/*a"), []byte("ba/c"))
	f.Add([]byte{0, 1, 2, 3, 4, 5}, []byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, p, q []byte) {
		if len(p) > 24 || len(q) > 24 {
			return
		}
		pattern, path := fuzzed(p, "ab/*?"), path.Clean(fuzzed(q, "ab/"))
		if strings.HasPrefix(pattern, "/") || strings.HasPrefix(path, "/") || path == "." {
			return
		}
		compiled, err := compilePath(pattern, true)
		if err != nil {
			return
		}
		s := place{}.targetAt(path, nil)
		got := compiled[0].covers(&s.location)
		if want := slowMatch(pattern, path); got != want {
			t.Errorf("%q on %q: %t, want %t (%s)", pattern, path, got, want, regexpOf(pattern))
		}
		if got && !compiled[0].catches(&s) {
			t.Errorf("%q covers %q and does not catch it", pattern, path)
		}
		if got && !strings.Contains(path, "/") {
			return
		}
		// What is matched below a directory is seen from the directory.
		dir := path
		for strings.Contains(dir, "/") {
			dir = dir[:strings.LastIndexByte(dir, '/')]
			at := place{}.targetAt(dir, nil)
			if got && !compiled[0].catches(&at) && !compiled[0].catchesBelow(&at) {
				t.Errorf("%q matches %q and is not seen from %q", pattern, path, dir)
			}
		}
	})
}

// FuzzShellGlob proves that a pattern of a shell and one of a rule that match
// the same path are found to, and that one that covers the other matches what
// it matches.
func FuzzShellGlob(f *testing.F) {
	f.Add([]byte("a/*"), []byte("a/b*"), []byte("a/bc"))
	f.Add([]byte{3, 2, 0}, []byte{0, 4, 1}, []byte{0, 1, 1})
	f.Add([]byte("[ab]"), []byte("{a,b}"), []byte("a"))
	f.Fuzz(func(t *testing.T, p, g, q []byte) {
		if len(p) > 16 || len(g) > 16 || len(q) > 16 {
			return
		}
		const letters = "ab/*?[]{},!-."
		pattern, shell, path := fuzzed(p, letters), path.Clean(fuzzed(g, letters)), path.Clean(fuzzed(q, "ab/."))
		if outside(path) || outside(shell) || strings.HasPrefix(pattern, "/") || strings.HasPrefix(shell, "/") || strings.HasPrefix(path, "/") || path == "." {
			return
		}
		// For rules "a." counts as "a", for machines where it is the same file. No
		// shell expands a pattern to it there.
		if slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.HasSuffix(name, ".") }) {
			return
		}
		rules, err := compilePath(pattern, true)
		if err != nil {
			return
		}
		at := place{workspace: "/ws"}.locate(shell, nil)
		glob := parseShellGlob(&at)
		// What the shell could expand to: the names of the path, one by one.
		expands := false
		for _, steps := range glob.alternatives {
			names := append([]string{"ws"}, strings.Split(path, "/")...)
			if len(names) != len(steps) {
				continue
			}
			fits := true
			for i := range names {
				hidden := i > 0 && names[i][0] == '.' && steps[i].name.Wild()
				fits = fits && steps[i].name.Match(names[i]) && !(hidden && !steps[i].deep)
			}
			expands = expands || fits
		}
		s := place{workspace: "/ws"}.targetAt(path, nil)
		for i := range rules {
			matches := rules[i].catches(&s)
			if expands && matches && !glob.caughtBy(&rules[i], &at, false, new(steps)) {
				t.Errorf("%q and %q both match %q and do not meet", pattern, shell, path)
			}
			if expands && !rules[i].covers(&s.location) && glob.coveredBy(&rules[i], &at) {
				t.Errorf("%q covers %q, which matches %q, and does not match that", pattern, shell, path)
			}
		}
	})
}

// TestManyPatterns counts what is done about a command of many patterns: there
// is an end to it, and what is not compared is asked about.
func TestManyPatterns(t *testing.T) {
	decide := func(n int) (d Decision, taken steps) {
		c := &Subject{Level: tools.WorkspaceWrite, Mode: tools.ModeAllow, Workspace: "/work/ws", Spec: &tools.Spec{Name: "bash", Level: tools.WorkspaceWrite}}
		for range n {
			c.Effects = append(c.Effects, tools.Effect{Kind: tools.ReadsPath, Path: "0*?*?*?*[a-z]*?*z", Glob: true})
		}
		among := new(shared)
		Builtin().decide(&d, c, nil, among)
		return d, among.steps
	}
	few, one := decide(1)
	if few.Action != Allow || one == 0 {
		t.Errorf("%+v after %d steps", few.Verdict, one)
	}
	many, all := decide(1_500)
	if many.Action != Ask || all > maxSteps || all < one {
		t.Errorf("%+v after %d steps", many.Verdict, all)
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"a/{b,c}/**", "[!a-z]*", `\{`, "git push *", `make 'a b' "c"`, "*.example.com:443", "10.0.0.0/8", "~/x", "//", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		if patterns, err := compilePath(text, true); err == nil {
			for _, path := range []string{".", text, "a/b", "/etc/x", "/home/u/x"} {
				s := place{"/ws", "/home/u"}.targetAt(path, nil)
				for i := range patterns {
					covers, catches := patterns[i].covers(&s.location), patterns[i].catches(&s)
					if covers && !catches {
						t.Errorf("%q covers %q and does not catch it", text, path)
					}
					patterns[i].catchesBelow(&s)
				}
			}
			at := place{workspace: "/ws"}.locate(text, nil)
			g := parseShellGlob(&at)
			for i := range patterns {
				g.caughtBy(&patterns[i], &at, true, new(steps))
				g.coveredBy(&patterns[i], &at)
			}
		}
		if c, err := compileCommand(text); err == nil && len(c.words) > 0 {
			if !c.covers(c.words) || !c.catches(c.words, programName(c.words[0])) {
				t.Errorf("%q does not match itself", text)
			}
		}
		if folded := fold(text); fold(folded) != folded && fold(fold(folded)) != fold(folded) {
			t.Errorf("%q folds to %q and on to %q", text, folded, fold(folded))
		}
		compileHost(text)
		looseAddr(text)
	})
}
