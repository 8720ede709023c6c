// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/lease"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// Records keep sessions where a restart finds them. What is stored of a session is in
// force, and what is in force is stored before anybody is told so.
type Records struct {
	// Installation names the directories of workspaces that go on. No other on this machine
	// has its name.
	Installation string

	kv     state.KV
	logger *zap.Logger
	ctx    context.Context
}

// OpenRecords opens the records, which need the name of their installation then.
func OpenRecords(ctx context.Context, engine state.Engine, logger *zap.Logger) (*Records, error) {
	kv, err := engine.KV(ctx, state.Space{Name: "sessions"})
	if err != nil {
		return nil, fmt.Errorf("records of sessions: %w", err)
	}
	return &Records{kv: kv, logger: logger, ctx: context.WithoutCancel(ctx)}, nil
}

// dir returns where workspaces and documents of sessions are, below that of their tenant.
func (r *Records) dir(root string) string { return filepath.Join(root, "sessions-"+r.Installation) }

func (r *Records) newWorkspace(root string) (string, error) {
	if err := os.MkdirAll(r.dir(root), 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(r.dir(root), "session-")
}

// recordVersion is that of the records. A field that is added needs no new one.
const recordVersion = 1

// A record is what is stored of a session.
type record struct {
	Version   int        `json:"v"`
	Owner     auth.Owner `json:"owner"`
	ID        string     `json:"id"`
	Epoch     int64      `json:"epoch"`
	Created   time.Time  `json:"created"`
	Used      time.Time  `json:"used,omitzero"` // last, or up to useStep before that
	Workspace string     `json:"workspace"`
	Scratch   bool       `json:"scratch,omitempty"`
	Place     string     `json:"place,omitempty"`     // that of the replica it was at
	Run       uint64     `json:"run,omitempty"`       // which replica that was
	Documents string     `json:"documents,omitempty"` // its file
	Alone     bool       `json:"documents_alone,omitempty"`
	Active    []string   `json:"active_tools,omitempty"`

	Level      tools.Level       `json:"level"`
	Mode       tools.Mode        `json:"mode"`
	Before     tools.Mode        `json:"mode_before_plan,omitempty"`
	MaxMode    tools.Mode        `json:"max_mode,omitempty"`
	Network    tools.Network     `json:"network"`
	Tools      tools.Selection   `json:"tools,omitzero"`
	Labels     map[string]string `json:"labels,omitempty"`
	IdleTTL    time.Duration     `json:"idle_ttl"`
	Answer     tools.Budget      `json:"answer,omitzero"`
	Activation Activation        `json:"activation"`
	Persona    string            `json:"persona,omitempty"`
	Dialect    string            `json:"dialect,omitempty"`
	Ordered    bool              `json:"ordered,omitempty"`
	EditErrors time.Duration     `json:"edit_errors,omitempty"`

	revision state.Revision // as which it is stored; 0 where that is not known
}

// rights are what an operator bounds.
type rights struct {
	level   tools.Level
	mode    tools.Mode
	network tools.Network
}

// chosenIn returns the rights of settings as they were chosen: what a start of the server with
// other bounds has lowered is stored as it was.
func (s *Session) chosenIn(settings *Settings) rights {
	now := rights{settings.Level, settings.Mode, settings.Network}
	if now.level == s.left.level {
		now.level = s.chosen.level
	}
	if now.mode == s.left.mode {
		now.mode = s.chosen.mode
	}
	if now.network == s.left.network {
		now.network = s.chosen.network
	}
	return now
}

// ref names the session that the record is of.
func (r *record) ref() Ref { return Ref{r.Owner, r.ID, r.Epoch} }

// Persist has the session go on after a restart. It costs nothing where that is so already,
// or where sessions are not stored; those of agents end with the server.
func (s *Session) Persist() error {
	if s.persists.Load() || s.store.config.Records == nil || s.Below != nil {
		return nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.persists.Load() {
		return nil
	}
	return s.save(s.state.Load().Settings)
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// save stores settings that the session is about to have. The caller holds changing.
func (s *Session) save(settings Settings) error {
	r := s.store.config.Records
	switch {
	case r == nil || s.Below != nil:
		return nil
	case s.erased || s.isClosed():
		return fmt.Errorf("%w: %q was closed", ErrNotFound, s.ID)
	}
	place, run := "", uint64(0)
	if replicas := s.store.config.Replicas; replicas != nil {
		if err := replicas.Prove(); err != nil {
			return fmt.Errorf("nothing was changed, for the session could not be stored: %w", err)
		}
		place, run = replicas.Place, replicas.Run()
	}
	chosen := s.chosenIn(&settings)
	value, err := json.Marshal(record{
		Place: place, Run: run, Version: recordVersion, Owner: s.Owner, ID: s.ID, Epoch: s.epoch, Created: s.Created.Round(0), Used: s.LastUsed().Round(0), Workspace: s.Workspace.Dir(), Scratch: s.scratch,
		Documents: s.documents.file, Alone: s.documents.alone, Active: s.Active(),
		Level: chosen.level, Mode: chosen.mode, Before: s.state.Load().beforePlan(settings.Mode), MaxMode: settings.MaxMode, Network: chosen.network,
		Tools: settings.Tools, Labels: settings.Labels, IdleTTL: settings.IdleTTL, Answer: settings.Answer, Activation: settings.Activation,
		Persona: settings.Persona, Dialect: settings.Dialect, Ordered: settings.Ordered, EditErrors: settings.EditErrors,
	})
	if err == nil {
		err = s.put(value)
	}
	if errors.Is(err, ErrMoved) {
		return err
	}
	if err != nil {
		return fmt.Errorf("nothing was changed, for the session could not be stored: %w", state.Brief(err))
	}
	s.chosen, s.left = chosen, rights{settings.Level, settings.Mode, settings.Network}
	s.persists.Store(true)
	s.usedStored.Store(time.Now().UnixNano())
	return nil
}

// useStep is how much later than it is stored a session may have been used. To store each use
// would cost too much.
func useStep(idle time.Duration) time.Duration { return min(max(idle/10, time.Second), 10*time.Minute) }

// noteUse has it stored now and then that the session is used: its idle time goes on after a
// restart.
func (s *Session) noteUse(now time.Time) {
	if !s.persists.Load() {
		return
	}
	idle, last := s.state.Load().IdleTTL, s.usedStored.Load()
	if idle == Forever || now.UnixNano()-last < int64(useStep(idle)) || !s.usedStored.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	s.store.behind(func() {
		s.changing.Lock()
		defer s.changing.Unlock()
		s.save(s.state.Load().Settings) // or the next use does
	})
}

// restoredLeast is the least time that a session has which is brought back.
const restoredLeast = 2 * time.Minute

// lastUseOf returns when a session was last used that is brought back: not before it was, and
// so that those who come back for their calls, schedules and runs of workflows among them, find it.
func lastUseOf(r *record, idle time.Duration, now time.Time) time.Time {
	if r.Used.IsZero() || idle == Forever {
		return now
	}
	used := r.Used.Add(useStep(idle))
	if least := now.Add(min(idle, restoredLeast) - idle); used.Before(least) {
		used = least
	}
	if used.After(now) {
		used = now
	}
	return used
}

// lowers reports whether settings permit less than others, and nothing more.
func (s *Settings) lowers(than *Settings) bool {
	if s.Level > than.Level || s.Network > than.Network || s.Mode.Above(than.Mode) || !slices.Equal(s.Tools.Include, than.Tools.Include) {
		return false
	}
	for _, pattern := range than.Tools.Exclude {
		if !slices.Contains(s.Tools.Exclude, pattern) {
			return false
		}
	}
	return s.Level < than.Level || s.Network < than.Network || than.Mode.Above(s.Mode) || len(s.Tools.Exclude) > len(than.Tools.Exclude)
}

// saveOrLower is save, but settings that only lower what is permitted are stored later where
// they cannot be now: they are in force at once.
func (s *Session) saveOrLower(settings Settings) error {
	err := s.save(settings)
	if err == nil || !isAway(err) || !settings.lowers(&s.state.Load().Settings) {
		return err
	}
	s.store.config.Records.logger.Warn("the rights of a session were lowered, and that is not stored yet: a restart now would bring them back",
		zap.String("session", s.ID), zap.Stringer("principal", s.Owner), zap.Error(err))
	s.later(func() error { return s.save(s.state.Load().Settings) })
	return nil
}

// Unstored reports whether what is in force of the session is not stored yet: that is tried
// again, and a restart before would take it back.
func (s *Session) Unstored() bool { return s.unstored.Load() }

// later stores something of the session as soon as that can be. The caller holds changing, as
// f may assume.
func (s *Session) later(f func() error) {
	s.unstored.Store(true)
	s.store.behind(func() {
		for again := true; again; {
			select {
			case <-s.store.closing:
				again = false // this is the last time
			case <-time.After(retryTime):
			}
			s.changing.Lock()
			err := f()
			s.changing.Unlock()
			if !isAway(err) {
				s.unstored.Store(false)
				return
			}
		}
	})
}

// retryTime is after how long it is tried again to store what could not be.
const retryTime = time.Second

// isAway reports whether something could not be stored, and can later.
func isAway(err error) bool {
	return !errors.Is(err, ErrMoved) && (errors.Is(err, state.ErrUnavailable) || errors.Is(err, state.ErrFull))
}

func notStored(err error) error {
	return &tools.Failure{Code: "not_stored", Retryable: true, Message: err.Error() + "."}
}

// persistBehind is Persist for a session that nobody waits for.
func (s *Session) persistBehind() {
	if err := s.Persist(); err != nil && !errors.Is(err, ErrNotFound) { // it was closed meanwhile
		s.store.config.Records.logger.Warn("a session is not stored yet: that is tried again with its first call that changes something",
			zap.String("session", s.ID), zap.Stringer("principal", s.Owner), zap.Error(err))
	}
}

// behind does something that nobody waits for but Close, unless the store is closed.
func (s *Store) behind(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.closed {
		s.work.Go(f)
	}
}

func (s *Store) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// Suspended reports whether the session was closed by a shutdown only, and goes on after
// a restart.
func (s *Session) Suspended() bool { return s.suspended.Load() }

// Erase has a session not be there after a restart. It comes before its end. Where that cannot
// be stored, it is tried again, and the session is Unstored.
func (s *Store) Erase(session *Session) {
	r := s.config.Records
	if r == nil {
		return
	}
	session.changing.Lock()
	defer session.changing.Unlock()
	session.erased = true
	if !session.persists.Swap(false) {
		return
	}
	erase := session.erase
	err := erase()
	if err != nil && s.config.Replicas != nil {
		session.suspended.Store(true) // its files, grants and artifacts may be those of another replica by now
	}
	if errors.Is(err, ErrMoved) {
		r.logger.Info("a session ended here, and goes on at another replica", zap.String("session", session.ID), zap.Stringer("principal", session.Owner))
	} else if err != nil {
		r.logger.Warn("a session ended, and that is not stored yet: a restart now would bring it back",
			zap.String("session", session.ID), zap.Stringer("principal", session.Owner), zap.Error(err))
		session.later(erase)
	}
}

// suspend has the sessions go on after a restart that are stored.
func (s *Store) suspend() {
	if s.config.Records == nil {
		return
	}
	s.mu.RLock()
	list := slices.Collect(maps.Values(s.byKey))
	s.mu.RUnlock()
	for _, session := range list {
		session.changing.Lock()
		if session.persists.Load() && !session.isClosed() {
			session.suspended.Store(true)
			session.save(session.state.Load().Settings) // with the tools that are active by now, if it can be
		}
		session.changing.Unlock()
	}
}

// Recorded reports whether a session is stored, also one that could not be brought back
// this time.
func (s *Store) Recorded(ctx context.Context, ref Ref) (bool, error) {
	r := s.config.Records
	if r == nil {
		return false, nil
	}
	_, err := r.kv.Get(ctx, ref.Key())
	if errors.Is(err, state.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Restore brings back the sessions that are stored, before the first caller comes. What
// cannot be brought back is told in the log and stays stored. Where there are replicas,
// sessions come when they are adopted.
func (s *Store) Restore(ctx context.Context) error {
	r := s.config.Records
	if r == nil || s.config.Replicas != nil {
		return nil
	}
	var list []record
	understood := true
	err := state.Snapshot(ctx, r.kv, "", func(e state.Entry) {
		if strings.HasSuffix(e.Key, "/"+markerPart) {
			return
		}
		var found record
		err := json.Unmarshal(e.Value, &found)
		if err == nil && found.Version > recordVersion {
			err = fmt.Errorf("it was stored by a later version of this server, as version %d", found.Version)
		}
		if err != nil {
			understood = false
			r.logger.Error("a session cannot be brought back, and what ended ones left behind is not removed, for it may be of this one", zap.String("key", e.Key), zap.Error(err))
			return
		}
		list = append(list, found)
	})
	if err != nil {
		return fmt.Errorf("sessions cannot be brought back: %w", err)
	}
	slices.SortFunc(list, func(a, b record) int { return cmp.Compare(b.Epoch, a.Epoch) }) // the newest first: it took the place of others
	used := make(map[string]bool)                                                         // workspaces and documents
	for i := range list {
		found := &list[i]
		if s.byKey[key{found.Owner, found.ID}] != nil || s.movedDefault(found) {
			r.kv.Delete(ctx, found.ref().Key(), 0) // or the next start does
			continue
		}
		used[found.Workspace], used[found.Documents] = true, true
		if err := s.restore(found); err != nil {
			r.logger.Error("a session cannot be brought back", zap.String("session", found.ID), zap.Stringer("principal", found.Owner), zap.Error(err))
		}
	}
	if understood {
		paths := s.leftBehind(used)
		s.behind(func() { s.sweep(paths) })
	}
	return nil
}

// settings returns those that were chosen.
func (r *record) settings() *Settings {
	return &Settings{
		Level: r.Level, Mode: r.Mode, MaxMode: r.MaxMode, Network: r.Network, Tools: r.Tools, Labels: r.Labels,
		IdleTTL: r.IdleTTL, Answer: r.Answer, Activation: r.Activation, Persona: r.Persona, Dialect: r.Dialect, Ordered: r.Ordered,
		EditErrors: r.EditErrors,
	}
}

// restore brings a session back, with no more than the operator permits by now.
func (s *Store) restore(r *record) error {
	settings := *r.settings()
	settings.Level, settings.Network = min(r.Level, s.config.MaxLevel), min(r.Network, s.config.MaxNetwork)
	if !s.permits(settings.Mode, settings) {
		settings.Mode = s.config.Default.Mode
	}
	settings, err := s.settle(settings, nil)
	if err != nil {
		return err
	}
	settings.Mode = AtMost(settings.Mode, r.Mode) // the default may permit more than what was chosen
	if !s.mayReopen(r) {
		return errors.New("the operator does not allow its workspace any more")
	}
	root, err := s.rootOf(r.Owner.Tenant())
	if err != nil {
		return err
	}
	ws, err := s.openWorkspace(r.Workspace, root, r.Scratch)
	if err != nil {
		return err
	}
	now := time.Now()
	session := &Session{
		store: s, epoch: r.Epoch, over: make(chan struct{}), ID: r.ID, Owner: r.Owner, Workspace: ws, Created: r.Created,
		Changes:  history.New(history.Config{Dir: root, Forgot: true}),
		lastUsed: lastUseOf(r, settings.IdleTTL, now), scratch: r.Scratch, active: r.Active,
		documents: &documents{store: s, owner: r.Owner, id: r.ID, file: r.Documents, alone: r.Alone},
	}
	session.chosen, session.left = rights{r.Level, r.Mode, r.Network}, rights{settings.Level, settings.Mode, settings.Network}
	session.persists.Store(true)
	session.revision = r.revision
	session.usedStored.Store(r.Used.UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		ws.Close()
		return errors.New("the server is shutting down")
	}
	s.epoch = max(s.epoch, r.Epoch)
	session.state.Store(&current{Settings: settings, before: r.Before, next: make(chan struct{})})
	s.byKey[key{r.Owner, r.ID}], s.byRef[session.Ref()] = session, session
	session.watchIdle(func() { s.idled(session) })
	return nil
}

// mayReopen reports whether the workspace of a session is one that it could have by now.
func (s *Store) mayReopen(r *record) bool {
	if r.Scratch || r.ID == DefaultID {
		return true
	}
	if dir, ok := s.config.DefaultWorkspace[string(r.Owner)]; ok {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil && resolved == r.Workspace {
			return true
		}
	}
	return s.allowed(r.Workspace, s.AllowedWorkspaces(r.Owner.Tenant()))
}

// movedDefault reports whether a record is of a default session that works elsewhere by
// now: the operator gave it another workspace.
func (s *Store) movedDefault(r *record) bool {
	dir, ok := s.config.DefaultWorkspace[string(r.Owner)]
	if !ok || r.ID != DefaultID {
		return false
	}
	resolved, err := filepath.EvalSymlinks(dir)
	return err != nil || resolved != r.Workspace
}

// leftBehind returns what is in the directories of sessions and of no use to any, because
// its server ended before it could remove it.
func (s *Store) leftBehind(used map[string]bool) (paths []string) {
	root := s.config.WorkspaceRoot
	places := []string{s.config.Records.dir(root)}
	entries, _ := os.ReadDir(root)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tenantPrefix) {
			places = append(places, s.config.Records.dir(filepath.Join(root, entry.Name())))
		}
	}
	for _, place := range places {
		entries, err := os.ReadDir(place)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.config.Records.logger.Warn("what ended sessions left behind is not removed", zap.Error(err))
		}
		resolved, err := filepath.EvalSymlinks(place)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if !used[filepath.Join(place, entry.Name())] && !used[filepath.Join(resolved, entry.Name())] {
				paths = append(paths, filepath.Join(place, entry.Name()))
			}
		}
	}
	return paths
}

// sweep removes paths, until the store is closed: the next start removes the rest.
func (s *Store) sweep(paths []string) {
	for _, path := range paths {
		lease.RemoveAll(path)
		if s.isClosed() {
			return
		}
	}
}
