// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// An ErrorKind is what went wrong with a request.
type ErrorKind string

// What goes wrong.
const (
	Credentials  ErrorKind = "credentials"   // the key is missing, or the provider refuses it
	UnknownModel ErrorKind = "unknown_model" // the provider has no such model
	TooLarge     ErrorKind = "too_large"     // the conversation does not fit
	Rejected     ErrorKind = "rejected"      // the provider does not take the request
	RateLimited  ErrorKind = "rate_limited"  // too many requests, or tokens, in a time
	Overloaded   ErrorKind = "overloaded"    // the provider fails
	Unreachable  ErrorKind = "unreachable"   // there is no connection
	Slow         ErrorKind = "slow"          // nothing came in time
	OutOfBudget  ErrorKind = "out_of_budget" // of the operator's table, or at the provider
	Malformed    ErrorKind = "malformed"     // the answer cannot be read
	BrokeOff     ErrorKind = "broke_off"     // the answer ended in the middle
	TooMuch      ErrorKind = "too_much"      // the answer is longer than answers may be
)

// An Error is why a request has no answer. It has no key in it.
type Error struct {
	Kind    ErrorKind
	Message string    // what happened and what helps, for a model and for the operator
	Retry   time.Time // when the same request may succeed; zero where nobody knows
	Partial bool      // some of the answer was handed over

	again bool // trying again at once may help
}

func (e *Error) Error() string { return e.Message }
