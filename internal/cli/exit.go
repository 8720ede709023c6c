// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// The codes that commands exit with. 124 is what timeout(1) uses, 130 what
// shells use for Ctrl-C.
const (
	exitSucceeded    = 0
	ExitFailed       = 1
	exitUsage        = 2
	exitInvalidInput = 3
	ExitNoSuchTool   = 4
	ExitDenied       = 5
	exitRateLimited  = 6
	exitSkipped      = 7
	ExitLost         = 8
	ExitRefused      = 9
	ExitAsked        = 10 // of "policy explain": a person would be asked
	exitTimedOut     = 124
	ExitCancelled    = 130
)

// exitCodes tells in one place what each code means and which outcome has it.
var exitCodes = []struct {
	code    int
	meaning string
	outcome pb.Outcome
}{
	{exitSucceeded, "succeeded", pb.Outcome_OUTCOME_SUCCEEDED},
	{ExitFailed, "failed", pb.Outcome_OUTCOME_FAILED},
	{exitUsage, "wrong usage or configuration", pb.Outcome_OUTCOME_UNSPECIFIED},
	{exitInvalidInput, "invalid input", pb.Outcome_OUTCOME_INVALID_INPUT},
	{ExitNoSuchTool, "no such tool", pb.Outcome_OUTCOME_NO_SUCH_TOOL},
	{ExitDenied, "denied", pb.Outcome_OUTCOME_DENIED},
	{exitRateLimited, "rate limited", pb.Outcome_OUTCOME_RATE_LIMITED},
	{exitSkipped, "skipped", pb.Outcome_OUTCOME_SKIPPED},
	{ExitLost, "lost", pb.Outcome_OUTCOME_LOST},
	{ExitRefused, "the server cannot be reached, or refused the request", pb.Outcome_OUTCOME_UNSPECIFIED},
	{exitTimedOut, "timed out", pb.Outcome_OUTCOME_TIMED_OUT},
	{ExitCancelled, "cancelled", pb.Outcome_OUTCOME_CANCELLED},
}

// exitHelp is what --help says about exit codes.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.meaning)
	}
	return b.String()
}

// An ExitError says with which code to exit.
type ExitError struct {
	Code int
	Err  error // nil when all was said already
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// exitOf returns what a command returns after an execution with this outcome,
// once it has shown how it ended.
func exitOf(outcome pb.Outcome) error {
	if outcome == pb.Outcome_OUTCOME_SUCCEEDED {
		return nil
	}
	for _, e := range exitCodes {
		if e.outcome == outcome && outcome != pb.Outcome_OUTCOME_UNSPECIFIED {
			return &ExitError{Code: e.code}
		}
	}
	return &ExitError{ExitFailed, fmt.Errorf("the server reports an outcome this program does not know: %s", outcome)}
}

// ExitCodeOf returns the code for what a command returned. Errors that come
// neither with a code nor from a server are about flags, arguments, files and
// configuration.
func ExitCodeOf(err error) int {
	if err == nil {
		return exitSucceeded
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	if _, ok := status.FromError(err); ok {
		return ExitRefused
	}
	return exitUsage
}

// Complain tells the user what a command returned, if that was not done yet.
func Complain(err error) {
	if err == nil || err.Error() == "" {
		return
	}
	message := err.Error()
	if e, ok := errors.AsType[*unreached](err); ok {
		message = e.text()
	} else if s, ok := status.FromError(err); ok {
		message = StatusText(s)
	}
	stderr := NewStream(os.Stderr)
	fmt.Fprintln(stderr, "toolserver: "+strings.TrimSuffix(message, "\n"))
}

// StatusText tells a refusal of the server, with what helps against it.
func StatusText(s *status.Status) string {
	switch s.Code() {
	case codes.Unavailable:
		return "the server cannot be reached or takes no calls: " + s.Message()
	case codes.Unauthenticated:
		return s.Message() + "; give the token with --token or TOOLSERVER_TOKEN" + misspelt("TOOLSERVER_TOKEN")
	}
	return s.Message()
}
