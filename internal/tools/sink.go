// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import "context"

// A Sink takes what a running call reports. There is nothing to check: the
// call's context says when to stop.
type Sink interface {
	// Emit reports one thing. It is safe for concurrent use. The bytes of an
	// Output are copied; what else a report points to must not be changed later.
	// Emit may wait while the caller reads the output, never for one that stopped.
	Emit(r Report)

	// Ask puts questions to the person behind the agent and waits for the
	// answers. An error that is no failure of ctx is a [*Failure] for the model:
	// nobody answered in time, or somebody declined.
	Ask(ctx context.Context, questions []Question) ([]Answer, error)
}

// A Question is put to a person.
type Question struct {
	Header      string   `json:"header,omitempty"` // a word or two to tell questions apart
	Text        string   `json:"text"`
	Options     []Option `json:"options,omitempty"`      // none: free text
	Multiple    bool     `json:"multiple,omitempty"`     // several options may be chosen
	OptionsOnly bool     `json:"options_only,omitempty"` // no free text beside the options
}

// An Option is an answer that is offered.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// An Answer is what a person said to one question.
type Answer struct {
	Chosen []string `json:"chosen,omitempty"` // labels of options
	Text   string   `json:"text,omitempty"`   // free text
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
