// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

// A Sink takes what a running call reports. There is nothing to check: the
// call's context says when to stop.
type Sink interface {
	// Emit reports one thing. It is safe for concurrent use. The bytes of an
	// Output are copied; what else a report points to must not be changed later.
	// Emit may wait while the caller reads the output, never for one that stopped.
	Emit(r Report)
}

// A Report is [Output], [Progress], [Partial] or [UserMessage].
type Report interface{ isReport() }

// Output is bytes the tool wrote, as they are.
type Output struct {
	Stream Stream
	Data   []byte
}

// Stream names one of a tool's streams of output.
type Stream int

const (
	Stdout Stream = 1 + iota
	Stderr
	Terminal
)

// Progress tells how far a call is. A tool may report as often as it likes:
// what comes too quickly is joined, and the newest report wins.
type Progress struct {
	Message     string
	Done, Total float64 // in Unit; Total is 0 where unknown
	Unit        string
}

// Partial is a piece of the result that is ready before the rest.
type Partial struct{ Content []Content }

// UserMessage is something a tool says to the person behind the agent.
type UserMessage struct {
	Message     string
	Proactive   bool // brought up by the agent itself
	Attachments []Attachment
}

// Attachment is a file of the workspace shown to the user.
type Attachment struct {
	Path, MediaType string
	Size            uint64
}

func (Output) isReport()      {}
func (Progress) isReport()    {}
func (Partial) isReport()     {}
func (UserMessage) isReport() {}
