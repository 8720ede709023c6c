// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/lease"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/tools"
)

var (
	// ErrNotFound says that the principal has no such session.
	ErrNotFound = errors.New("no such session")
	// ErrExists says that the id is taken.
	ErrExists = errors.New("session already exists")
	// ErrInvalid is wrapped by errors about what was asked for.
	ErrInvalid = errors.New("invalid session")
	// ErrForbidden is wrapped by errors about what the operator does not permit.
	ErrForbidden = errors.New("not permitted")
	// ErrFull says that the principal has too many sessions.
	ErrFull = errors.New("too many sessions")
)

// What holds where a [Config] says nothing.
const (
	DefaultMaxPerPrincipal = 1000
	DefaultMaxKept         = 100
)

// Config says what sessions may be.
type Config struct {
	// DefaultWorkspace is the workspace of the default session of the principal
	// it is given to, by name, in the default tenant; others have a directory of their
	// own below WorkspaceRoot.
	DefaultWorkspace map[string]string

	// WorkspaceRoot is where workspaces are made for sessions that ask for none.
	// Required.
	WorkspaceRoot string

	// Closed are absolute paths of what is the server's own, beside WorkspaceRoot and
	// Caches: where they lie in a workspace, no tool reads or writes them.
	Closed []string

	// AllowedWorkspaces are the directories at or below which a caller may
	// choose a workspace. None: callers cannot choose.
	AllowedWorkspaces []string

	// Caches is where each principal has a cache for its commands, which outlives
	// sessions; empty: none is kept. One that has more than MaxCacheBytes is pruned
	// when nobody uses it.
	Caches        string
	MaxCacheBytes int64

	// Default are the settings of a session that asks for nothing else. Network 0
	// means none, no Answer [tools.DefaultAnswer], and no Activation
	// [DefaultActivation].
	Default Settings

	// MaxAnswer is how many characters an answer may be asked to have at most; 0
	// means [tools.DefaultMaxAnswer].
	MaxAnswer int

	// MaxLevel is the highest level a session may have.
	MaxLevel tools.Level

	// MaxNetwork is the furthest that commands of a session may reach; 0 means as
	// far as by default.
	MaxNetwork tools.Network

	// Modes are the modes a session may have. None: every mode.
	Modes []tools.Mode

	// MaxMode is the most permissive of them for sessions whose settings have no
	// MaxMode; 0 means as permissive as by default.
	MaxMode tools.Mode

	// Exposed are the settings that calls of a session may know, and change.
	Exposed Exposed

	// KeepWorkspace is how long a workspace that was made for a session is kept after
	// its end, in case somebody wants it back; 0: it is removed with the session.
	// MaxKept is how many are kept; 0 means [DefaultMaxKept]. Where they are more, the
	// oldest of the principal who has the most goes. None outlives the store.
	KeepWorkspace time.Duration
	MaxKept       int

	// Tenants has the quotas of tenants, and the directories that they may choose
	// workspaces from: AllowedWorkspaces are those of the default tenant.
	Tenants quota.Tenants

	// MaxPerPrincipal bounds how many sessions one principal may have; 0 means
	// [DefaultMaxPerPrincipal].
	MaxPerPrincipal int

	// Records, if set, has sessions go on after a restart. It is nil where they end with
	// the server.
	Records *Records

	// Replicas, if set, has other servers that have the same Records: a session is at one
	// of them.
	Replicas *Replicas

	// MaxDepth is how many sessions of agents may be below each other; 0 means
	// [DefaultMaxDepth].
	MaxDepth int
}

// Request is what a caller asks of a new session. Zero fields take defaults.
type Request struct {
	ID        string
	Workspace string
	Settings  Settings

	// Restore asks for the workspace that is kept of the last session of this ID.
	Restore bool

	// Below asks for a session below another of the same owner, in the workspace of that
	// or in a directory there.
	Below *Below
}

type key struct {
	owner auth.Owner
	id    string
}

// A Store keeps the sessions of all principals.
type Store struct {
	config Config
	mu     sync.RWMutex
	byKey  map[key]*Session
	byRef  map[Ref]*Session // those of byKey, and closed ones that are in use
	holds  holds            // of keys that this server has among replicas
	epoch  int64            // of the newest session
	closed bool
	work   sync.WaitGroup // what is done behind callers; Close waits for it

	closing chan struct{} // closed when no more is done behind callers
	ended   []*tombstone  // in the order they ended

	dirs    tenantDirs
	stored  sync.Map              // how much each tenant has: its name → *stored
	scratch map[string]*lease.Dir // of workspaces that go with their sessions, by tenant, where it was needed
	notices Notices
}

// Notices are called with what happens to sessions without anybody asking for it, without
// a lock. Nil ones are not called.
type Notices struct {
	Default func(*Session)                // one was made for who named none
	Ending  func(*Session)                // one is about to end so, and its workspace is still there
	Idle    func(*Session, time.Duration) // one was not used for so long, and has ended
}

// Notify says who is told of what happens. It comes before the first session.
func (s *Store) Notify(n Notices) { s.notices = n }

