// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
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
	runs [][]glob.Name

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

// compilePath compiles a pattern for paths: one pattern for each alternative
// between braces. One that forbids matches folded paths as well.
func compilePath(text string, forbids bool) ([]pathPattern, error) {
	if text == "" {
		return nil, errors.New("is empty")
	}
	if len(text) > 4096 {
		return nil, fmt.Errorf("has %d bytes: at most 4096", len(text))
	}
	alternatives, err := glob.Expand(text)
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
	names, err := glob.Split(rest)
	if err != nil {
		return p, err
	}
	// A single name is looked for at any depth, unless ./ keeps it at the top.
	p.open = p.from == fromWorkspace && len(names) == 1 && !strings.HasPrefix(text, "./") && names[0] != "."
	var run []glob.Name
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
			n, err := glob.CompileName(name)
			if err != nil {
				return p, err
			}
			if folded {
				n = n.Fold(foldChar)
			}
			run = append(run, n)
		}
	}
	flush()
	return p, nil
}

// match reports whether the pattern matches names, from where it begins. No run
// ever has to be tried again: what follows the last one is covered, and of a run
// in the middle the first place it fits is the best.
func (p *pathPattern) match(names []string) bool {
	for i, run := range p.runs {
		for ; ; names = names[1:] {
			if len(names) < len(run) {
				return false
			}
			if fits(run, names) {
				break
			}
			if i == 0 && !p.open {
				return false
			}
		}
		names = names[len(run):]
	}
	return true
}

// fits reports whether a run fits the names as far as both go.
func fits(run []glob.Name, names []string) bool {
	for i := range min(len(run), len(names)) {
		if !run[i].Match(names[i]) {
			return false
		}
	}
	return true
}

// matchBelow reports whether the pattern could match something below names.
func (p *pathPattern) matchBelow(names []string) bool {
	return p.open || len(p.runs) == 0 || fits(p.runs[0], names) && (len(p.runs) > 1 || len(names) < len(p.runs[0]))
}

// A place is what paths are seen from: absolute, or "" where it is not known.
type place struct{ workspace, home string }

func (p place) folded() place { return place{fold(p.workspace), fold(p.home)} }

// A location is a path as patterns see it.
type location struct {
	place
	path  string   // clean: relative inside the workspace, absolute outside
	names []string // of the path, those of the workspace before them if known

	// Where the names begin that a pattern sees, or -1: from /, inside the
	// workspace, inside the home, and inside the home of anybody.
	root, inner, own, anybody int
}

// locate makes a location of a path, whichever way it leads into the workspace or
// out of it. The names are written to buffer as long as they fit.
func (p place) locate(text string, buffer []string) location {
	text = path.Clean(text)
	if p.workspace != "" {
		if text == ".." || strings.HasPrefix(text, "../") {
			text = path.Join(p.workspace, text)
		}
		if below, ok := strings.CutPrefix(text, strings.TrimSuffix(p.workspace, "/")); ok {
			if below == "" {
				text = "."
			} else if below[0] == '/' {
				text = below[1:]
			}
		}
	}
	s := location{place: p, path: text, names: buffer[:0], inner: -1, own: -1, anybody: -1}
	if outside(text) {
		s.names = appendNames(s.names, text)
	} else {
		s.names = appendNames(s.names, p.workspace)
		s.inner = len(s.names)
		s.names = appendNames(s.names, text)
	}
	if inside := s.inner >= 0; inside && p.workspace == "" || !inside && !strings.HasPrefix(text, "/") {
		s.root = -1 // nobody knows where that is
		return s
	}
	if p.home != "" {
		s.own = after(s.names, p.home)
	}
	if len(s.names) > 0 {
		switch s.names[0] {
		case "root":
			s.anybody = 1
		case "home", "Users", "users":
			s.anybody = min(2, len(s.names))
		}
	}
	return s
}

// outside reports whether a clean path leads out of the workspace.
func outside(p string) bool {
	return strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../")
}

func (s *location) inside() bool { return s.inner >= 0 }

