// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/session"
)

// statusCodes maps the errors of the floors below. The first that matches
// counts.
var statusCodes = []struct {
	is         error
	code       codes.Code
	retryAfter time.Duration // 0: the same request fails again
}{
	{auth.ErrUnauthenticated, codes.Unauthenticated, 0},
	{executor.ErrNotFound, codes.NotFound, 0},
	{executor.ErrConflict, codes.AlreadyExists, 0},
	{executor.ErrAhead, codes.OutOfRange, 0},
	{executor.ErrNoInput, codes.FailedPrecondition, 0},
	{executor.ErrGap, codes.OutOfRange, 0},
	{executor.ErrFull, codes.ResourceExhausted, time.Second},
	{executor.ErrDraining, codes.Unavailable, time.Second},
	{approval.ErrNotFound, codes.NotFound, 0},
	{approval.ErrAnswered, codes.FailedPrecondition, 0},
	{approval.ErrExpired, codes.FailedPrecondition, 0},
	{approval.ErrWithdrawn, codes.FailedPrecondition, 0},
	{approval.ErrSelf, codes.PermissionDenied, 0},
	{approval.ErrInvalid, codes.InvalidArgument, 0},
	{approval.ErrFull, codes.ResourceExhausted, 0},
	{approval.ErrClosed, codes.Unavailable, time.Second},
	{session.ErrNotFound, codes.NotFound, 0},
	{session.ErrExists, codes.AlreadyExists, 0},
	{session.ErrInvalid, codes.InvalidArgument, 0},
	{session.ErrForbidden, codes.PermissionDenied, 0},
	{session.ErrFull, codes.ResourceExhausted, 0},
	{artifact.ErrNotFound, codes.NotFound, 0},
	{artifact.ErrBeyond, codes.OutOfRange, 0},
	{context.Canceled, codes.Canceled, 0},
	{context.DeadlineExceeded, codes.DeadlineExceeded, 0},
}

// toStatus makes the error a client sees. What is not known to be meant for
// clients keeps its text at home.
func toStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err // nil, or a status already
	}
	for _, known := range statusCodes {
		if !errors.Is(err, known.is) {
			continue
		}
		s := status.New(known.code, err.Error())
		if known.retryAfter > 0 {
			s = withRetryInfo(s, known.retryAfter)
		}
		return s.Err()
	}
	return status.Error(codes.Internal, "internal error")
}

// withRetryInfo adds a google.rpc.RetryInfo.
func withRetryInfo(s *status.Status, after time.Duration) *status.Status {
	detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	if err != nil {
		return s // that is OK, which has no details
	}
	return detailed
}

// invalid is an error about a malformed request.
func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