// Count returns how many sessions there are.
func (s *Store) Count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byKey)
}

// NewStore returns an empty store. Close it after use.
func NewStore(config Config) *Store {
	config.MaxPerPrincipal = cmp.Or(config.MaxPerPrincipal, DefaultMaxPerPrincipal)
	config.MaxKept = cmp.Or(config.MaxKept, DefaultMaxKept)
	config.MaxDepth = cmp.Or(config.MaxDepth, DefaultMaxDepth)
	config.Default.Network = cmp.Or(config.Default.Network, tools.NetworkNone)
	config.MaxNetwork = cmp.Or(config.MaxNetwork, config.Default.Network)
	config.MaxMode = cmp.Or(config.MaxMode, config.Default.Mode)
	config.Default.Answer = cmp.Or(config.Default.Answer, tools.Budget{Characters: tools.DefaultAnswer})
	config.Default.Activation = config.Default.Activation.or(DefaultActivation())
	config.MaxAnswer = max(cmp.Or(config.MaxAnswer, tools.DefaultMaxAnswer), config.Default.Answer.Size())
	return &Store{config: config, byKey: make(map[key]*Session), byRef: make(map[Ref]*Session), closing: make(chan struct{})}
}

// Config returns what sessions may be.
func (s *Store) Config() Config { return s.config }

// Answers returns how many characters answers have by default, and at most.
func (s *Store) Answers() (usual, most int) {
	return s.config.Default.Answer.Size(), s.config.MaxAnswer
}

// Get returns a session of owner and marks it as used; without an id the
// default session, which is made when it is first asked for.
func (s *Store) Get(owner auth.Owner, id string) (*Session, error) {
	id = cmp.Or(id, DefaultID)
	s.mu.RLock()
	session, ok := s.byKey[key{owner, id}]
	s.mu.RUnlock()
	if ok && session.touch() {
		return session, nil
	}
	if ok { // closed just now
		s.forget(session, "")
	}
	if id != DefaultID {
		return nil, s.notFound(owner, id)
	}
	session, err := s.createOwned(owner, Request{ID: DefaultID})
	if errors.Is(err, ErrExists) { // made by somebody else just now
		return s.Get(owner, id)
	}
	if err == nil && s.notices.Default != nil {
		s.notices.Default(session)
	}
	if err == nil && s.config.Records != nil {
		s.behind(session.persistBehind) // nobody waits for it who only reads
	}
	return session, err
}

// Resolve returns the session that ref names, as long as something may use it: until it
// is closed and the last use has ended. It never returns another session that has the
// same id.
func (s *Store) Resolve(ref Ref) (*Session, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if session := s.byRef[ref]; session != nil {
		return session, nil
	}
	return nil, fmt.Errorf("%w: the session %.64q that was meant has ended; a later one may have its id", ErrNotFound, ref.ID)
}

// unlist has Resolve no longer find a session.
func (s *Store) unlist(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byRef, session.Ref())
}

// isID reports whether a caller may name a session so.
func isID(id string) bool {
	for i, c := range id {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return id != "" && len(id) <= 64
}

// Create makes a session of owner, and stores it where sessions are.
func (s *Store) Create(owner auth.Owner, request Request) (*Session, error) {
	made, err := s.createOwned(owner, request)
	if err != nil {
		return nil, err
	}
	if err := made.Persist(); err != nil {
		s.End(made, "could not be stored")
		return nil, err
	}
	return made, nil
}

// createOwned makes a session that is this server's alone.
func (s *Store) createOwned(owner auth.Owner, request Request) (*Session, error) {
	if request.ID == "" && !request.Restore {
		request.ID = strings.ToLower(rand.Text()[:16])
	}
	if s.config.Replicas == nil || !isID(request.ID) {
		return s.create(owner, request)
	}
	key := OwnerKey(owner, request.ID)
	err := s.hold(key, func() error { return s.config.Replicas.Claim(context.Background(), key, request.Below != nil) })
	if err != nil {
		return nil, fmt.Errorf("the session could not be made: %w", err)
	}
	made, err := s.create(owner, request)
	if err != nil {
		s.letGo(key, false)
	}
	return made, err
}

func (s *Store) create(owner auth.Owner, request Request) (made *Session, err error) {
	if request.Restore && (request.ID == "" || request.Workspace != "") {
		return nil, fmt.Errorf("%w: to restore a session, name its id and no workspace", ErrInvalid)
	}
	if !isID(request.ID) {
		return nil, fmt.Errorf("%w: id %.80q: want 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit", ErrInvalid, request.ID)
	}
	if request.Below != nil {
		if err := s.checkBelow(&request); err != nil {
			return nil, err
		}
		request.Settings = request.Below.inherit(request.Settings)
		parent := request.Below.Parent
		if !parent.Enter() {
			return nil, request.Below.ended()
		}
		defer func() { // without a lock
			if made == nil {
				parent.Leave()
			}
		}()
	}
	settings, err := s.settle(request.Settings, request.Below)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: the server is shutting down", ErrFull)
	}
	k := key{owner, request.ID}
	if _, taken := s.byKey[k]; taken {
		return nil, fmt.Errorf("%w: %q", ErrExists, request.ID)
	}
	if s.countOf(owner) >= s.config.MaxPerPrincipal {
		return nil, fmt.Errorf("%w: %s has %d, the most there may be: close some", ErrFull, owner.Name(), s.config.MaxPerPrincipal)
	}
	if err := s.checkTenant(owner.Tenant()); err != nil {
		return nil, err
	}
	root, err := s.rootOf(owner.Tenant())
	if err != nil {
		return nil, err
	}
	dir, scratch, err := s.workspaceFor(owner, root, request)
	if err != nil {
		return nil, err
	}
	ws, err := s.openWorkspace(dir, root, scratch || request.Below != nil && request.Below.Parent.scratch)
	if err != nil {
		return nil, fmt.Errorf("%w: workspace: %w", ErrInvalid, err)
	}
	now := time.Now()
	s.epoch = max(s.epoch+1, now.UnixNano()) // unique also among servers that follow each other
	session := &Session{
		store: s, epoch: s.epoch, over: make(chan struct{}), ID: request.ID, Owner: owner, Workspace: ws, Created: now,
		Changes:  history.New(history.Config{Dir: root}),
		lastUsed: now, scratch: scratch, documents: s.newDocuments(owner, request.ID, root, request.Below == nil), Below: request.Below,
	}
	if session.Below != nil && !session.follow() {
		ws.Close()
		return nil, session.Below.ended()
	}
	if request.Restore { // not before: where it cannot be opened it stays kept
		if t, err := s.kept(owner, request.ID); err == nil {
			t.take(session)
		}
	}
	session.change(settings)
	s.byKey[k], s.byRef[session.Ref()] = session, session
	session.watchIdle(func() { s.idled(session) })
	return session, nil
}

