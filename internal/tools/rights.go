// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding"
	"slices"
)

// Rights are what a call may touch: the verdict on it yields them, and the jail
// of its commands opens exactly these. The zero value opens nothing but the
// system's programs and the workspace, for reading.
type Rights struct {
	Confinement Confinement

	// Write are paths that may be written beside what the confinement opens, Read
	// those that may be read: relative to the workspace where they lie inside,
	// absolute outside. Each stands for everything below it. A path that may be
	// made stands for its directory.
	Write, Read []string

	// Deny are patterns' matches that no command may read: what a rule denies,
	// kept from the jail where the sandbox can. See [Offer.Covers].
	Deny Denial

	// Aside says that Deny is about this command alone, and not about what others of
	// the session may read.
	Aside bool

	// Network is how far commands reach, and Hosts, as host:port, what they reach
	// in addition, for this call alone; port 0 means any.
	Network Network
	Hosts   []string
}

// A Denial tells what may not be read. Two that are equal deny the same.
type Denial interface {
	// Denies reports whether a path of the workspace may not be read, and with it
	// everything below.
	Denies(path string) bool
}

// Confinement is which files commands may write. A greater one opens more.
type Confinement int

const (
	// Reading opens a temporary directory that goes with the call.
	Reading Confinement = iota
	// Named opens [Rights.Write], the home and the temporary directory of the
	// session.
	Named
	// SessionWide opens the workspace, the home, the temporary directory and the
	// caches: everything that is the session's own.
	SessionWide
	// Unconfined opens every file that the server's user may write: level
	// danger_full_access. Limits and killing stay.
	Unconfined
)

var confinementNames = []string{"reading", "named", "session", "unconfined"}

func (c Confinement) String() string { return nameOf(confinementNames, int(c)) }

// Network is how far commands reach. A greater one reaches further; the zero
// value is none of them, and reaches nothing.
type Network int

const (
	// NetworkNone reaches nothing.
	NetworkNone Network = 1 + iota
	// NetworkLoopback reaches what the session itself serves on loopback.
	NetworkLoopback
	// NetworkHosts reaches, through a proxy of the server, the hosts that the
	// policy allows, too.
	NetworkHosts
	// NetworkOpen reaches whatever the machine does.
	NetworkOpen
)

var networkNames = []string{"unset", "none", "loopback", "hosts", "open"}

func (n Network) String() string { return nameOf(networkNames, int(n)) }

// MarshalText writes the network's name.
func (n Network) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a network's name.
func (n *Network) UnmarshalText(text []byte) error {
	i, err := indexOfName("network", networkNames, string(text))
	*n = Network(i)
	return err
}

var _ encoding.TextUnmarshaler = (*Network)(nil)

// An Offer is what the sandbox of a server can give to commands, and keep from
// them. The zero value keeps nothing.
type Offer struct {
	// Holds says that commands are confined: one that nobody understands can do
	// no more than its rights.
	Holds bool

	// Covers says that what a rule denies to read can be kept from commands.
	Covers bool

	// Network is the most that commands reach.
	Network Network

	// Readable are trees, absolute, beside the workspace that every command may
	// read: programs, libraries, what the operator opens.
	Readable []string

	// Facts are files and trees, absolute, that commands may read besides, and
	// other tools may not: they tell of the machine, or of who reads them.
	Facts []string

	// Shared are trees, absolute, that the session's commands write as they do
	// their temporary directory: memory that processes share as files.
	Shared []string

	// Temporary are the directories, absolute, that are the session's own
	// temporary directory to its commands, such as /tmp where there is a mount
	// namespace.
	Temporary []string
}

// Access is what [Rights] give access to, as data: it can be shown, stored and sent.
// What is denied to read is left out, for that depends on the policy in force.
type Access struct {
	Confinement Confinement
	Write, Read []string
	Network     Network `json:",omitempty"` // which has no name where it is none
	Hosts       []string
}

// Access returns what the rights give access to.
func (r Rights) Access() *Access {
	return &Access{Confinement: r.Confinement, Write: r.Write, Read: r.Read, Network: r.Network, Hosts: r.Hosts}
}

// Within reports whether a gives access to nothing that b does not.
func (a *Access) Within(b *Access) bool {
	among := func(list, all []string) bool {
		return !slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(all, s) })
	}
	return a.Confinement <= b.Confinement && a.Network <= b.Network &&
		among(a.Write, b.Write) && among(a.Read, b.Read) && among(a.Hosts, b.Hosts)
}
