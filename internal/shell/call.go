// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolserver/toolserver/internal/shell/programs"
	"github.com/toolserver/toolserver/internal/tools"
)

// A invocation is one program, builtin or function with its words.
type invocation struct {
	a     *analysis
	s     *state
	words []word // the program is the first

	as            nameLookup
	unclear       string // why it cannot be told what it does
	readOnly      bool   // it changes nothing by itself
	unlessChanged bool   // so it is only where the whole command changes nothing
	complete      bool   // what it touches is told in full

	subcommand string // of git
	configured bool   // by git -c, with keys of which not all are known to be harmless

	prints word // what it prints, where that is one word; else empty

	paths
	ok, fail *state
}

// nameLookup is what a name can stand for.
type nameLookup int

const (
	asWritten nameLookup = iota // a function, a builtin or a program
	asBuiltin                   // a builtin or a program
	asProgram                   // a program
)

// callExpr follows a simple command.
func (a *analysis) callExpr(cmd *syntax.CallExpr, s *state) (ok, fail *state) {
	words := a.fields(cmd.Args, s)
	reason := ""
	for _, as := range cmd.Assigns {
		value := a.assigned(as, s)
		name := as.Name.Value
		why := a.risk(name, value, s)
		if len(words) == 0 {
			if why != "" {
				a.unclear(why)
			}
			if as.Append || as.Index != nil || as.Array != nil {
				s.forget(name)
			} else {
				a.assign(name, value, s)
			}
			continue
		}
		if name == "IFS" && (words[0].is("read") || words[0].is("mapfile")) {
			continue // it holds for splitting one line
		}
		s.forget(name) // it outlives a special builtin, and a function sees it
		if reason == "" {
			reason = why
		}
	}
	if len(words) == 0 {
		return s, s
	}
	return a.run(words, s, reason, asWritten)
}

// assigned follows the right side of an assignment, and its subscript.
func (a *analysis) assigned(as *syntax.Assign, s *state) word {
	if as.Index != nil {
		a.subscript(as.Index, s)
	}
	if as.Array != nil {
		for _, elem := range as.Array.Elems {
			if elem.Index != nil {
				a.subscript(elem.Index, s)
			}
			if elem.Value != nil {
				a.fields([]*syntax.Word{elem.Value}, s)
			}
		}
		return word{unknown: true}
	}
	value := a.single(as.Value, s)
	if value.glob && !value.data { // a pattern is text in an assignment
		return word{unknown: true}
	}
	return value
}

// run follows the words of a command. A reason says why it is unclear already.
func (a *analysis) run(words []word, s *state, reason string, as nameLookup) (ok, fail *state) {
	first := words[0]
	if a.words += len(words); a.started >= maxStarted || a.words > maxWords && len(words) > maxGuessWords {
		a.tooMuch(words, s)
		return s, s
	}
	a.started++
	defer func() { a.started-- }()
	if slices.ContainsFunc(words, func(w word) bool { return w.cut != "" }) && !(first.known() && programs.All()[base(first.text)].ReadsNames()) {
		words = uncut(words)
		first = words[0]
	}
	if !first.known() || first.text == "" {
		if reason == "" {
			reason = "which program is run is not known"
		}
		a.add(tools.Effect{Kind: tools.RunsProgram, Program: first.arg(), Argv: args(words), Unclear: reason})
		if first.many && len(words) > 1 {
			a.run(words[1:], s.fork(), "the word before it may be nothing", as)
		}
		if likely := first.likelyText(); first.unknown && likely != "" {
			a.run(append([]word{lit(likely)}, words[1:]...), s.fork(), "it may be this program", as)
		}
		return s, s
	}
	if f, found := s.funcs[first.text]; found && as == asWritten {
		if reason != "" {
			a.unclear(reason)
		}
		after := a.call(f, words, s)
		if !f.maybe {
			return after, after
		}
		s = join(s, after)
	}
	c := invocation{a: a, s: s, words: words, as: as, unclear: reason, paths: paths{a, s}, ok: s, fail: s}
	if slices.ContainsFunc(words, func(w word) bool { return w.equals }) {
		c.doubt("a word that begins with = is a program to some shells")
	}
	at := len(a.effects)
	a.add(tools.Effect{Kind: tools.RunsProgram, Program: first.text})
	for _, w := range words {
		c.lists(w)
	}
	c.follow()
	if c.unclear == "" {
		a.output = output{first.text, c.prints}
	}
	if at < len(a.effects) {
		e := &a.effects[at]
		e.Argv, e.Unclear, e.ReadOnly = args(words), c.unclear, c.readOnly && c.unclear == ""
		e.Complete = (c.readOnly || c.complete) && c.unclear == ""
		if c.unlessChanged {
			a.unlessChanged = append(a.unlessChanged, at)
		}
	}
	return c.ok, c.fail
}

// tooMuch notes a command that is not followed any more.
func (a *analysis) tooMuch(words []word, s *state) {
	e := tools.Effect{Kind: tools.RunsProgram, Program: words[0].arg(), Unclear: "there are too many words, or programs that start programs, to follow"}
	e.Argv = append(args(words[:min(len(words), maxGuessWords)]), tools.UnknownWord)
	a.add(e)
	s.forgetAll()
	s.dirs = nil
}

// lists is what a pattern does by itself: the shell reads directories to find
// what it means. Those of the workspace are nobody's secret.
func (c *invocation) lists(w word) {
	if !w.glob || w.data || w.unknown || strings.HasPrefix(w.text, "-") {
		return
	}
	outside := func(dir string) bool { return strings.HasPrefix(inWorkspace(c.a.place, dir+"/"+w.text), "/") }
	if strings.HasPrefix(w.text, "/") || c.s.dirs == nil || slices.ContainsFunc(c.s.dirs, outside) {
		c.reads(w, false)
	}
}

// follow finds out what the call does.
func (c *invocation) follow() {
	name := c.words[0].text
	if b := builtin(name); b != nil && c.as != asProgram {
		c.readOnly = true
		b(c)
		return
	}
	p, ok := programs.All()[base(name)]
	if !ok {
		for _, w := range c.words[1:] {
			c.mayTouch(w)
		}
		return
	}
	c.complete = p.Complete
	handler(p.Operands)(c, p)
	if !programs.Trusted(name) {
		c.readOnly, c.complete, c.prints = false, false, word{}
	}
}

// doubt says why the call is unclear. The first reason is kept.
func (c *invocation) doubt(reason string) {
	if c.unclear == "" {
		c.unclear = reason
	}
}

// starts follows a program that the call starts.
func (c *invocation) starts(words []word, reason string) {
	if len(words) > 0 {
		c.a.run(words, c.s.fork(), reason, asProgram)
	}
}

// script follows a text that the call gives to a shell. What cannot be followed
// makes the call unclear.
func (c *invocation) script(text word, s *state, d dialect) {
	if !text.known() {
		c.doubt("it runs a text that is not known")
		c.a.add(guess(text.likelyText(), "it is in a text that is not known")[1:]...)
		return
	}
	if err := c.a.script(text.text, s, d); err != nil {
		c.doubt("it runs a text that cannot be followed: " + err.Error())
		c.a.add(guess(text.text, "it is in a text that cannot be followed")...)
	}
}

// fresh is the state of a new shell that the call starts with parameters.
func (c *invocation) fresh(params []word) *state {
	known := !slices.ContainsFunc(params, func(w word) bool { return w.many })
	return &state{dirs: c.s.dirs, params: params, paramsKnown: known}
}
