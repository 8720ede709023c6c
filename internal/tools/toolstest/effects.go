// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolstest

import "github.com/toolserver/toolserver/internal/tools"

// Reads returns the effects of reading paths.
func Reads(paths ...string) []tools.Effect { return onPaths(tools.ReadsPath, paths) }

// Writes returns the effects of writing paths.
func Writes(paths ...string) []tools.Effect { return onPaths(tools.WritesPath, paths) }

func onPaths(kind tools.EffectKind, paths []string) []tools.Effect {
	effects := make([]tools.Effect, len(paths))
	for i, path := range paths {
		effects[i] = tools.Effect{Kind: kind, Path: path}
	}
	return effects
}
