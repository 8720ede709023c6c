// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package ignore knows what ignore files say about the names in a directory:
// .gitignore as git reads it, and .ignore and .rgignore as ripgrep does.
package ignore

import (
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
)

// A Match is what the patterns say about a name.
type Match uint8

const (
	Undecided Match = iota
	Ignored
	Wanted // by a pattern that takes another back
)

// A pattern is one line of an ignore file.
type pattern struct {
	kind    patternKind
	negated bool
	dirOnly bool
	text    string // literal, suffix or the literal beginning of a path
	pattern *glob.Ignore
}

type patternKind uint8

const (
	isName    patternKind = iota // the name is text
	endsName                     // the name ends with text
	matchName                    // the name matches pattern
	isPath                       // the path is text
	matchPath                    // the path begins with text, and the rest matches pattern
)

// A patternList is an ignore file, and those of the same kind above it that hold
// as well. It never changes.
type patternList struct {
	above    *patternList
	dir      string // the directory of the file, with a slash after it; empty for the workspace
	patterns []pattern
	names    map[string]int // of the patterns for one name: the last one, by name
	other    []int          // the patterns that are not among them
}

// parsePatterns reads an ignore file as git does.
func parsePatterns(text, dir string, above *patternList) *patternList {
	l := &patternList{above: above, dir: dir}
	text = strings.TrimPrefix(text, "\uFEFF")
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\r"), "\x00")
		r, ok := parseRule(trimSpaces(line))
		if !ok {
			continue
		}
		i := len(l.patterns)
		l.patterns = append(l.patterns, r)
		if r.kind == isName && !r.dirOnly {
			if l.names == nil {
				l.names = make(map[string]int)
			}
			l.names[r.text] = i
			continue
		}
		l.other = append(l.other, i)
	}
	if len(l.patterns) == 0 {
		return above
	}
	return l
}

// trimSpaces removes spaces from the end of a line, unless they are quoted.
func trimSpaces(line string) string {
	spaces := -1
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if spaces < 0 {
				spaces = i
			}
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		spaces = -1
	}
	if spaces >= 0 {
		return line[:spaces]
	}
	return line
}

// special are the characters that make a text a pattern.
const special = `*?[\`

// parseRule reads a line. It returns false where the line matches nothing.
func parseRule(line string) (r pattern, ok bool) {
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return r, false
	}
	if !strings.Contains(line, "/") {
		switch {
		case !strings.ContainsAny(line, special):
			r.kind, r.text = isName, line
			return r, true
		case line[0] == '*' && !strings.ContainsAny(line[1:], special):
			r.kind, r.text = endsName, line[1:]
			return r, true
		}
		r.kind = matchName
		return r, r.compile(line, false)
	}
	line = strings.TrimPrefix(line, "/")
	wild := strings.IndexAny(line, special)
	if wild < 0 {
		r.kind, r.text = isPath, line
		return r, true
	}
	// The beginning is compared before the pattern is matched. As in git, ** right
	// after it counts as the beginning of a pattern.
	r.kind, r.text = matchPath, line[:wild]
	return r, r.compile(line[wild:], true)
}

func (r *pattern) compile(pattern string, paths bool) bool {
	var ok bool
	r.pattern, ok = glob.CompileIgnore(pattern, paths)
	return ok
}

func (r *pattern) match(path, name string) bool {
	switch r.kind {
	case isName:
		return name == r.text
	case endsName:
		return strings.HasSuffix(name, r.text)
	case matchName:
		return r.pattern.Match(name)
	case isPath:
		return path == r.text
	}
	rest, ok := strings.CutPrefix(path, r.text)
	return ok && r.pattern.Match(rest)
}

// judge returns what the nearest file with a pattern for it says about a path of
// the workspace.
func (l *patternList) judge(path, name string, dir bool) Match {
	for ; l != nil; l = l.above {
		last := -1
		if i, ok := l.names[name]; ok {
			last = i
		}
		for k := len(l.other) - 1; k >= 0 && l.other[k] > last; k-- {
			r := &l.patterns[l.other[k]]
			if (dir || !r.dirOnly) && r.match(path[len(l.dir):], name) {
				last = l.other[k]
				break
			}
		}
		if last < 0 {
			continue
		}
		if l.patterns[last].negated {
			return Wanted
		}
		return Ignored
	}
	return Undecided
}

// Patterns are all that hold in a directory. The zero value ignores nothing.
type Patterns struct {
	ripgrep, plain *patternList // .rgignore and .ignore
	git, exclude   *patternList // .gitignore and .git/info/exclude
}

// Match returns what the patterns say about a path of the workspace.
func (r *Patterns) Match(path, name string, dir bool) Match {
	for _, l := range [...]*patternList{r.ripgrep, r.plain, r.git, r.exclude} {
		if v := l.judge(path, name, dir); v != Undecided {
			return v
		}
	}
	return Undecided
}
