// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/lease"
)

// Ended is what is known of a session that ended.
type Ended struct {
	ID       string
	Owner    auth.Owner
	Settings *Settings
	Created  time.Time
	LastUsed time.Time
	At       time.Time // when it ended
	Reason   string    // why, in words that follow "it"

	// Workspace is where it worked. One that was made for it is removed at
	// KeptUntil; that is zero for any other, and for one that is gone.
	Workspace string
	KeptUntil time.Time

	// Of is who began the session of an agent, and Depth how many were above it.
	Of    Link
	Depth int
}

// A tombstone is Ended in the hands of a store.
type tombstone struct {
	Ended
	documents *documents
	removal   *time.Timer // of the workspace; nil where it is gone, or was never kept
}

// What is known of sessions that ended, without those whose workspaces are kept.
const (
	maxEnded = 1000
	endedFor = 24 * time.Hour
)

// bury notes that a session ended, once. The default session has no end that
// anybody would notice.
func (s *Store) bury(session *Session) {
	session.mu.Lock()
	t := &tombstone{documents: session.documents, Ended: Ended{
		ID: session.ID, Owner: session.Owner, Settings: session.Settings(), Created: session.Created,
		LastUsed: session.lastUsed, At: session.ended, Reason: session.reason, Workspace: session.Workspace.Dir(), Depth: session.Depth(),
	}}
	if chain := session.Chain(); len(chain) > 0 {
		t.Of = chain[len(chain)-1]
	}
	session.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || session.tombstone != nil || session.ID == DefaultID {
		return
	}
	session.tombstone = t
	s.ended = append(s.ended, t)
	s.prune()
}

// prune forgets sessions that ended too long ago, or that are too many: those of
// who has the most, so that nobody drives out what is known of another's. Those whose
// workspaces are kept stay, and do not count. The store is locked.
func (s *Store) prune() {
	s.ended = slices.DeleteFunc(s.ended, func(t *tombstone) bool {
		return t.removal == nil && time.Since(t.At) >= endedFor
	})
	for {
		oldest, known := s.oldestOfMost(func(t *tombstone) bool { return t.removal == nil })
		if known <= maxEnded {
			return
		}
		s.ended = slices.DeleteFunc(s.ended, func(t *tombstone) bool { return t == oldest })
	}
}

// oldestOfMost counts those that count, and returns the oldest of the owner who has
// the most of them; nil where there are none. The store is locked.
func (s *Store) oldestOfMost(counts func(*tombstone) bool) (oldest *tombstone, total int) {
	has := make(map[auth.Owner]int)
	for _, t := range s.ended {
		if counts(t) {
			has[t.Owner]++
			total++
		}
	}
	for _, t := range s.ended {
		if counts(t) && (oldest == nil || has[t.Owner] > has[oldest.Owner]) {
			oldest = t
		}
	}
	return oldest, total
}

// keepWorkspace keeps the workspace that was made for a session for a while after
// its end. It reports false where it is not kept.
func (s *Store) keepWorkspace(session *Session) bool {
	if s.config.KeepWorkspace <= 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := session.tombstone
	if s.closed || t == nil {
		return false
	}
	t.KeptUntil = time.Now().Add(s.config.KeepWorkspace)
	t.removal = time.AfterFunc(s.config.KeepWorkspace, func() { s.removeWorkspace(t) })
	oldest, kept := s.oldestOfMost(func(t *tombstone) bool { return !t.KeptUntil.IsZero() })
	if kept > s.config.MaxKept {
		oldest.KeptUntil = time.Time{}
		oldest.removal.Reset(0) // which can take its time
	}
	return true
}

// removeWorkspace removes a workspace that was kept, and the documents with it, unless a
// session has taken them.
func (s *Store) removeWorkspace(t *tombstone) {
	s.mu.Lock()
	kept := t.removal != nil
	t.removal, t.KeptUntil = nil, time.Time{}
	s.mu.Unlock()
	if kept {
		t.documents.remove()
		lease.RemoveAll(t.Workspace)
	}
}

// kept returns the last session of owner with an id, whose workspace is
// kept until somebody takes it. The store is locked.
func (s *Store) kept(owner auth.Owner, id string) (*tombstone, error) {
	t := s.lastEnded(owner, id)
	switch {
	case t == nil:
		return nil, fmt.Errorf("%w: nothing is known of a session %.64q that ended: it never was, ended too long ago, or at a server that has ended, too, and kept workspaces go with that. Create it without restore", ErrNotFound, id)
	case t.KeptUntil.IsZero():
		return nil, fmt.Errorf("%w: %s, and there is no workspace of it to restore: only one that was made for a session is kept, for %s. Create it without restore",
			ErrNotFound, t.Ended, s.config.KeepWorkspace)
	}
	return t, nil
}

// take gives a session the workspace that was kept, and the documents. The store is locked.
func (t *tombstone) take(s *Session) {
	t.removal.Stop()
	t.removal, t.KeptUntil = nil, time.Time{}
	s.documents = t.documents
}

func (s *Store) lastEnded(owner auth.Owner, id string) *tombstone {
	for _, t := range slices.Backward(s.ended) {
		if t.Owner == owner && t.ID == id && (t.removal != nil || time.Since(t.At) < endedFor) {
			return t
		}
	}
	return nil
}

// String says when and why the session ended.
func (e Ended) String() string {
	text := fmt.Sprintf("session %q ended at %s: it %s", e.ID, e.At.UTC().Format(time.RFC3339), e.Reason)
	if !e.KeptUntil.IsZero() {
		text += fmt.Sprintf(". Its workspace is kept until %s: create it again with restore to work on in it", e.KeptUntil.UTC().Format(time.RFC3339))
	}
	return text
}

// Ended returns the sessions of owner that ended, oldest end first, as far as they
// are still known.
func (s *Store) Ended(owner auth.Owner) []Ended {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune()
	var list []Ended
	for _, t := range s.ended {
		if owner.Covers(t.Owner) {
			list = append(list, t.Ended)
		}
	}
	return list
}

// notFound says that owner has no such session and, where that is known, what became
// of it.
func (s *Store) notFound(owner auth.Owner, id string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.lastEnded(owner, id); t != nil {
		return fmt.Errorf("%w: %s", ErrNotFound, t.Ended)
	}
	return fmt.Errorf("%w: %.64q: create it, or leave the session id out to use the default session", ErrNotFound, id)
}
