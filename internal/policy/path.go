// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
)

// A pathPattern is one pattern for paths, without alternatives. It matches a
// path where it matches the path or a directory above it, so a pattern stands
// for a directory and everything below.
type pathPattern struct {
	text string
	from root

	// open says that the pattern may begin at any depth. runs are the names that
	// follow each other; between two runs there may be any number of directories.
	open bool
	runs [][]glob

	// folded is the same for folded paths; nil for a pattern that allows. same
	// says that it is no different.
	folded *pathPattern
	same   bool
}

// A root is what a pattern begins at.
type root uint8

const (
	fromWorkspace root = iota
	fromSlash
	fromHome
)

const maxAlternatives = 256

// compilePath compiles a pattern for paths: one pattern for each alternative
// between braces. One that forbids matches folded paths as well.
func compilePath(text string, forbids bool) ([]pathPattern, error) {
	if text == "" {
		return nil, errors.New("is empty")
	}
	if len(text) > 4096 {
		return nil, fmt.Errorf("has %d bytes: at most 4096", len(text))
	}
	alternatives, err := expandBraces(text)
	if err != nil {
		return nil, err
	}
	var patterns []pathPattern
	for _, alternative := range alternatives {
		p, err := compileAlternative(alternative, false)
		if err != nil {
			return nil, err
		}
		if forbids {
			folded, err := compileAlternative(alternative, true)
			if err != nil {
				return nil, err
			}
			p.folded, p.same = &folded, reflect.DeepEqual(p.runs, folded.runs)
		}
		p.text = text
		patterns = append(patterns, p)
	}
	return patterns, nil
}

// expandBraces returns the alternatives of a pattern.
func expandBraces(text string) ([]string, error) {
	done, todo := []string(nil), []string{text}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		before, options, after, err := cutBraces(next)
		if err != nil {
			return nil, err
		}
		if options == nil {
			done = append(done, next)
			continue
		}
		var more []string
		for _, option := range options {
			more = append(more, before+option+after)
		}
		todo = append(more, todo...)
		if len(done)+len(todo) > maxAlternatives {
			return nil, fmt.Errorf("has more than %d alternatives", maxAlternatives)
		}
	}
	return done, nil
}

// cutBraces cuts a pattern around its first braces; options is nil where there
// are none.
func cutBraces(text string) (before string, options []string, after string, err error) {
	open, depth, start := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			if _, rest, err := compileSet(text[i+1:]); err == nil {
				i = len(text) - len(rest) - 1
			}
		case '{':
			if depth++; depth == 1 {
				open, start = i, i+1
			}
		case ',':
			if depth == 1 {
				options, start = append(options, text[start:i]), i+1
			}
		case '}':
			if depth--; depth < 0 {
				return "", nil, "", errors.New("has a } without its {")
			}
			if depth == 0 {
				return text[:open], append(options, text[start:i]), text[i+1:], nil
			}
		}
	}
	if depth > 0 {
		return "", nil, "", errors.New("has a { without its }")
	}
	return "", nil, "", nil
}

func compileAlternative(text string, folded bool) (pathPattern, error) {
	var p pathPattern
	rest := text
	switch {
	case strings.HasPrefix(text, "/"):
		p.from = fromSlash
	case text == "~" || strings.HasPrefix(text, "~/"):
		p.from, rest = fromHome, text[1:]
	case strings.HasPrefix(text, "~"):
		return p, errors.New("names the home of another user: write the path")
	}
	names, err := splitNames(rest)
	if err != nil {
		return p, err
	}
	// A single name is looked for at any depth, unless ./ keeps it at the top.
	p.open = p.from == fromWorkspace && len(names) == 1 && !strings.HasPrefix(text, "./") && names[0] != "."
	var run []glob
	flush := func() {
		if len(run) > 0 {
			p.runs, run = append(p.runs, run), nil
		}
	}
	for _, name := range names {
		switch {
		case name == "." || name == "*" && len(names) == 1 && p.open:
		case name == "..":
			return p, errors.New("has .. in it: write the path from its beginning")
		case name == "**":
			p.open = p.open || len(p.runs) == 0 && len(run) == 0
			flush()
		case strings.Contains(name, "**"):
			return p, errors.New("has ** beside other characters: it stands for directories, between slashes")
		default:
			g, err := compileGlob(name, folded)
			if err != nil {
				return p, err
			}
			run = append(run, g)
		}
	}
	flush()
	return p, nil
}

