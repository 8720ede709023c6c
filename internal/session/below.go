// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolserver/toolserver/internal/tools"
)

// DefaultMaxDepth is how many sessions of agents are below each other where a [Config]
// says nothing.
const DefaultMaxDepth = 1

// ErrTooDeep says that there are as many sessions below each other as there may be.
var ErrTooDeep = errors.New("too many agents below each other")

// Below says below which session another is: that of an agent, which the
// server runs or a runtime serves. Such a session has never more than its parent has at the time, and ends with it.
type Below struct {
	Parent      *Session
	Agent       string // its name
	ExecutionID string // the call in the parent that began it
	OnBehalfOf  string // for whom that was made; empty: for the principal itself
	Background  bool   // it outlives that call
	Depth       int    // how many sessions are above it; the store sets it
}

// A Link is one step of who asked whom, as data: a call in the session ParentID began an
// agent in the session SessionID.
type Link struct{ Agent, SessionID, ParentID, ExecutionID string }

// Parent returns the session that this one is below, or nil.
func (s *Session) Parent() *Session {
	if s.Below == nil {
		return nil
	}
	return s.Below.Parent
}

// Depth returns how many sessions are above this one.
func (s *Session) Depth() int {
	if s.Below == nil {
		return 0
	}
	return s.Below.Depth
}

// Chain returns who asked whom, the outermost first; nil for a session of a caller.
func (s *Session) Chain() (chain []Link) {
	for at := s; at.Below != nil; at = at.Below.Parent {
		chain = append(chain, Link{at.Below.Agent, at.ID, at.Below.Parent.ID, at.Below.ExecutionID})
	}
	slices.Reverse(chain)
	return chain
}

// IsWithin reports whether the session is the one that ref names, or below it.
func (s *Session) IsWithin(ref Ref) bool {
	for at := s; at != nil; at = at.Parent() {
		if at.Ref() == ref {
			return true
		}
	}
	return false
}

// Children returns the sessions right below one that something may still use, the oldest first.
func (s *Store) Children(of *Session) []*Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(of.children) == 0 {
		return nil // as almost always
	}
	return slices.SortedFunc(maps.Keys(of.children), func(a, b *Session) int { return cmp.Compare(a.epoch, b.epoch) })
}

// Tree returns a session and all below it that something may still use, the deepest first.
func (s *Store) Tree(root *Session) (tree []*Session) {
	for _, child := range s.Children(root) {
		tree = append(tree, s.Tree(child)...)
	}
	return append(tree, root)
}

// bounded is what a session has while its parent has no more: it holds as long as both
// have the settings that it was made of.
type bounded struct{ own, above, both *Settings }

// within returns own settings, and no more than those of the parent allow.
func (s *Session) within(own *Settings) *Settings {
	above := s.Below.Parent.Settings()
	if known := s.bounded.Load(); known != nil && known.own == own && known.above == above {
		return known.both
	}
	both := *own
	both.Level = min(own.Level, above.Level)
	both.Mode = AtMost(AtMost(own.Mode, own.MaxMode), above.Mode)
	both.Network = min(own.Network, above.Network)
	if own.Answer.Size() > above.Answer.Size() {
		both.Answer = above.Answer
	}
	s.bounded.Store(&bounded{own, above, &both})
	return &both
}

// inherit fills in what a session below another does not ask for.
func (b *Below) inherit(settings Settings) Settings {
	above := b.Parent.Settings()
	settings.MaxMode = LeastMode(settings.MaxMode, above.MaxMode)
	settings.Level = cmp.Or(settings.Level, above.Level)
	settings.Mode = cmp.Or(settings.Mode, AtMost(above.Mode, settings.MaxMode))
	settings.Network = cmp.Or(settings.Network, above.Network)
	settings.Answer = cmp.Or(settings.Answer, above.Answer)
	settings.Persona = cmp.Or(settings.Persona, above.Persona)
	settings.EditErrors = cmp.Or(settings.EditErrors, above.EditErrors)
	settings.Dialect = cmp.Or(settings.Dialect, above.Dialect)
	settings.IdleTTL = min(cmp.Or(settings.IdleTTL, Forever), above.IdleTTL)
	if settings.Labels == nil {
		settings.Labels = above.Labels
	}
	return settings
}

