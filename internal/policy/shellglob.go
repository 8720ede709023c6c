// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
)

// A shellGlob is a path that a shell will expand, in its alternatives.
type shellGlob struct {
	alternatives [][]step
	unknown      bool // it could be anything
}

// A step is a name on the way, or any number of directories.
type step struct {
	deep bool
	name glob.Name
}

// maxShellGlob is how many bytes all alternatives of a pattern may have. There
// is no need to understand a longer one: a person will look at it.
const maxShellGlob = 1024

// parseShellGlob takes the pattern of an effect apart. What cannot be
// understood may be anything.
func parseShellGlob(s *location) shellGlob {
	if len(s.path) > maxShellGlob {
		return shellGlob{unknown: true}
	}
	texts, err := glob.Expand(s.path)
	if err != nil {
		return shellGlob{unknown: true}
	}
	var g shellGlob
	bytes := 0
	for _, text := range texts {
		if bytes += len(text); bytes > maxShellGlob || strings.HasPrefix(text, "/") != strings.HasPrefix(s.path, "/") {
			return shellGlob{unknown: true}
		}
		steps := literalSteps(s.workspace)
		if strings.HasPrefix(text, "/") {
			steps = nil
		}
		names, err := glob.Split(text)
		if err != nil {
			return shellGlob{unknown: true}
		}
		for _, name := range names {
			if name == ".." {
				return shellGlob{unknown: true}
			}
			if name == "." {
				continue
			}
			compiled, err := glob.CompileName(name)
			if err != nil {
				return shellGlob{unknown: true}
			}
			steps = append(steps, step{deep: strings.Contains(name, "**"), name: compiled})
		}
		g.alternatives = append(g.alternatives, steps)
	}
	return g
}

func literalSteps(p string) []step {
	var steps []step
	for name := range strings.SplitSeq(p, "/") {
		if name != "" {
			steps = append(steps, step{name: glob.Text(name)})
		}
	}
	return steps
}

// caughtBy reports whether the glob could name something that a pattern
// forbids. It may say so where it could not.
func (g *shellGlob) caughtBy(p *pathPattern, s *location, tree bool, taken *steps) bool {
	if g.unknown {
		return true
	}
	for _, steps := range g.alternatives {
		if tree {
			steps = append(slices.Clip(steps), step{deep: true})
		}
		for _, begin := range p.beginnings(s) {
			if stepsMeet(append(begin, p.steps()...), steps, taken) {
				return true
			}
		}
	}
	return false
}

// beginnings are the steps from / to where the pattern begins.
func (p *pathPattern) beginnings(s *location) [][]step {
	switch {
	case p.from == fromSlash || p.open:
		return [][]step{nil}
	case p.from == fromWorkspace:
		return [][]step{literalSteps(s.workspace)}
	}
	all, _ := glob.CompileName("*")
	anybody := step{name: all}
	homes := [][]step{
		{{name: glob.Text("root")}}, {{name: glob.Text("home")}, anybody}, {{name: glob.Text("Users")}, anybody},
	}
	if s.home != "" {
		homes = append(homes, literalSteps(s.home))
	}
	return homes
}

// steps are those of the pattern, to everything below what it matches.
func (p *pathPattern) steps() []step {
	var steps []step
	for i, run := range p.runs {
		if i > 0 || p.open {
			steps = append(steps, step{deep: true})
		}
		for _, name := range run {
			steps = append(steps, step{name: name})
		}
	}
	return append(steps, step{deep: true})
}

// stepsMeet reports whether the steps of a pattern and those of a shell could
// lead to the same.
func stepsMeet(a, b []step, taken *steps) bool {
	if !taken.take((len(a) + 1) * (len(b) + 1)) {
		return true
	}
	return glob.Meet(len(a), len(b),
		func(i int) bool { return a[i].deep },
		func(j int) bool { return b[j].deep },
		func(i, j int) bool { return taken.meetsShell(&a[i].name, &b[j].name) })
}

// steps counts what was done to compare patterns, of which a call may have many
// and a policy too.
type steps int

// maxSteps is how many steps one decision may take. Beyond them, patterns are
// taken to meet.
const maxSteps = 1 << 20

// take takes n steps, if there are as many left.
func (s *steps) take(n int) bool {
	if *s+steps(n) > maxSteps {
		return false
	}
	*s += steps(n)
	return true
}

// meetsShell reports whether a name of a pattern and one of a shell could be the
// same.
func (s *steps) meetsShell(name, shell *glob.Name) bool {
	return !s.take((name.Len()+1)*(shell.Len()+1)) || name.MeetsShell(shell)
}

// coveredBy reports whether a pattern that allows matches everything the glob
// could name. It may say no where it does.
func (g *shellGlob) coveredBy(p *pathPattern, s *location) bool {
	if g.unknown || len(g.alternatives) == 0 {
		return false
	}
	fixed := s.locate(staticPart(s.path), nil)
	if p.covers(&fixed) {
		return true
	}
	// Name by name: each of the pattern's is wider than that of the glob.
	if p.from != fromWorkspace || !s.inside() || len(p.runs) != 1 {
		return false
	}
	above := len(literalSteps(s.workspace))
	for _, steps := range g.alternatives {
		if !widerAnywhere(p, steps[above:]) {
			return false
		}
	}
	return true
}

func widerAnywhere(p *pathPattern, steps []step) bool {
	if !p.open {
		return wider(p.runs[0], steps)
	}
	for i := range steps {
		if wider(p.runs[0], steps[i:]) {
			return true
		}
	}
	return false
}

func wider(run []glob.Name, steps []step) bool {
	if len(steps) < len(run) {
		return false
	}
	for i := range run {
		if steps[i].deep || !run[i].Covers(&steps[i].name) {
			return false
		}
	}
	return true
}

// staticPart returns the directories of a shell pattern before the first that
// is a pattern itself.
func staticPart(p string) string {
	if i := strings.IndexAny(p, `*?[{\`); i >= 0 {
		p = p[:strings.LastIndexByte(p[:i], '/')+1]
	}
	switch {
	case p == "":
		return "."
	case p == "/":
		return p
	}
	return strings.TrimSuffix(p, "/")
}
