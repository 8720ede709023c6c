// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package shell takes a shell command apart: it tells which programs a command
// would run, which files it would read and write, and which hosts it would reach.
//
// The command is parsed as bash reads it and followed from its first statement
// to its last, through lists, pipes, substitutions, functions, wrappers such as
// env, xargs and find -exec, and texts given to eval or bash -c. Nothing is run,
// and the answer depends on the command and its [Place] alone. What the answer
// names is a superset of what would happen, as long as every program in it is
// read-only or told in full. Where only running the command would tell, an effect
// says so in Unclear; such a command runs where it is contained, or with a
// person's leave.
//
// The answer decides how narrow the jail of a command is drawn, and what a person
// is told. It is no boundary: a command that was misread can do no more than its
// verdict gives it.
package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/tools"
)

// Place is where a command would run.
type Place struct {
	// Dir is the working directory: a slash path, relative to the workspace or
	// absolute. Empty means the workspace itself.
	Dir string

	// Home is the home directory, which ~ and $HOME mean; unknown where empty.
	Home string

	// Temp is the directory for temporary files, which $TMPDIR means and mktemp
	// uses; unknown where empty. Temporary are other absolute names that it has
	// for commands, such as /tmp: a path below one of them becomes one below Temp.
	Temp      string
	Temporary []string

	// Workspace is the absolute path of the workspace. Absolute paths inside it
	// become relative to it.
	Workspace string

	// SameRepository reports whether a directory, which is relative to the
	// workspace, is there and has the repository that the workspace has; nil
	// where nobody knows of any.
	SameRepository func(dir string) bool
}

// PlaceOf is where a command of a call in env would run that begins in dir. Its
// home is that of the session.
func PlaceOf(env tools.Env, dir string) Place {
	place := Place{Dir: dir, Workspace: env.Workspace.Dir(), SameRepository: func(dir string) bool { return effects.SameRepository(env, dir) }}
	if env.Session != nil {
		if _, err := env.Session.Private(); err == nil {
			place.Home, place.Temp, place.Temporary = env.Session.Home(), env.Session.Temp(), env.Temporary
		}
	}
	return place
}

// Effects lists what running command with bash in place would touch. Paths are
// cleaned but no link is followed: the caller does that. Where cleaning took away
// a name before "..", which a link may stand for, Named keeps the path as it was.
//
// An [tools.UnknownWord] among the words of a program may stand for any number of
// words. An effect that runs the program [tools.UnknownWord] stands for whatever
// its Unclear tells of.
func Effects(command string, place Place) (effects []tools.Effect) {
	defer func() {
		// A mistake in here or in the parser must not end the server, nor let a
		// command pass.
		if p := recover(); p != nil {
			effects = guess(command, fmt.Sprintf("it could not be analysed: %v", p))
		}
	}()
	return analyse(command, place)
}

// analyse is Effects without its net.
func analyse(command string, place Place) []tools.Effect {
	if reason := refuse(command); reason != "" {
		return guess(command, reason)
	}
	a := newAnalysis(place)
	if err := a.script(command, a.begin(), bash); errors.Is(err, errTooMuch) || errors.Is(err, errTooDeep) {
		return guess(command, err.Error())
	} else if err != nil {
		return malformed(command, "it does not parse: "+err.Error())
	}
	a.finish()
	return distinct(a.effects)
}

// malformed is what bash does with a command that does not parse: it answers with
// its syntax error. What the command seems to run is told beside it, for rules that
// deny: bash runs the lines before the mistake, and the parser may be the one who
// is mistaken.
func malformed(command, reason string) []tools.Effect {
	effects := guess(command, reason)
	effects[0].Program, effects[0].Argv = "bash", []string{"bash"}
	for i := range effects {
		effects[i].Malformed = true
	}
	return effects
}

// distinct drops effects that were named before. What a program that changes trees does is
// named as a whole: which effects follow the one of running it tells how they are judged.
func distinct(effects []tools.Effect) []tools.Effect {
	seen := make(map[string][]int)
	n, from := 0, 0
	for i, e := range effects {
		if e.Kind == tools.RunsProgram {
			if from = 0; changesTree(effects[i+1:]) {
				from = n
			}
		}
		name := e.Path + e.Host + strings.Join(e.Argv, " ")
		same := func(i int) bool { return i >= from && equal(effects[i], e) }
		if slices.ContainsFunc(seen[name], same) {
			continue
		}
		seen[name] = append(seen[name], n)
		effects[n] = e
		n++
	}
	return effects[:n]
}

// changesTree reports whether the program changes a tree whose effects these are, and those of
// other programs after them.
func changesTree(effects []tools.Effect) bool {
	for _, e := range effects {
		if e.Kind == tools.RunsProgram {
			return false
		}
		if e.Kind == tools.WritesPath && e.Tree {
			return true
		}
	}
	return false
}

func equal(a, b tools.Effect) bool {
	return a.Kind == b.Kind && a.Path == b.Path && a.Named == b.Named && a.Tree == b.Tree && a.Stored == b.Stored && a.Glob == b.Glob && a.Cut == b.Cut &&
		a.Program == b.Program && a.ReadOnly == b.ReadOnly && a.Complete == b.Complete && a.Malformed == b.Malformed && a.Host == b.Host && a.Port == b.Port &&
		a.Unclear == b.Unclear && slices.Equal(a.Argv, b.Argv)
}

// Quote returns text as one word of bash.
func Quote(text string) string {
	quoted, err := syntax.Quote(text, syntax.LangBash)
	if err != nil { // a NUL, which no word can have
		return "''"
	}
	return quoted
}

// Line returns the command line that a list of words stands for. A list that only has a
// shell run a script, such as bash -lc SCRIPT, stands for the script.
func Line(words []string) string {
	if len(words) == 3 && slices.Contains([]string{"-c", "-lc", "-cl"}, words[1]) &&
		slices.Contains([]string{"sh", "bash", "zsh", "/bin/sh", "/bin/bash", "/bin/zsh", "/usr/bin/bash"}, words[0]) {
		return words[2]
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
