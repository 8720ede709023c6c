// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"maps"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxDirs  = 4  // directories a command may be in before nobody knows
	maxVars  = 64 // variables that are followed at a time
	maxValue = 4 << 10
)

// A state is what is known of the shell at one point of a command.
type state struct {
	// vars has the values that are known. What is not here may be anything.
	vars map[string]word

	// funcs has the functions that are defined.
	funcs map[string]function

	// dirs are the directories the shell may be in: workspace-relative or
	// absolute, nil where nobody knows. old is the one before.
	dirs, old []string
	stack     [][]string

	// params are the positional parameters, where paramsKnown is set.
	params      []word
	paramsKnown bool

	// stdin is what commands read, where it is a text that is known.
	stdin input

	// defined changes with funcs: states that have the same have the same funcs.
	defined *function

	sharedVars, sharedFuncs bool // the map belongs to another state too
	dead                    bool // no command gets here
}

// input is where standard input comes from.
type input struct {
	text  string
	known bool
	found *found // or names that find prints
}

// A function is what a name may stand for when it is called.
type function struct {
	bodies []*syntax.FuncDecl
	maybe  bool // or it is not defined
}

// fork returns a copy that can go its own way.
func (s *state) fork() *state {
	s.sharedVars, s.sharedFuncs = true, true
	c := *s
	return &c
}

// own makes the variables of s its own.
func (s *state) own() {
	if s.sharedVars {
		s.vars, s.sharedVars = maps.Clone(s.vars), false
	}
}

// ownFuncs makes the functions of s its own, to be changed.
func (s *state) ownFuncs() {
	if s.sharedFuncs {
		s.funcs, s.sharedFuncs = maps.Clone(s.funcs), false
	}
	s.defined = new(function)
}

func (s *state) set(name string, value word) {
	s.own()
	value.many = false
	if len(value.text) > maxValue || len(s.vars) >= maxVars || value.pipe || value.unknown && !value.number {
		delete(s.vars, name)
		return
	}
	if s.vars == nil {
		s.vars = make(map[string]word)
	}
	s.vars[name] = value
}

func (s *state) forget(names ...string) {
	for _, name := range names {
		if _, ok := s.vars[name]; ok {
			s.own()
			delete(s.vars, name)
		}
	}
}

func (s *state) forgetAll() {
	s.vars, s.sharedVars = nil, false
	s.params, s.paramsKnown = nil, false
}

func (s *state) define(decl *syntax.FuncDecl, name string) {
	s.ownFuncs()
	if s.funcs == nil {
		s.funcs = make(map[string]function)
	}
	s.funcs[name] = function{bodies: []*syntax.FuncDecl{decl}}
}

// join returns what is known where either a or b holds.
func join(a, b *state) *state {
	switch {
	case a == b, b.dead:
		return a
	case a.dead:
		return b
	case a.plain() && b.plain() && slices.Equal(a.dirs, b.dirs) && (a.dirs == nil) == (b.dirs == nil) && a.stdin == b.stdin:
		return a
	}
	j := a.fork()
	j.own()
	for name, value := range j.vars {
		if b.vars[name] != value {
			delete(j.vars, name)
		}
	}
	if a.defined != b.defined {
		j.joinFuncs(b)
	}
	j.dirs, j.old = union(a.dirs, b.dirs), union(a.old, b.old)
	if len(a.stack) != len(b.stack) || !slices.EqualFunc(a.stack, b.stack, slices.Equal) {
		j.stack = nil
	}
	if !slices.Equal(a.params, b.params) || !b.paramsKnown {
		j.params, j.paramsKnown = nil, false
	}
	if a.stdin != b.stdin {
		j.stdin = input{}
	}
	return j
}

func (s *state) joinFuncs(b *state) {
	s.ownFuncs()
	for name, f := range s.funcs {
		s.funcs[name] = either(f, b.funcs[name])
	}
	for name, f := range b.funcs {
		if _, ok := s.funcs[name]; !ok {
			if s.funcs == nil {
				s.funcs = make(map[string]function)
			}
			s.funcs[name] = either(f, function{})
		}
	}
}

// plain reports whether nothing but the directory is known.
func (s *state) plain() bool {
	return len(s.vars)+len(s.funcs)+len(s.stack)+len(s.old)+len(s.params) == 0 && !s.paramsKnown
}

func either(f, g function) function {
	both := function{bodies: slices.Clone(f.bodies), maybe: f.maybe || g.maybe || len(f.bodies) == 0 || len(g.bodies) == 0}
	for _, body := range g.bodies {
		if !slices.Contains(both.bodies, body) {
			both.bodies = append(both.bodies, body)
		}
	}
	return both
}

// union joins two lists of directories, of which nil is all.
func union(a, b []string) []string {
	if a == nil || b == nil {
		return nil
	}
	if slices.Equal(a, b) {
		return a
	}
	all := slices.Clone(a)
	for _, dir := range b {
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	if len(all) > maxDirs {
		return nil
	}
	return all
}
