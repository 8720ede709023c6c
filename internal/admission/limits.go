// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// count counts the call against the limits of the policy that judged it, last of
// all, and refuses it where it is one too many. It reports false, and counts
// nothing, where another policy has come into force.
func (a *Admission) count(job *executor.Job, p *policy.Policy, entry *tools.Entry) bool {
	call := limit.Key{Spec: &entry.Spec, Principal: string(job.Session.Owner), Session: job.Session.ID, Outermost: outermost(job.Chain)}
	if p.LoopGuard() != (limit.LoopLimit{}) {
		call.Digest = callDigest(job.OnBehalfOf, job.Identity(), job.Input)
	}
	permit, tooMany, ok := a.ActivePolicy.Take(p, call)
	if !ok {
		return false
	}
	a.reportLimits(job.Tool, permit, tooMany)
	if tooMany != nil {
		job.Refusal = executor.Refuse(executor.RateLimited, "rate_limited", tooMany.Message)
		job.Refusal.Failure.Retryable, job.Refusal.Failure.RetryAfter = tooMany.RetryAfter > 0, tooMany.RetryAfter
		job.Call, job.Question = nil, nil
		return true
	}
	job.Permit = permit
	return true
}

// outermost returns the session of a caller that agents are below; "" without a chain.
func outermost(chain []session.Link) string {
	if len(chain) == 0 {
		return ""
	}
	return chain[0].ParentID
}

// rate counts a call, a transfer or a check against the rate of its tenant.
func (a *Admission) rate(s *session.Session) error {
	if a.Rate == nil {
		return nil
	}
	return a.Rate(s.Owner.Tenant())
}

// room asks whether the tenant has room for a call of a tool, of which there may be none.
func (a *Admission) room(s *session.Session, entry *tools.Entry) error {
	if a.Room == nil || entry == nil {
		return nil
	}
	return a.Room(s.Owner.Tenant(), &entry.Spec)
}

// reportLimits reports which limits a call is over.
func (a *Admission) reportLimits(tool string, permit *limit.Permit, tooMany *limit.Refusal) {
	if a.Limited == nil {
		return
	}
	for _, shadow := range permit.Shadows() {
		a.Limited(shadow.Limit, tool, true)
	}
	if tooMany != nil {
		a.Limited(tooMany.Limit, tool, false)
	}
}

// countTransfer counts a transfer that p has judged. It reports
// false, and counts nothing, where another policy has come into force.
func (a *Admission) countTransfer(p *policy.Policy, s *session.Session, spec *tools.Spec) (permit *limit.Permit, tooMany *limit.Refusal, ok bool) {
	permit, tooMany, ok = a.ActivePolicy.Take(p, limit.Key{Spec: spec, Principal: string(s.Owner), Session: s.ID, Outermost: outermost(s.Chain())})
	if ok {
		a.reportLimits(spec.Name, permit, tooMany)
	}
	return permit, tooMany, ok
}
