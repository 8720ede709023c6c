// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package helper is the small process between the server and the commands it
// runs. It is started once and forks for every command a guard, which goes on
// without the Go runtime, and from the guard the command:
//
//	server ── helper                     waits for requests
//	            └─ guard                 one a command, in a Landlock domain of its own
//	                 └─ command          in a domain within the guard's, restricted
//	                      └─ …           what the command starts
//
// The guard is the parent of whatever loses its own. When the command ends, when
// the server says so and when the server is gone, it kills all that is left in
// its domain, reaps it, and reports. Nothing in the domain can signal the guard.
//
// A fork of a small process costs a tenth of starting a Go program, and what
// runs in the fork is raw system calls: that is why it looks like it does.
package helper

import (
	"encoding/binary"
	"errors"
)

// A Request asks the helper for one command.
type Request struct {
	Path      string   // of the program
	Args, Env []string // Args[0] is the name it is called by

	Limits []Limit // resource limits
	Filter []Instr // the seccomp program; none: no filter
	Flags  Flags
}

// Limit is a resource limit, soft and hard alike.
type Limit struct {
	Resource uint32
	Value    uint64
}

// Instr is one instruction of a seccomp program.
type Instr struct {
	Code   uint16
	JT, JF uint8
	K      uint32
}

// Flags choose what is done for a command.
type Flags uint32

const (
	// Scoped gives the guard a Landlock domain, by which it finds whom to kill.
	Scoped Flags = 1 << iota
	// Restricted says that a Landlock ruleset comes with the request.
	Restricted
	// Terminal makes standard input the controlling terminal.
	Terminal
	// DropCapabilities takes from a command of root what Landlock does not bound.
	DropCapabilities
)

// Files that come with a request, in this order. Ruleset is there if it is
// Restricted.
const (
	fileControl = iota
	fileStdin
	fileStdout
	fileStderr
	fileDir
	fileRuleset
	maxFiles
)

// MaxRequest is how large a request may be: more than the kernel takes.
const MaxRequest = 4 << 20

const (
	headSize  = 7 * 4
	limitSize = 16
	instrSize = 8
)

// ErrNUL says that a string of a request contains a zero byte.
var ErrNUL = errors.New("contains a NUL byte")

// Encode returns the request as it is sent. The parts lie so that the helper
// passes them to the kernel where they are.
func (r *Request) Encode() ([]byte, error) {
	le := binary.LittleEndian
	size := headSize + 4 + limitSize*len(r.Limits) + instrSize*len(r.Filter) + len(r.Path) + 1
	for _, list := range [][]string{r.Args, r.Env} {
		for _, s := range list {
			size += len(s) + 1
		}
	}
	if size > MaxRequest {
		return nil, errors.New("arguments and environment are too long")
	}
	b := make([]byte, 0, size)
	for _, n := range []int{size, int(r.Flags), len(r.Limits), len(r.Filter), len(r.Args), len(r.Env), 0, 0} {
		b = le.AppendUint32(b, uint32(n))
	}
	for _, limit := range r.Limits {
		b = le.AppendUint64(b, uint64(limit.Resource))
		b = le.AppendUint64(b, limit.Value)
	}
	for _, i := range r.Filter {
		b = le.AppendUint16(b, i.Code)
		b = append(b, i.JT, i.JF)
		b = le.AppendUint32(b, i.K)
	}
	var err error
	appendString := func(s string) {
		for i := range len(s) {
			if s[i] == 0 {
				err = ErrNUL
			}
		}
		b = append(append(b, s...), 0)
	}
	appendString(r.Path)
	for _, list := range [][]string{r.Args, r.Env} {
		for _, s := range list {
			appendString(s)
		}
	}
	return b, err
}

// A Report is what a guard tells: that the command runs, that it could not be
// started, or that all of it has ended.
type Report struct {
	Kind   ReportKind
	Status uint32 // Ended: the wait status of the command

	// Started: the process ids. The guard's is that of the root of all that the
	// command starts.
	Guard, Command uint32

	// Failed: what failed, and how.
	Step  Step
	Errno uint32

	// Ended: what all of it used.
	User, System uint64 // microseconds
	MaxRSS       uint64 // bytes, of the largest process
	Reaped       uint32 // processes the guard was the last parent of
	Left         uint32 // 1 if something could not be killed in time
}

// ReportKind tells what a report is about.
type ReportKind uint32

const (
	Started ReportKind = 1 + iota
	Failed
	Ended
)

// Step is what a guard or a command was doing when it failed.
type Step uint32

const (
	StepFork Step = 1 + iota
	StepScope
	StepTerminal
	StepFiles
	StepDir
	StepLimits
	StepPrivileges
	StepLandlock
	StepSeccomp
	StepExec
)

var stepNames = [...]string{
	StepFork:       "starting a process",
	StepScope:      "confining signals",
	StepTerminal:   "taking the terminal",
	StepFiles:      "passing the standard files",
	StepDir:        "entering the working directory",
	StepLimits:     "setting a resource limit",
	StepPrivileges: "giving up privileges",
	StepLandlock:   "restricting files and network",
	StepSeccomp:    "restricting system calls",
	StepExec:       "executing the program",
}

// String returns what was being done.
func (s Step) String() string {
	if int(s) < len(stepNames) {
		return stepNames[s]
	}
	return "an unknown step"
}

const reportSize = 64

// DecodeReport reads a report.
func DecodeReport(b []byte) (Report, error) {
	if len(b) != reportSize {
		return Report{}, errors.New("a report of the wrong size")
	}
	le := binary.LittleEndian
	return Report{
		Kind: ReportKind(le.Uint32(b)), Status: le.Uint32(b[4:]),
		Guard: le.Uint32(b[8:]), Command: le.Uint32(b[12:]),
		Step: Step(le.Uint32(b[16:])), Errno: le.Uint32(b[20:]),
		Reaped: le.Uint32(b[24:]), Left: le.Uint32(b[28:]),
		User: le.Uint64(b[32:]), System: le.Uint64(b[40:]), MaxRSS: le.Uint64(b[48:]),
	}, nil
}

// What the server says to a guard: one byte each. Everything below [Kill] is a
// signal for the process group of the command; hanging up is Kill too.
const Kill = 255
