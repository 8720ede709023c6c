// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/search/ignore"
)

// Scope says which files are meant. The zero value means all files of the
// workspace that are neither hidden nor ignored.
type Scope struct {
	// Path is the directory to look in, or the one file to look at, as
	// [workspace.Workspace.Resolve] returned it; empty for the whole workspace.
	// A file that is named is looked at whatever the rest of the scope says.
	Path string

	// Globs choose as ripgrep's -g does: they are relative to the workspace, those
	// that begin with ! leave files out, the last that matches wins, and what is
	// chosen by one is found even if it is hidden or ignored.
	Globs []string

	// Match chooses among what is found otherwise: of files that are hidden or
	// ignored it says nothing. It is relative to Path. A glob without a slash is
	// matched against names at any depth.
	Match string

	// Types and NotTypes choose by names of file types, as -t and -T do.
	Types, NotTypes []string

	Hidden   bool // also look at what begins with a dot
	NoIgnore bool // also look at what ignore files name
	Follow   bool // follow links that lead to something inside the workspace

	// MaxDepth is how many directories deep to go, 1 for Path alone; 0 means all.
	MaxDepth int

	// Exclude, if set, reports what must not be told of. What it says of a
	// directory it says of everything below. It must be safe for concurrent use.
	Exclude func(path string) bool
}

// A chooser is a compiled scope. It never changes.
type chooser struct {
	Scope
	overrides []override
	includes  bool // there are globs that choose
	match     *override
	matchFrom int // where in a path that begins what match is about
	types     []typeChoice
	someTypes bool
}

// An override is a glob as ripgrep's -g takes it.
type override struct {
	glob    *glob.Path
	exclude bool
	dirOnly bool
}

type typeChoice struct {
	globs   []*glob.Path
	exclude bool
}

// maxGlobs is how many globs and types a scope may have.
const maxGlobs = 256

func (s Scope) compile() (*chooser, error) {
	c := &chooser{Scope: s}
	c.Path = cmp.Or(c.Path, ".")
	if n := len(s.Globs) + len(s.Types) + len(s.NotTypes); n > maxGlobs {
		return nil, fmt.Errorf("%d globs and types: at most %d are allowed", n, maxGlobs)
	}
	for _, text := range s.Globs {
		o, err := newOverride(text)
		if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		c.overrides = append(c.overrides, *o)
		c.includes = c.includes || !o.exclude
	}
	if s.Match != "" {
		o, err := newOverride(s.Match)
		if err != nil {
			return nil, err
		}
		if o == nil || o.exclude {
			return nil, fmt.Errorf("glob %q: nothing can match it", s.Match)
		}
		c.match = o
		if c.Path != "." {
			c.matchFrom = len(c.Path) + 1
		}
	}
	for _, list := range []struct {
		names   []string
		exclude bool
	}{{s.Types, false}, {s.NotTypes, true}} {
		for _, name := range list.names {
			globs, err := typeGlobs(name)
			if err != nil {
				return nil, err
			}
			c.types = append(c.types, typeChoice{globs, list.exclude})
			c.someTypes = c.someTypes || !list.exclude
		}
	}
	return c, nil
}

// newOverride compiles a glob that may begin with a ! and end with a slash, as
// ripgrep's may. It returns nil for one that is empty.
func newOverride(text string) (*override, error) {
	var o override
	pattern := text
	if strings.HasPrefix(pattern, "#") {
		return nil, nil
	}
	if !strings.HasSuffix(pattern, `\ `) {
		pattern = strings.TrimRight(pattern, " \t\r\n")
	}
	if strings.HasPrefix(pattern, `\!`) || strings.HasPrefix(pattern, `\#`) {
		pattern = pattern[1:]
	} else {
		pattern, o.exclude = strings.CutPrefix(pattern, "!")
	}
	pattern, o.dirOnly = strings.CutSuffix(pattern, "/")
	if pattern == "" {
		return nil, nil
	}
	g, err := glob.CompileBelow(pattern)
	if err != nil {
		return nil, fmt.Errorf("glob %q %w", text, err)
	}
	o.glob = g
	return &o, nil
}

// excluded reports what must not be told of.
func (c *chooser) excluded(path string) bool { return c.Exclude != nil && c.Exclude(path) }

// override returns what the globs say about a path.
func (c *chooser) override(path string, dir bool) ignore.Match {
	for _, o := range slices.Backward(c.overrides) {
		if (dir || !o.dirOnly) && o.glob.Match(path) {
			if o.exclude {
				return ignore.Ignored
			}
			return ignore.Wanted
		}
	}
	if c.includes && !dir {
		return ignore.Ignored
	}
	return ignore.Undecided
}

// enters reports whether a directory is gone into; judged is what the ignore
// files say about it.
func (c *chooser) enters(path, name string, judged ignore.Match) bool {
	return c.chooses(path, name, judged, true)
}

// takes reports whether a file is meant.
func (c *chooser) takes(path, name string, judged ignore.Match) bool {
	return (c.match == nil || c.matches(path)) && c.chooses(path, name, judged, false)
}

// matches reports whether Match has nothing against a file.
func (c *chooser) matches(path string) bool {
	return !c.match.dirOnly && c.match.glob.Match(path[c.matchFrom:])
}

// chooses applies, in the order of ripgrep, globs, ignore files, types, and
// whether a name is hidden.
func (c *chooser) chooses(path, name string, judged ignore.Match, dir bool) bool {
	if c.overrides != nil {
		switch c.override(path, dir) {
		case ignore.Ignored:
			return false
		case ignore.Wanted:
			return !c.excluded(path)
		}
	}
	if c.NoIgnore {
		judged = ignore.Undecided
	}
	if judged == ignore.Ignored {
		return false
	}
	shown := judged == ignore.Wanted
	if c.types != nil && !dir {
		switch c.typed(name) {
		case ignore.Ignored:
			return false
		case ignore.Wanted:
			shown = true
		}
	}
	if !shown && !c.Hidden && name[0] == '.' {
		return false
	}
	return !c.excluded(path)
}

// typed returns what the types say about a file.
func (c *chooser) typed(name string) ignore.Match {
	for _, t := range slices.Backward(c.types) {
		if slices.ContainsFunc(t.globs, func(g *glob.Path) bool { return g.Match(name) }) {
			if t.exclude {
				return ignore.Ignored
			}
			return ignore.Wanted
		}
	}
	if c.someTypes {
		return ignore.Ignored
	}
	return ignore.Undecided
}
