// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// An Order is a call that was judged and is to be carried out, or to be recorded as
// refused. It is data: it can be stored, and another server can carry it out that finds
// the session and the tool. A test proves that no field holds anything else.
type Order struct {
	// Session is where the call was made, by the owner of the session. OnBehalfOf is
	// whom the owner acts for, if not for itself.
	Session    session.Ref
	OnBehalfOf string

	// MaxMode is the most permissive mode that the call is judged in; 0: that of its
	// session.
	MaxMode tools.Mode

	// CallID makes the call idempotent within its session; empty: one is given.
	CallID string

	// Digest stands for tool and canonical input: the same call id may come again
	// with the same digest only.
	Digest [32]byte

	// Tool is the name of the tool; of an unknown tool, the name that was asked for.
	// Input is what the tool was given, in its canonical form where the tool could
	// decode it. ConcurrencySafe says that the call only reads, and may run beside others;
	// Waits, that it only waits for others, and has no place among those that run; Delegates, that
	// others work for it.
	Tool            string
	Version         string // of the tool, where it has one
	Input           json.RawMessage
	ConcurrencySafe bool
	Waits           bool
	Delegates       bool

	// CalledAs is the name by which the tool was called, where that is one of another
	// system; Form is the form of its results.
	CalledAs string
	Form     persona.Form

	// Answer is how much room the text of the answer has, and Measure how much of it a
	// text takes.
	Answer  int
	Measure tools.Measure

	// Verdict is what let the call pass, or what asks. Policy is the version of the
	// policy that judged.
	Verdict policy.Verdict
	Policy  string

	// Effects are what the call would touch, as far as they are kept. Nil means that the
	// only effect is the use of the tool, and Verdict is the verdict on it.
	Effects *Effects

	// Access is what the commands of the call may touch; nil where it runs none.
	Access *tools.Access

	// Hooked is what hooks said before the call was admitted; nil where none was asked.
	Hooked *Hooked

	// Question is what a person is asked before the call runs; nil for a call that
	// runs at once. The executor fills in what the question is about.
	Question *approval.Question

	// Refusal is how a refused call ends; nil for a call that runs.
	Refusal *Refusal

	// Timeout is how long the tool may run, within the limits of the executor;
	// 0 means the default.
	Timeout      time.Duration
	OnDisconnect OnDisconnect
	Purpose      string

	// Trace is the id of the trace that the request was part of, if there was one.
	Trace string

	// Chain is who asked whom for the call, the outermost first; nil for a call of a
	// caller.
	Chain []session.Link
}

// Identity is [tools.Spec.Identity] of the tool.
func (o *Order) Identity() string {
	spec := tools.Spec{Name: o.Tool, Version: o.Version}
	return spec.Identity()
}

// Hooked is what the operator's hooks said of a call before it was admitted.
type Hooked struct {
	Runs []hook.Run

	// Ask is the verdict of the first hook that has a person asked; nil: none has.
	Ask *policy.Verdict

	// ChangedBy are the hooks that changed the input.
	ChangedBy []string

	// Context is text for the model.
	Context []HookText
}

// HookText is what a hook says to the model.
type HookText struct{ Hook, Text string }

// Tighten makes an allowing verdict one that asks, where a hook wants that, and reports
// whether it did. A person who is asked is told who changed the input.
func (h *Hooked) Tighten(v *policy.Verdict) (asks bool) {
	if h == nil {
		return false
	}
	if asks = v.Action == policy.Allow && h.Ask != nil; asks {
		*v = *h.Ask
	}
	if v.Action == policy.Ask && len(h.ChangedBy) > 0 {
		v.Reason += " The input was changed by hook " + strings.Join(h.ChangedBy, ", ") + "."
	}
	return asks
}

// A Refusal is how a call ends that does not run.
type Refusal struct {
	Outcome Outcome
	Failure Failure

	// Verdict is what denied the call, where Outcome is Denied.
	Verdict *policy.Verdict
}

// Refuse returns how a call ends that does not run.
func Refuse(outcome Outcome, code, message string) *Refusal {
	return &Refusal{Outcome: outcome, Failure: Failure{Code: code, Message: message}}
}

