// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Env is where a call happens.
type Env struct {
	// SessionID and CallID name the call.
	SessionID, CallID string

	// Tenant and Principal are whose the session is. OnBehalfOf is the user whom the
	// call is for; empty: the principal itself.
	Tenant, Principal, OnBehalfOf string

	// MaxMode is the most permissive mode that the caller may have, and with it whoever
	// calls on its behalf; 0: that of its session.
	MaxMode Mode

	// Workspace holds the files of the session.
	Workspace *workspace.Workspace

	// Session is what a call may change of its session.
	Session Session

	// Changes keeps what calls of the session replaced; nil where nothing is
	// kept.
	Changes *history.Store

	// Restrictions know about single paths, for calls that touch many; nil where nobody
	// does.
	Restrictions Restrictions

	// Artifacts keeps what is too large for a result; nil where nothing is kept.
	Artifacts Artifacts

	// Documents keeps what calls note for later ones; nil where nothing is kept.
	Documents Documents

	// Settings are those of the session that the operator exposes; nil where there are
	// none.
	Settings Settings

	// Answer is how much room the text of the answer has; 0 means [DefaultAnswer].
	// Measure says how much of it a text takes.
	Answer  int
	Measure Measure

	// EditErrors is how long a call that changed files may wait to tell which errors they
	// have since; 0: it does not tell.
	EditErrors time.Duration

	// Words are those by which the model knows tools and keys.
	Words Words

	// Help tells more of a tool that the session has; nil where nobody does.
	Help func(tool string) (page string, err error)

	// Catalog knows the tools that the session has; nil where nobody does.
	Catalog Catalog

	// Readable are trees and files beside the workspace that every command may
	// read, absolute, and so may calls by [Env.View]. Temporary are directories that
	// stand for the session's temporary one. See [Offer].
	Readable, Temporary []string

	// Rights are what the commands of the call may touch, once it runs.
	Rights Rights

	judged *judged // by the call that was decoded for this env
}

// Restrictions tell what would be said about single paths that a call touches as
// part of something larger. Paths are clean, and relative to the workspace. The
// methods are safe for concurrent use.
type Restrictions interface {
	// Protected reports whether a path is one that no call may write.
	Protected(path string) bool

	// Cares reports whether a path that is read or written may have to be judged
	// by itself, protected or not.
	Cares(kind EffectKind, path string) bool

	// Withheld returns what reports whether a path below top, which the call may
	// read, is not to be read with it: nobody may or, with asked, a person would
	// have to be asked. What it says of a directory it says of everything below.
	// It returns nil where there is no such path.
	Withheld(top string, asked bool) func(path string) bool

	// Reaches returns why a host may not be reached by a command that runs, or nil: a
	// [Prohibition] where a rule denies it, whoever may have allowed it before.
	// ReachesAddress is the same of an address that a host stands for, and whether a
	// rule lists that very address.
	Reaches(host string, port int) error
	ReachesAddress(addr netip.Addr, port int) (listed bool, err error)

	// Protection returns what an operator protects, beside the names that always
	// are; nil where that is nothing.
	Protection() Protection

	// Denial returns what a program that reads the workspace for the call must not
	// see: what nobody may read, and what a person would have to be asked about. It
	// is nil where that is nothing.
	Denial() Denial
}

// A Prohibition is what a rule that denies says.
type Prohibition string

func (p Prohibition) Error() string { return string(p) }

// A Protection tells what no call may write. Two that are equal protect the same.
type Protection interface {
	// Protects reports whether a path of the workspace is protected, and with it
	// everything below.
	Protects(path string) bool
}

// judged is where the names of a call led when its effects were told.
type judged struct {
	paths  map[string]string
	beside map[string]place
	pins   map[string]string
	once   map[any]any
}

