// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"cmp"
	"encoding/json"
	"time"
)

// Spec describes a tool to models, people and policy.
type Spec struct {
	// Name is what the tool is called by: a-z, 0-9 and underscores.
	Name string

	// Aliases are other names it answers to, such as those other agent systems
	// use for the same thing.
	Aliases []string

	// Keys are other names of keys of its input. They mean exactly the same.
	Keys []Key

	// Label is a name for people.
	Label string

	// Summary says in one line what the tool does.
	Summary string

	// Description is what the model is told.
	Description string

	// Help is more than a model needs up front.
	Help string

	// ResultSchema is the JSON Schema of the result's JSON content, or nil where
	// the result is text.
	ResultSchema json.RawMessage

	// Category is the family the tool belongs to.
	Category string

	// Kind is where the tool comes from; the zero value is Builtin.
	Kind Kind

	// Server names what a tool that is not built in comes from, such as an MCP
	// server, so that patterns may say @server and @server/tool.
	Server string

	// Private says whose the tool is; the zero value: everybody's.
	Private Private

	// Version tells a tool from others that have had its name: what was granted to
	// one is not granted to the next. Empty for a tool that changes with the server.
	Version string

	// Level is the highest level that a call of the tool can need. The zero value
	// is none of the three levels, and a registry refuses it.
	Level Level

	// LeastLevel is the level that every call needs, where calls differ: the effects
	// of a call say what it needs beyond that. 0 means Level.
	LeastLevel Level

	// ConcurrencySafe says that calls may run beside other calls of a session.
	ConcurrencySafe bool

	// Waits says that a call does nothing itself but wait for other calls, so that it has
	// no place among those that run at once.
	Waits bool

	// Delegates says that others work for a call, by calls of their own: a call with the same id is not made
	// again, also where the tool itself changes nothing.
	Delegates bool

	// FreesSpace says that the tool writes nothing but makes room, so that it can be
	// called where there is none.
	FreesSpace bool

	// Dangerous says that the tool can do harm that cannot be undone.
	Dangerous bool

	// Pages says that a call only reads, and answers with less where it has less room: it
	// is asked again where what it shows costs more tokens than its answer may have.
	Pages bool

	// RunsCode says that every call runs code that nobody can judge, so that to
	// trust one is to trust all.
	RunsCode bool

	// RequiredCapabilities is what the machine must offer.
	RequiredCapabilities []string

	// DefaultTimeout is how long a call may run unless the caller says
	// otherwise; 0 means the server's default.
	DefaultTimeout time.Duration

	// Examples are inputs that work.
	Examples []Example
}

// Identity returns the name of the tool, with its version where it has one.
func (s *Spec) Identity() string {
	if s.Version == "" {
		return s.Name
	}
	return s.Name + "@" + s.Version
}

// Needs returns the level that every call of the tool needs.
func (s *Spec) Needs() Level { return cmp.Or(s.LeastLevel, s.Level) }

// An Example is an input that works, and what it shows.
type Example struct {
	Summary string
	Input   json.RawMessage
}

// Kind is where a tool comes from.
type Kind int

const (
	Builtin Kind = iota
	MCP
	OpenAPI
	Dynamic
	Script
)

var kindNames = [...]string{"builtin", "mcp", "openapi", "dynamic", "script"}

// Confined reports whether tools of the kind run their programs in the sandbox of the
// session, so that a verdict makes the jail of what nobody understands.
func (k Kind) Confined() bool { return k == Builtin || k == Dynamic || k == Script }

// String returns the word that patterns use after an @.
func (k Kind) String() string { return kindNames[k] }

// Private names the one whose a tool is: a session, or all sessions of a principal. Two
// may have different tools of the same name.
type Private struct {
	Tenant, Principal string
	Session           string // its id; empty: all sessions of the principal
}

// To reports whether a session of a principal has the tool; without the id of a session,
// whether all of the principal's have.
func (p Private) To(tenant, principal, session string) bool {
	return p == Private{} || p.Tenant == tenant && p.Principal == principal && (p.Session == "" || p.Session == session)
}
