// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"time"
)

// Result is what came of a call.
type Result struct {
	// Content is for the model.
	Content []Content

	// Details is for the agent runtime, not meant for the model: a JSON object,
	// or nil.
	Details json.RawMessage

	// Exit tells how the program of a call ended; nil for a call that ran none.
	Exit *Exit

	// Warnings tell what was taken back of what the call did. The model is told in
	// the content; these are for the runtime and the audit log.
	Warnings []string

	// Usage is what the programs of a call used; nil where that is not known.
	Usage *Usage

	// Restate, if set, returns the result as it is when something else has changed the
	// files of the call since, and whether that is so. It is called once, soon after the
	// call.
	Restate func() (Result, bool)
}

// Exit is the true end of a program.
type Exit struct {
	Reason  ExitReason
	Code    int    // of a program that exited
	Signal  string // that ended it, by its name without SIG
	Message string // for people; may be empty
}

// ExitReason is why a program ended.
type ExitReason int

const (
	Exited           ExitReason = 1 + iota // by itself, with a code
	Signaled                               // by a signal that was not sent for one of the reasons below
	TimedOut                               // it ran too long, or was silent for too long
	Cancelled                              // the call was cancelled
	OutputLimit                            // it wrote too much
	OutOfMemory                            // it needed too much memory
	SandboxViolation                       // it did what the sandbox does not allow
	CPULimit                               // it computed for too long
	FileSizeLimit                          // it wrote too large a file
	ProcessLimit                           // it had too many processes
	DiskLimit                              // there were too many files, or too little was left of a file system
)

var exitReasonNames = [...]string{
	"unknown", "exited", "signaled", "timed_out", "cancelled", "output_limit", "out_of_memory",
	"sandbox_violation", "cpu_limit", "file_size_limit", "process_limit", "disk_limit",
}

func (r ExitReason) String() string { return exitReasonNames[r] }

// Usage is what programs used of the machine.
type Usage struct {
	User, System time.Duration // of the processor
	MaxRSS       uint64        // the most memory of one process, in bytes
	Processes    uint32        // the most at a time that were seen
}

// Content is one piece of a result: [Text], [JSON], [Image] or [Artifact].
type Content interface{ isContent() }

// Text is plain text.
type Text string

// JSON is one JSON value.
type JSON json.RawMessage

// Image is a picture in an encoded form.
type Image struct {
	MediaType string
	Data      []byte
}

// Artifact points to bytes kept elsewhere.
type Artifact struct {
	URI, Name, MediaType string
	Size                 uint64 // of what is kept

	// Incomplete says why the end is missing; empty for one that is whole. Written
	// is then how many bytes there would be.
	Incomplete string
	Written    uint64
}

func (Text) isContent()     {}
func (JSON) isContent()     {}
func (Image) isContent()    {}
func (Artifact) isContent() {}

// TextResult returns a result of one text.
func TextResult(text string) Result { return Result{Content: []Content{Text(text)}} }

// Detailed returns a result of one text, with details for the agent runtime.
func Detailed(text string, details any) (Result, error) {
	encoded, err := json.Marshal(details)
	return Result{Content: []Content{Text(text)}, Details: encoded}, err
}

// JSONResult returns a result of one JSON value.
func JSONResult(value json.RawMessage) Result { return Result{Content: []Content{JSON(value)}} }