// ours reports whether the location is in the workspace or in the home of the session,
// where nothing is but what its commands put there.
func (s *location) ours() bool { return s.inside() || s.own >= 0 }

// appendNames appends the names of a clean path.
func appendNames(names []string, p string) []string {
	if p == "." || p == "" {
		return names
	}
	start := 0
	for i := range len(p) {
		if p[i] == '/' {
			if i > start {
				names = append(names, p[start:i])
			}
			start = i + 1
		}
	}
	if start < len(p) {
		names = append(names, p[start:])
	}
	return names
}

// after returns how many names lead to dir, or -1 where they do not.
func after(names []string, dir string) int {
	n := 0
	for dir = strings.TrimPrefix(dir, "/"); dir != ""; n++ {
		var name string
		name, dir, _ = strings.Cut(dir, "/")
		if n == len(names) || names[n] != name {
			return -1
		}
	}
	return n
}

// above reports whether dir, which is absolute, lies at or below the location.
func (s *location) above(dir string) bool {
	if s.root < 0 || dir == "" {
		return false
	}
	for _, name := range s.names {
		var first string
		first, dir, _ = strings.Cut(strings.TrimPrefix(dir, "/"), "/")
		if first != name {
			return false
		}
	}
	return true
}

// A target is the location that an effect is about, as it is written and, when it is needed, folded.
type target struct {
	location
	same     bool // folding changes nothing of the path
	sameRoot bool // nor of where it is seen from
	foldedAs *location
}

func (p place) targetAt(text string, buffer []string) target {
	s := target{location: p.locate(text, buffer)}
	s.same, s.sameRoot = isFolded(s.path), isFolded(p.workspace) && isFolded(p.home)
	return s
}

func (s *target) folded() *location {
	if s.foldedAs == nil {
		folded := s.place.folded().locate(fold(s.path), nil)
		s.foldedAs = &folded
	}
	return s.foldedAs
}

// covers reports whether a pattern that allows matches the location.
func (p *pathPattern) covers(s *location) bool {
	at := s.root
	switch p.from {
	case fromWorkspace:
		at = s.inner
	case fromHome:
		at = s.own
	}
	return at >= 0 && p.match(s.names[at:])
}

// sees returns the names that a pattern that forbids sees of a location, from its
// workspace or from /.
func (p *pathPattern) sees(s *location) (names []string, ok bool) {
	switch {
	case p.from == fromSlash:
		return s.names, s.root >= 0
	case p.from == fromHome && s.own >= 0:
		return s.names[s.own:], true
	case p.from == fromHome && s.anybody >= 0:
		return s.names[s.anybody:], true
	case p.from == fromHome:
		return nil, false
	case s.inner >= 0:
		return s.names[s.inner:], true
	}
	return s.names, p.open // what is forbidden by name is so everywhere
}

// isName reports whether the pattern matches things by their names alone, wherever
// they are.
func (p *pathPattern) isName() bool {
	return p.open && len(p.runs) == 1 && len(p.runs[0]) == 1
}

// catches reports whether a pattern that forbids matches the path, as it is
// written or folded.
func (p *pathPattern) catches(s *target) bool {
	if names, ok := p.sees(&s.location); ok && p.match(names) {
		return true
	}
	if p.same && s.same && (p.from == fromWorkspace || s.sameRoot) {
		return false
	}
	names, ok := p.folded.sees(s.folded())
	return ok && p.folded.match(names)
}

// catchesBelow reports whether a pattern that forbids could match something
// below the path.
func (p *pathPattern) catchesBelow(s *target) bool {
	switch p.from {
	case fromWorkspace:
		if !s.inside() && s.above(s.workspace) {
			return true
		}
	case fromHome:
		if s.above(s.home) || s.above("/root") || s.above("/home") || s.above("/Users") {
			return true
		}
	}
	if names, ok := p.sees(&s.location); ok && p.matchBelow(names) {
		return true
	}
	names, ok := p.folded.sees(s.folded())
	return ok && p.folded.matchBelow(names)
}
