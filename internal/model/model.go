// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package model asks language models: endpoints of the operator's table, each in the wire
// format of its provider. What a model is told and what it writes is translated by
// [toolcall]; connections are made by egress alone. It runs no calls and knows no sessions.
package model

import (
	"context"

	"github.com/toolserver/toolserver/internal/toolcall"
)

// A Model answers one turn of a conversation. It is safe for concurrent use.
type Model interface {
	// Ask sends the conversation and hands over what the model writes while it writes it:
	// text as it comes, each call once it is complete. It returns when the message has
	// ended; take is not called after that. Every call that it hands over has an id, which
	// other messages may have as well; a [toolcall.Broken] with an id stands for a call
	// whose result says what was wrong with it. An error is an [*Error], or that of ctx;
	// beside one, the answer has what was used until then.
	Ask(ctx context.Context, request *Request, take func(toolcall.Piece)) (Answer, error)
}

// A Request is all that a model is told: no model remembers anything.
type Request struct {
	System   string
	Tools    []toolcall.Tool
	Messages []Message

	// Accepts, if set, reports whether a tool may be called that is not among Tools.
	Accepts func(name string) bool

	// Principal is whose budget the request counts against, beside that of the endpoint.
	Principal string
}

// A Message is one turn of one side: what the model wrote, where FromModel is set, or what
// it is told.
type Message struct {
	FromModel bool
	Text      string
	Calls     []toolcall.Call   // that the model made after the text
	Results   []toolcall.Result // of the calls of the message before, ahead of the text; those that are missing count as failed
}

// An Answer is how a message of a model ended. What was in it was handed over before.
type Answer struct {
	Stop  Stop
	Usage Usage
}

// Stop is why a model stopped writing.
type Stop string

// Why models stop.
const (
	Ended   Stop = "ended"   // it has said what it wanted
	Calling Stop = "calling" // it waits for the results of its calls
	TooLong Stop = "length"  // its answer was cut off
	Refused Stop = "refused" // its provider did not let it answer
)

// Usage is what was used: tokens as the provider counts them, or as they are estimated
// where it does not, and money by the prices of the operator's table.
type Usage struct {
	Input, Cached, Output int64 // tokens; Cached are those of Input that cost less
	Dollars               float64
	Estimated             bool
}

// Add counts what another answer used.
func (u *Usage) Add(other Usage) {
	u.Input += other.Input
	u.Cached += other.Cached
	u.Output += other.Output
	u.Dollars += other.Dollars
	u.Estimated = u.Estimated || other.Estimated
}
