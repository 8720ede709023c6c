// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// quota counts a call or a transfer of a tenant, and returns why it may not be. A call
// that may write needs room; what only reads or deletes does not. spec is nil for a
// transfer.
func (s *Server) quota(owner auth.Owner, spec *tools.Spec) error {
	if err := s.rates.Take(owner.Tenant()); err != nil {
		return err
	}
	if spec == nil || spec.Level <= tools.ReadOnly || spec.Name == deletes {
		return nil
	}
	return s.storage(owner.Tenant(), 0)
}

// deletes is the tool that a tenant whose storage is full makes room with.
const deletes = "delete_file"

// storage returns an error where a tenant may not store so many bytes more.
func (s *Server) storage(tenant string, more uint64) error {
	most := s.config.Tenants.Of(tenant).MaxStorage
	if most == 0 {
		return nil
	}
	used, err := s.config.Sessions.Stored(tenant)
	if err != nil {
		return err
	}
	if s.config.Artifacts != nil {
		used += s.config.Artifacts.Bytes(func(owner string) bool { return auth.Owner(owner).Tenant() == tenant })
	}
	if used < int64(most) && more <= uint64(int64(most)-used) {
		return nil
	}
	return &quota.Error{
		Tenant: tenant, Quota: "max_storage", Limit: fmt.Sprintf("%d bytes, of which %d are used", int64(most), used),
		Help: "delete files that are not needed, with " + deletes + " or RemoveFile, or close sessions",
	}
}

// space returns why so many bytes more may not be written for a session, or nil.
func (s *Server) space(owner *session.Session, env tools.Env, more uint64) error {
	if err := s.storage(owner.Owner.Tenant(), more); err != nil || s.config.Space == nil {
		return err
	}
	if err := s.config.Space(env, more); err != nil {
		return fmt.Errorf("%w: %w", errTooMany, err)
	}
	return nil
}

// overQuota makes a status of an error about a quota.
func overQuota(over *quota.Error) error {
	s := status.New(codes.ResourceExhausted, over.Error())
	failure := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
		Subject: "tenant:" + cmp.Or(over.Tenant, auth.DefaultTenant), Description: fmt.Sprintf("%s is %s: %s", over.Quota, over.Limit, over.Help),
	}}}
	if detailed, err := s.WithDetails(failure); err == nil {
		s = detailed
	}
	if over.RetryAfter > 0 {
		s = withRetryInfo(s, over.RetryAfter)
	}
	return s.Err()
}
