// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// A Store keeps pending questions and grants. Its methods are safe for concurrent use.
//
// A question needs no goroutine while it waits: the store calls its [Asker] with the
// answer, so that a call that waits costs memory alone.
type Store struct {
	config       Config
	selfApproval atomic.Bool
	asker        Asker // nobody before SetAsker
	grants       grants

	mu         sync.Mutex
	closed     bool
	number     uint64 // of the newest question
	pending    map[string]*pending
	perSession map[session.Ref]int // how many of pending
	bytes      int                 // of pending
	ended      endings
	watchers   map[*watcher]struct{}
	revisions  map[session.Ref]state.Revision // as which the grants of sessions are stored
	revoking   map[session.Ref][]string       // ids of grants that are gone, which is stored behind

	closing chan struct{}  // closed with the store
	work    sync.WaitGroup // what is done behind callers; Close waits for it
}

// NewStore returns an empty store.
func NewStore(config Config) *Store {
	return &Store{
		config:     config.withDefaults(),
		asker:      nobody{},
		grants:     newGrants(),
		pending:    make(map[string]*pending),
		perSession: make(map[session.Ref]int),
		ended:      endings{byID: make(map[string]*ending)},
		watchers:   make(map[*watcher]struct{}),
		revisions:  make(map[session.Ref]state.Revision),
		revoking:   make(map[session.Ref][]string),
		closing:    make(chan struct{}),
	}
}

// SetAsker gives the store the one asker of all its questions. It comes before the
// first question.
func (s *Store) SetAsker(asker Asker) { s.asker = asker }

// nobody is the asker of a store that has none.
type nobody struct{}

func (nobody) Resolved(*Question, Answer)       {}
func (nobody) Answered(*Question, Answer)       {}
func (nobody) Rejudge(*Question) policy.Verdict { return policy.Verdict{Action: policy.Ask} }

// SetSelfApproval says whether a principal may approve its own calls from now
// on.
func (s *Store) SetSelfApproval(may bool) { s.selfApproval.Store(may) }

// SelfApproval reports whether principals may approve their own calls.
func (s *Store) SelfApproval() bool { return s.config.SelfApproval || s.selfApproval.Load() }

// A pending is a question that waits.
type pending struct {
	question *Question
	store    *Store
	number   uint64
	weight   int
	expiry   *time.Timer
}

// Ask has a question wait for its answer, and returns it with its id and times. It does
// not wait itself. [ErrFull] and [ErrClosed] say that nobody will be asked.
func (s *Store) Ask(q Question) (*Question, error) {
	if q.ID == "" {
		q.ID, q.Created = newID(), time.Now()
	}
	if q.Expires.IsZero() {
		q.Expires = q.Created.Add(s.config.Expiry)
	}
	p := &pending{question: &q, store: s, weight: q.Weight()}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch waiting := s.perSession[q.Session]; {
	case s.closed:
		return nil, ErrClosed
	case len(s.pending) >= s.config.MaxPending:
		return nil, fmt.Errorf("%w questions: %d wait for an answer on this server", ErrFull, len(s.pending))
	case waiting >= s.config.MaxPerSession:
		return nil, fmt.Errorf("%w questions: %d wait for an answer in this session", ErrFull, waiting)
	case s.bytes+p.weight > s.config.MaxBytes:
		return nil, fmt.Errorf("%w questions: the pending ones hold %d bytes", ErrFull, s.bytes)
	case s.pending[q.ID] != nil:
		return nil, fmt.Errorf("%w: question %.64q waits already", ErrFull, q.ID)
	}
	s.number++
	p.number = s.number
	s.pending[q.ID] = p
	s.perSession[q.Session]++
	s.bytes += p.weight
	p.expiry = time.AfterFunc(time.Until(q.Expires), p.expire)
	s.notify(Change{Kind: Asked, Question: &q})
	return &q, nil
}

// newID returns a name that nobody guesses.
func newID() string { return strings.ToLower(rand.Text()) }

// Withdraw ends a question without an answer, for its asker. It reports false where
// the question has ended: then the asker is called with its answer, or was.
func (s *Store) Withdraw(id string) bool {
	s.mu.Lock()
	p := s.pending[id]
	s.mu.Unlock()
	return p != nil && p.settle(Answer{Kind: Withdrawn, At: time.Now()}, false)
}

func (p *pending) expire() { p.settle(Answer{Kind: Expired, At: time.Now()}, true) }

// settle ends the question, unless it ended before; answers says that the asker gets
// the answer.
func (p *pending) settle(a Answer, answers bool) bool {
	p.store.mu.Lock()
	won := p.store.end(p, &a)
	p.store.mu.Unlock()
	if won {
		p.store.asker.Resolved(p.question, a)
	}
	if won && answers {
		p.store.asker.Answered(p.question, a)
	}
	return won
}

// end takes a question out of the pending ones. Of all who try, one succeeds.
func (s *Store) end(p *pending, a *Answer) bool {
	q := p.question
	if s.pending[q.ID] != p {
		return false
	}
	delete(s.pending, q.ID)
	if s.perSession[q.Session]--; s.perSession[q.Session] == 0 {
		delete(s.perSession, q.Session)
	}
	s.bytes -= p.weight
	p.expiry.Stop()
	a.Digest = q.Digest
	s.ended.add(&ending{id: q.ID, owners: q.owners(), answer: *a})
	s.notify(Change{Kind: Ended, Question: q, Answer: *a})
	return true
}

