// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// An Effect is what a call must touch for a hook to be about it: a verb, and mostly a
// pattern, such as "writes", "writes src/**", "runs git", "reaches *.example.com".
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
	default:
		m.program, err = glob.CompileWord(pattern)
	}
	if err != nil {
		err = fmt.Errorf("%q %w", e, err)
	}
	return m, err
}

// matches reports whether an effect is what the matcher is about. What cannot be told
// in full may be anything, and matches.
func (m *matcher) matches(e *tools.Effect) bool {
	if e.Kind != m.kind {
		return e.Kind == tools.RunsProgram && !e.Complete && !e.ReadOnly && m.kind != tools.RunsProgram
	}
	switch {
	case m.any:
		return true
	case m.kind == tools.RunsProgram:
		return e.Program == tools.UnknownWord || m.program.Match(e.Program[strings.LastIndexByte(e.Program, '/')+1:])
	case m.kind == tools.ReachesHost:
		return m.program.Match(e.Host)
	}
	path, absolute := strings.CutPrefix(e.Path, "/")
	return e.Tree || e.Glob || (absolute || !m.outside) && m.paths.Match(path)
}
