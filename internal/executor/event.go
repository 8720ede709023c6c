// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// An Event is one numbered fact about an execution.
type Event struct {
	Seq  uint64
	Time time.Time
	Body Body
}

// A Body is what happened: [Accepted], [ApprovalRequested], [ApprovalResolved],
// [Started], [Output], [Progress], [Partial], [UserMessage], [Nested], [Heartbeat],
// [Skipped] or [Finished].
type Body interface {
	// weight is about how many bytes of memory the body holds.
	weight() int
}

// Accepted says that a call may run, or that a person is asked whether it may.
type Accepted struct {
	SessionID, CallID, Tool string
	Verdict                 policy.Verdict
	Access                  *tools.Access // of the programs that the call runs; nil where it runs none
	Policy                  string        // the version that judged
	Timeout                 time.Duration
}

// ApprovalRequested says that a person is asked: before Started whether the call
// may run, after it what the tool wants to know.
type ApprovalRequested struct{ Question *approval.Question }

// ApprovalResolved tells how a question ended. Each ApprovalRequested is
// followed by one.
type ApprovalResolved struct {
	QuestionID string
	Answer     approval.Answer
}

// Started says that the tool began to run.
type Started struct{}

// Output is a chunk of output and how many bytes of its stream came before.
type Output struct {
	Stream tools.Stream
	Offset uint64
	Data   []byte // at most MaxChunk; not to be changed, nor used after Release
	chunk  *chunk // the memory of Data; nil where it is its own
}

// Progress tells how far the tool is.
type Progress tools.Progress

// Partial is a piece of the result that is ready before the rest.
type Partial tools.Partial

// UserMessage is something the tool says to the person behind the agent.
type UserMessage tools.UserMessage

// Nested is something that happened in the loop of an agent that the call began.
type Nested tools.Nested

// Heartbeat shows a reader that nothing happened for a while. It is not in the
// log: its number is that of the event before it.
type Heartbeat struct{}

// Skipped stands in for the events from First to its own number, which are no
// longer kept.
type Skipped struct{ First uint64 }

// Finished tells how the execution ended.
type Finished struct {
	Outcome Outcome
	Result  tools.Result

	// Failure is what went wrong; nil when the call succeeded.
	Failure *Failure

	// Verdict is set when Outcome is Denied, and Policy is the version that
	// denied.
	Verdict *policy.Verdict
	Policy  string

	// Cancelled is set when Outcome is Cancelled.
	Cancelled *Cancellation

	// LostResult is set when Outcome is Lost because the result is no longer kept.
	LostResult *LostResult

	// TotalBytes is the size of the content before it was cut to KeptBytes; both
	// are 0 when nothing was cut.
	TotalBytes, KeptBytes int

	// Tokens is about what the text of the content costs a model.
	Tokens int

	// Hooks are the hooks that were asked about the call.
	Hooks []hook.Run

	Waited, Ran time.Duration
	OutputBytes uint64
}

// LostResult is what is known of a call whose result is no longer kept.
type LostResult struct {
	Outcome Outcome // how it ended
	Ended   time.Time
	Reason  string // why the result is not kept
}

// Failure says for programs what the content says for the model.
type Failure struct {
	Code       string
	Message    string
	Retryable  bool
	RetryAfter time.Duration
	Problems   []tools.Problem
}

// Outcome is the reason an execution ended.
type Outcome int

const (
	Succeeded Outcome = 1 + iota
	Failed
	InvalidInput
	NoSuchTool
	Denied
	RateLimited
	TimedOut
	Cancelled
	Skip // a batch was interrupted before the call's turn
	Lost
)

var outcomeNames = [...]string{
	"unfinished", "succeeded", "failed", "invalid_input", "no_such_tool", "denied",
	"rate_limited", "timed_out", "cancelled", "skipped", "lost",
}

func (o Outcome) String() string { return outcomeNames[o] }

// MaxChunk is the most bytes of output one event carries. It is set so that a
// message with its framing stays below 32 KiB, from where gRPC's buffers become
// a megabyte each.
const MaxChunk = 32_000

const eventWeight = 64 // of an event without its body

// fewestEvents is how many events a call has that runs: Accepted, Started and Finished.
const fewestEvents = 3

func (a Accepted) weight() int {
	n := 256 + len(a.CallID)
	if a.Access != nil {
		for _, list := range [...][]string{a.Access.Write, a.Access.Read, a.Access.Hosts} {
			for _, text := range list {
				n += 16 + len(text)
			}
		}
	}
	return n
}
func (Started) weight() int { return 0 }

func (a ApprovalRequested) weight() int { return a.Question.Weight() }
func (a ApprovalResolved) weight() int  { return a.Answer.Weight() }

func (p Progress) weight() int { return 64 + len(p.Message) + len(p.Unit) }
func (p Partial) weight() int  { return 64*len(p.Content) + contentBytes(p.Content) }
func (n Nested) weight() int   { return 24 + len(n) }
func (Heartbeat) weight() int  { return 0 }
func (Skipped) weight() int    { return 0 }

func (o Output) weight() int {
	if o.chunk != nil {
		return 48 + MaxChunk
	}
	return 48 + len(o.Data)
}

func (m UserMessage) weight() int {
	n := 64 + len(m.Message)
	for _, a := range m.Attachments {
		n += 64 + len(a.Path) + len(a.MediaType)
	}
	return n
}

func (f Finished) weight() int {
	n := 256 + contentBytes(f.Result.Content) + len(f.Result.Details)
	for i := range f.Hooks {
		n += 96 + len(f.Hooks[i].Message)
	}
	if f.Failure != nil {
		n += len(f.Failure.Message)
		for _, p := range f.Failure.Problems {
			n += 64 + len(p.Pointer) + len(p.Message)
		}
	}
	return n
}

func contentBytes(content []tools.Content) int {
	n := 0
	for _, c := range content {
		switch c := c.(type) {
		case tools.Text:
			n += len(c)
		case tools.JSON:
			n += len(c)
		case tools.Image:
			n += len(c.Data)
		case tools.Artifact:
			n += len(c.URI) + len(c.Name)
		}
	}
	return n
}
