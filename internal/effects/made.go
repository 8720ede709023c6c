// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// maxCompared is how often something that a call makes is held against a tree that it brings.
const maxCompared = 1 << 22

// A made thing is what a command of the call makes.
type made struct {
	tools.Effect
	link bool // another name of something
}

// filled is what the commands of a call make in a tree.
type filled struct {
	names []string // as they are seen from its top
	trees bool     // also things that are known by their names, and not by where in it they are
	links bool     // also what is somewhere else
}

// note notes what the commands of a call make. Their order does not count, for a loop runs the first
// one again after the last one.
func (x *examination) note(effects []tools.Effect, commands []*command) {
	x.made, x.fills = nil, nil
	if !slices.ContainsFunc(commands, func(c *command) bool { return c.copies }) {
		return
	}
	for i, e := range effects {
		by := commands[i]
		if e.Kind == tools.WritesPath && filepath.IsLocal(e.Path) && !(by.keeps && (e.Tree || e.Glob)) && !by.takes(e) {
			x.made = append(x.made, made{e, by.links})
		}
	}
}

// takes reports whether an effect is that of a tree which goes where mv moves it.
func (c *command) takes(e tools.Effect) bool {
	if !c.copies || !e.Tree {
		return false
	}
	sources := c.sourcesOf(cmp.Or(e.Named, e.Path))
	return len(sources) == 1 && sources[0].Path == e.Path && sources[0].Glob == e.Glob
}

// filled returns what the commands of the call make below a path.
func (x *examination) filled(path string) *filled {
	if f := x.fills[path]; f != nil {
		return f
	}
	f := new(filled)
	if x.compared += len(x.made); x.compared > maxCompared {
		f.trees = len(x.made) > 0
		return f
	}
	for _, m := range x.made {
		rest, in := below(path, m.Path)
		_, around := below(m.Path, path)
		switch {
		case m.Glob:
			f.trees = f.trees || meets(m.Path, path)
		case !in && !(around && (m.Tree || m.link)):
		case m.link:
			f.links = true
		case m.Tree:
			f.trees = true
		case rest != "":
			f.names = append(f.names, rest)
		}
	}
	if x.fills == nil {
		x.fills = make(map[string]*filled)
	}
	x.fills[path] = f
	return f
}

// below returns how a path goes on that is a directory or lies below it.
func below(dir, path string) (rest string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, prefixOf(dir))
}

// meets reports whether a pattern may name a path, what is above it or what is below it.
func meets(pattern, path string) bool {
	if path == "." {
		return true
	}
	parts, names := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i := range min(len(parts), len(names)) {
		text, plain := plainPart(parts[i])
		switch {
		case parts[i] == "**":
			return true
		case plain && text != names[i], !plain && !matchPart(parts[i], names[i]):
			return false
		}
	}
	return true
}

// putsTree reports whether a command may put a directory at a path, which it calls name.
func (x *examination) putsTree(top, name string, by *command) bool {
	if by == nil || !by.copies {
		return false
	}
	return slices.ContainsFunc(by.sourcesOf(name), func(source tools.Effect) bool {
		if source.Glob || !filepath.IsLocal(source.Path) {
			return true
		}
		put, made := x.tree(source.Path, top, false), x.filled(source.Path)
		return source.Path != top && (put.dir || !put.all || made.trees || made.links || len(made.names) > 0)
	})
}
