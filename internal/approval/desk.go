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

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
)

// A Desk is where questions wait. Its methods are safe for concurrent use.
//
// Nobody waits on a goroutine here: whoever asks leaves a function that is
// called with the answer, so that a call that waits costs memory alone.
type Desk struct {
	config       Config
	selfApproval atomic.Bool

	// grants has a []policy.Grant for each *session.Session that has some. A
	// slice is never changed: the map is read without the lock below.
	grants sync.Map

	mu         sync.Mutex
	closed     bool
	number     uint64 // of the newest question
	pending    map[string]*Ticket
	perSession map[*session.Session]int // how many of pending
	bytes      int                      // of pending
	ended      endings
	watchers   map[*watcher]struct{}
	granted    map[string]*session.Session // by the id of a grant
}

// NewDesk returns an empty desk.
func NewDesk(config Config) *Desk {
	return &Desk{
		config:     config.withDefaults(),
		pending:    make(map[string]*Ticket),
		perSession: make(map[*session.Session]int),
		ended:      endings{byID: make(map[string]*ending)},
		watchers:   make(map[*watcher]struct{}),
		granted:    make(map[string]*session.Session),
	}
}

// SetSelfApproval says whether a principal may approve its own calls from now
// on.
func (d *Desk) SetSelfApproval(may bool) { d.selfApproval.Store(may) }

// A Ticket is a question on the desk, in the hands of its asker.
type Ticket struct {
	Question *Question

	desk    *Desk
	number  uint64
	weight  int
	then    func(Answer)
	rejudge func([]policy.Grant) policy.Verdict
	expiry  *time.Timer
}

// Ask puts a question on the desk and does not wait. then is called once, with
// the answer, on the goroutine of whoever gives it, which may be before the asker
// has its ticket; after a Withdraw that succeeded it is never called. [ErrFull]
// and [ErrClosed] say that nobody will be asked.
func (d *Desk) Ask(q Question, then func(Answer)) (*Ticket, error) {
	q.ID, q.Created = newID(), time.Now()
	if q.Expires.IsZero() {
		q.Expires = q.Created.Add(d.config.Expiry)
	}
	t := &Ticket{Question: &q, desk: d, weight: q.Weight(), then: then, rejudge: q.Rejudge}
	q.Rejudge = nil

	d.mu.Lock()
	defer d.mu.Unlock()
	switch waiting := d.perSession[q.Session]; {
	case d.closed:
		return nil, ErrClosed
	case len(d.pending) >= d.config.MaxPending:
		return nil, fmt.Errorf("%w questions: %d wait for an answer on this server", ErrFull, len(d.pending))
	case waiting >= d.config.MaxPerSession:
		return nil, fmt.Errorf("%w questions: %d wait for an answer in this session", ErrFull, waiting)
	case d.bytes+t.weight > d.config.MaxBytes:
		return nil, fmt.Errorf("%w questions: those that wait hold %d bytes", ErrFull, d.bytes)
	}
	d.number++
	t.number = d.number
	d.pending[q.ID] = t
	d.perSession[q.Session]++
	d.bytes += t.weight
	t.expiry = time.AfterFunc(q.Expires.Sub(q.Created), t.expire)
	d.tell(Change{Kind: Asked, Question: &q})
	return t, nil
}

// newID returns a name that nobody guesses.
func newID() string { return strings.ToLower(rand.Text()) }

// Withdraw takes the question back. It reports false when that is too late: the
// answer was given, and then is called or was.
func (t *Ticket) Withdraw() bool {
	return t.settle(Answer{Kind: Withdrawn, At: time.Now()}, nil)
}

func (t *Ticket) expire() {
	t.settle(Answer{Kind: Expired, At: time.Now()}, t.then)
}

// settle ends the question, unless it ended before.
func (t *Ticket) settle(a Answer, then func(Answer)) bool {
	t.desk.mu.Lock()
	won := t.desk.end(t, &a)
	t.desk.mu.Unlock()
	if won {
		t.told(a, then)
	}
	return won
}

// told tells those who are to know of the end, without the lock.
func (t *Ticket) told(a Answer, then func(Answer)) {
	if t.desk.config.Observe != nil {
		t.desk.config.Observe(t.Question, a)
	}
	if then != nil {
		then(a)
	}
}

// end takes a question off the desk. Of all who try, one succeeds.
func (d *Desk) end(t *Ticket, a *Answer) bool {
	q := t.Question
	if d.pending[q.ID] != t {
		return false
	}
	delete(d.pending, q.ID)
	if d.perSession[q.Session]--; d.perSession[q.Session] == 0 {
		delete(d.perSession, q.Session)
	}
	d.bytes -= t.weight
	t.expiry.Stop()
	a.Digest = q.Digest
	d.ended.add(&ending{id: q.ID, owners: q.owners(), answer: *a})
	d.tell(Change{Kind: Ended, Question: q, Answer: *a})
	return true
}

