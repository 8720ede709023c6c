// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolserver/toolserver/internal/tools"
)

const (
	maxScripts = 8         // texts inside texts: bash -c "bash -c …"
	maxParsed  = 256 << 10 // bytes parsed of one command, texts in it included
	maxSteps   = 4000      // commands followed again, in loops and functions
	maxFuncs   = 64        // functions that are followed beyond maxSteps
	maxStarted = 32        // programs that start programs: env nice env nice …
	maxWords   = 20_000    // words of all programs; of longer ones only the first are kept
	maxEffects = 20_000
	maxPath    = 1 << 10 // bytes of a pattern or a directory
)

var errTooMuch = errors.New("it has too many commands inside commands")

// An analysis follows one command and collects its effects.
type analysis struct {
	place   Place
	effects []tools.Effect

	survey *survey // of the script at hand
	source string

	visited map[syntax.Node]bool      // statements that were followed
	calling []*syntax.FuncDecl        // functions that are being followed
	funcs   map[string]function       // all functions that were ever defined
	general map[*syntax.FuncDecl]bool // functions followed with nothing known
	dirs    []string                  // all directories the shell may ever be in

	traps []string // texts to be run at some time

	output  output // of the program that was followed last
	printed *found // by the find that was followed last
	piped   *found // by the part of a pipe that was followed last

	repositories map[string]bool // directories, and whether they have that of the workspace

	unlessChanged []int // effects that are as told only where the command changes nothing

	definitions int // of functions, up to now

	scripts int // texts around the one at hand
	parsed  int
	steps   int
	repeats int // loops and calls around

	started int  // programs that start the one at hand
	words   int  // of all programs up to now
	braces  int  // words that braces became
	full    bool // there were more effects than are kept
}

func newAnalysis(place Place) *analysis {
	return &analysis{place: place, visited: make(map[syntax.Node]bool, 8), effects: make([]tools.Effect, 0, 8)}
}

// begin is the state a shell starts with.
func (a *analysis) begin() *state {
	a.dirs = []string{resolveDir(a.place)}
	return &state{dirs: a.dirs}
}

// dialect is a shell that reads a script.
type dialect int

const (
	bash   dialect = iota
	posix          // sh and its kind, which may be bash or not
	evaled         // the shell at hand, which has variables and functions already
)

// script follows a text that a shell reads from s on.
func (a *analysis) script(text string, s *state, d dialect) error {
	a.parsed += len(text)
	if a.scripts >= maxScripts || a.parsed > maxParsed {
		return errTooMuch
	}
	if reason := refuse(text); reason != "" {
		return errors.New(reason)
	}
	file, err := parse(text)
	if err != nil {
		return err
	}
	if d == posix && speaksBash(file) {
		a.add(guess(text, "it is written for bash, and sh may read it in another way")...)
	}
	survey, source := a.survey, a.source
	a.survey, a.source = surveyOf(file, text), text
	if d == evaled {
		// What is outside the text may change the same variables and be called
		// from it.
		a.survey.blind, a.survey.shift, a.survey.move, a.survey.arrays = true, true, true, true
		a.survey.stray = a.survey.stray || survey != nil && survey.stray
	}
	a.scripts++
	a.stmts(file.Stmts, s)
	a.scripts--
	a.remaining(file)
	a.survey, a.source = survey, source
	if why := differs(text, file); why != "" {
		a.misread(text, why)
	}
	return nil
}

// misread says that a text may be read in another way. What it may run is
// guessed, but for what was told.
func (a *analysis) misread(text, why string) {
	known := make(map[string]bool)
	for _, e := range a.effects {
		if e.Kind == tools.RunsProgram {
			known[strings.Join(e.Argv, "\x00")] = true
		}
	}
	for _, e := range guess(text, why) {
		if !known[strings.Join(e.Argv, "\x00")] {
			a.add(e)
		}
	}
}

// remaining follows what was not reached on the way from top to bottom: functions
// that nobody called, loops over nothing. Nothing is known where they would run.
func (a *analysis) remaining(file *syntax.File) {
	var s *state
	known := -1 // definitions that s knows
	syntax.Walk(file, func(n syntax.Node) bool {
		if st, ok := n.(*syntax.Stmt); ok && !a.visited[st] {
			if known != a.definitions {
				s, known = a.anywhere(nil), a.definitions
			}
			a.stmt(st, s.fork())
			return false
		}
		return true
	})
}

// anywhere is a state in which nothing is known but what was ever defined: for
// certain, where it is so in s.
func (a *analysis) anywhere(s *state) *state {
	funcs := make(map[string]function, len(a.funcs))
	for name, f := range a.funcs {
		certain := s != nil && len(s.funcs[name].bodies) > 0 && !s.funcs[name].maybe
		funcs[name] = function{bodies: f.bodies, maybe: !certain}
	}
	return &state{funcs: funcs, defined: new(function), dirs: a.dirs}
}

// finish follows what a trap would run, when all functions are known.
func (a *analysis) finish() {
	for i := 0; i < len(a.traps); i++ {
		if err := a.script(a.traps[i], a.anywhere(nil), evaled); err != nil {
			a.add(guess(a.traps[i], "a trap runs a text that cannot be followed: "+err.Error())...)
		}
	}
	a.settle()
	if a.full {
		a.effects = append(a.effects, unknownProgram("it does more than can be told"))
	}
}

