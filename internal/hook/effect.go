// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// An Effect is what a call must touch for a hook to be about it: a verb, and mostly a
// pattern, such as "writes", "writes src/**", "runs git", "runs git push", "reaches
// *.example.com".
type Effect string

// verbs are the first words of an Effect.
var verbs = map[string]tools.EffectKind{
	"reads": tools.ReadsPath, "writes": tools.WritesPath, "runs": tools.RunsProgram, "reaches": tools.ReachesHost,
}

// verbOf returns the verb of a kind; "" for what no hook is told.
func verbOf(kind tools.EffectKind) string {
	for verb, k := range verbs {
		if k == kind {
			return verb
		}
	}
	return ""
}

// matcher is an Effect that was compiled.
type matcher struct {
	kind    tools.EffectKind
	any     bool
	paths   *glob.Path
	outside bool      // paths is about absolute paths
	program glob.Word // or host
	words   []string  // that follow the program, options between them left out
}

func compile(effects []string) ([]matcher, error) {
	var list []matcher
	for _, e := range effects {
		m, err := Effect(e).compile()
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func (e Effect) compile() (m matcher, err error) {
	verb, pattern, _ := strings.Cut(strings.TrimSpace(string(e)), " ")
	pattern = strings.TrimSpace(pattern)
	kind, ok := verbs[verb]
	if !ok {
		return m, fmt.Errorf(`%q is no effect: want reads, writes, runs or reaches, and a pattern, such as "writes src/**"`, e)
	}
	m.kind = kind
	switch {
	case pattern == "":
		m.any = true
	case kind == tools.ReadsPath || kind == tools.WritesPath:
		if m.outside = strings.HasPrefix(pattern, "/"); m.outside {
			m.paths, err = glob.Compile(pattern[1:])
		} else {
			m.paths, err = glob.CompileBelow(pattern)
		}
	case kind == tools.RunsProgram:
		words := strings.Fields(pattern)
		if strings.HasPrefix(words[0], "-") || slices.ContainsFunc(words[1:], func(word string) bool { return strings.HasPrefix(word, "-") }) {
			err = fmt.Errorf(`has an option: want the first words of commands without options, such as "runs git push", and look at argv in the hook`)
			break
		}
		m.words = words[1:]
		m.program, err = glob.CompileWord(words[0])
	case strings.ContainsAny(pattern, " \t"):
		err = fmt.Errorf("has two words, and one is compared: want the name of a host")
	default:
		m.program, err = glob.CompileWord(pattern)
	}
	if err != nil {
		err = fmt.Errorf("%q %w", e, err)
	}
	return m, err
}

// matches reports whether an effect is what the matcher is about. What cannot be told
// in full may be anything, and matches: a program whose effects are not all told reads and
// runs others, and changes and reaches what it likes unless it is known to change nothing.
func (m *matcher) matches(e *tools.Effect) bool {
	if e.Kind == tools.RunsProgram && !e.Complete {
		return !e.ReadOnly || m.kind == tools.ReadsPath || m.kind == tools.RunsProgram
	}
	if e.Kind != m.kind {
		return false
	}
	switch {
	case m.any, e.Unclear != "":
		return true
	case m.kind == tools.RunsProgram:
		return strings.Contains(e.Program, tools.UnknownWord) || m.program.Match(base(e.Program)) && m.matchesWords(e.Argv)
	case m.kind == tools.ReachesHost:
		return e.Host == "" || strings.Contains(e.Host, tools.UnknownWord) || m.program.Match(e.Host)
	}
	return e.Tree || e.Glob || m.matchesPath(e.Path) || e.Named != "" && m.matchesPath(e.Named)
}

func (m *matcher) matchesPath(name string) bool {
	path, absolute := strings.CutPrefix(name, "/")
	return strings.Contains(name, tools.UnknownWord) || (absolute || !m.outside) && m.paths.Match(path)
}

// matchesWords reports whether a command has the words of the matcher after its program,
// as a rule of a policy that forbids them compares: with whatever options between. A word
// that only running the command would tell may be any.
func (m *matcher) matchesWords(argv []string) bool {
	if len(argv) == 0 {
		return true // they are not known
	}
	words := argv[1:]
	for _, want := range m.words {
		i := 0
		for i < len(words) && words[i] != want && !strings.Contains(words[i], tools.UnknownWord) {
			option := strings.HasPrefix(words[i], "-")
			value := i > 0 && strings.HasPrefix(words[i-1], "-") && !option
			if !option && !value {
				return false
			}
			i++
		}
		switch {
		case i == len(words):
			return false
		case strings.Contains(words[i], tools.UnknownWord):
			return true // and so may those be that follow
		}
		words = words[i+1:]
	}
	return true
}
