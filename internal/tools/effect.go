// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

// An Effect is one thing a call would touch. Policy judges effects and never
// knows tools.
type Effect struct {
	Kind EffectKind

	// Path is what is read or written.
	Path string

	// Program and Argv are what is run.
	Program string
	Argv    []string

	// Host and Port are what is reached.
	Host string
	Port int

	// Tool is what is used.
	Tool string
}

// EffectKind is the verb of an effect.
type EffectKind int

const (
	ReadsPath EffectKind = 1 + iota
	WritesPath
	RunsProgram
	ReachesHost
	UsesTool
)

// Reads returns the effects of reading paths.
func Reads(paths ...string) []Effect { return onPaths(ReadsPath, paths) }

// Writes returns the effects of writing paths.
func Writes(paths ...string) []Effect { return onPaths(WritesPath, paths) }

func onPaths(kind EffectKind, paths []string) []Effect {
	effects := make([]Effect, len(paths))
	for i, path := range paths {
		effects[i] = Effect{Kind: kind, Path: path}
	}
	return effects
}