// splitNames splits a pattern at its slashes.
func splitNames(text string) ([]string, error) {
	var names []string
	start := 0
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i < len(text) && text[i] == '/' {
				return nil, errors.New(`has a \ before a /`)
			}
		case '[':
			_, rest, err := compileSet(text[i+1:])
			if err != nil {
				return nil, err
			}
			i = len(text) - len(rest) - 1
		case '/':
			add(text[start:i])
			start = i + 1
		}
	}
	add(text[start:])
	return names, nil
}

// A location is a path in two parts, the second below the first, so that a path
// of the workspace can be seen from / without joining anything. Neither part
// begins with a slash.
type location struct{ above, below string }

// next takes the first name off; ok is false where there is none.
func (l location) next() (name string, rest location, ok bool) {
	if l.above != "" {
		name, rest.above, _ = strings.Cut(l.above, "/")
		rest.below = l.below
		return name, rest, true
	}
	if l.below != "" {
		name, rest.below, _ = strings.Cut(l.below, "/")
		return name, rest, true
	}
	return "", l, false
}

// after returns what of the location is below dir.
func (l location) after(dir string) (location, bool) {
	for dir = strings.TrimPrefix(dir, "/"); dir != ""; {
		var want string
		want, dir, _ = strings.Cut(dir, "/")
		name, rest, ok := l.next()
		if !ok || name != want {
			return l, false
		}
		l = rest
	}
	return l, true
}

// match reports whether the pattern matches a location, seen from where the
// pattern begins. No run ever has to be tried again: what follows the last one
// is covered, and of a run in the middle the first place it fits is the best.
func (p *pathPattern) match(at location) bool {
	for i, run := range p.runs {
		rest, ok := cutRun(run, at)
		for !ok && (i > 0 || p.open) {
			var more bool
			if _, at, more = at.next(); !more {
				return false
			}
			rest, ok = cutRun(run, at)
		}
		if !ok {
			return false
		}
		at = rest
	}
	return true
}

func cutRun(run []glob, at location) (location, bool) {
	for i := range run {
		name, rest, ok := at.next()
		if !ok || !run[i].match(name) {
			return at, false
		}
		at = rest
	}
	return at, true
}

// matchBelow reports whether the pattern could match something below the
// location, though it does not match the location.
func (p *pathPattern) matchBelow(at location) bool {
	if p.open || len(p.runs) == 0 {
		return true
	}
	for i := range p.runs[0] {
		name, rest, ok := at.next()
		if !ok {
			return true
		}
		if !p.runs[0][i].match(name) {
			return false
		}
		at = rest
	}
	return len(p.runs) > 1
}

// A spot is a path of an effect, and what paths are seen from.
type spot struct {
	path            string // clean: relative inside the workspace, absolute outside
	workspace, home string // absolute, or unknown
}

// newSpot makes a spot of a path, whichever way it leads into the workspace or
// out of it.
func newSpot(p, workspace, home string) spot {
	p = cleanPath(p)
	if workspace != "" {
		if p == ".." || strings.HasPrefix(p, "../") {
			p = path.Join(workspace, p)
		}
		if below, ok := strings.CutPrefix(p, workspace); ok {
			if below == "" {
				p = "."
			} else if below[0] == '/' {
				p = below[1:]
			}
		}
	}
	return spot{p, workspace, home}
}

func (s *spot) inside() bool { return !outside(s.path) }

// outside reports whether a clean path leads out of the workspace.
func outside(p string) bool {
	return strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../")
}

