// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

// An Effect is one thing a call would touch. Policy judges effects and never
// knows tools.
type Effect struct {
	Kind EffectKind

	// Path is what is read or written, with symbolic links resolved: relative to
	// the workspace where it lies inside, absolute where it lies outside.
	Path string

	// Named is how the call named the path, where resolving it changed it.
	Named string

	// Tree says that everything below Path is meant too.
	Tree bool

	// Withholds says that what may not be read by itself is left out of what is
	// below Path.
	Withholds bool

	// Stored says that it is what a repository keeps of the path, in any commit, that
	// is read: a jail that hides a file does not hide that.
	Stored bool

	// Glob says that Path is a pattern a shell will expand.
	Glob bool

	// Cut says that the names which a pattern stands for are taken apart at blanks
	// and quotes before they are used.
	Cut bool

	// Examined says that what a pattern names, and of what is changed everything
	// below, was examined: what a policy may care about is an effect by itself.
	Examined bool

	// NamesExamined says that of what is changed everything below was examined, but
	// for where it comes to lie: what a policy may care about wherever it is, by its
	// name alone, is an effect by itself.
	NamesExamined bool

	// Removes says that the path is removed, and that nothing is put there.
	Removes bool

	// Rooted says that the path is opened through the workspace, from where
	// nothing leads outside.
	Rooted bool

	// Program is what is run, as it was written. Argv are its words, Program the
	// first; a word that only running the command would tell is [UnknownWord].
	Program string
	Argv    []string

	// ReadOnly says that running the program with these words provably changes
	// nothing.
	ReadOnly bool

	// Complete says that the effects beside it are everything that running the
	// program touches. What is not told is contained, or asked about.
	Complete bool

	// Malformed says that the command does not parse: bash runs at most the lines
	// before the mistake, and answers with its syntax error.
	Malformed bool

	// Host and Port are what is reached; port 0 means any.
	Host string
	Port int

	// Configured says that the operator's configuration names the host for this tool,
	// and no input can change it: to reach it is no question by itself. Of what is used,
	// that the operator offers it, and that every step of it is judged.
	Configured bool

	// Own says that the host is the session's own loopback: what its own commands serve.
	Own bool

	// Tool is what is used. Lasting says that it outlives the session, and is there for
	// others: a person decides that, whatever the mode and the rules allow.
	Tool    string
	Lasting bool

	// Mode is what the session is changed to.
	Mode Mode `json:",omitempty"`

	// Unclear says why it cannot be told in full what is touched; empty where it
	// can. What is unclear runs where it is contained, or with a person's leave.
	Unclear string
}

// UnknownWord stands in for a word of a command that only running it would
// tell. No real word contains a NUL.
const UnknownWord = "\x00"

// EffectKind is the verb of an effect.
type EffectKind int

const (
	ReadsPath EffectKind = 1 + iota
	WritesPath
	RunsProgram
	ReachesHost
	UsesTool
	ChangesMode
)

var effectNames = []string{"unknown", "reads", "writes", "runs", "reaches", "uses", "changes_mode"}

func (k EffectKind) String() string { return nameOf(effectNames, int(k)) }
