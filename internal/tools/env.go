// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"os"

	"github.com/toolserver/toolserver/internal/workspace"
)

// Env is where a call happens.
type Env struct {
	// SessionID and CallID name the call.
	SessionID, CallID string

	// Workspace holds the files of the session.
	Workspace *workspace.Workspace

	// Session is what a call may change of its session.
	Session Session

	judged *judged // by the call that was decoded for this env
}

// judged is where the names of a call led when its effects were told.
type judged struct{ paths map[string]string }

// Reads returns the effects of reading files of the workspace.
func (e Env) Reads(names ...string) []Effect { return e.touch(ReadsPath, names) }

// Writes returns the effects of writing files of the workspace.
func (e Env) Writes(names ...string) []Effect { return e.touch(WritesPath, names) }

func (e Env) touch(kind EffectKind, names []string) []Effect {
	effects := make([]Effect, len(names))
	for i, name := range names {
		path, inside := e.Workspace.Resolve(name)
		effects[i] = Effect{Kind: kind, Path: path, Rooted: true}
		if path != name {
			effects[i].Named = name
		}
		if inside && e.judged != nil {
			if e.judged.paths == nil {
				e.judged.paths = make(map[string]string)
			}
			e.judged.paths[name] = path
		}
	}
	return effects
}

// Path returns where a name led when the effects of the call were told. A name
// that was not among them, or led outside, is an error: what was not judged is
// not touched.
func (e Env) Path(name string) (string, error) {
	path, ok := e.judged.paths[name]
	if !ok {
		return "", fmt.Errorf("%s: %w", name, workspace.ErrOutside)
	}
	return path, nil
}

// Open opens a file for reading that is among the effects of the call.
func (e Env) Open(name string) (*os.File, error) {
	path, err := e.Path(name)
	if err != nil {
		return nil, err
	}
	return e.Workspace.OpenFile(path)
}

// A Session is what a call may know and change of the session it runs in.
type Session interface {
	// Mode returns the mode of now.
	Mode() Mode

	// SetMode changes the mode. The error, if any, says in a sentence what the
	// operator does not permit.
	SetMode(Mode) error

	// PlanEnd returns the mode the session had before it entered plan mode, or
	// the operator's default where that is not known.
	PlanEnd() Mode
}
