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
	call := limit.Key{Spec: &entry.Spec, Principal: string(job.Session.Owner), Session: job.Session.ID}
	if p.LoopGuard() != (limit.LoopLimit{}) {
		call.Digest = callDigest(job.Tool, job.Input)
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

// quota counts a call, or a transfer, against the quotas of its tenant. There may be no
// tool.
func (a *Admission) quota(s *session.Session, entry *tools.Entry) error {
	if a.Quota == nil {
		return nil
	}
	if entry == nil {
		return a.Quota(s.Owner, nil)
	}
	return a.Quota(s.Owner, &entry.Spec)
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
	permit, tooMany, ok = a.ActivePolicy.Take(p, limit.Key{Spec: spec, Principal: string(s.Owner), Session: s.ID})
	if ok {
		a.reportLimits(spec.Name, permit, tooMany)
	}
	return permit, tooMany, ok
}
