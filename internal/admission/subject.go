// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"io/fs"
	"slices"
	"sync"

	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// Env returns where a call of a session happens.
func (a *Admission) Env(s *session.Session, restrictions tools.Restrictions, callID string) *tools.Env {
	env := &tools.Env{
		SessionID: s.ID, CallID: callID, Tenant: s.Owner.Tenant(), Principal: s.Owner.Name(), Workspace: s.Workspace,
		Session: s, Changes: s.Changes, Documents: s.Documents(), Settings: s.Options(), Restrictions: restrictions, Help: a.helpOf(s), Catalog: catalog{a, s},
		EditErrors: max(0, s.Settings().EditErrors),
	}
	if system, ok := persona.Named(s.Settings().Persona); ok {
		env.Words = system.Words()
	}
	if a.Artifacts != nil {
		env.Artifacts = a.Artifacts(s)
	}
	if a.Offer != nil {
		offer := a.Offer()
		env.Readable, env.Temporary = offer.Readable, offer.Temporary
	}
	return env
}

// Subject returns a call as the policy sees it, but for its input and effects. A caller
// whose principal may have only a mode that permits less than that of the session is
// judged in that.
func (a *Admission) Subject(s *session.Session, entry *tools.Entry, most tools.Mode, onBehalfOf string) *policy.Subject {
	settings := s.Settings()
	call := &policy.Subject{
		Principal: s.Owner.Name(), Tenant: s.Owner.Tenant(), OnBehalfOf: onBehalfOf, SessionID: s.ID, Labels: settings.Labels,
		Level: settings.Level, Mode: session.AtMost(settings.Mode, most), Workspace: s.Workspace.Dir(), Home: s.Home, Temp: s.Temp,
		Spec: &entry.Spec, Network: settings.Network,
	}
	if a.Offer != nil {
		call.Offer = a.Offer()
		call.Network = min(call.Network, call.Offer.Network)
		call.DeniedThere = func(denial tools.Denial) bool { return deniedThere(s, denial) }
	}
	if a.Monitored != nil {
		call.Monitored = a.keptOf(s)
	}
	if parent := s.Parent(); parent != nil {
		call.Above = a.Subject(parent, entry, most, onBehalfOf)
	}
	return call
}

// grants returns what was granted in a session and in those above it, oldest first in
// each. A grant for one exact call counts below only where that is a call for the same
// files.
func (a *Admission) grants(s *session.Session) []policy.Grant {
	own := a.Approvals.Grants(s.Ref())
	parent := s.Parent()
	if parent == nil {
		return own
	}
	from, to := parent.Workspace.Dir(), s.Workspace.Dir()
	above := slices.Clone(policy.Reseat(a.grants(parent), from, to))
	if from != to {
		above = slices.DeleteFunc(above, func(g policy.Grant) bool { return g.Action == policy.Allow && g.Tier.Kind == policy.TierCall })
	}
	return append(above, own...)
}

// keptOf returns what the server protects of the workspace of a session, as the
// workspace is when it is first asked.
func (a *Admission) keptOf(s *session.Session) func(tools.Protection) policy.Monitored {
	var once sync.Once
	var kept policy.Monitored
	return func(p tools.Protection) policy.Monitored {
		once.Do(func() {
			if kept = a.Monitored(*a.Env(s, nil, ""), p); kept == nil {
				kept = func(string, bool) string { return "" }
			}
		})
		return kept
	}
}

// deniedThere reports whether the workspace of a session has a file that may not be
// read, or more files than are examined.
func deniedThere(s *session.Session, denial tools.Denial) bool {
	found := false
	_, all := s.Workspace.Examine(".", maxExamined, func(path string, _ fs.FileMode) bool {
		found = found || path != "." && denial.Denies(path)
		return !found
	})
	return found || !all
}

const maxExamined = 100_000
