// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// declare follows export and its kind where they are called as a command. Where
// they are a clause of the language see analysis.declare.
func declare(c *invocation) {
	array := slices.ContainsFunc(c.words[1:], func(w word) bool {
		return !w.known() && w.text == "" || w.text != "" && strings.Contains("-+", w.text[:1]) && strings.ContainsAny(w.text, "aA")
	})
	shows := true // all variables, the environment among them
	for _, w := range c.words[1:] {
		c.declares(w, array)
		shows = shows && strings.HasPrefix(w.text, "-")
	}
	c.readOnly = c.readOnly && !shows
}

// declares follows one word of declare. The value of an array is read again as
// the text of an array, with all its expansions.
func (c *invocation) declares(w word, array bool) {
	if w.known() && len(w.text) > 1 && (w.text[0] == '-' || w.text[0] == '+') {
		if strings.Trim(w.text[1:], "xgrpFaA") != "" {
			c.doubt(c.words[0].text + " " + clip(w.text) + " changes how variables and functions work")
		}
		return
	}
	name, value, assigns := strings.Cut(w.text, "=")
	if !assigns && w.known() && isName(name) {
		return
	}
	name = strings.TrimSuffix(name, "+")
	if !assigns || !isName(name) {
		c.doubt("which variable it sets is not known")
		return
	}
	c.s.forget(name)
	if why := c.a.risk(name, word{text: value, unknown: w.unknown}, c.s); why != "" {
		c.doubt(why)
	}
	if hidden := w.unknown && value == "" && (array || c.a.survey.arrays); !w.array && (hidden || strings.HasPrefix(value, "(")) {
		c.doubt("the value of an array is expanded once more")
		c.a.add(guess(value, "the value of an array is expanded once more")[1:]...)
	}
}

// declare follows declare, export, local and their kind.
func (a *analysis) declare(d *syntax.DeclClause, s *state) {
	words := []word{lit(d.Variant.Value)}
	type assignment struct {
		name  string
		value word
	}
	var values []assignment
	for _, arg := range d.Args {
		switch {
		case arg.Name == nil:
			words = append(words, a.fields([]*syntax.Word{arg.Value}, s)...)
		case arg.Naked:
			if arg.Index != nil {
				a.subscript(arg.Index, s)
			}
			words = append(words, lit(arg.Name.Value))
		default:
			value := a.assigned(arg, s)
			if arg.Append || arg.Index != nil {
				value = word{unknown: true}
			}
			values = append(values, assignment{arg.Name.Value, value})
			w := joined(lit(arg.Name.Value+"="), value)
			w.array = arg.Array != nil
			words = append(words, w)
		}
	}
	if d.Variant.Value == "nameref" {
		a.unclear("nameref makes one variable stand for another")
	}
	for i := range words {
		words[i].glob = false // patterns are text here
	}
	a.run(words, s, "", asBuiltin)
	for _, v := range values {
		a.assign(v.name, v.value, s)
	}
}

// takesName follows a command that gives a value to the variable named by w.
func (a *analysis) takesName(w word, s *state) string {
	switch {
	case !w.known():
		return "which variable it sets is not known"
	case plainElement(w.text):
		w.text, _, _ = strings.Cut(w.text, "[")
	case !isName(w.text):
		return "it evaluates the subscript of " + clip(w.text)
	}
	s.forget(w.text)
	if why := a.risk(w.text, word{unknown: true}, s); why != "" {
		return why
	}
	if !a.survey.blind && a.survey.sites[w.text] < 2 {
		return "the name of a command of the shell is hidden"
	}
	return ""
}

func (c *invocation) takes(w word) {
	if why := c.a.takesName(w, c.s); why != "" {
		c.doubt(why)
	}
}

// printf sets a variable with -v.
func printf(c *invocation) {
	if len(c.words) < 2 {
		return
	}
	first := c.words[1]
	switch {
	case first.is("-v") && len(c.words) > 2:
		c.takes(c.words[2])
	case first.known() && strings.HasPrefix(first.text, "-v"):
		c.takes(lit(first.text[2:]))
	case first.mayBeOption() && !first.known():
		c.doubt("its first word is not known, and -v sets a variable")
	}
}

func read(c *invocation) { c.takesAll(programs.Builtins()["read"]) }

func mapfile(c *invocation) { c.takesAll(programs.Builtins()["mapfile"]) }

func (c *invocation) takesAll(p *programs.Program) {
	words := c.parse(p, c.words[1:])
	for _, o := range words.given {
		if o.Does == "name" {
			c.takes(o.value)
		}
	}
	for _, w := range words.operands {
		c.takes(w)
	}
}

func wait(c *invocation) {
	for _, o := range c.parse(programs.Builtins()["wait"], c.words[1:]).given {
		if o.Does == "name" {
			c.takes(o.value)
		}
	}
}

func getopts(c *invocation) {
	if len(c.words) > 2 {
		c.takes(c.words[2])
	} else {
		c.doubt("which variable it sets is not known")
	}
	if slices.ContainsFunc(c.words[1:min(3, len(c.words))], func(w word) bool { return w.many }) {
		c.doubt("which variable it sets is not known")
	}
}

func unset(c *invocation) {
	words := c.parse(programs.Builtins()["unset"], c.words[1:])
	for _, w := range words.operands {
		if !w.known() || !isName(w.text) && !plainElement(w.text) {
			if f, ok := c.s.funcs[w.text]; !ok || !w.known() || len(f.bodies) == 0 {
				c.doubt("it evaluates the subscript of what it is given")
			}
		}
		c.s.forget(w.text)
		if w.is("PATH") {
			c.doubt("without PATH the shell runs programs of the directory it is in")
		}
		if f, ok := c.s.funcs[w.text]; ok {
			c.s.ownFuncs()
			f.maybe = true
			c.s.funcs[w.text] = f
		}
	}
}

// let evaluates its words; where it is a clause of the language they are parsed.
func let(c *invocation) { c.doubt("it evaluates its words as arithmetic") }
