// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// notationVerbs are what effects are called in the tables.
var notationVerbs = map[tools.EffectKind]string{
	tools.ReadsPath: "read", tools.WritesPath: "write", tools.RunsProgram: "run", tools.ReachesHost: "reach",
}

// notation writes an effect on one line:
//
//	run rm -r a          a program and its words; ? is an unknown one
//	ro ls -la            the same, which provably changes nothing
//	told mkdir a         the same, of which the effects beside it tell everything
//	read a  write b/     a path; / at the end: and all below it; glob: is a pattern,
//	                     cut: one of names that are taken apart; git: is what a
//	                     repository keeps of it
//	reach host:443       a host
//	write ? !why         what is behind the exclamation mark is unclear
func notation(e tools.Effect) string {
	verb := notationVerbs[e.Kind]
	var b strings.Builder
	switch e.Kind {
	case tools.RunsProgram:
		switch {
		case e.ReadOnly:
			verb = "ro"
		case e.Complete:
			verb = "told"
		case e.Malformed:
			verb = "malformed"
		}
		b.WriteString(verb)
		for _, word := range e.Argv {
			b.WriteByte(' ')
			b.WriteString(shown(word))
		}
	case tools.ReachesHost:
		fmt.Fprintf(&b, "%s %s:%d", verb, shown(e.Host), e.Port)
	default:
		b.WriteString(verb + " ")
		if e.Stored {
			b.WriteString("git:")
		}
		switch {
		case e.Cut:
			b.WriteString("cut:")
		case e.Glob:
			b.WriteString("glob:")
		}
		path := e.Path
		if path == "" && e.Unclear != "" {
			path = tools.UnknownWord
		}
		b.WriteString(shown(path))
		if e.Tree {
			b.WriteByte('/')
		}
		if e.Named != "" {
			b.WriteString(" named " + shown(e.Named))
		}
	}
	if e.Unclear != "" {
		b.WriteString(" !" + e.Unclear)
	}
	return b.String()
}

func shown(word string) string {
	switch {
	case word == tools.UnknownWord:
		return "?"
	case word == "" || strings.ContainsAny(word, " \t\n!?\"'\\\x00"):
		return strconv.Quote(word)
	}
	return word
}
