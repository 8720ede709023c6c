// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding"
	"fmt"
	"slices"
	"strings"
)

// Level is how much trust a tool needs, and how much a session has. The zero
// value is no level: a session with it may run nothing.
type Level int

const (
	// ReadOnly looks and changes nothing.
	ReadOnly Level = 1 + iota
	// WorkspaceWrite changes files of the session's workspace.
	WorkspaceWrite
	// DangerFullAccess may do anything the server's own user may do.
	DangerFullAccess
)

var levelNames = []string{"none", "read_only", "workspace_write", "danger_full_access"}

func (l Level) String() string { return nameOf(levelNames, int(l)) }

// MarshalText writes the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a level's name.
func (l *Level) UnmarshalText(text []byte) error {
	i, err := indexOfName("level", levelNames, string(text))
	*l = Level(i)
	return err
}

// Mode is what happens with calls that change something. The zero value is no
// mode: a session with it may run nothing.
type Mode int

const (
	// ModeAsk asks a person.
	ModeAsk Mode = 1 + iota
	// ModeAllow lets them run.
	ModeAllow
	// ModeDeny lets no call run, not even one that only reads.
	ModeDeny
	// ModePlan refuses them: the agent is to look and plan.
	ModePlan
	// ModeAcceptEdits lets edits of workspace files run and asks about the rest.
	ModeAcceptEdits
)

var modeNames = []string{"none", "ask", "allow", "deny", "plan", "accept_edits"}

func (m Mode) String() string { return nameOf(modeNames, int(m)) }

// MarshalText writes the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a mode's name.
func (m *Mode) UnmarshalText(text []byte) error {
	i, err := indexOfName("mode", modeNames, string(text))
	*m = Mode(i)
	return err
}

// byPermission are the modes, from the one that permits least.
var byPermission = []Mode{ModeDeny, ModePlan, ModeAsk, ModeAcceptEdits, ModeAllow}

// Above reports whether the mode permits more than another.
func (m Mode) Above(other Mode) bool {
	return slices.Index(byPermission, m) > slices.Index(byPermission, other)
}

var (
	_ encoding.TextUnmarshaler = (*Level)(nil)
	_ encoding.TextUnmarshaler = (*Mode)(nil)
)

// nameOf returns the name at a place in names; the first is that of all others.
func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		i = 0
	}
	return names[i]
}

// indexOfName returns the place of name in names; the first is not a valid
// choice.
func indexOfName(what string, names []string, name string) (int, error) {
	i := slices.Index(names, name)
	if i < 1 {
		return 0, fmt.Errorf("%q is no %s: want one of %s", name, what, strings.Join(names[1:], ", "))
	}
	return i, nil
}
