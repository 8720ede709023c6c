// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/state"
)

// ErrElsewhere says that the files of a session are where this server has none.
var ErrElsewhere = errors.New("the files of the session are not here")

// ErrMoved says that another server has a session by now: this one changes nothing of it.
var ErrMoved = fmt.Errorf("%w: the session is at another replica by now, and nothing was changed here", state.ErrUnavailable)

// Owners has which of some servers has a session.
type Owners interface {
	// Run is the number of this server, which no other has.
	Run() uint64
	// Prove is nil while no other server can have taken what this one has.
	Prove() error
	// Claim makes a key that of this server.
	Claim(ctx context.Context, key string, brief bool) error
	// Take is Claim for what this server does not answer for before Keep.
	Take(ctx context.Context, key string, brief bool) error
	Keep(key string)
	// Release gives a key back.
	Release(ctx context.Context, key string, goesOn bool) error
	// Forget removes a key that no server has.
	Forget(ctx context.Context, key string) error
}

// Replicas are the servers that have the same records.
type Replicas struct {
	Owners

	// Place names the directory WorkspaceRoot: servers with the same share it. Shared says
	// that directories which the operator named are the same for all.
	Place  string
	Shared bool
}

// OwnerKey is what [Owners] know a session by.
func OwnerKey(owner auth.Owner, id string) string {
	return state.Key(owner.Tenant(), owner.Name(), id)
}

// KeyOwner is the inverse of OwnerKey.
func KeyOwner(key string) (owner auth.Owner, id string, ok bool) {
	parts := state.Parts(key)
	if len(parts) != 3 {
		return "", "", false
	}
	return auth.NewOwner(parts[0], parts[1]), parts[2], true
}

// A hold is how many have a key at this server: sessions, also those that end, and who is
// about to make one. The last of them gives the key back.
type hold struct {
	deciding sync.Mutex // held while the key is taken or given back
	n        int        // guarded by the lock of holds
}

type holds struct {
	mu    sync.Mutex
	byKey map[string]*hold
}

func (h *holds) add(key string, n int) (one *hold, left int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one = h.byKey[key]; one == nil {
		one = new(hold)
		if h.byKey == nil {
			h.byKey = make(map[string]*hold)
		}
		h.byKey[key] = one
	}
	if one.n += n; one.n <= 0 {
		delete(h.byKey, key)
	}
	return one, one.n
}

// hold takes a key. It is to be let go once where that succeeded.
func (s *Store) hold(key string, take func() error) error {
	one, _ := s.holds.add(key, 1)
	one.deciding.Lock()
	defer one.deciding.Unlock()
	err := take()
	if err != nil {
		s.holds.add(key, -1)
	}
	return err
}

// letGo gives a key back, unless a later session has it.
func (s *Store) letGo(key string, goesOn bool) {
	one, _ := s.holds.add(key, 0)
	one.deciding.Lock()
	defer one.deciding.Unlock()
	if _, n := s.holds.add(key, 0); n <= 1 {
		s.config.Replicas.Release(context.Background(), key, goesOn) // or others find out once this server has ended
	}
	s.holds.add(key, -1)
}