// same returns nil where every name that was judged leads to the same place in now.
func (j *judged) same(now *judged) error {
	for name, path := range j.paths {
		if there, ok := now.paths[name]; !ok || there != path {
			return fmt.Errorf("%s led to %s, and leads elsewhere by now", name, path)
		}
	}
	for name, place := range j.beside {
		if there, ok := now.beside[name]; !ok || there != place {
			return fmt.Errorf("%s leads elsewhere by now", name)
		}
	}
	return nil
}

// Reads returns the effects of reading files of the workspace.
func (e Env) Reads(names ...string) []Effect { return e.touch(ReadsPath, names) }

// ReadsEntries returns the effects of looking at entries of the workspace, of
// which a link is seen itself. Those that lead outside are left out.
func (e Env) ReadsEntries(names ...string) []Effect {
	var effects []Effect
	for _, name := range names {
		if path, inside := e.Workspace.ResolveEntry(name); inside {
			effects = append(effects, e.judge(ReadsPath, name, path, inside))
		}
	}
	return effects
}

// Writes returns the effects of writing files of the workspace.
func (e Env) Writes(names ...string) []Effect { return e.touch(WritesPath, names) }

// Edits returns the effects of writing files by what is in them.
func (e Env) Edits(names ...string) []Effect { return append(e.Reads(names...), e.Writes(names...)...) }

// ReadsTree returns the effects of reading a directory and what is below it, but
// for what is withheld: a call that tells them leaves out what Withheld says.
func (e Env) ReadsTree(name string) []Effect {
	effects := e.Reads(name)
	effects[0].Tree, effects[0].Withholds = true, e.Restrictions != nil
	return effects
}

// Protected reports whether a path is one that no call may write.
func (e Env) Protected(path string) bool {
	return e.Restrictions != nil && e.Restrictions.Protected(path)
}

// Protection is [Restrictions.Protection].
func (e Env) Protection() Protection {
	if e.Restrictions == nil {
		return nil
	}
	return e.Restrictions.Protection()
}

// Denial is [Restrictions.Denial].
func (e Env) Denial() Denial {
	if e.Restrictions == nil {
		return nil
	}
	return e.Restrictions.Denial()
}

// Withheld is [Restrictions.Withheld] for a directory of ReadsTree.
func (e Env) Withheld(name string, asked bool) func(path string) bool {
	return e.WithheldBelow(e.judged.paths[name], asked)
}

// WithheldBelow is [Restrictions.Withheld], and what in the workspace is the server's own.
func (e Env) WithheldBelow(top string, asked bool) func(path string) bool {
	var withheld func(path string) bool
	if e.Restrictions != nil {
		withheld = e.Restrictions.Withheld(top, asked)
	}
	closed := e.Workspace.Closed()
	switch {
	case closed == nil:
		return withheld
	case withheld == nil:
		return closed
	}
	return func(path string) bool { return closed(path) || withheld(path) }
}

// WritesEntry returns the effect of writing an entry itself, not what it leads to.
func (e Env) WritesEntry(name string) Effect {
	path, inside := e.Workspace.ResolveEntry(name)
	return e.judge(WritesPath, name, path, inside)
}

func (e Env) touch(kind EffectKind, names []string) []Effect {
	effects := make([]Effect, len(names))
	for i, name := range names {
		path, inside := e.Workspace.Resolve(name)
		effects[i] = e.judge(kind, name, path, inside)
	}
	return effects
}

func (e Env) judge(kind EffectKind, name, path string, inside bool) Effect {
	effect := Effect{Kind: kind, Path: path, Rooted: true}
	if path != name {
		effect.Named = name
	}
	if inside && e.judged != nil {
		if e.judged.paths == nil {
			e.judged.paths = make(map[string]string)
		}
		e.judged.paths[name] = path
	}
	return effect
}

// Once returns what make returned when the call first asked for key: what its effects
// share. An Env of no call shares nothing.
func (e Env) Once(key any, make func() any) any {
	if e.judged == nil {
		return make()
	}
	value, ok := e.judged.once[key]
	if !ok {
		value = make()
		if e.judged.once == nil {
			e.judged.once = map[any]any{}
		}
		e.judged.once[key] = value
	}
	return value
}

