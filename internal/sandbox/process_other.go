// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"context"
	"net"
	"os"
	"syscall"
)

// Sandbox starts commands: on Linux alone.
type Sandbox struct{}

// Open returns a sandbox that cannot run anything.
func Open(Config) (*Sandbox, error) { return &Sandbox{}, nil }

// Close does nothing.
func (*Sandbox) Close() error { return nil }

// Namespaces reports false.
func (*Sandbox) Namespaces() bool { return false }

// Space is what commands would share.
type Space struct{}

// Space returns one in which nothing runs.
func (*Sandbox) Space(SpaceConfig) *Space { return &Space{} }

// Close does nothing.
func (*Space) Close() {}

// Listen fails with [ErrUnavailable].
func (*Space) Listen() (net.Listener, error) { return nil, ErrUnavailable }

// Dial fails with [ErrUnavailable].
func (*Space) Dial(context.Context, uint16) (net.Conn, error) { return nil, ErrUnavailable }

// Jail is where commands would run.
type Jail struct{}

// Jail fails with [ErrUnavailable].
func (*Space) Jail(Profile) (*Jail, error) { return nil, ErrUnavailable }

// Close does nothing.
func (*Jail) Close() error { return nil }

// Start fails with [ErrUnavailable].
func (*Jail) Start(Command) (*Process, error) { return nil, ErrUnavailable }

// Process is a running command: there is none.
type Process struct{}

// Signal fails with [ErrUnavailable].
func (*Process) Signal(syscall.Signal) error { return ErrUnavailable }

// Kill does nothing.
func (*Process) Kill() {}

// Terminate does nothing.
func (*Process) Terminate() {}

// Wait fails with [ErrUnavailable].
func (*Process) Wait() (End, error) { return End{}, ErrUnavailable }

// OpenTerminal fails with [ErrUnavailable].
func (*Jail) OpenTerminal(rows, columns uint16) (ours, theirs *os.File, err error) {
	return nil, nil, ErrUnavailable
}

// ResizeTerminal fails with [ErrUnavailable].
func ResizeTerminal(ours *os.File, rows, columns uint16) error { return ErrUnavailable }

// Capabilities returns that there are none.
func (*Sandbox) Capabilities() Capabilities { return Capabilities{} }

// Probe returns that nothing holds.
func (*Sandbox) Probe(context.Context, string) []Check {
	all := make([]Check, len(checks))
	for i, c := range checks {
		all[i] = Check{Name: c.name, What: c.what, Required: c.required, Detail: ErrUnavailable.Error()}
	}
	return all
}
