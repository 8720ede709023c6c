// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A statusCode is the code that an error becomes.
type statusCode struct {
	is         error
	code       codes.Code
	retryAfter time.Duration // 0: the same request fails again
}

// find returns the code for an error; nil where there is none.
func find(table []statusCode, err error) *statusCode {
	for i := range table {
		if errors.Is(err, table[i].is) {
			return &table[i]
		}
	}
	return nil
}

// statusCodes maps the errors of the floors below. The first that matches
// counts.
var statusCodes = []statusCode{
	{auth.ErrUnauthenticated, codes.Unauthenticated, 0},
	{auth.ErrUnavailable, codes.Unavailable, time.Second},
	{auth.ErrForbidden, codes.PermissionDenied, 0},
	{auth.ErrMalformed, codes.InvalidArgument, 0},
	{admission.ErrInvalid, codes.InvalidArgument, 0},
	{admission.ErrDenied, codes.PermissionDenied, 0},
	{executor.ErrNotFound, codes.NotFound, 0},
	{executor.ErrConflict, codes.AlreadyExists, 0},
	{executor.ErrBatchExists, codes.AlreadyExists, 0},
	{executor.ErrCallTwice, codes.AlreadyExists, 0},
	{executor.ErrBatchFull, codes.ResourceExhausted, 0},
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
	{session.ErrTooDeep, codes.FailedPrecondition, 0},
	{session.ErrElsewhere, codes.FailedPrecondition, 0},
	{state.ErrUnavailable, codes.Unavailable, time.Second},
	{state.ErrFull, codes.Unavailable, 5 * time.Second},
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
	if limited := new(admission.LimitError); errors.As(err, &limited) {
		return withRetryInfo(status.New(codes.ResourceExhausted, limited.Message), limited.RetryAfter).Err()
	}
	if over := new(quota.Error); errors.As(err, &over) {
		return quotaStatus(over)
	}
	known := find(statusCodes, err)
	if known == nil {
		return status.Error(codes.Internal, "internal error")
	}
	s := status.New(known.code, err.Error())
	if known.retryAfter > 0 {
		s = withRetryInfo(s, known.retryAfter)
	}
	return s.Err()
}

// fileCodes maps the errors of files, for RPCs that are about files: elsewhere such an
// error is one of the server. The first that matches counts.
var fileCodes = []statusCode{
	{workspace.ErrOutside, codes.PermissionDenied, 0},
	{workspace.ErrMoved, codes.Aborted, 0},
	{workspace.ErrChanged, codes.Aborted, 0},
	{workspace.ErrNotRegular, codes.FailedPrecondition, 0},
	{workspace.ErrTooDeep, codes.FailedPrecondition, 0},
	{errTooMany, codes.ResourceExhausted, 0},
	{syscall.ENOSPC, codes.ResourceExhausted, 0},
	{syscall.EDQUOT, codes.ResourceExhausted, 0},
	{syscall.EFBIG, codes.ResourceExhausted, 0},
	{syscall.EMFILE, codes.ResourceExhausted, 0},
	{syscall.ENOTEMPTY, codes.FailedPrecondition, 0},
	{syscall.ENOTDIR, codes.FailedPrecondition, 0},
	{syscall.EISDIR, codes.FailedPrecondition, 0},
	{syscall.ELOOP, codes.FailedPrecondition, 0},
	{syscall.EROFS, codes.FailedPrecondition, 0},
	{syscall.ENAMETOOLONG, codes.InvalidArgument, 0},
	{fs.ErrNotExist, codes.NotFound, 0},
	{fs.ErrExist, codes.Aborted, 0},
	{fs.ErrPermission, codes.PermissionDenied, 0},
}

// fileStatus makes a status of an error about files; others stay as they are.
func fileStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if known := find(fileCodes, err); known != nil {
		return status.Error(known.code, output.VisibleText(err.Error()))
	}
	return err
}

// withRetryInfo adds a google.rpc.RetryInfo.
func withRetryInfo(s *status.Status, after time.Duration) *status.Status {
	detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	if err != nil {
		return s // that is OK, which has no details
	}
	return detailed
}

// retryDelay returns when to try again, if a status says so.
func retryDelay(s *status.Status) *durationpb.Duration {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay()
		}
	}
	return nil
}

// invalid is an error about a malformed request.
func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
