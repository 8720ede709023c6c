// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxRoots is how many directories find may be told to walk for its names to be
// followed.
const maxRoots = 8

// found are names that find prints: what some patterns stand for.
type found struct {
	names []word
	null  bool   // a NUL is behind each, not the end of a line
	place string // where find was
}

// placesOf stands for the directories the shell may be in, if they are known.
func placesOf(s *state) string {
	if s.dirs == nil {
		return ""
	}
	return strings.Join(s.dirs, "\x00") + "\x00"
}

// An expression is what find was told up to now.
type expression struct {
	roots []word
	name  string // of what is left for the next action; "" is any

	names   []string // of each alternative before this one
	prints  []string // those that are printed
	actions bool
	null    bool
	lost    bool // it cannot be told what is printed, or by what names
	negated bool
}

// take notes one test, operator or action with its words.
func (x *expression) take(words []word) {
	negated := x.negated
	x.negated = false
	switch word := words[0].text; {
	case word == "!" || word == "-not":
		x.negated = !negated
	case word == "-name" && len(words) == 2 && !negated && words[1].known() && !x.lost && isPlainPattern(words[1].text):
		x.name = words[1].text
	case word == "-o" || word == "-or":
		x.names, x.name = append(x.names, x.name), ""
	case word == "-print" || word == "-print0":
		x.lost = x.lost || negated || x.actions && x.null != (word == "-print0")
		x.actions, x.null = true, word == "-print0"
		x.prints = append(x.prints, x.name)
	case word == "(" || word == ")" || word == ",":
		x.name, x.names = "", []string{""}
	case findTests()[word] > 0 && word != "-printf", findFiles[word]:
	case slices.Contains(quietTests, word):
	default:
		x.lost = true
	}
}

// nearest returns what is found first, directly in the roots, where it has one
// name only.
func (x *expression) nearest() []word {
	var all []word
	if x.name == "" || strings.ContainsAny(x.name, "*?[\\") || x.lost || len(x.roots) > maxRoots {
		return nil
	}
	for _, root := range x.roots {
		if root.known() && !strings.HasPrefix(root.text, "-") {
			all = append(all, within(root, lit(x.name)))
		}
	}
	return all
}

// quietTests are the tests and operators of find without words of their own that
// print nothing.
var quietTests = []string{
	"-empty", "-readable", "-writable", "-executable", "-nouser", "-nogroup", "-true", "-false", "-prune", "-quit", "-depth", "-d",
	"-mount", "-xdev", "-daystart", "-noleaf", "-ignore_readdir_race", "-noignore_readdir_race", "-warn", "-nowarn", "-and", "-a",
}

// printed returns the names that the whole expression prints; nil where they
// cannot be told.
func (x *expression) printed(place string) *found {
	names := x.prints
	if !x.actions {
		names = append(slices.Clip(x.names), x.name)
	}
	if x.lost || place == "" || len(x.roots) > maxRoots {
		return nil
	}
	out := &found{null: x.null, place: place}
	for _, root := range x.roots {
		if !root.known() || strings.HasPrefix(root.text, "-") || !x.null && strings.Trim(root.text, plainLetters+"/") != "" {
			return nil // it is printed too
		}
		for _, name := range names {
			for _, w := range below(root, name) {
				w.many = true
				out.names = append(out.names, w)
			}
		}
	}
	return out
}

// isPlainPattern reports whether a pattern of find has but characters and stars.
func isPlainPattern(text string) bool {
	rest := strings.Trim(text, "*")
	return rest != "" && strings.Trim(rest, plainLetters+"*") == ""
}

// plainLetters are what names have that nothing cuts and that are no pattern.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// below are the patterns of what find finds below a root by a name, or by any.
func below(root word, name string) []word {
	all := beneath(root)
	if all.text == "**" {
		all.text = "./**"
	}
	if name == "" || !all.glob {
		return []word{all}
	}
	names := []string{name}
	if rest := strings.TrimLeft(name, "*"); rest != name {
		// Unlike that of a shell, a star of find is a dot at the beginning too.
		names = append(names, "."+name)
		if rest[0] == '.' {
			names = append(names, rest)
		}
	}
	words := make([]word, len(names))
	for i, name := range names {
		words[i] = word{text: all.text + "/" + name, glob: true}
	}
	return words
}

// prints returns the names of find that a command of a pipe prints, which reads
// those of from; nil where it prints anything else.
func (a *analysis) prints(st *syntax.Stmt, s *state, from *found) *found {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(call.Assigns) > 0 || st.Background || st.Coprocess || st.Disown || slices.ContainsFunc(st.Redirs, addsOutput) {
		return nil
	}
	words := make([]string, len(call.Args))
	for i, arg := range call.Args {
		words[i], ok = staticText(arg)
		if !ok && i == 0 {
			return nil
		}
		if !ok {
			words[i] = "$"
		}
	}
	switch {
	case len(s.funcs[words[0]].bodies) > 0:
		return nil
	case words[0] == "find":
		return a.printed
	case from != nil && !from.null && passesLines(words):
		return from
	}
	return nil
}

// addsOutput reports whether a redirection may change what a command prints: all
// do but the one that drops its messages.
func addsOutput(r *syntax.Redirect) bool {
	target, _ := plainText(r.Word)
	return r.N == nil || r.N.Value != "2" || r.Op != syntax.RdrOut || target != "/dev/null"
}

// passesLines reports whether a command prints some of the lines it reads, as
// they are.
func passesLines(words []string) bool {
	options := func(letters string) bool {
		return !slices.ContainsFunc(words[1:], func(w string) bool { return len(w) < 2 || w[0] != '-' || strings.Trim(w[1:], letters) != "" })
	}
	switch words[0] {
	case "sort":
		return options("urnVhf")
	case "uniq":
		return len(words) == 1
	case "head", "tail":
		if len(words) == 3 && words[1] == "-n" {
			return isNumber(words[2])
		}
		return len(words) == 1 || len(words) == 2 && isNumber(strings.TrimPrefix(words[1], "-n")) && words[1][0] == '-'
	case "grep", "egrep", "fgrep":
		pattern := words[len(words)-1]
		words = words[:len(words)-1]
		return len(words) > 0 && pattern != "" && pattern != "$" && pattern[0] != '-' && options("viEFwx")
	}
	return false
}

// substituted returns the words that $(…) becomes, outside quotes, where it is
// names of find; nil where it is anything else.
func (a *analysis) substituted(cmd *syntax.CmdSubst, s *state) []word {
	if len(cmd.Stmts) != 1 || cmd.Stmts[0].Negated {
		return nil
	}
	st := cmd.Stmts[0]
	names := a.prints(st, s, nil)
	if pipe, ok := st.Cmd.(*syntax.BinaryCmd); ok && isPipe(pipe.Op) && len(st.Redirs) == 0 && !st.Background {
		names = a.piped
	}
	if names == nil || names.null {
		return nil
	}
	return cut(names)
}

// uncut returns words in which those that were cut are unknown, for a program that
// may do more with them than read.
func uncut(words []word) []word {
	out := slices.Clone(words)
	for i := range out {
		if out[i].cut != "" {
			out[i] = word{unknown: true, many: out[i].many}
		}
	}
	return out
}

// cut are names as the words that blanks and quotes make of them.
func cut(names *found) []word {
	words := slices.Clone(names.names)
	for i := range words {
		words[i].cut = names.place
	}
	return words
}
