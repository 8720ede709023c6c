// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// An output is what a program prints, where that is one word.
type output struct {
	program string
	word    word
}

// datum is a word that a program prints: some letters and digits, of which nobody
// knows which, but no file elsewhere and no option.
var datum = word{text: "*", glob: true, data: true}

// data is several of them.
var data = word{text: "*", glob: true, data: true, many: true}

// number is a number that a program prints.
var number = word{unknown: true, number: true}

// printsOne returns the word that a substitution stands for, where it is one
// program that prints one word. It was followed before.
func (a *analysis) printsOne(cmd *syntax.CmdSubst, s *state) (word, bool) {
	if len(cmd.Stmts) != 1 || a.output.word == (word{}) {
		return word{}, false
	}
	st := cmd.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || len(call.Args) == 0 || len(call.Assigns) > 0 || slices.ContainsFunc(st.Redirs, addsOutput) {
		return word{}, false
	}
	name, _ := staticText(call.Args[0])
	return a.output.word, name == a.output.program && len(s.funcs[name].bodies) == 0
}

// printsOf is what programs print that are given nothing but options, by the name
// of the program and its one option, if any.
var printsOf = map[string]word{
	"nproc": number, "whoami": datum, "logname": datum, "hostname": datum, "hostname -s": datum, "arch": datum,
	"id -u": number, "id -g": number, "id -un": datum, "id -gn": datum,
	"uname": datum, "uname -s": datum, "uname -m": datum, "uname -r": datum, "uname -n": datum,
}

// printsData notes what a program prints that only tells something.
func (c *invocation) printsData() {
	if !slices.ContainsFunc(c.words, func(w word) bool { return !w.known() }) && len(c.words) < 3 {
		c.prints = printsOf[strings.Join(args(c.words), " ")]
	}
}

// datePrints returns what date prints by a format, which begins with a plus; empty
// where that may be anything.
func datePrints(format string) word {
	if format == "+%s" || format == "+%Y" {
		return number
	}
	w := datum
	rest := strings.TrimPrefix(format, "+")
	if rest == "" || strings.IndexByte("%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", rest[0]) < 0 {
		return word{} // it may begin like an option
	}
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '%':
			i++
			if i < len(rest) && rest[i] == '-' {
				i++
			}
			if i == len(rest) || strings.IndexByte("YmdHMSsFTjyNuwabBhAIpRVUWGC", rest[i]) < 0 {
				return word{}
			}
		case c == ' ':
			w = data
		case strings.IndexByte(plainLetters+":,=", c) < 0:
			return word{}
		}
	}
	return w
}