// Resolve answers a question and returns the answer as it counts. The same
// answer again by the same principal changes nothing and is no error.
func (s *Store) Resolve(by Viewer, id string, a Answer) (Answer, error) {
	a.By, a.At, a.Grant = by.Owner.Name(), time.Now(), nil
	s.mu.Lock()
	p, ok := s.pending[id]
	if ok && !by.sees(p.question.owners()...) {
		ok = false // it is as if there were none
	}
	if ok && !a.At.Before(p.question.Expires) {
		s.mu.Unlock()
		p.expire() // its timer is late
		return Answer{}, late(Answer{Kind: Expired})
	}
	if !ok {
		defer s.mu.Unlock()
		return s.again(by, id, a)
	}
	err := s.judge(by, p.question, &a)
	if err == nil {
		s.end(p, &a)
	}
	s.mu.Unlock()
	if err != nil {
		return Answer{}, err
	}
	s.asker.Resolved(p.question, a)
	s.asker.Answered(p.question, a)
	if a.Grant != nil {
		s.rejudge(p.question.Session, a)
	}
	return a, nil
}

// judge decides whether by may answer q so, and makes the grant if one is given.
func (s *Store) judge(by Viewer, q *Question, a *Answer) error {
	err := s.mayApprove(by, q.owners()...)
	if errors.Is(err, ErrSelf) && len(q.Questions) > 0 {
		err = nil // the answer to a tool approves nothing
	}
	if err != nil {
		return fmt.Errorf("question %.64q: %w", q.ID, err)
	}
	if err := a.check(q); err != nil {
		return err
	}
	if !a.always() {
		return nil
	}
	a.Grant, err = s.give(q, *a)
	return err
}

// again answers an approver whose question has ended.
func (s *Store) again(by Viewer, id string, a Answer) (Answer, error) {
	e := s.ended.byID[id]
	if e == nil || !by.sees(e.owners...) {
		return Answer{}, fmt.Errorf("approval %.64q: %w: it ended long ago, is not yours, or never was", id, ErrNotFound)
	}
	if e.answer.same(a) && (a.Digest == [32]byte{} || a.Digest == e.answer.Digest) {
		return e.answer, nil
	}
	return Answer{}, late(e.answer)
}

func late(a Answer) error {
	switch a.Kind {
	case Expired:
		return fmt.Errorf("%w: nobody answered in time, and the call was denied", ErrExpired)
	case Withdrawn:
		return fmt.Errorf("%w: the call ended before anybody answered", ErrWithdrawn)
	}
	return fmt.Errorf("%w: %s by %s", ErrAnswered, a.Kind, a.By)
}

// rejudge has the grants of a session answer what else waits in it, and in those below it.
func (s *Store) rejudge(in session.Ref, given Answer) {
	for _, p := range s.waiting(func(q *Question) bool { return len(q.Questions) == 0 && s.within(q, in) }) {
		a := Answer{By: given.By, From: given.From, At: given.At, Grant: given.Grant}
		switch s.asker.Rejudge(p.question).Action {
		case policy.Allow:
			a.Kind = AllowOnce
		case policy.Deny:
			a.Kind = DenyOnce
		default:
			continue
		}
		p.settle(a, true)
	}
}

// within reports whether a question is about a call in a session, or in one below it.
func (s *Store) within(q *Question, in session.Ref) bool {
	if len(q.Chain) == 0 || q.Session == in {
		return q.Session == in
	}
	found, err := s.config.Sessions.Resolve(q.Session)
	return err == nil && found.IsWithin(in)
}

// waiting returns the pending questions that match, oldest first.
func (s *Store) waiting(match func(*Question) bool) []*pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted(match)
}

func (s *Store) sorted(match func(*Question) bool) []*pending {
	var list []*pending
	for _, p := range s.pending {
		if match(p.question) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pending) int { return cmp.Compare(a.number, b.number) })
	return list
}

// List returns the pending questions that the viewer may see, oldest first: of one session and those
// below it or, where the id is empty, of all.
func (s *Store) List(viewer Viewer, sessionID string) []*Question {
	return questions(s.waiting(func(q *Question) bool {
		return viewer.sees(q.owners()...) && (sessionID == "" || q.IsWithin(sessionID))
	}))
}

func questions(waiting []*pending) []*Question {
	list := make([]*Question, len(waiting))
	for i, p := range waiting {
		list[i] = p.question
	}
	return list
}

// Find returns a pending question that the viewer may see.
func (s *Store) Find(viewer Viewer, id string) (*Question, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pending[id]
	if !ok || !viewer.sees(p.question.owners()...) {
		return nil, fmt.Errorf("approval %.64q: %w: it ended long ago, is not yours, or never was", id, ErrNotFound)
	}
	return p.question, nil
}

// Pending returns how many questions wait.
func (s *Store) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// Close takes no more questions, withdraws the pending ones, and ends every
// watch.
func (s *Store) Close() {
	s.mu.Lock()
	if !s.closed {
		close(s.closing)
	}
	s.closed = true
	for w := range s.watchers {
		w.wakeUp()
	}
	s.mu.Unlock()
	for _, p := range s.waiting(func(*Question) bool { return true }) {
		p.settle(Answer{Kind: Withdrawn, At: time.Now()}, true)
	}
	s.work.Wait()
}

// endings are the questions that ended last, for those who answer late.
type endings struct {
	byID  map[string]*ending
	order []*ending // oldest first
	bytes int
}

type ending struct {
	id     string
	owners []auth.Owner
	answer Answer
}

// What is kept of ended questions.
const (
	maxEndings     = 10_000
	maxEndingBytes = 4 << 20
)

func (e *endings) add(last *ending) {
	e.byID[last.id] = last
	e.order = append(e.order, last)
	e.bytes += last.answer.Weight()
	for len(e.order) > maxEndings || len(e.order) > 1 && e.bytes > maxEndingBytes {
		first := e.order[0]
		e.order[0] = nil // the slice keeps its memory
		e.order = e.order[1:]
		e.bytes -= first.answer.Weight()
		delete(e.byID, first.id)
	}
}
