// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// Rejudge judges a call that waits for a person or for its turn: by the policy and the
// grants in force, and with the settings that its session has by now. It returns the
// call that runs under them.
func (a *Admission) Rejudge(order *executor.Order, call tools.Call) executor.Rejudged {
	found, err := a.Sessions.Resolve(order.Session)
	if err != nil {
		return denies("session", "Its session has ended.")
	}
	p := a.ActivePolicy.Current()
	entry, ok := a.Registry.Lookup(order.Tool, a.has(found, p))
	if !ok {
		return denies("tools", "The session no longer has the tool "+order.Tool+".")
	}
	if entry.Spec.Version != order.Version {
		return denies("changed", "The tool "+order.Tool+" was changed while the call waited: call again.")
	}
	subject := a.Subject(found, entry, order.MaxMode, order.OnBehalfOf)
	if p.Version() != order.Policy {
		// What the call leaves out, and which of its paths are judged by themselves,
		// is for the new policy to say.
		renewer, ok := call.(tools.Renewer)
		if !ok {
			return denies("policy", "The policy was replaced, and the call cannot be judged by the new one: call again.")
		}
		if call, err = renewer.Renew(p.Restrictions(subject)); err != nil {
			return denies("changed", "What it would touch changed while it waited: "+err.Error()+". Call again.")
		}
	}
	subject.Input, subject.Effects = call.Input(), call.Effects()
	subject.Digest = callDigest(order.OnBehalfOf, order.Identity(), subject.Input)
	decision := p.Decide(subject, a.grants(found))
	order.Hooked.Tighten(&decision.Verdict)
	return executor.Rejudged{Verdict: decision.Verdict, Rights: decision.Rights, Call: call}
}

func denies(rule, reason string) executor.Rejudged {
	return executor.Rejudged{Verdict: policy.Verdict{Action: policy.Deny, Rule: rule, Reason: reason}}
}
