// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects

import (
	"path/filepath"

	"github.com/toolserver/toolserver/internal/tools"
)

// Removes returns the effects of removing an entry of the workspace, which may
// be a link; with tree, also what is below it.
func Removes(e tools.Env, name string, tree bool) []tools.Effect {
	effect := e.WritesEntry(name)
	effect.Tree = tree
	changes := examine(e).within(effect, nil)
	read := changes[0] // what is removed is kept, and shown
	read.Kind, read.Examined, read.Unclear = tools.ReadsPath, false, ""
	return append([]tools.Effect{read}, changes...)
}

// Moves returns the effects of moving an entry of the workspace, with what is
// below it.
func Moves(e tools.Env, from, to string) []tools.Effect {
	effects := Removes(e, from, true)
	source, target := effects[1], e.WritesEntry(to)
	target.Tree = source.Tree
	read := target
	read.Kind = tools.ReadsPath
	effects = append(effects, read)
	if !filepath.IsLocal(source.Path) || !filepath.IsLocal(target.Path) {
		return append(effects, target)
	}
	// What is moved may be protected where it comes to lie.
	x := examine(e)
	brought := x.tree(source.Path, target.Path, false)
	there := x.within(target, nil)
	there[0].Examined = there[0].Examined && brought.all && !brought.more
	if !brought.all && there[0].Unclear == "" {
		there[0].Unclear = tooMuch(source.Path)
	}
	for _, found := range brought.found {
		there = append(there, found.effect(to, target))
	}
	return append(effects, there...)
}
