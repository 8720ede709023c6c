// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// A Grant is a lasting answer and the session it belongs to.
type Grant struct {
	policy.Grant
	Session session.Ref

	// Unstored says of a grant that was revoked that a restart would bring it back: that it
	// is gone is not stored yet, which is tried again.
	Unstored bool
}

// grants are those of all sessions. The mutex of the store is held over changes, so
// that the slices change one at a time; a slice itself never changes.
type grants struct {
	mu        sync.RWMutex
	bySession map[session.Ref][]policy.Grant
	sessions  map[string]session.Ref // by the id of a grant
}

func newGrants() grants {
	return grants{bySession: make(map[session.Ref][]policy.Grant), sessions: make(map[string]session.Ref)}
}

// Grants returns what was granted in a session, oldest first. Grants end with their
// session: a later session with its id has none. The slice must not be changed.
func (s *Store) Grants(of session.Ref) []policy.Grant {
	s.grants.mu.RLock()
	defer s.grants.mu.RUnlock()
	return s.grants.bySession[of]
}

// set makes list all that a session has.
func (g *grants) set(of session.Ref, list []policy.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, old := range g.bySession[of] {
		delete(g.sessions, old.ID)
	}
	for _, grant := range list {
		g.sessions[grant.ID] = of
	}
	g.bySession[of] = list
}

// forget ends the grants of a session that ended.
func (g *grants) forget(of session.Ref) {
	g.set(of, nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.bySession, of)
}

// find returns the session of a grant and all that was granted there.
func (g *grants) find(id string) (session.Ref, []policy.Grant, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	of, ok := g.sessions[id]
	return of, g.bySession[of], ok
}

// give makes a grant of the tier that was chosen. The newest answer for a tier
// takes the place of an older one.
func (s *Store) give(q *Question, a Answer) (*policy.Grant, error) {
	grant := policy.Grant{
		ID: newID(), Action: policy.Deny, Tool: q.Tool, Tier: q.Tiers[a.Tier-1], By: a.By, Given: a.At,
	}
	if a.Kind == AllowAlways {
		grant.Action = policy.Allow
	}
	if s.Grants(q.Session) == nil && !s.forgetWith(q.Session) {
		return nil, fmt.Errorf("%w: the session has ended", ErrWithdrawn)
	}
	err := s.change(q.Session, func(old []policy.Grant) ([]policy.Grant, error) {
		next := slices.DeleteFunc(slices.Clone(old), func(g policy.Grant) bool {
			return g.Tool == grant.Tool && g.Tier.Kind == grant.Tier.Kind && g.Tier.Pattern == grant.Tier.Pattern
		})
		if len(next) >= s.config.MaxGrants {
			return nil, fmt.Errorf("%w grants: the session has %d, the most there may be: revoke some, or answer for this call only", ErrFull, len(next))
		}
		return append(next, grant), nil
	})
	if errors.Is(err, state.ErrUnavailable) {
		s.revokeLater(q.Session, grant.ID) // it may have been heard
	}
	if err != nil {
		return nil, err
	}
	return &grant, nil
}

// forgetWith has the grants of a session end with it. It reports false where the
// session has ended.
func (s *Store) forgetWith(of session.Ref) bool {
	found, err := s.config.Sessions.Resolve(of)
	return err == nil && found.AfterClose(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.grants.forget(of)
		delete(s.revisions, of)
		if !found.Suspended() {
			s.erase(of) // or the next start does, which finds no such session
		}
	})
}

// ListGrants returns the grants that the viewer may see, oldest first.
func (s *Store) ListGrants(viewer Viewer, sessionID string) []Grant {
	s.grants.mu.RLock()
	defer s.grants.mu.RUnlock()
	var list []Grant
	for of, grants := range s.grants.bySession {
		if !viewer.sees(of.Owner) || sessionID != "" && sessionID != of.ID {
			continue
		}
		for _, g := range grants {
			list = append(list, Grant{Grant: g, Session: of})
		}
	}
	slices.SortFunc(list, func(a, b Grant) int {
		return cmp.Or(a.Given.Compare(b.Given), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Revoke ends a grant and returns it. Calls that it allowed go on. A principal may
// revoke what it was allowed; what was denied to it, only those revoke who may approve
// its calls. What was allowed is no longer, also where that cannot be stored yet.
func (s *Store) Revoke(by Viewer, id string) (Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.revocable(by, id)
	if err != nil {
		return Grant{}, err
	}
	err = s.change(found.Session, without(id))
	if err != nil && found.Action == policy.Allow && s.revokeLater(found.Session, id) {
		s.grants.set(found.Session, omit(s.Grants(found.Session), []string{id}))
		found.Unstored, err = true, nil
	}
	if err != nil {
		return Grant{}, err
	}
	return found, nil
}

// FindGrant returns a grant that by may revoke.
func (s *Store) FindGrant(by Viewer, id string) (Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revocable(by, id)
}

// revocable returns a grant that by may revoke. The store is locked.
func (s *Store) revocable(by Viewer, id string) (Grant, error) {
	of, old, ok := s.grants.find(id)
	if !ok || !by.sees(of.Owner) {
		return Grant{}, fmt.Errorf("grant %.64q: %w: it was revoked, is not yours, or never was", id, ErrNotFound)
	}
	i := slices.IndexFunc(old, func(g policy.Grant) bool { return g.ID == id })
	err := s.mayApprove(by, of.Owner)
	if errors.Is(err, ErrSelf) && old[i].Action == policy.Allow {
		err = nil
	}
	if err != nil {
		return Grant{}, fmt.Errorf("grant %.64q: %w", id, err)
	}
	return Grant{Grant: old[i], Session: of}, nil
}
