// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// steps takes part in the steps of every call for a server: admission judges, the audit
// log records, the metrics count.
type steps struct{ *Server }

// Proposed records a call, and what was decided about it.
func (s steps) Proposed(x *executor.Execution) *executor.Refusal {
	action, rule := x.Order.Verdict.Action.String(), x.Order.Verdict.Rule
	if refusal := x.Order.Refusal; refusal != nil && refusal.Verdict == nil { // which is none of the policy
		action, rule = policy.Deny.String(), refusal.Outcome.String()
	}
	s.meters.decided(action, rule)
	if hooked := x.Order.Hooked; hooked != nil {
		for _, run := range hooked.Runs {
			s.auditor.hooked(x, run)
		}
	}
	return s.auditor.proposed(x)
}

// Rejudge judges a call that waits.
func (s steps) Rejudge(x *executor.Execution, call tools.Call) executor.Rejudged {
	owner := x.Order.Session.Owner
	if stopped, ok := s.stops.ofNames(owner.Tenant(), owner.Name(), x.Order.OnBehalfOf); ok {
		return executor.Rejudged{Verdict: policy.Verdict{Action: policy.Deny, Rule: "stop", Reason: "The caller was " + stopped.why() + "."}}
	}
	return s.admission.Rejudge(&x.Order, call)
}

// Starting records that a tool is about to run.
func (s steps) Starting(x *executor.Execution) *executor.Refusal { return s.auditor.starting(x) }

// Resolved counts and records the end of a question.
func (s steps) Resolved(q *approval.Question, a approval.Answer) {
	s.meters.resolved(q, a)
	s.auditor.resolved(q, a)
}

// Finished counts and records the end of a call, after the agents that it began have ended.
func (s steps) Finished(x *executor.Execution, end *executor.Finished) {
	s.endAgents(x)
	s.meters.observe(x, end)
	s.auditor.finished(x, end)
	if end.Outcome == executor.Denied {
		s.denied(x, end)
	}
}
