// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolstest

import (
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// touch is one path of the workspace that was read or written.
type touch struct {
	path  string
	write bool
}

// touched is told by the workspace what is touched in it.
func (s *Session) touched(path string, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running > 0 {
		s.touches = append(s.touches, touch{path, write})
	}
}

// begin notes what is touched from now on.
func (s *Session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.mixed = s.running > 1
	s.touches = nil
}

// end returns what was touched since begin; nothing where other calls ran
// beside, whose touches cannot be told apart.
func (s *Session) end() []touch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.mixed {
		return nil
	}
	return s.touches
}

// undeclared tells what was touched without being among the effects. To write a
// path is also to look at it and to make the directories above it.
func undeclared(effects []tools.Effect, touches []touch) []string {
	var problems []string
	for _, t := range touches {
		declared := false
		for _, e := range effects {
			isPath := e.Kind == tools.WritesPath || e.Kind == tools.ReadsPath && !t.write
			covers := e.Path == t.path || e.Tree && (e.Path == "." || strings.HasPrefix(t.path, e.Path+"/"))
			above := e.Kind == tools.WritesPath && strings.HasPrefix(e.Path, t.path+"/")
			if isPath && (covers || above) {
				declared = true
				break
			}
		}
		if !declared {
			verb := "reads"
			if t.write {
				verb = "writes"
			}
			problems = append(problems, fmt.Sprintf("it %s %s, which is not among its effects", verb, t.path))
		}
	}
	return problems
}
