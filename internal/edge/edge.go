// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package edge is the face of the server for clients of the Model Context Protocol, over
// streamable HTTP and stdio. It translates and decides nothing: each request of a client
// becomes RPCs with the credentials that came with it, which pass the same chain as every
// other, and who may do what is said there.
//
// Locks: that of a [Handler] guards its list of sessions, and is taken before that of
// what is kept of their streams; that of a session guards what is known of it, call.telling the
// progress of a call. None of these is held while a message is sent or received. deadlineWriter.mu and
// lines.writing are held while one is written, to keep messages whole; no other is taken meanwhile.
//
// Goroutines: the SDK has some for each session, which end with it. A session has one
// that waits for its end, one that closes it, and one that watches its tools. A call has one for each
// question that its client is asked, which ends with the question. Stdio has one that reads lines,
// which ends with the input.
package edge

import (
	"cmp"
	"time"

	"github.com/toolserver/toolserver/internal/size"
)

// Protocols are the versions of the protocol that are spoken, the newest first.
var Protocols = []string{"2025-11-25", "2025-06-18"}

// Limits bound what clients over HTTP may take. Zero fields take the defaults named.
type Limits struct {
	MaxBody              size.Bytes    `yaml:"max_body_bytes"`             // of a request; 4 MiB
	MaxSessions          int           `yaml:"max_sessions"`               // of all clients; 1000
	MaxPrincipalSessions int           `yaml:"max_sessions_per_principal"` // of one principal; 100
	MaxStreams           int           `yaml:"max_streams"`                // requests under way of a session; 128
	IdleTimeout          time.Duration `yaml:"idle_timeout"`               // of a session; 30 minutes
	ResumeTimeout        time.Duration `yaml:"resume_timeout"`             // of a lost connection; 30 seconds
}

// WithDefaults returns the limits with every field set.
func (l Limits) WithDefaults() Limits {
	l.MaxBody = cmp.Or(l.MaxBody, 4<<20)
	l.MaxSessions = cmp.Or(l.MaxSessions, 1000)
	l.MaxPrincipalSessions = cmp.Or(l.MaxPrincipalSessions, 100)
	l.MaxStreams = cmp.Or(l.MaxStreams, 128)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 30*time.Minute)
	l.ResumeTimeout = cmp.Or(l.ResumeTimeout, 30*time.Second)
	return l
}

// Settings are which session of the server a client works in.
type Settings struct {
	// Session is its id: one that the caller has, or that is then made. Empty is the
	// caller's default session, and [NewSession] one that ends with the connection.
	Session string

	// Workspace, Mode and Persona are those of a session that is made.
	Workspace, Mode, Persona string
}

// NewSession has a session made that ends with the connection of the client.
const NewSession = "new"

// instructions are what a client tells its model about this server.
const instructions = "Tools that run in a workspace behind a policy. A call that changes something may wait for a person, " +
	"who is asked; one that is refused says why and what would be allowed. Large outputs are resource links."
