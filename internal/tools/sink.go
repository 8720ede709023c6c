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

	// Listen has take called with what callers send to the call, until ctx is
	// done or stop is called, which waits for take to return. A call that does not
	// listen takes no input; one that does so again takes it there from then on.
	//
	// Data and EndOfInput come one after the other, each byte once. Signals and
	// window sizes may come meanwhile, so that a program can be interrupted that
	// does not read. take returns how many bytes of Data it has taken, all of them
	// without an error; it may wait for the program to read, as long as its ctx
	// lasts. Its errors are read by the caller.
	Listen(ctx context.Context, take func(ctx context.Context, in Input) (n int, err error)) (stop func())

	// Messages returns what the client says to the call while it runs, in words. A tool
	// that does not read them loses the oldest. The channel is never closed.
	Messages() <-chan string

	// Execution returns the id of the execution that runs the call.
	Execution() string
}

// An Input is [Data], [EndOfInput], [Signal] or [WindowSize].
type Input interface{ isInput() }

// Data is bytes for the standard input of a call, which must not be kept.
type Data []byte

// EndOfInput says that no data follows.
type EndOfInput struct{}

// Signal is a signal by its name, without SIG: one of [Signals].
type Signal string

// Signals are the signals that callers may send.
func Signals() []Signal {
	return []Signal{"INT", "TERM", "HUP", "QUIT", "KILL", "USR1", "USR2", "WINCH", "CONT", "STOP", "TSTP"}
}

// WindowSize is how large the terminal of a caller is, in characters.
type WindowSize struct{ Rows, Columns uint16 }

func (Data) isInput()       {}
func (EndOfInput) isInput() {}
func (Signal) isInput()     {}
func (WindowSize) isInput() {}

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

// A Report is [Output], [Progress], [Partial], [UserMessage] or [Nested].
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

// Nested is something that happened in the loop of an agent that the call began: a message
// Nested of the contract, encoded. It says nothing to the floors between those that speak
// the contract.
type Nested []byte

func (Output) isReport()      {}
func (Progress) isReport()    {}
func (Partial) isReport()     {}
func (UserMessage) isReport() {}
func (Nested) isReport()      {}