// finished returns the end of a call that was judged by a version of the policy.
func (r *Refusal) finished(version string) *Finished {
	finished := withFailure(r.Outcome, r.Failure.Code, r.Failure.Message)
	*finished.Failure = r.Failure
	if r.Verdict != nil {
		finished.Verdict, finished.Policy = r.Verdict, version
	}
	return finished
}

// A Job is an order with what carries it out in this process.
type Job struct {
	Order

	// Call is the decoded call; nil for a refused call. Rights are what its commands
	// may touch.
	Call   tools.Call
	Rights tools.Rights

	// Permit is what the call holds of the limits that count it, until it ends; nil
	// where that is nothing.
	Permit *limit.Permit

	// Batch is what the call is part of; nil for a call by itself. Artifacts keeps what
	// the answers of the batch have no room for; nil keeps nothing.
	Batch     *Batch
	Artifacts tools.Artifacts

	// AsSent stands for tool and input as they were sent to this process, so that a call
	// that is sent again needs no decoding; 0 stands for nothing.
	AsSent uint64
}

// Judged reports whether it was decided if the call may run. It was not where the call
// id was known already.
func (j *Job) Judged() bool { return j.Call != nil || j.Refusal != nil }

// OnDisconnect is what happens to an execution that no reader follows any more.
// The zero value is Grace.
type OnDisconnect int

const (
	// Grace continues for the grace period, then cancels.
	Grace OnDisconnect = iota
	// CancelAtOnce cancels.
	CancelAtOnce
	// Detach continues to the end.
	Detach
)

// Steps takes part in the steps of every call: it records them, and decides what is not
// for the executor to decide. The executor calls the methods without a lock, and those
// of many executions at once. The methods may read the order of the execution.
type Steps interface {
	// Proposed is called before anything of an execution happens. What it returns, if
	// anything, is how the call ends at once.
	Proposed(x *Execution) *Refusal

	// Rejudge judges a call again that waits, by the policy, the grants and the
	// settings of now: when a person allowed the call, when its turn has come, and when
	// something was granted in its session.
	Rejudge(x *Execution, call tools.Call) Rejudged

	// Starting is called just before a tool runs. What it returns, if anything, is how
	// the call ends instead.
	Starting(x *Execution) *Refusal

	// Asked is called when a person was asked whether a call may run.
	Asked(x *Execution, q *approval.Question)

	// Reports is called with each report of a tool, before anybody sees it. Where it
	// returns false, nobody does.
	Reports(x *Execution, report tools.Report) bool

	// Returned is called when a tool has returned, on the goroutine of the execution,
	// which goes on until it returns unless it has to stop. It may change the end.
	Returned(ctx context.Context, x *Execution, call tools.Call, end *Finished)

	// Resolved is called with the end of each question, once, before anything comes of
	// it.
	Resolved(q *approval.Question, a approval.Answer)

	// Finished is called with the end of each execution, once, just before anybody
	// sees it.
	Finished(x *Execution, end *Finished)
}

// Rejudged is what is decided about a call that waits.
type Rejudged struct {
	Verdict policy.Verdict
	Rights  tools.Rights // that the call runs with
	Call    tools.Call   // that runs; nil for the one that waited
}

// NoSteps takes part in nothing. Calls that wait for a person go on waiting, and run
// without rights.
type NoSteps struct{}

func (NoSteps) Proposed(*Execution) *Refusal                                { return nil }
func (NoSteps) Starting(*Execution) *Refusal                                { return nil }
func (NoSteps) Asked(*Execution, *approval.Question)                        {}
func (NoSteps) Reports(*Execution, tools.Report) bool                       { return true }
func (NoSteps) Resolved(*approval.Question, approval.Answer)                {}
func (NoSteps) Returned(context.Context, *Execution, tools.Call, *Finished) {}
func (NoSteps) Finished(*Execution, *Finished)                              {}

func (NoSteps) Rejudge(x *Execution, _ tools.Call) Rejudged {
	if x.Order.Verdict.Action == policy.Ask {
		return Rejudged{Verdict: x.Order.Verdict}
	}
	return Rejudged{Verdict: policy.Verdict{Action: policy.Allow}}
}
