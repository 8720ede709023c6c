// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// A Kind is what went wrong with a request.
type Kind string

// What goes wrong.
const (
	Credentials  Kind = "credentials"   // the key is missing, or the provider refuses it
	UnknownModel Kind = "unknown_model" // the provider has no such model
	TooLarge     Kind = "too_large"     // the conversation does not fit
	Rejected     Kind = "rejected"      // the provider does not take the request
	RateLimited  Kind = "rate_limited"  // too many requests, or tokens, in a time
	Overloaded   Kind = "overloaded"    // the provider fails
	Unreachable  Kind = "unreachable"   // there is no connection
	Slow         Kind = "slow"          // nothing came in time
	OutOfBudget  Kind = "out_of_budget" // of the operator's table, or at the provider
	Malformed    Kind = "malformed"     // the answer cannot be read
	BrokeOff     Kind = "broke_off"     // the answer ended in the middle
	TooMuch      Kind = "too_much"      // the answer is longer than answers may be
)

// An Error is why a request has no answer. It has no key in it.
type Error struct {
	Kind     Kind
	Endpoint string
	Message  string    // what happened and what helps, for a model and for the operator
	Retry    time.Time // when the same request may succeed; zero where nobody knows
	Partial  bool      // some of the answer was handed over

	again bool // trying again at once may help
}

func (e *Error) Error() string { return e.Message }
