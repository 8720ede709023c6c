// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// room returns why a tenant may not call a tool that may write, or nil. What only reads,
// or makes room, needs none.
func (s *Server) room(tenant string, spec *tools.Spec) error {
	if spec.Level <= tools.ReadOnly || spec.FreesSpace {
		return nil
	}
	return s.storage(tenant, 0)
}

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
		Help: "delete files that are not needed, with delete_file or RemoveFile, or close sessions",
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

// overQuota counts a call that a quota refused, and has it recorded.
func (s *Server) overQuota(r *rpc, over *quota.Error) {
	tenant := s.meters.tenants.of(label(cmp.Or(over.Tenant, auth.DefaultTenant)))
	s.meters.overQuota.WithLabelValues(tenant, over.Quota).Inc()
	if s.auditor.log == nil {
		return
	}
	if n := s.refused.count(tenant+" "+over.Quota, time.Now()); n > 0 {
		s.auditor.overQuota(r, over, n)
	}
}

// refusalInterval is how often the audit log is told of refusals by the same quota: who
// is refused calls again at once, and must not fill a disk by it.
const refusalInterval = time.Minute

// refusals counts what is refused, and says now and then how much that is. The zero value
// is ready to use.
type refusals struct {
	mu  sync.Mutex
	all map[string]*refusal
}

type refusal struct {
	reported time.Time
	since    uint64 // how many were not told of
}

// count counts one more refusal of a kind, of which there are few, and returns how many
// are to be told of now; 0 where it is too early.
func (r *refusals) count(kind string, now time.Time) (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[string]*refusal)
	}
	one := r.all[kind]
	if one == nil {
		one = new(refusal)
		r.all[kind] = one
	}
	one.since++
	if now.Sub(one.reported) < refusalInterval {
		return 0
	}
	n, one.reported, one.since = one.since, now, 0
	return n
}

// quotaStatus makes a status of an error about a quota.
func quotaStatus(over *quota.Error) error {
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
