// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/search"
)

// The reference finds what the engine should find, as simply as can be: it goes
// through directories one by one, reads every file, and tries every line. It
// shares no code with the engine.

// reference returns the files of a scope, by path.
func reference(root string, s search.Scope) []string {
	var found []string
	r := &referenceWalk{root: root, scope: s}
	start := s.Path
	if start == "" {
		start = "."
	}
	if info, err := os.Lstat(filepath.Join(root, start)); err == nil && info.Mode().IsRegular() {
		return []string{start}
	}
	var above []referenceDir
	if start != "." {
		at := "."
		for _, part := range strings.Split(start, "/") {
			above = r.enter(at, above)
			at = path.Join(at, part)
		}
	}
	r.walk(start, above, 0, &found)
	slices.Sort(found)
	return found
}

type referenceWalk struct {
	root  string
	scope search.Scope
}

// referenceDir is what a directory has of ignore files: nil where there is none.
type referenceDir struct {
	path  string
	git   bool
	rules map[string][]string // by file name
}

func (r *referenceWalk) enter(dir string, above []referenceDir) []referenceDir {
	d := referenceDir{path: dir, rules: make(map[string][]string)}
	if _, err := os.Lstat(filepath.Join(r.root, dir, ".git")); err == nil {
		d.git = true
	}
	for _, name := range []string{".rgignore", ".ignore", ".gitignore", ".git/info/exclude"} {
		text, err := os.ReadFile(filepath.Join(r.root, dir, name))
		if err == nil {
			d.rules[name] = strings.Split(strings.TrimPrefix(string(text), "\uFEFF"), "\n")
		}
	}
	return append(slices.Clone(above), d)
}