// Pin notes what something was when the call was judged or shown, so that Run
// can tell whether it is something else by now.
func (e Env) Pin(what, was string) {
	if e.judged.pins == nil {
		e.judged.pins = make(map[string]string)
	}
	e.judged.pins[what] = was
}

// Pinned returns what Pin noted.
func (e Env) Pinned(what string) (was string, ok bool) {
	was, ok = e.judged.pins[what]
	return was, ok
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
func (e Env) Open(name string) (*workspace.Opened, error) {
	path, err := e.Path(name)
	if err != nil {
		return nil, err
	}
	return e.Workspace.OpenFile(path)
}

// Artifacts keeps bytes for the callers of a session to read.
type Artifacts interface {
	// Create begins an artifact, which can be read while it is written.
	Create(name, mediaType string) (ArtifactWriter, error)

	// Find returns the artifact of the session that a URI names. The error is a
	// [*Failure] that says what would be right.
	Find(uri string) (KeptArtifact, error)

	// All returns the artifacts of the session, the newest first.
	All() []KeptArtifact
}

// A KeptArtifact is an artifact that can be read.
type KeptArtifact struct {
	Artifact
	Dir, File string    // where it is: a directory of the server, and a name there
	Writing   bool      // it is not complete yet
	Expires   time.Time // zero while it is written
}

// An ArtifactWriter writes an artifact. What cannot be kept is counted and left
// out: Write never fails. Close it after use.
type ArtifactWriter interface {
	io.Writer

	// Close returns what is kept.
	Close() Artifact
}

// Documents are what a session keeps for its calls beside files: small JSON values by
// name, which last as long as its workspace. Errors are [*Failure]s. Methods are safe for
// concurrent use.
type Documents interface {
	// Read returns a document; nil where there is none.
	Read(name string) (json.RawMessage, error)

	// Change replaces a document by what change makes of it, as a whole or, where
	// something fails, not at all; nil removes it. Nobody else changes it meanwhile.
	Change(name string, change func(old json.RawMessage) (json.RawMessage, error)) error
}

// Settings are what calls may know, and change, of the settings of their session. Nothing
// that they can change permits the session more.
type Settings interface {
	// All returns the settings that may be known, by name.
	All() []Setting

	// Set changes one. The error is a [*Failure] that says what would be right.
	Set(name, value string) error
}

// A Setting is one that a call may know.
type Setting struct {
	Name, Value string
	About       string // what it is, and what it can be
	Settable    bool
}

// A Catalog is the tools of a session, as its calls may know them.
type Catalog interface {
	// All returns every tool of the server, sorted by name, and a number that changes
	// whenever the set does. The slice must not be changed.
	All() (entries []*Entry, revision uint64)

	// Has reports whether the session can call a tool.
	Has(*Entry) bool

	// Activate makes tools active: the model is given their definitions.
	Activate(names ...string)
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

	// Private returns a directory of the session outside of its workspace. It is
	// made when it is first asked for, and goes with the session.
	Private() (dir string, err error)

	// Home returns the home directory of what the session runs, with links
	// resolved; "" as long as nobody asked for its private directory, in which
	// it is.
	Home() string

	// Temp returns the temporary directory of what the session runs; "" as long as
	// nobody asked for its private directory, in which it is.
	Temp() string

	// Cache returns a directory of the session's principal that outlives the
	// session, for what its commands fetch and build; "" where none is kept.
	Cache() (dir string, err error)

	// Busy marks the session as used until done is called, so that it is not taken
	// for idle while a process runs. It does not keep anybody from closing it.
	Busy() (done func())

	// AfterClose has f called once the session is closed and no call uses it any
	// more. It reports false, and does nothing, where that is so already.
	AfterClose(f func()) bool
}
