// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// untracked are variables that do not keep what they are given, or get something
// else from the shell itself.
var untracked = onceFields(`
	_ RANDOM SRANDOM SECONDS LINENO EPOCHSECONDS EPOCHREALTIME HISTCMD DIRSTACK FUNCNAME GROUPS PIPESTATUS PWD OLDPWD
	UID EUID PPID REPLY OPTARG OPTIND OPTERR COLUMNS LINES SHELLOPTS MAPFILE COPROC COPROC_PID COMPREPLY COMP_CWORD
	COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS READLINE_ARGUMENT READLINE_LINE READLINE_MARK
	READLINE_POINT HOSTNAME HOSTTYPE MACHTYPE OSTYPE SHLVL IFS PS4 histchars
`)

// keeps reports whether a variable keeps what a script gives it.
func keeps(name string) bool {
	return !strings.HasPrefix(name, "BASH") && !slices.Contains(untracked(), name)
}

// numbers are parameters that the shell itself sets to numbers.
var numbers = []string{"?", "#", "$", "!", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "BASHPID", "UID", "EUID", "PPID", "BASH_SUBSHELL"}

// follows reports whether the value of a variable can be followed: there is but
// one place that gives it one.
func (a *analysis) follows(name string) bool {
	return !a.survey.blind && a.survey.sites[name] == 1 && keeps(name)
}

// assign notes that a variable gets a value.
func (a *analysis) assign(name string, value word, s *state) {
	switch {
	case a.follows(name):
		s.set(name, value)
	case a.survey.numeric[name] && !a.survey.blind && keeps(name):
		s.set(name, word{unknown: true, number: true})
	default:
		s.forget(name)
	}
}

// param returns the values of a parameter; false where they are not known. It
// follows everything inside the braces.
func (a *analysis) param(p *syntax.ParamExp, s *state) ([]word, bool) {
	if p.Flags != nil || p.NestedParam != nil || p.Param == nil || p.Width || p.IsSet {
		a.unclear("it has a form of parameter that is not known")
		return nil, false
	}
	name := p.Param.Value
	if p.Index != nil {
		a.subscript(p.Index, s)
	}
	if p.Slice != nil {
		a.arithmetic(p.Slice.Offset, s)
		if p.Slice.Length != nil {
			a.arithmetic(p.Slice.Length, s)
		}
	}
	if p.Repl != nil {
		a.single(p.Repl.Orig, s)
		a.single(p.Repl.With, s)
	}
	var other word
	if p.Exp != nil {
		other = a.single(p.Exp.Word, s)
	}
	if p.Excl && p.Names == 0 {
		if !(p.Index != nil && isAll(p.Index)) {
			a.unclear("${!" + name + "} may evaluate what " + name + " holds")
		}
		return nil, false
	}
	if p.Length {
		return []word{{unknown: true, number: true}}, true
	}
	values, ok := a.value(name, s)
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && strings.Contains(other.text, "P") {
		if !ok || slices.ContainsFunc(values, func(w word) bool { return !w.known() || strings.ContainsAny(w.text, "$`\\!") }) {
			a.unclear("${" + name + "@P} runs the commands that " + name + " holds")
		}
		return nil, false
	}
	if p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Excl {
		return nil, false
	}
	if p.Exp == nil {
		return values, ok
	}
	if p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull {
		if reason := a.risk(name, word{unknown: true}, s); reason != "" {
			a.unclear(reason)
		}
		s.forget(name)
	}
	set := ok && len(values) == 1 && (values[0].known() && values[0].text != "")
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return values, set
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return []word{other}, set && other.known()
	}
	return nil, false
}

// value returns what a plain $name stands for.
func (a *analysis) value(name string, s *state) ([]word, bool) {
	if slices.Contains(numbers, name) {
		return []word{{unknown: true, number: true}}, !a.assigns(name)
	}
	if value, ok := s.vars[name]; ok {
		return []word{value}, true
	}
	switch {
	case name == "HOME" && a.place.Home != "" && !a.assigns(name):
		return []word{lit(a.place.Home)}, true
	case name == "TMPDIR" && a.place.Temp != "" && !a.assigns(name):
		return []word{lit(a.place.Temp)}, true
	case name == "PWD" && len(s.dirs) == 1 && !a.assigns(name):
		dir := absolute(a.place, s.dirs[0])
		return []word{lit(dir)}, strings.HasPrefix(dir, "/")
	case !s.paramsKnown || a.survey.shift:
	case name == "@" || name == "*":
		return s.params, len(s.params) > 0 && name == "@"
	case isNumber(name) && name != "0":
		n := 0
		for _, c := range name {
			n = min(n*10+int(c-'0'), 1000)
		}
		if n <= len(s.params) {
			return s.params[n-1 : n], true
		}
	}
	return nil, false
}

// isAll reports whether a subscript is @ or *.
func isAll(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	if !ok || len(w.Parts) != 1 {
		return false
	}
	l, ok := w.Parts[0].(*syntax.Lit)
	return ok && (l.Value == "@" || l.Value == "*")
}

// onceFields returns a list of words, made when it is first needed.
func onceFields(text string) func() []string {
	return sync.OnceValue(func() []string { return strings.Fields(text) })
}
