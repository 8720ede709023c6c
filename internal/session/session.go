// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package session keeps where callers work: a workspace, how far the
// caller is trusted there, and which tools it has.
//
// Locks, in this order; whoever holds one takes only those after it:
//
//  1. documents.mu: held while a call changes a document of the session
//  2. Session.changing: held while the settings change, and while they are stored
//  3. Store.mu: which sessions there are
//  4. Session.mu, or that of tenantDirs
//
// hold.deciding is held while a replica takes or gives back a session, and comes before the mutex of holds. stored.measuring
// is held over a measurement of the disk, and comes before stored.mu. Only Session.changing, documents.mu and hold.deciding are
// held while the state is asked. Functions of AfterClose, and all that removes directories, run without a lock.
//
// A session below another uses that one until it is released itself, so that the workspace
// they may share stays; what it may do is bounded when its settings are read.
//
// Goroutines: some store what nobody waits for or what could not be stored, and one removes
// what is left of sessions that ended with an earlier server; they end by themselves, or with the store. A session has one timer for its idle time, and one for
// the removal of a workspace that is kept; the store owns both and stops them when it
// is closed.
package session

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/lease"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// DefaultID is the id of the session a principal has without asking.
const DefaultID = "default"

// A Session is where one principal works. Its methods are safe for concurrent
// use.
type Session struct {
	ID        string
	Owner     auth.Owner
	Workspace *workspace.Workspace
	Changes   *history.Store // what calls replaced
	Created   time.Time
	Below     *Below // for a session of an agent; nil for one of a caller

	store     *Store
	documents *documents
	epoch     int64
	over      chan struct{} // closed when the session is, and it is known how
	overOnce  sync.Once
	tombstone *tombstone              // once it ended; guarded by the store's lock
	state     atomic.Pointer[current] // changed with the store's lock held
	children  map[*Session]bool       // that are not released; guarded by the store's lock
	bounded   atomic.Pointer[bounded]
	changing  sync.Mutex     // held while the settings change, and what is stored
	erased    bool           // the session is not stored any more; guarded by changing
	chosen    rights         // that the session had when it was brought back, by its record,
	left      rights         // and what the operator left of them by then
	persists  atomic.Bool    // the session is stored, and goes on after a restart
	revision  state.Revision // of what is stored, among replicas; guarded by changing
	suspended atomic.Bool    // it was closed by a shutdown only
	unstored  atomic.Bool    // what is in force is not stored yet

	usedStored atomic.Int64 // when it was stored last that the session is used

	mu       sync.Mutex
	uses     int // executions that have not ended
	busy     int // processes that run beside them
	lastUsed time.Time
	closed   bool
	ended    time.Time       // when it was closed
	reason   string          // why, in words that follow "it"
	idle     *time.Timer     // nil for a session that is kept for ever
	watches  int             // how often idle was set
	scratch  bool            // the workspace was made for the session and goes with it
	released bool            // closed, and no longer used
	after    []func()        // to be called then
	private  string          // its directory outside of the workspace; empty before it is needed
	cache    *principalCache // nil before it is needed
	said     map[string]bool // by Once
	active   []string        // tools beside those that are pinned, the one used last first
}

// A Ref names a session without holding it, so that what belongs to the session can be
// stored and sent. [Store.Resolve] finds the session. A session that was closed and
// made again under its id has another epoch.
type Ref struct {
	Owner auth.Owner
	ID    string
	Epoch int64
}

// Key is what stored things of the session are found by.
func (r Ref) Key() string {
	return state.Key(r.Owner.Tenant(), r.Owner.Name(), r.ID, strconv.FormatInt(r.Epoch, 10))
}

// Ref returns what names this session and no other.
func (s *Session) Ref() Ref { return Ref{s.Owner, s.ID, s.epoch} }

