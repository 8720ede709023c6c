// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
)

// rules are the policy in force, and the limits it sets. They change together:
// no call is judged by one version and counted by another.
type rules struct {
	mu      sync.RWMutex
	policy  *policy.Policy
	limiter *limit.Limiter
	desk    *approval.Desk
}

func newRules(desk *approval.Desk) *rules {
	limiter, err := limit.New(limit.Config{})
	if err != nil {
		panic(err) // no limits are valid limits
	}
	return &rules{limiter: limiter, desk: desk}
}

// hold returns the policy in force, which stays in force until release.
func (r *rules) hold() (p *policy.Policy, release func()) {
	r.mu.RLock()
	return r.policy, r.mu.RUnlock
}

// replace puts another policy in force for every call that comes later.
func (r *rules) replace(p *policy.Policy) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.limiter.Replace(limitsOf(p)); err != nil {
		return err
	}
	r.desk.SetSelfApproval(p.Approvals().Self)
	r.policy = p
	return nil
}

// limitsOf returns the limits that a policy sets.
func limitsOf(p *policy.Policy) limit.Config {
	guard := p.LoopGuard()
	config := limit.Config{Guard: limit.Guard{Repeat: guard.Repeat, Alternate: guard.Alternate}}
	for _, l := range p.Limits() {
		if len(l.Tools) == 0 {
			l.Tools = []string{"*"}
		}
		config.Rules = append(config.Rules, limit.Rule{
			Name: l.Name, Tools: l.Tools, Rate: l.Rate, Burst: l.Burst,
			Concurrent: l.Concurrent, Per: scopes[l.Per], Shadow: l.Shadow,
		})
	}
	return config
}

var scopes = map[policy.Scope]limit.Scope{
	policy.PerSession:   limit.Session,
	policy.PerPrincipal: limit.Principal,
	policy.PerServer:    limit.Server,
}