// relative is a path of the workspace as a location.
func relative(p string) location {
	if p == "." {
		return location{}
	}
	return location{below: p}
}

// absolute is the spot seen from /; ok is false where that is not known.
func (s *spot) absolute() (at location, ok bool) {
	if strings.HasPrefix(s.path, "/") {
		return location{below: strings.TrimPrefix(s.path, "/")}, true
	}
	at = relative(s.path)
	at.above = strings.TrimPrefix(s.workspace, "/")
	return at, s.workspace != "" && s.inside()
}

// above reports whether dir, which is absolute, lies at or below the spot.
func (s *spot) above(dir string) bool {
	at, ok := s.absolute()
	for dir = strings.TrimPrefix(dir, "/"); ok; {
		var want, name string
		if name, at, ok = at.next(); !ok {
			return true
		}
		if want, dir, _ = strings.Cut(dir, "/"); want != name {
			return false
		}
	}
	return false
}

// A sight is a spot as it is written and folded.
type sight struct {
	spot
	folded spot
	same   bool // folding changes nothing
}

func newSight(s spot) sight {
	folded := spot{fold(s.path), s.workspace, s.home}
	if folded.workspace != "" {
		folded.workspace = fold(s.workspace)
	}
	if folded.home != "" {
		folded.home = fold(s.home)
	}
	return sight{spot: s, folded: folded, same: folded == s}
}

// locate calls test with each location the pattern could see the spot at, until
// it says yes. A pattern that allows sees fewer.
func (p *pathPattern) locate(s *spot, allows bool, test func(*pathPattern, location) bool) bool {
	if p.from == fromWorkspace {
		if s.inside() {
			return test(p, relative(s.path))
		}
		// What is forbidden by name is forbidden everywhere.
		return !allows && p.open && test(p, location{below: strings.TrimPrefix(s.path, "/")})
	}
	at, known := s.absolute()
	if !known {
		return false
	}
	if p.from == fromSlash {
		return test(p, at)
	}
	if s.home != "" {
		if below, ok := at.after(s.home); ok && test(p, below) {
			return true
		}
	}
	if allows {
		return false
	}
	if below, ok := at.after("root"); ok && test(p, below) {
		return true
	}
	for _, homes := range []string{"home", "Users", "users"} {
		if below, ok := at.after(homes); ok {
			_, below, _ = below.next()
			return test(p, below)
		}
	}
	return false
}

// covers reports whether a pattern that allows matches the spot.
func (p *pathPattern) covers(s *spot) bool { return p.locate(s, true, (*pathPattern).match) }

// catches reports whether a pattern that forbids matches the path, as it is
// written or folded.
func (p *pathPattern) catches(s *sight) bool {
	if p.locate(&s.spot, false, (*pathPattern).match) {
		return true
	}
	return !(p.same && s.same) && p.folded.locate(&s.folded, false, (*pathPattern).match)
}

// catchesBelow reports whether a pattern that forbids could match something
// below the path.
func (p *pathPattern) catchesBelow(s *sight) bool {
	switch p.from {
	case fromWorkspace:
		if !s.inside() && s.above(s.workspace) {
			return true
		}
	case fromHome:
		if s.home != "" && s.above(s.home) || s.above("/root") || s.above("/home") || s.above("/Users") {
			return true
		}
	}
	if p.locate(&s.spot, false, (*pathPattern).matchBelow) {
		return true
	}
	return !(p.same && s.same) && p.folded.locate(&s.folded, false, (*pathPattern).matchBelow)
}

// cleanPath returns the shortest form of a path. Most have it already.
func cleanPath(p string) string {
	start := true
	for i := range len(p) {
		if start && (p[i] == '.' || p[i] == '/' && i > 0) || p[i] == '/' && i+1 == len(p) && i > 0 {
			return path.Clean(p)
		}
		start = p[i] == '/'
	}
	if p == "" {
		return "."
	}
	return p
}
