// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
)

// ActivePolicy is the policy in force, and the limits it sets. They change together:
// no call is judged by one version and counted by another.
type ActivePolicy struct {
	policy    atomic.Pointer[policy.Policy]
	approvals *approval.Store

	mu       sync.RWMutex // held over changes, so that counting sees one version
	limiter  *limit.Limiter
	replaced chan struct{} // closed when another policy is in force
}

// NewActivePolicy returns one without a policy, which refuses everything.
func NewActivePolicy(approvals *approval.Store) *ActivePolicy {
	limiter, err := limit.New(limit.Config{})
	if err != nil {
		panic(err) // no limits are valid limits
	}
	return &ActivePolicy{limiter: limiter, approvals: approvals, replaced: make(chan struct{})}
}

// Share has the limits be those of several servers together. It comes before the first policy.
func (r *ActivePolicy) Share(with *limit.Shared) { r.limiter.Share(with, "policy") }

// Current returns the policy in force.
func (r *ActivePolicy) Current() *policy.Policy { return r.policy.Load() }

// Take counts a call that p has judged. It reports false, and counts nothing,
// where p is no longer in force.
func (r *ActivePolicy) Take(p *policy.Policy, call limit.Key) (permit *limit.Permit, tooMany *limit.Refusal, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.policy.Load() != p {
		return nil, nil, false
	}
	permit, tooMany = r.limiter.Take(call)
	return permit, tooMany, true
}

// Replace puts another policy in force for every call that comes later.
func (r *ActivePolicy) Replace(p *policy.Policy) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.limiter.Replace(limitsOf(p)); err != nil {
		return err
	}
	r.approvals.SetSelfApproval(p.Approvals().Self)
	r.policy.Store(p)
	close(r.replaced)
	r.replaced = make(chan struct{})
	return nil
}

// Changed returns a channel that is closed when another policy is in force.
func (r *ActivePolicy) Changed() <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.replaced
}

// limitsOf returns the limits that a policy sets.
func limitsOf(p *policy.Policy) limit.Config {
	return limit.Config{LoopLimit: p.LoopGuard(), Limits: p.Limits()}
}
