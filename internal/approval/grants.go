// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
)

// A Grant is a lasting answer and the session it belongs to.
type Grant struct {
	policy.Grant
	Owner, SessionID string
}

// Grants returns what was granted in a session, oldest first. They end with it:
// a later session with its id has none. It waits for nobody. The slice must not
// be changed.
func (d *Desk) Grants(s *session.Session) []policy.Grant {
	if grants, ok := d.grants.Load(s); ok {
		return grants.([]policy.Grant)
	}
	return nil
}

// give makes a grant of the tier that was chosen. The newest word on a tier
// takes the place of an older one.
func (d *Desk) give(q *Question, a Answer) (*policy.Grant, error) {
	grant := policy.Grant{
		ID: newID(), Action: policy.Deny, Tool: q.Tool, Tier: q.Tiers[a.Tier-1], By: a.By, Given: a.At,
	}
	if a.Kind == AllowAlways {
		grant.Action = policy.Allow
	}
	s := q.Session
	old := d.Grants(s)
	next := slices.DeleteFunc(slices.Clone(old), func(g policy.Grant) bool {
		return g.Tool == grant.Tool && g.Tier.Kind == grant.Tier.Kind && g.Tier.Pattern == grant.Tier.Pattern
	})
	if len(next) >= d.config.MaxGrants {
		return nil, fmt.Errorf("%w grants: the session has %d, the most there may be: revoke some, or answer for this call only", ErrFull, len(next))
	}
	if old == nil && !s.AfterClose(func() { d.forget(s) }) {
		return nil, fmt.Errorf("%w: the session has ended", ErrWithdrawn)
	}
	d.keep(s, append(next, grant))
	return &grant, nil
}

// keep makes grants all that a session has.
func (d *Desk) keep(s *session.Session, grants []policy.Grant) {
	for _, g := range d.Grants(s) {
		delete(d.granted, g.ID)
	}
	for _, g := range grants {
		d.granted[g.ID] = s
	}
	d.grants.Store(s, grants)
}

// forget ends the grants of a session that ended.
func (d *Desk) forget(s *session.Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep(s, nil)
	d.grants.Delete(s)
}

// ListGrants returns the grants that the viewer may see, oldest first.
func (d *Desk) ListGrants(viewer Viewer, filter Filter) []Grant {
	var list []Grant
	for s, grants := range d.grants.Range {
		s := s.(*session.Session)
		if !viewer.sees(s.Owner) || !filter.matches(s.Owner, s.ID) {
			continue
		}
		for _, g := range grants.([]policy.Grant) {
			list = append(list, Grant{Grant: g, Owner: s.Owner, SessionID: s.ID})
		}
	}
	slices.SortFunc(list, func(a, b Grant) int {
		return cmp.Or(a.Given.Compare(b.Given), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Revoke ends a grant and returns it. Calls that it allowed go on. A principal
// may give up what it was allowed; to lift what was denied to it is for those who
// may approve its calls.
func (d *Desk) Revoke(by Viewer, id string) (Grant, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.granted[id]
	if !ok {
		return Grant{}, fmt.Errorf("grant %.64q: %w: it was revoked, is not yours, or never was", id, ErrNotFound)
	}
	old := d.Grants(s)
	i := slices.IndexFunc(old, func(g policy.Grant) bool { return g.ID == id })
	err := d.mayApprove(by, s.Owner)
	if errors.Is(err, ErrSelf) && old[i].Action == policy.Allow {
		err = nil
	}
	if err != nil {
		return Grant{}, fmt.Errorf("grant %.64q: %w", id, err)
	}
	d.keep(s, slices.Delete(slices.Clone(old), i, i+1))
	return Grant{Grant: old[i], Owner: s.Owner, SessionID: s.ID}, nil
}