// Resolve answers a question and returns the answer as it counts. The same
// answer again by the same principal changes nothing and is no error.
func (d *Desk) Resolve(by Viewer, id string, a Answer) (Answer, error) {
	a.By, a.At, a.Grant = by.Name, time.Now(), nil
	d.mu.Lock()
	t, ok := d.pending[id]
	if ok && !a.At.Before(t.Question.Expires) {
		d.mu.Unlock()
		t.expire() // its timer is late
		return Answer{}, late(Answer{Kind: Expired})
	}
	if !ok {
		defer d.mu.Unlock()
		return d.again(by, id, a)
	}
	err := d.judge(by, t.Question, &a)
	if err == nil {
		d.end(t, &a)
	}
	d.mu.Unlock()
	if err != nil {
		return Answer{}, err
	}
	t.told(a, t.then)
	if a.Grant != nil {
		d.rejudge(t.Question.Session, a)
	}
	return a, nil
}

// judge decides whether by may answer q so, and makes the grant if one is given.
func (d *Desk) judge(by Viewer, q *Question, a *Answer) error {
	err := d.mayApprove(by, q.owners()...)
	if errors.Is(err, ErrSelf) && len(q.Questions) > 0 {
		err = nil // to tell something is not to approve
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
	a.Grant, err = d.give(q, *a)
	return err
}

// again tells an approver why a question no longer waits for its answer.
func (d *Desk) again(by Viewer, id string, a Answer) (Answer, error) {
	e := d.ended.byID[id]
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

// rejudge has the grants of a session answer what else waits in it.
func (d *Desk) rejudge(s *session.Session, given Answer) {
	grants := d.Grants(s)
	for _, t := range d.waiting(func(q *Question) bool { return q.Session == s }) {
		if t.rejudge == nil {
			continue
		}
		a := Answer{By: given.By, From: given.From, At: given.At, Grant: given.Grant}
		switch t.rejudge(grants).Action {
		case policy.Allow:
			a.Kind = AllowOnce
		case policy.Deny:
			a.Kind = DenyOnce
		default:
			continue
		}
		t.settle(a, t.then)
	}
}

// waiting returns the questions that match, oldest first.
func (d *Desk) waiting(match func(*Question) bool) []*Ticket {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sorted(match)
}

func (d *Desk) sorted(match func(*Question) bool) []*Ticket {
	var list []*Ticket
	for _, t := range d.pending {
		if match(t.Question) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *Ticket) int { return cmp.Compare(a.number, b.number) })
	return list
}

// Filter chooses by owner and session; what is empty is not compared.
type Filter struct{ Owner, SessionID string }

func (f Filter) matches(owner, sessionID string) bool {
	return (f.Owner == "" || f.Owner == owner) && (f.SessionID == "" || f.SessionID == sessionID)
}

// List returns the questions that wait and that the viewer may see, oldest
// first.
func (d *Desk) List(viewer Viewer, filter Filter) []*Question {
	return questions(d.waiting(func(q *Question) bool {
		return viewer.sees(q.owners()...) && filter.matches(q.Owner, q.Session.ID)
	}))
}

func questions(tickets []*Ticket) []*Question {
	list := make([]*Question, len(tickets))
	for i, t := range tickets {
		list[i] = t.Question
	}
	return list
}

// Find returns a question that waits and that the viewer may see.
func (d *Desk) Find(viewer Viewer, id string) (*Question, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.pending[id]
	if !ok || !viewer.sees(t.Question.owners()...) {
		return nil, fmt.Errorf("approval %.64q: %w: it ended long ago, is not yours, or never was", id, ErrNotFound)
	}
	return t.Question, nil
}

// Pending returns how many questions wait.
func (d *Desk) Pending() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending)
}

// Close takes no more questions, withdraws those that wait, and ends every
// watch.
func (d *Desk) Close() {
	d.mu.Lock()
	d.closed = true
	for w := range d.watchers {
		w.wakeUp()
	}
	d.mu.Unlock()
	for _, t := range d.waiting(func(*Question) bool { return true }) {
		t.settle(Answer{Kind: Withdrawn, At: time.Now()}, t.then)
	}
}

// endings are the questions that ended last, for those who answer late.
type endings struct {
	byID  map[string]*ending
	order []*ending // oldest first
	bytes int
}

type ending struct {
	id     string
	owners []string
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
		e.order[0] = nil // the slice still points there
		e.order = e.order[1:]
		e.bytes -= first.answer.Weight()
		delete(e.byID, first.id)
	}
}
