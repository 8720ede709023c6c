// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Request asks for one call of a tool.
type Request struct {
	Principal auth.Principal
	SessionID string // empty: the default session
	Tool      string
	CallID    string // empty: one is given
	Purpose   string
	Input     Input
	Answer    tools.Budget  // of the text of the answer; none: the session's
	Timeout   time.Duration // 0: the tool's

	OnDisconnect executor.OnDisconnect

	// Batch is what the call is part of; nil for a call by itself.
	Batch *executor.Batch

	// CalledAs is the name by which the tool was called, where that is one of another
	// system, and Form the form of its results.
	CalledAs string
	Form     persona.Form

	// Trace is the id of the trace that the request is part of, if there is one.
	Trace string

	asSent uint64 // see [executor.Job]
}

// Input is the input of a call as JSON text. An input that has no such text has a
// problem, and bytes that stand for it instead.
type Input struct {
	JSON    []byte
	Problem *tools.InputError
}

// Limits of a request, in bytes.
const (
	MaxCallID = 256
	MaxTool   = 128
	MaxText   = 4096 // of what people write
)

// checkEnvelope checks what is around the input.
func (a *Admission) checkEnvelope(r *Request) error {
	longest := a.Executor.Config().MaxTimeout
	switch {
	case r.Tool == "":
		return invalid("tool is empty: name the tool to execute")
	case len(r.Tool) > MaxTool:
		return invalid("tool has %d bytes: at most %d", len(r.Tool), MaxTool)
	case len(r.CallID) > MaxCallID:
		return invalid("call_id has %d bytes: at most %d", len(r.CallID), MaxCallID)
	case len(r.Purpose) > MaxText:
		return invalid("purpose has %d bytes: at most %d", len(r.Purpose), MaxText)
	case r.Timeout < 0 || r.Timeout > longest:
		return invalid("timeout must be more than 0 and at most %s; leave it out for the tool's default", longest)
	}
	return nil
}

// sessionOf returns the session of a request. What is done in that of an agent is done for the
// user whom its task is for, also by a runtime that works on it.
func (a *Admission) sessionOf(p auth.Principal, id string) (*session.Session, error) {
	found, err := a.Sessions.Get(p.Owner(), id)
	if err == nil && found.Below != nil && found.Below.OnBehalfOf != p.OnBehalfOf {
		return nil, fmt.Errorf("%w: session %s is of an agent whose task is on behalf of %q, and the call is on behalf of %q: call on behalf of the same",
			session.ErrForbidden, found.ID, cmp.Or(found.Below.OnBehalfOf, p.Name), cmp.Or(p.OnBehalfOf, p.Name))
	}
	return found, err
}

// propose returns the job that a request asks for in a session, before anything is
// decided.
func (a *Admission) propose(r *Request, s *session.Session) (*executor.Job, error) {
	answer, measure, err := s.Answer(r.Answer)
	if err != nil {
		return nil, err
	}
	job := &executor.Job{AsSent: r.asSent, Order: executor.Order{
		Session: s.Ref(), OnBehalfOf: r.Principal.OnBehalfOf, MaxMode: r.Principal.MaxMode, Tool: r.Tool, CallID: r.CallID, Answer: answer, Measure: measure,
		Purpose: r.Purpose, Timeout: r.Timeout, OnDisconnect: r.OnDisconnect, Trace: r.Trace, CalledAs: r.CalledAs, Form: r.Form, Chain: s.Chain(),
	}}
	if r.Batch != nil {
		job.Answer = r.Batch.RoomFor(answer)
		if a.Artifacts != nil {
			job.Artifacts = a.Artifacts(s)
		}
	}
	return job, nil
}

// named returns an input with the names and the values that the schema of its tool has; as it
// is where there is no such tool.
func named(entry *tools.Entry, input Input) Input {
	if entry != nil {
		input.JSON = entry.Spec.Rename(input.JSON)
		if input.Problem == nil {
			input.JSON = tools.Settle(entry.Tool, input.JSON)
		}
	}
	return input
}

// hashAsSent stands for a tool as it was named and its input as it was sent, on behalf of
// one user, while this process lives.
func hashAsSent(r *Request) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	for _, text := range []string{r.Principal.OnBehalfOf, r.Tool} {
		h.WriteString(text)
		h.WriteByte(0)
	}
	h.Write(r.Input.JSON)
	return h.Sum64()
}

var hashSeed = maphash.MakeSeed()
