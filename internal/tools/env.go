// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

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

	// Protected reports whether a path is one that no call may write; nil where
	// nothing is protected.
	Protected func(path string) bool

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

// Resolve returns the effects of a program that is not kept in the workspace,
// with every path as it is once links are followed.
func (e Env) Resolve(effects []Effect) []Effect {
	resolved := make([]Effect, 0, len(effects))
	for _, effect := range effects {
		if isPath := effect.Kind == ReadsPath || effect.Kind == WritesPath; isPath && !effect.Glob && effect.Path != "" {
			name := cmp.Or(effect.Named, effect.Path) // ".." after a link leads elsewhere than a clean path says
			if path, _ := e.Workspace.ResolveAnywhere(name); path != name {
				effect.Named, effect.Path = name, path
			}
		}
		resolved = append(resolved, e.within(effect)...)
	}
	return resolved
}

// maxTree is how many files are looked at to know what is in a tree.
const maxTree = 20_000

// within adds to the effect of changing a whole tree that of changing what is
// protected in it.
func (e Env) within(effect Effect) []Effect {
	effects := []Effect{effect}
	if effect.Kind != WritesPath || !effect.Tree || e.Protected == nil || !filepath.IsLocal(effect.Path) {
		return effects
	}
	found, all := e.Workspace.Find(effect.Path, maxTree, e.Protected)
	switch {
	case found != "":
		effects = append(effects, Effect{Kind: WritesPath, Path: found, Named: effect.Path, Rooted: effect.Rooted})
	case !all:
		effects[0].Unclear = fmt.Sprintf("there is more below %s than can be looked at", effect.Path)
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

	// ChangeMode changes the mode, if it still is from. The error, if any, is a
	// [*Failure]: the operator does not permit it, or somebody else changed the
	// mode meanwhile.
	ChangeMode(from, to Mode) error

	// PlanEnd returns the mode the session had before it entered plan mode, or
	// the operator's default where that is not known.
	PlanEnd() Mode
}