// Settings is what may change while a session lives. A value is never changed
// after it was given to a session.
type Settings struct {
	Level   tools.Level
	Mode    tools.Mode
	Network tools.Network // how far commands reach
	Tools   tools.Selection
	Labels  map[string]string
	IdleTTL time.Duration // how long the session is kept unused, or Forever
	Answer  tools.Budget  // of the text of an answer

	// Activation is which tools are active.
	Activation Activation

	// Persona is the agent system whose tools the session shows, by its name; empty:
	// our own.
	Persona string

	// Dialect is how the session's model reads and writes calls, see [toolcall.Named];
	// empty: not known.
	Dialect string

	// MaxMode is the most permissive mode that the session may have; 0 is that of the
	// store. It is its principal's, and not the caller's to choose.
	MaxMode tools.Mode

	// Ordered says that calls run in the order they came: those of concurrency-safe
	// tools beside each other, any other alone.
	Ordered bool

	// EditErrors is how long an edit may wait for what language servers find wrong with
	// its files since; 0: the default of the store, NoEditErrors: not at all.
	EditErrors time.Duration
}

// NoEditErrors has edits ask no language server. MaxEditErrors is the longest time that one
// may wait.
const (
	NoEditErrors  time.Duration = -1
	MaxEditErrors               = 30 * time.Second
)

// current is what changes of a session at once.
type current struct {
	Settings
	before tools.Mode    // the mode before plan mode; 0 where not known
	next   chan struct{} // closed when another follows
}

// Forever is the idle time of a session that is kept for ever.
const Forever time.Duration = math.MaxInt64

func (s Settings) clone() Settings {
	s.Labels = maps.Clone(s.Labels)
	s.Tools.Include = slices.Clone(s.Tools.Include)
	s.Tools.Exclude = slices.Clone(s.Tools.Exclude)
	s.Activation.Pinned = slices.Clone(s.Activation.Pinned)
	return s
}

// Settings returns the settings of now: of a session below another, no more than that one
// has. The caller must not change what they point to.
func (s *Session) Settings() *Settings {
	own := &s.state.Load().Settings
	if s.Below == nil {
		return own
	}
	return s.within(own)
}

// Once reports whether something was not said in the session before.
func (s *Session) Once(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[text] || len(s.said) >= maxSayings {
		return false
	}
	if s.said == nil {
		s.said = make(map[string]bool)
	}
	s.said[text] = true
	return true
}

// maxSayings is how much is said once in a session; after that nothing is.
const maxSayings = 100

// Changed returns what is closed when the session has other settings than now, and
// Closed what is when it is closed.
func (s *Session) Changed() <-chan struct{} { return s.state.Load().next }
func (s *Session) Closed() <-chan struct{}  { return s.over }

