// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package helper is the small process between the server and the commands it
// runs: one for each space, when it is needed. It makes guards, which go on without
// the Go runtime.
// A guard takes a request from the server and makes the command, and when that
// has ended, it takes another:
//
//	server ── helper                     makes guards; answers for commands
//	            └─ guard                 in a Landlock domain of its own
//	                 └─ command          in a domain within the guard's, restricted
//	                      └─ …           what the command starts
//
// The guard is the parent of whatever loses its own. When the command ends, when
// the server says so and when the server is gone, it kills all that is left in
// its domain, reaps it, and reports. Nothing in the domain can signal the guard.
//
// Guards share the memory of the helper, and a command has it until it executes:
// copying it would cost more than everything else they do. So what runs there is
// raw system calls on memory set aside, and that is why it looks like it does.
//
// The seccomp filter is that of the thread that makes guards: everything inherits
// it. What it leaves to the helper is in notify_linux.go, signals_linux.go and
// sockets_linux.go.
//
// Goroutines: each listener for system calls has one, and each system call that is answered has one; they end
// with the process.
package helper

import (
	"encoding/binary"
	"errors"
	"strings"
)

// A Request asks the helper for one command, or for something else.
type Request struct {
	Kind RequestKind
	ID   uint64 // of the command, among those of this helper

	Path      string   // of the program
	Args, Env []string // Args[0] is the name it is called by
	Roots     []string // where the command may change modes and times; and Signals, and ports
	Place     []string // the root of its view and its working directory there; none without a view
	Limits    []Limit  // resource limits
	Flags     Flags

	// Filter is a seccomp program: for Restrict that of all commands, for Run one
	// that the command has in addition.
	Filter []Instr

	View string // for Show and Hide: see [Mounts]
}

// RequestKind tells what a request is for.
type RequestKind uint32

const (
	// Run has a guard start a command.
	Run RequestKind = 1 + iota
	// Dismiss ends a guard that has nothing to do.
	Dismiss
	// Post has the helper make one more guard.
	Post
	// Restrict sets the seccomp filter of all guards to come.
	Restrict
	// Abandon kills the guard of a command, and all whose guard is gone.
	Abandon
	// Show makes a view, and Hide removes one. Both are answered.
	Show
	Hide
	// Listen has the helper listen on its loopback, and Socket make a socket of its
	// network that is not connected; the socket comes with the answer.
	Listen
	Socket
)

// Limit is a resource limit, soft and hard alike; but a process has one more
// second of processor time before it is killed.
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
	// DropCapabilities takes from a command of root what Landlock does not bound,
	// and from others what they have in their namespace.
	DropCapabilities
	// Mannered has the guard report what is left when the command ends, and wait
	// until the server has it ended.
	Mannered
	// Background leaves a command in the session of the helper, by which the kernel
	// shares processors out.
	Background
)

// Files that come with a request to run, in this order. Ruleset is there if it
// is Restricted.
const (
	fileControl = iota
	fileStdin
	fileStdout
	fileStderr
	fileDir
	fileRuleset
	maxFiles
)

// What a request may hold: more than the kernel takes.
const (
	maxRequest = 4 << 20
	maxStrings = 1 << 17
)

// MaxPacket is the size of the largest request that a guard takes as it is. Of
// a larger one it gets [Head], and with the other files one that has it all.
const MaxPacket = 24 << 10

// head is what a request begins with. To run something, there follow limits, the
// filter, the places of strings (of the path, the arguments, the environment, the
// roots and the place, with 0 after each list), and the strings.
type head struct {
	size                                          uint32
	kind                                          RequestKind
	id                                            uint64
	flags                                         Flags
	nlimits, nfilter, nargs, nenv, nroots, nplace uint32
	_                                             uint32
}

const (
	headSize  = 48
	limitSize = 16
	instrSize = 8
)

// Head returns the head of an encoded request.
func Head(request []byte) []byte { return request[:headSize] }

var (
	// ErrNUL says that a string of a request contains a zero byte.
	ErrNUL = errors.New("contains a NUL byte")
	// ErrTooLong says that a request is larger than any command may be.
	ErrTooLong = errors.New("arguments and environment are too long: together they may have about 2 MiB")
)

// Encode returns the request as it is sent. The parts lie so that a guard passes
// them to the kernel where they are.
func (r *Request) Encode() ([]byte, error) {
	le := binary.LittleEndian
	lists := [...][]string{r.Args, r.Env, r.Roots, r.Place}
	size := headSize + limitSize*len(r.Limits) + instrSize*len(r.Filter) + len(r.View)
	table, text, count := size, 0, 0
	if r.Kind == Run {
		count, text = 1, len(r.Path)+1
		for _, list := range lists {
			count += len(list) + 1
			for _, s := range list {
				text += len(s) + 1
			}
		}
		size += 8*count + text
	}
	if size > maxRequest || count > maxStrings {
		return nil, ErrTooLong
	}
	b := make([]byte, 0, size)
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, uint32(r.Kind))
	b = le.AppendUint64(b, r.ID)
	for _, n := range [...]int{int(r.Flags), len(r.Limits), len(r.Filter), len(r.Args), len(r.Env), len(r.Roots), len(r.Place), 0} {
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
	if r.Kind != Run {
		return append(b, r.View...), nil
	}
	place := b[table:table:size]
	b = b[:table+8*count]
	var err error
	put := func(s string) {
		if strings.IndexByte(s, 0) >= 0 {
			err = ErrNUL
		}
		place = le.AppendUint64(place, uint64(len(b)))
		b = append(append(b, s...), 0)
	}
	put(r.Path)
	for _, list := range lists {
		for _, s := range list {
			put(s)
		}
		place = le.AppendUint64(place, 0)
	}
	return b, err
}

// A Report is what a guard tells: who it is, that the command could not be
// started, or that all of it has ended.
type Report struct {
	Kind   ReportKind
	Status uint32 // Ended: the wait status of the command

	// Running: the process ids. The guard's is that of the root of all that the
	// command starts. User and System are of the commands it had before.
	Guard, Command uint32

	// Failed: what failed, and how.
	Step  Step
	Errno uint32

	// Ended: what all of it used.
	User, System uint64 // microseconds
	MaxRSS       uint64 // bytes, of the largest process
	Reaped       uint32 // processes the guard was the last parent of
	Left         uint32 // 1 if something could not be killed in time
	Again        uint32 // 1 if the guard takes another request
	Stopped      uint32 // 1 if the command was asked to end before it did
}

// ReportKind tells what a report is about.
type ReportKind uint32

const (
	Running ReportKind = 1 + iota
	Failed
	Ended
	Leaving // the command has ended, and what it started has not
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
	StepRequest
	StepView
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
	StepRequest:    "reading the request",
	StepView:       "entering the view of the session",
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
		User: le.Uint64(b[32:]), System: le.Uint64(b[40:]), MaxRSS: le.Uint64(b[48:]), Again: le.Uint32(b[56:]), Stopped: le.Uint32(b[60:]),
	}, nil
}

// What a helper says, once: that it waits for orders, or that it has no namespaces,
// and then why.
const (
	Ready     = 1
	Unsettled = 2
)

// AnswerSize is the size of the answer to Show, Hide and Listen: a text that ends with NUL,
// empty if it was done.
const AnswerSize = 256

// What the server says to a guard is one byte each: a signal for the process
// group of the command; Tell, which asks for a report of what is running;
// Terminate, which asks everything that is running to end; or HangUp, which tells
// everything that the terminal is gone. When the server closes the connection, the guard kills everything.
const (
	Tell      = 255
	Terminate = 254
	HangUp    = 253
)