// settle takes back what holds only where the command changes nothing, for one
// that may.
func (a *analysis) settle() {
	changes := func(e tools.Effect) bool {
		return e.Kind == tools.WritesPath || e.Kind == tools.RunsProgram && !e.ReadOnly
	}
	if len(a.unlessChanged) == 0 || !slices.ContainsFunc(a.effects, changes) {
		return
	}
	for _, i := range a.unlessChanged {
		if e := &a.effects[i]; e.Kind == tools.RunsProgram {
			e.ReadOnly, e.Complete = false, false
		} else if e.Unclear == "" {
			e.Unclear = "what the command changes may be among the files it finds"
		}
	}
}

// add adds effects.
func (a *analysis) add(effects ...tools.Effect) {
	if len(a.effects)+len(effects) > maxEffects {
		a.full = true
		return
	}
	for i := range effects {
		if effects[i].Cut {
			a.unlessChanged = append(a.unlessChanged, len(a.effects)+i)
		}
	}
	a.effects = append(a.effects, effects...)
}

// unclear says that something nobody can tell would happen.
func (a *analysis) unclear(reason string) { a.add(unknownProgram(reason)) }

// assigns reports whether the script gives a value to a variable.
func (a *analysis) assigns(name string) bool { return a.survey.sites[name] > 0 }

// moved notes that the shell may be in the directories of s.
func (a *analysis) moved(s *state) {
	if a.dirs != nil {
		a.dirs = union(a.dirs, s.dirs)
	}
}

// define notes a function.
func (a *analysis) define(decl *syntax.FuncDecl, name string, s *state) {
	s.define(decl, name)
	a.definitions++
	if a.funcs == nil {
		a.funcs = make(map[string]function)
	}
	a.funcs[name] = either(a.funcs[name], function{bodies: []*syntax.FuncDecl{decl}})
}

// call follows a call of a function. The words include its name.
func (a *analysis) call(f function, words []word, s *state) *state {
	var after *state
	for _, decl := range f.bodies {
		t := a.body(decl, words, s.fork())
		if after == nil {
			after = t
		} else {
			after = join(after, t)
		}
	}
	return after
}

func (a *analysis) body(decl *syntax.FuncDecl, words []word, s *state) *state {
	if a.steps > maxSteps && len(a.funcs) > maxFuncs {
		a.unclear("its functions call each other too often to be followed")
		s.forgetAll()
		s.dirs = nil
		return s
	}
	if slices.Contains(a.calling, decl) || a.steps > maxSteps {
		// It calls itself, or there is too much to follow: once more, with
		// nothing known, covers every further call.
		if !a.general[decl] {
			if a.general == nil {
				a.general = make(map[*syntax.FuncDecl]bool)
			}
			a.general[decl] = true
			a.again(decl, a.anywhere(s))
		}
		s.forgetAll()
		s.dirs = nil
		return s
	}
	s.stdin = input{}
	params, know := s.params, s.paramsKnown
	s.params, s.paramsKnown = words[1:], !a.survey.shift && !slices.ContainsFunc(words, func(w word) bool { return w.many })
	s = a.again(decl, s)
	s.params, s.paramsKnown = params, know
	s.dead = false
	s.forget(localsOf(decl)...)
	return s
}

func (a *analysis) again(decl *syntax.FuncDecl, s *state) *state {
	started := a.started
	a.started = 0
	a.calling = append(a.calling, decl)
	a.repeats++
	ok, fail := a.stmt(decl.Body, s)
	a.repeats--
	a.started = started
	a.calling = a.calling[:len(a.calling)-1]
	return join(ok, fail)
}

// localsOf lists the variables a function declares, whose values end with it.
func localsOf(decl *syntax.FuncDecl) []string {
	var names []string
	syntax.Walk(decl.Body, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.DeclClause); ok && d.Variant.Value != "export" && d.Variant.Value != "readonly" {
			for _, arg := range d.Args {
				if arg.Name != nil {
					names = append(names, arg.Name.Value)
				}
			}
		}
		return true
	})
	return names
}

// speaksBash reports whether a script has syntax that only bash and its kin give
// a meaning to.
func speaksBash(file *syntax.File) bool {
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted:
			found = found || n.Dollar
		case *syntax.DblQuoted:
			found = found || n.Dollar
		case *syntax.ProcSubst, *syntax.ExtGlob, *syntax.ArithmCmd, *syntax.TestClause, *syntax.CoprocClause,
			*syntax.LetClause, *syntax.ArrayExpr, *syntax.TimeClause:
			found = true
		case *syntax.FuncDecl:
			found = found || n.RsrvWord
		case *syntax.Redirect:
			switch n.Op {
			case syntax.RdrAll, syntax.AppAll, syntax.WordHdoc, syntax.DplOut:
				found = found || n.Op != syntax.DplOut || n.N == nil && !isNumber(literalStart(n.Word))
			}
		case *syntax.Word:
			_, braces := bracesOf(n)
			found = found || braces
		}
		return !found
	})
	return found
}