// newest returns what is stored of the newest session with an id; nil where nothing is. What is
// listed may come from a server of the engine that is behind: a marker is written first, and has to
// be among it.
func (s *Store) newest(ctx context.Context, owner auth.Owner, id string) (*record, error) {
	below := OwnerKey(owner, id) + "/"
	marker := below + markerPart
	now, err := s.config.Records.kv.Put(ctx, marker, nil, markerTime)
	if errors.Is(err, state.ErrFull) {
		now, err = 0, nil // it goes on as it is
	}
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(catchUpTime); ; {
		newest, until, err := s.listed(ctx, below, marker)
		if err != nil || until >= now {
			return newest, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: what is stored was read from a server of it that is behind", state.ErrUnavailable)
		}
		select {
		case <-time.After(catchUpTime / 50):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

const (
	// markerPart ends the key of a marker, where others have an epoch.
	markerPart = "seen"

	// markerTime is how long a marker is there: longer than it is looked for.
	markerTime = 10 * time.Second

	// catchUpTime is for how long a server of the engine that is behind is read again.
	catchUpTime = 2 * time.Second
)

// listed returns the newest record below a prefix, and the revision of the marker.
func (s *Store) listed(ctx context.Context, below, marker string) (newest *record, until state.Revision, err error) {
	var wrong error
	err = state.Snapshot(ctx, s.config.Records.kv, below, func(e state.Entry) {
		var found record
		switch {
		case e.Key == marker:
			until = e.Revision
		case json.Unmarshal(e.Value, &found) != nil:
			wrong = errors.New("what is stored of it cannot be read")
		case found.Version > recordVersion:
			wrong = fmt.Errorf("it was stored by a later version of this server, as version %d", found.Version)
		case newest == nil || newest.Epoch < found.Epoch:
			found.revision = e.Revision
			newest = &found
		}
	})
	if err == nil && newest == nil {
		err = wrong
	}
	return newest, until, err
}

// reach returns why this server cannot have a session that is stored, or nil.
func (r *Replicas) reach(found *record) error {
	if found.Place == r.Place {
		return nil
	}
	if !found.Scratch && r.Shared {
		if _, err := os.Stat(found.Workspace); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: session %q %s", ErrElsewhere, found.ID, elsewhere(found))
}

// elsewhere tells why a session cannot be reached, and what helps.
func elsewhere(found *record) string {
	anew := "close the session and create it again"
	if found.ID == DefaultID {
		anew = "close the session: the next call has a new one"
	}
	return "worked at a replica that is gone, in a directory which this one does not share. It goes on when a replica with that directory is back; to begin with no files, " + anew
}

// A Stranded is what is known of a session that no server has.
type Stranded struct {
	ID                string
	Owner             auth.Owner
	Workspace         string
	Created, LastUsed time.Time
	Settings          *Settings
	Why               string // it cannot be used now, or what has it go on
}

// Stranded returns those of some sessions that are stored and belong to an owner, or to those whom it
// stands for, the oldest first. The keys are those of [OwnerKey].
func (s *Store) Stranded(ctx context.Context, owner auth.Owner, keys []string) (list []Stranded, err error) {
	wanted, owners := make(map[string]bool), make(map[auth.Owner]bool)
	for _, key := range keys {
		if of, _, ok := KeyOwner(key); ok && owner.Covers(of) {
			wanted[key], owners[of] = true, true
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	below := ""
	if len(owners) == 1 && owners[owner] { // the usual case does not read what others have
		below = state.Key(owner.Tenant(), owner.Name()) + "/"
	}
	newest := make(map[string]*record)
	err = state.Snapshot(ctx, s.config.Records.kv, below, func(e state.Entry) {
		var found record
		if json.Unmarshal(e.Value, &found) != nil || found.Version > recordVersion {
			return
		}
		if key := OwnerKey(found.Owner, found.ID); wanted[key] && (newest[key] == nil || newest[key].Epoch < found.Epoch) {
			newest[key] = &found
		}
	})
	for _, found := range newest {
		list = append(list, s.config.Replicas.stranded(found))
	}
	slices.SortFunc(list, func(a, b Stranded) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return list, err
}

func (r *Replicas) stranded(found *record) Stranded {
	one := Stranded{
		ID: found.ID, Owner: found.Owner, Workspace: found.Workspace, Created: found.Created, LastUsed: found.Used,
		Settings: found.settings(), Why: "The replica that had the session is gone: it goes on at another one with the next call.",
	}
	if err := r.reach(found); err != nil {
		one.Why = "Session " + strconv.Quote(found.ID) + " " + elsewhere(found) + "."
	}
	return one
}

// Adopt brings a session here that no server has. Before ready is called, nobody uses it.
// Without an error and without a session, there is none to bring.
func (s *Store) Adopt(ctx context.Context, owner auth.Owner, id string, ready func(*Session) error) (*Session, error) {
	key, replicas := OwnerKey(owner, id), s.config.Replicas
	if here, err := s.Peek(owner, id); err == nil {
		return here, nil // it was just made
	}
	found, err := s.newest(ctx, owner, id)
	if err != nil {
		return nil, fmt.Errorf("session %.64q cannot be taken over: %w", id, err)
	}
	if found == nil { // it was not stored, or is one of an agent, which ends with its server
		return nil, replicas.Forget(ctx, key)
	}
	if err := replicas.reach(found); err != nil {
		return nil, err
	}
	if err := s.hold(key, func() error { return replicas.Take(ctx, key, false) }); err != nil {
		return nil, err
	}
	adopted, err := s.adopt(ctx, owner, id, ready)
	if err != nil {
		return nil, fmt.Errorf("session %.64q cannot be taken over: %w", id, err)
	}
	replicas.Keep(key)
	return adopted, nil
}

// adopt brings back a session that is this server's by now: only now nobody changes it.
func (s *Store) adopt(ctx context.Context, owner auth.Owner, id string, ready func(*Session) error) (*Session, error) {
	found, err := s.takeOver(ctx, owner, id)
	if err == nil {
		err = s.restore(found)
	}
	if err != nil {
		s.letGo(OwnerKey(owner, id), true)
		return nil, err
	}
	adopted, err := s.Peek(owner, id)
	if err != nil {
		return nil, err
	}
	if err := ready(adopted); err != nil {
		adopted.suspended.Store(true)
		s.forget(adopted, "could not be taken over")
		return nil, err
	}
	s.config.Records.logger.Info("a session goes on here", zap.String("session", id), zap.Stringer("principal", owner))
	return adopted, nil
}

// takeOver returns what is stored of a session that is this server's by now. It is stored as
// such first: from then on whoever had the session before cannot change it.
func (s *Store) takeOver(ctx context.Context, owner auth.Owner, id string) (*record, error) {
	for {
		found, err := s.newest(ctx, owner, id)
		if err == nil && found == nil {
			err = ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		last := found.revision
		found.Run, found.Place = s.config.Replicas.Run(), s.config.Replicas.Place
		value, err := json.Marshal(found)
		if err == nil {
			found.revision, err = s.config.Records.kv.Update(ctx, found.ref().Key(), value, last, 0)
		}
		switch {
		case errors.Is(err, state.ErrFull): // as after any start, it goes on as it is
			found.revision, err = last, nil
		case errors.Is(err, state.ErrConflict) && ctx.Err() == nil: // who had it was just about to store it
			continue
		}
		return found, err
	}
}

// Prove is nil while no other server can have taken the session.
func (s *Session) Prove() error {
	if s.store.config.Replicas == nil {
		return nil
	}
	return s.store.config.Replicas.Prove()
}

// put stores the record of a session. Among replicas it has to be there as this server
// stored it last: who has lost the session without knowing changes nothing of it. The caller
// holds changing.
func (s *Session) put(value []byte) error {
	r, key := s.store.config.Records, s.Ref().Key()
	if s.store.config.Replicas == nil {
		_, err := r.kv.Put(r.ctx, key, value, 0)
		return err
	}
	return s.compared(func() (err error) {
		revision, err := r.kv.Update(r.ctx, key, value, s.revision, 0)
		if err == nil {
			s.revision = revision
		}
		return err
	})
}

// erase removes the record of a session, as put stores it.
func (s *Session) erase() error {
	r, key := s.store.config.Records, s.Ref().Key()
	if s.store.config.Replicas == nil {
		return r.kv.Delete(r.ctx, key, 0)
	}
	return s.compared(func() error { return r.kv.Delete(r.ctx, key, s.revision) })
}

// compared does something that compares the revision, again where an attempt before it was
// heard. The caller holds changing.
func (s *Session) compared(do func() error) error {
	r := s.store.config.Records
	for {
		err := do()
		if !errors.Is(err, state.ErrConflict) {
			return err
		}
		entry, err := r.kv.Get(r.ctx, s.Ref().Key())
		if errors.Is(err, state.ErrNotFound) {
			return ErrMoved
		}
		var found record
		if err == nil {
			err = json.Unmarshal(entry.Value, &found)
		}
		switch {
		case err != nil:
			return err
		case found.Run != s.store.config.Replicas.Run() || entry.Revision == s.revision || s.isReleased():
			return ErrMoved // or it was given back, and has come again
		}
		s.revision = entry.Revision
	}
}

// Discard removes what is stored of a session that no server has.
func (s *Store) Discard(ctx context.Context, owner auth.Owner, id string) error {
	found, err := s.newest(ctx, owner, id)
	if err != nil {
		return err
	}
	if err := s.config.Replicas.Forget(ctx, OwnerKey(owner, id)); err != nil {
		return err
	}
	if found == nil {
		return nil
	}
	return s.config.Records.kv.Delete(ctx, found.ref().Key(), 0)
}