// Answer returns how much room the answer to a call has, and how it is measured: what
// the call asks for or, where it does not, what its session has. Only here is
// that decided. The error says which range the operator allows.
func (s *Session) Answer(call tools.Budget) (int, tools.Measure, error) {
	if err := call.Check(s.store.config.MaxAnswer); err != nil {
		return 0, tools.Measure{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	budget := cmp.Or(call, s.Settings().Answer)
	return budget.Size(), tools.Measure{Family: s.Family(), Tokens: budget.Tokens > 0}, nil
}

// Family returns the name of the family of the session's model, see
// [toolcall.FamilyNamed].
func (s *Session) Family() string {
	if name := s.Settings().Dialect; name != "" {
		if dialect, err := toolcall.Named(name); err == nil {
			return dialect.Family().Name
		}
	}
	return toolcall.AnyFamily().Name
}

// Mode returns the mode of now.
func (s *Session) Mode() tools.Mode { return s.Settings().Mode }

// ChangeMode changes the mode within what the operator permits, if it still is
// from.
func (s *Session) ChangeMode(from, to tools.Mode) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	settings := s.Settings().clone()
	if settings.Mode != from {
		return &tools.Failure{Code: "mode_changed", Retryable: true, Message: fmt.Sprintf(
			"Somebody else changed the mode of the session: it was %s and is %s. Nothing was changed.", from, settings.Mode)}
	}
	if !s.store.permits(to, settings) {
		return tools.Failf("mode_not_permitted", "The operator does not permit mode %s: the session stays in mode %s.", to, from)
	}
	if s.Below != nil && to.Above(s.Below.Parent.Mode()) {
		return tools.Failf("mode_not_permitted", "Mode %s permits more than %s, that of session %s, which began this agent: the session stays in mode %s.",
			to, s.Below.Parent.Mode(), s.Below.Parent.ID, from)
	}
	settings.Mode = to
	if err := s.saveOrLower(settings); err != nil {
		return notStored(err)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.change(settings)
	return nil
}

// PlanEnd returns the mode that follows plan mode: the one before it, or the
// operator's default where that is not known. While the parent plans, ChangeMode refuses
// any.
func (s *Session) PlanEnd() tools.Mode {
	end := cmp.Or(s.state.Load().before, s.store.config.Default.Mode)
	if end == tools.ModePlan {
		end = tools.ModeAsk
	}
	if s.Below != nil && s.Below.Parent.Mode().Above(tools.ModePlan) {
		end = AtMost(end, s.Below.Parent.Mode())
	}
	return end
}

// change gives the session other settings, and those below it what that leaves them. The
// store is locked.
func (s *Session) change(settings Settings) {
	defer func() {
		for child := range s.children {
			child.change(child.state.Load().Settings)
		}
	}()
	old := s.state.Load()
	if old != nil {
		defer close(old.next)
	}
	s.state.Store(&current{Settings: settings, before: old.beforePlan(settings.Mode), next: make(chan struct{})})
}

// beforePlan returns the mode before plan mode once another follows.
func (c *current) beforePlan(next tools.Mode) tools.Mode {
	switch {
	case c == nil:
		return 0
	case next == tools.ModePlan && c.Mode != tools.ModePlan:
		return c.Mode
	}
	return c.before
}

// AfterClose has f called once the session is closed and nothing uses it any
// more. It reports false, and does nothing, where that is so already.
func (s *Session) AfterClose(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return false
	}
	s.after = append(s.after, f)
	return true
}

// Private returns a directory of the session outside of its workspace.
func (s *Session) Private() (string, error) {
	s.mu.Lock()
	private, released := s.private, s.released
	s.mu.Unlock()
	if private != "" || released {
		return private, nil
	}
	dir, err := s.store.privateDir(s.Owner.Tenant()) // which takes the lock of the store
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.private != "" || s.released { // somebody else was faster
		os.Remove(dir)
		return s.private, nil
	}
	s.private = dir
	return dir, nil
}

// Home and Temp return the home directory of what the session runs, and the temporary one;
// "" as long as nobody asked for its private directory, in which they are.
func (s *Session) Home() string { return s.inPrivate("home") }
func (s *Session) Temp() string { return s.inPrivate("tmp") }

func (s *Session) inPrivate(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.private == "" {
		return ""
	}
	return filepath.Join(s.private, name)
}

// Cache returns a directory of the session's principal that outlives the session,
// for what its commands fetch and build; "" where none is kept.
func (s *Session) Cache() (string, error) {
	root := s.store.config.Caches
	s.mu.Lock()
	cache := s.cache
	s.mu.Unlock()
	if root == "" || cache != nil {
		return cache.path(), nil
	}
	root, err := s.store.dirs.in(root, s.store.config.WorkspaceRoot, s.Owner.Tenant())
	if err != nil {
		return "", err
	}
	if cache, err = openCache(root, s.Owner); err != nil { // which may have to wait
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache != nil || s.released {
		cache.lock.Close()
		return s.cache.path(), nil
	}
	s.cache = cache
	return cache.path(), nil
}

// LastUsed returns when the session was last used; a session with an unfinished
// execution, or with a process that runs, is used now.
func (s *Session) LastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses+s.busy > 0 {
		return time.Now()
	}
	return s.lastUsed
}

// Busy marks the session as used until done is called, so that it is not taken for
// idle. It does not keep anybody from closing it.
func (s *Session) Busy() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		s.lastUsed = time.Now()
	})
}