// LeastMode returns the one of two bounds that permits less; 0 is none.
func LeastMode(a, b tools.Mode) tools.Mode {
	if a == 0 {
		return b
	}
	return AtMost(a, b)
}

// check refuses settings above those that the parent has.
func (b *Below) check(settings *Settings) error {
	above := b.Parent.Settings()
	switch {
	case settings.Level > above.Level:
		return b.exceeds("level", settings.Level, above.Level)
	case settings.Mode.Above(above.Mode):
		return b.exceeds("mode", settings.Mode, above.Mode)
	case settings.Network > above.Network:
		return b.exceeds("network", settings.Network, above.Network)
	case settings.Answer.Size() > above.Answer.Size():
		return fmt.Errorf("%w: answers of %d characters are longer than the %d of session %s, which began the agent", ErrForbidden, settings.Answer.Size(), above.Answer.Size(), b.Parent.ID)
	}
	return nil
}

func (b *Below) exceeds(what string, wanted, most fmt.Stringer) error {
	return fmt.Errorf("%w: %s %s is above %s, that of session %s, which began the agent: ask for no more", ErrForbidden, what, wanted, most, b.Parent.ID)
}

// checkBelow refuses a session that may not be below the one that it asks for.
func (s *Store) checkBelow(request *Request) error {
	b := request.Below
	switch {
	case request.Restore:
		return fmt.Errorf("%w: the session of an agent cannot be restored", ErrInvalid)
	case request.ID == DefaultID:
		return fmt.Errorf("%w: id %q is that of a session of a caller: choose another for the agent", ErrInvalid, DefaultID)
	case !isID(b.Agent):
		return fmt.Errorf("%w: agent %.80q: want 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit", ErrInvalid, b.Agent)
	case b.ExecutionID == "":
		return fmt.Errorf("%w: name the call that begins the agent", ErrInvalid)
	}
	if b.Depth = b.Parent.Depth() + 1; b.Depth > s.config.MaxDepth {
		return fmt.Errorf("%w: session %s is %d below one of a caller, and the operator allows %d: do it there yourself", ErrTooDeep, b.Parent.ID, b.Depth-1, s.config.MaxDepth)
	}
	return nil
}

// workspaceBelow returns the directory that a session below another works in: that of its
// parent, or one in it.
func workspaceBelow(parent *Session, chosen string) (string, error) {
	top := parent.Workspace.Dir()
	if chosen == "" {
		return top, nil
	}
	resolved, err := filepath.EvalSymlinks(chosen)
	if err == nil && filepath.IsAbs(chosen) && within(resolved, top) {
		if info, err := os.Stat(resolved); err == nil && info.IsDir() {
			return resolved, nil
		}
	}
	return "", fmt.Errorf("%w: workspace %.256q is not an existing directory in %s, where session %s works, which began the agent: give its absolute path", ErrForbidden, chosen, top, parent.ID)
}

// End takes a session and all below it out of the store, for a reason in words that follow
// "it". It returns those that this call has closed, the deepest first.
func (s *Store) End(session *Session, reason string) (ended []*Session) {
	s.Erase(session)
	first := s.forget(session, reason) // from now on nothing more can be below it
	for _, child := range s.Children(session) {
		ended = append(ended, s.End(child, "ended with session "+session.ID+", which began it")...)
	}
	if first {
		ended = append(ended, session)
	}
	return ended
}

// follow notes that a session is below its parent, which it uses. It reports false where
// the parent has ended. The store is locked.
func (s *Session) follow() bool {
	parent := s.Below.Parent
	select {
	case <-parent.over:
		return false
	default:
	}
	if parent.children == nil {
		parent.children = make(map[*Session]bool)
	}
	parent.children[s] = true
	return true
}

// ended says that no agent can begin in a session.
func (b *Below) ended() error {
	return fmt.Errorf("%w: session %q has ended, and begins no agent", ErrNotFound, b.Parent.ID)
}

// leaveParent ends what Create began: the session does not use its parent any more.
func (s *Session) leaveParent() {
	if parent := s.Parent(); parent != nil {
		s.store.mu.Lock()
		delete(parent.children, s)
		s.store.mu.Unlock()
		parent.Leave()
	}
}
