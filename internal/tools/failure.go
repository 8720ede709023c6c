// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"strings"
)

// An InputError lists everything that is wrong with an input, written so that
// a model can correct itself.
type InputError struct{ Problems []Problem }

// A Problem is one thing wrong with an input.
type Problem struct {
	// Pointer is where, as a JSON pointer; empty for the input as a whole.
	Pointer string

	// Message says what is wrong there and what would be right.
	Message string
}

func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Message
	}
	return p.Pointer + ": " + p.Message
}

func (e *InputError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// A Failure is an error with a stable word for programs. A tool returns one
// where an agent runtime could act on the kind of failure.
type Failure struct {
	// Code is the word, such as "file_not_found".
	Code string

	// Message is for the model: what went wrong and what would be right.
	Message string

	// Retryable says that the same call may succeed later.
	Retryable bool
}

func (f *Failure) Error() string { return f.Message }

// TimedOutCode is the code of a call whose time was over. A tool that was stopped
// for it may return a failure with it, to say more than the server can.
const TimedOutCode = "timed_out"

// Failf returns a [*Failure] that the same call would meet again.
func Failf(code, format string, args ...any) error {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// DidYouMean returns the question whether one of names was meant, or fallback where
// there are none.
func DidYouMean(names []string, fallback string) string {
	switch n := len(names); n {
	case 0:
		return fallback
	case 1:
		return "Did you mean " + names[0] + "?"
	default:
		return "Did you mean " + strings.Join(names[:n-1], ", ") + " or " + names[n-1] + "?"
	}
}