// Enter marks the session as used until Leave; it fails when the session is
// closed.
func (s *Session) Enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.uses++
	return true
}

// Leave ends what Enter began.
func (s *Session) Leave() {
	s.mu.Lock()
	s.uses--
	s.lastUsed = time.Now()
	used, last := s.lastUsed, s.closed && s.uses == 0
	s.mu.Unlock()
	if last {
		s.release()
		return
	}
	s.noteUse(used)
}

// touch marks the session as used now; it fails when the session is closed.
func (s *Session) touch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = time.Now()
	return !s.closed
}

// watchIdle closes the session once it was unused for its idle time, and then
// calls closed. The timer is not moved with every use: when it fires early it
// is set again for what remains.
func (s *Session) watchIdle(closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	s.watches++
	ttl, watch := s.Settings().IdleTTL, s.watches
	if ttl == Forever || s.closed {
		return
	}
	s.idle = time.AfterFunc(max(0, ttl-time.Since(s.lastUsed)), func() {
		if s.closeIdle(watch, ttl) {
			if ending := s.store.notices.Ending; ending != nil {
				ending(s)
			}
			s.store.Erase(s)
			s.buried()
			s.release()
			closed()
		}
	})
}

// closeIdle closes the session if it was unused for ttl. Looking and closing
// are one step: a use comes before it or finds the session closed. A watch that
// another has taken the place of does nothing.
func (s *Session) closeIdle(watch int, ttl time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.watches != watch {
		return false
	}
	remaining := ttl
	if s.uses+s.busy == 0 {
		remaining -= time.Since(s.lastUsed)
	}
	if replicas := s.store.config.Replicas; remaining <= 0 && replicas != nil && replicas.Prove() != nil {
		remaining = retryTime // another server may have the session by now
	}
	if remaining > 0 {
		s.idle.Reset(remaining)
		return false
	}
	s.end(fmt.Sprintf("was not used for %s, its idle_ttl", ttl))
	return true
}

// end marks the session as closed, for a reason. The first one counts. The session
// is locked.
func (s *Session) end(reason string) {
	if !s.closed {
		s.closed, s.ended, s.reason = true, time.Now(), reason
	}
}

func (s *Session) isReleased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// buried tells those who wait for the end of the session, once it is known how it ended.
func (s *Session) buried() {
	s.store.bury(s)
	s.overOnce.Do(func() { close(s.over) })
}

// close refuses new uses; the workspace is released when the last one ended. It reports
// false where the session was closed already.
func (s *Session) close(reason string) bool {
	s.mu.Lock()
	first := !s.closed
	unused := first && s.uses == 0
	s.end(reason)
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.buried()
	if unused {
		s.release()
	}
	return first
}

// release gives the workspace back, once the session is closed and unused.
// Nobody may hold a lock meanwhile: removing a directory can take its time.
func (s *Session) release() {
	s.mu.Lock()
	s.released = true
	after, private, cache := s.after, s.private, s.cache
	s.after = nil
	s.mu.Unlock()
	s.store.unlist(s)
	for _, f := range after {
		f()
	}
	s.Changes.Close()
	s.Workspace.Close()
	switch {
	case s.suspended.Load(): // both are there after the restart
	case !s.scratch:
		s.documents.remove()
	case !s.store.keepWorkspace(s):
		s.documents.remove()
		lease.RemoveAll(s.Workspace.Dir())
	}
	if private != "" {
		lease.RemoveAll(private)
	}
	if cache != nil {
		cache.close(s.store.config.MaxCacheBytes)
	}
	if s.store.config.Replicas != nil {
		s.store.letGo(OwnerKey(s.Owner, s.ID), s.suspended.Load())
	}
	s.leaveParent()
}