// idled takes a session out of the store that was not used for its idle time.
func (s *Store) idled(session *Session) {
	s.forget(session, "")
	if s.notices.Idle != nil {
		s.notices.Idle(session, session.Settings().IdleTTL)
	}
}

// Peek returns a session of owner, the default session without an id, for somebody who
// only looks: it is neither made nor used.
func (s *Store) Peek(owner auth.Owner, id string) (*Session, error) {
	id = cmp.Or(id, DefaultID)
	s.mu.RLock()
	session, ok := s.byKey[key{owner, id}]
	s.mu.RUnlock()
	if !ok {
		return nil, s.notFound(owner, id)
	}
	return session, nil
}

// Owners returns those whom an owner stands for who have a session with an id, for people
// to read.
func (s *Store) Owners(of auth.Owner, id string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []string
	for k := range s.byKey {
		if k.id == id && of.Covers(k.owner) {
			list = append(list, k.owner.String())
		}
	}
	slices.Sort(list)
	return list
}

// List returns the sessions of owner, or of those whom it stands for, oldest first.
func (s *Store) List(owner auth.Owner) []*Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []*Session
	for k, session := range s.byKey {
		if owner.Covers(k.owner) {
			list = append(list, session)
		}
	}
	slices.SortFunc(list, func(a, b *Session) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Owner, b.Owner))
	})
	return list
}

// Remove takes a session of owner, and those below it, out of the store; what uses them may
// end in peace. It reports which session it was, or nil if there was none.
func (s *Store) Remove(owner auth.Owner, id string) (*Session, error) {
	session, err := s.Removable(owner, id)
	if session != nil {
		s.End(session, "was closed by "+owner.Name())
	}
	return session, err
}

// Removable returns a session of owner that can be removed, or nil if there is none.
func (s *Store) Removable(owner auth.Owner, id string) (*Session, error) {
	if id == "" || id == DefaultID {
		return nil, fmt.Errorf("%w: the default session cannot be closed", ErrInvalid)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byKey[key{owner, id}], nil
}

// Close takes all sessions out of the store, for good. Those that are stored go on after
// a restart.
func (s *Store) Close() {
	s.mu.Lock()
	if !s.closed {
		close(s.closing)
	}
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
	s.suspend()
	s.mu.Lock()
	sessions, scratch := s.byKey, s.scratch
	s.byKey, s.scratch = nil, nil
	ended := s.ended
	s.ended = nil
	s.mu.Unlock()
	for _, t := range ended {
		s.removeWorkspace(t)
	}
	for _, session := range sessions {
		session.close("ended with the server")
	}
	for _, dir := range scratch {
		dir.Release()
	}
}

// forget takes a session out of the store, and closes it for a reason if it is not
// closed already, which it reports.
func (s *Store) forget(session *Session, reason string) bool {
	s.mu.Lock()
	k := key{session.Owner, session.ID}
	if s.byKey[k] == session { // and not a later one with its id
		delete(s.byKey, k)
	}
	s.mu.Unlock()
	return session.close(reason)
}

func (s *Store) countOf(owner auth.Owner) int {
	n := 0
	for k := range s.byKey {
		if k.owner == owner {
			n++
		}
	}
	return n
}