func (r *referenceWalk) walk(dir string, above []referenceDir, depth int, found *[]string) {
	if r.scope.MaxDepth > 0 && depth >= r.scope.MaxDepth {
		return
	}
	dirs := r.enter(dir, above)
	entries, err := os.ReadDir(filepath.Join(r.root, dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		full := path.Join(dir, e.Name())
		if !e.IsDir() && !e.Type().IsRegular() || !r.chosen(full, e.IsDir(), dirs) {
			continue
		}
		if e.IsDir() {
			r.walk(full, dirs, depth+1, found)
			continue
		}
		if m := r.scope.Match; m != "" {
			rel := full
			if r.scope.Path != "" && r.scope.Path != "." {
				rel = strings.TrimPrefix(full, r.scope.Path+"/")
			}
			if referenceOverrides([]string{m}, rel, false) != 1 {
				continue
			}
		}
		*found = append(*found, full)
	}
}

// chosen decides as ripgrep does: -1 leaves out, 1 takes in, 0 says nothing.
func (r *referenceWalk) chosen(full string, dir bool, dirs []referenceDir) bool {
	if r.scope.Exclude != nil && r.scope.Exclude(full) {
		return false
	}
	if v := referenceOverrides(r.scope.Globs, full, dir); v != 0 {
		return v > 0
	}
	shown := false
	if !r.scope.NoIgnore {
		v := referenceIgnored(full, dir, dirs)
		if v < 0 {
			return false
		}
		shown = v > 0
	}
	return shown || r.scope.Hidden || !strings.HasPrefix(path.Base(full), ".")
}

func referenceIgnored(full string, dir bool, dirs []referenceDir) int {
	for _, name := range []string{".rgignore", ".ignore", ".gitignore", ".git/info/exclude"} {
		for _, d := range slices.Backward(dirs) {
			rel := full
			if d.path != "." {
				rel = strings.TrimPrefix(full, d.path+"/")
			}
			for _, line := range slices.Backward(d.rules[name]) {
				if v := referenceRule(line, rel, dir); v != 0 {
					return v
				}
			}
			if d.git && strings.HasPrefix(name, ".git") {
				break
			}
		}
	}
	return 0
}

// referenceRule follows git's dir.c.
func referenceRule(line, rel string, dir bool) int {
	line = strings.TrimSuffix(line, "\r")
	if strings.HasPrefix(line, "#") {
		return 0
	}
	for strings.HasSuffix(line, " ") {
		slashes := len(line[:len(line)-1]) - len(strings.TrimRight(line[:len(line)-1], `\`))
		if slashes%2 == 1 {
			break
		}
		line = line[:len(line)-1]
	}
	verdict := -1
	if strings.HasPrefix(line, "!") {
		verdict, line = 1, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		if !dir {
			return 0
		}
		line = line[:len(line)-1]
	}
	if line == "" {
		return 0
	}
	if !strings.Contains(line, "/") {
		if referenceWild(line, path.Base(rel), false, true) {
			return verdict
		}
		return 0
	}
	line = strings.TrimPrefix(line, "/")
	prefix := strings.IndexAny(line, `*?[\`)
	if prefix < 0 {
		prefix = len(line)
	}
	if !strings.HasPrefix(rel, line[:prefix]) {
		return 0
	}
	if referenceWild(line[prefix:], rel[prefix:], true, true) {
		return verdict
	}
	return 0
}

// referenceWild follows git's wildmatch.c, by trying everything.
func referenceWild(p, s string, paths, atStart bool) bool {
	for len(p) > 0 {
		switch p[0] {
		case '*':
			stars := len(p) - len(strings.TrimLeft(p, "*"))
			rest := p[stars:]
			any := !paths
			if paths && stars > 1 && atStart && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
				any = true
				if rest != "" && rest[0] == '/' && referenceWild(rest[1:], s, paths, true) {
					return true
				}
			}
			for i := 0; ; i++ {
				if referenceWild(rest, s[i:], paths, false) {
					return true
				}
				if i == len(s) || !any && s[i] == '/' {
					return false
				}
			}
		case '?':
			if s == "" || paths && s[0] == '/' {
				return false
			}
			p, s, atStart = p[1:], s[1:], false
		case '[':
			end, in := referenceClass(p, s)
			if s == "" || end == 0 || !in || paths && s[0] == '/' {
				return false
			}
			p, s, atStart = p[end:], s[1:], false
		case '\\':
			if p = p[1:]; p == "" {
				return false
			}
			fallthrough
		default:
			if s == "" || s[0] != p[0] {
				return false
			}
			atStart = p[0] == '/'
			p, s = p[1:], s[1:]
		}
	}
	return s == ""
}

func referenceClass(p, s string) (end int, in bool) {
	// A class of package regexp says the same, once it is put into its syntax.
	i := 1
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	var c byte
	if s != "" {
		c = s[0]
	}
	last := -1
	for first := true; ; first = false {
		if i >= len(p) {
			return 0, false
		}
		if p[i] == ']' && !first {
			return i + 1, in != negated
		}
		b := p[i]
		switch {
		case b == '[' && strings.HasPrefix(p[i:], "[:") && strings.Contains(p[i+2:], "]"):
			name := p[i+2:]
			name = name[:strings.Index(name, "]")]
			if !strings.HasSuffix(name, ":") {
				in = in || c == '['
				last = '['
				i++
				continue
			}
			re, err := regexp.Compile("^[[:" + name + "]]$")
			if err != nil || name == "^:" || strings.HasPrefix(name, "^") || name == "word:" || name == "ascii:" {
				return 0, false
			}
			if name == "space:" && (c == '\v' || c == '\f') {
				re = regexp.MustCompile("$^x")
			}
			in = in || re.MatchString(string(rune(c)))
			i += 2 + len(name) + 1
			last = -1
			continue
		case b == '-' && last >= 0 && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' {
				if i++; i >= len(p) {
					return 0, false
				}
			}
			in = in || int(c) >= last && c <= p[i]
			last = -1
			i++
			continue
		case b == '\\':
			if i++; i >= len(p) {
				return 0, false
			}
			b = p[i]
		case b == '[' && strings.HasPrefix(p[i:], "[:"):
			return 0, false
		}
		in = in || c == b
		last = int(b)
		i++
	}
}

// referenceOverrides is what -g says: the last glob that matches decides.
func referenceOverrides(globs []string, full string, dir bool) int {
	includes := false
	for _, g := range globs {
		includes = includes || !strings.HasPrefix(g, "!")
	}
	for _, g := range slices.Backward(globs) {
		verdict := 1
		if strings.HasPrefix(g, "!") {
			verdict, g = -1, g[1:]
		}
		if strings.HasSuffix(g, "/") {
			if !dir {
				continue
			}
			g = g[:len(g)-1]
		}
		anchored := strings.Contains(g, "/")
		g = strings.TrimPrefix(g, "/")
		if !anchored && g != "**" {
			g = "**/" + g
		}
		if strings.HasSuffix(g, "/**") {
			g += "/*"
		}
		if referenceGlob(g).MatchString(full) {
			return verdict
		}
	}
	if includes && !dir {
		return -1
	}
	return 0
}

// referenceGlob turns a glob into a regular expression.
func referenceGlob(g string) *regexp.Regexp {
	var re strings.Builder
	re.WriteString(`(?s)^`)
	depth := 0
	if g == "**" {
		return regexp.MustCompile(`(?s)^.*$`)
	}
	for i := 0; i < len(g); i++ {
		switch c := g[i]; c {
		default:
			re.WriteString(regexp.QuoteMeta(g[i : i+1])) // of a character byte by byte
		case '?':
			re.WriteString(`[^/]`)
		case '*':
			switch {
			case strings.HasPrefix(g[i:], "**/") && i == 0:
				re.WriteString(`(?:.*/)?`)
				for strings.HasPrefix(g[i:], "**/") {
					i += 3
				}
				i--
			case strings.HasPrefix(g[i:], "**/") && g[i-1] == '/':
				re.WriteString(`(?:.*/)?`)
				for strings.HasPrefix(g[i:], "**/") {
					i += 3
				}
				i--
			case i > 0 && g[i-1] == '/' && (g[i:] == "**" || depth > 0 && (strings.HasPrefix(g[i:], "**,") || strings.HasPrefix(g[i:], "**}"))):
				re.WriteString(`.*`)
				i++
			default:
				re.WriteString(`[^/]*`)
			}
		case '[':
			end := strings.IndexByte(g[i+2:], ']') + 2
			if end < 2 {
				re.WriteString(`\[`)
				continue
			}
			class := g[i+1 : i+end]
			re.WriteByte('[')
			if class[0] == '!' || class[0] == '^' {
				re.WriteByte('^')
				class = class[1:]
			}
			re.WriteString(class + `]`)
			i += end
		case '{':
			depth++
			re.WriteString(`(?:`)
		case '}':
			depth--
			re.WriteString(`)`)
		case ',':
			if depth > 0 {
				c = '|'
			}
			re.WriteByte(c)
		case '\\':
			i++
			re.WriteString(regexp.QuoteMeta(g[i : i+1]))
		}
	}
	return regexp.MustCompile(re.String() + `$`)
}

// referenceLine is a line that is found.
type referenceLine struct {
	number  int
	text    string
	context bool
}

// referenceGrep returns the lines of a text that match, with those around them.
// It returns false for a text that is none.
func referenceGrep(text []byte, p search.Pattern, o search.Options) (lines []referenceLine, count int, ok bool) {
	text = bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, 0, false
	}
	if len(text) == 0 {
		return nil, 0, true
	}
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	match := referenceMatcher(p)
	show := make([]int, len(all)) // 1 for context, 2 for a match
	for i, line := range all {
		if match(line) == p.Invert {
			continue
		}
		if count++; o.MaxPerFile > 0 && count > o.MaxPerFile {
			count--
			break
		}
		show[i] = 2
		for k := max(0, i-o.Before); k <= min(len(all)-1, i+o.After); k++ {
			show[k] = max(show[k], 1)
		}
	}
	for i, line := range all {
		if show[i] > 0 {
			lines = append(lines, referenceLine{i + 1, line, show[i] == 1})
		}
	}
	return lines, count, true
}

func referenceMatcher(p search.Pattern) func(line string) bool {
	text := p.Text
	if p.Literal {
		text = regexp.QuoteMeta(text)
	}
	fold := p.IgnoreCase
	if p.SmartCase && strings.ToLower(p.Text) == p.Text {
		fold = true
	}
	flags := ""
	if fold {
		flags = "(?i)"
	}
	switch {
	case p.WholeLine:
		return regexp.MustCompile(flags + `^(?:` + text + `)$`).MatchString
	case !p.Word:
		return regexp.MustCompile(flags + text).MatchString
	}
	// Every part of the line is tried.
	re := regexp.MustCompile(flags + `^(?:` + text + `)$`)
	word := func(r rune, size int) bool {
		return size > 0 && (r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc))
	}
	inside := func(line string, i int) bool { return i < len(line) && !utf8.RuneStart(line[i]) }
	return func(line string) bool {
		for i := 0; i <= len(line); i++ {
			if inside(line, i) || word(utf8.DecodeLastRuneInString(line[:i])) {
				continue
			}
			for k := i; k <= len(line); k++ {
				if !inside(line, k) && !word(utf8.DecodeRuneInString(line[k:])) && re.MatchString(line[i:k]) {
					return true
				}
			}
		}
		return false
	}
}
