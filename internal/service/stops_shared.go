// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/state"
)

// sharedStops are the stops in the state, which all replicas watch. A nil one keeps nothing.
type sharedStops struct {
	list     *stopList
	entries  state.KV
	mirror   *state.Mirror[stop]
	appeared func(stop)
	stored   map[auth.Owner]state.Revision // by this replica; guarded by the storing lock of the list
	known    bool                          // what was there at the start is in the list; guarded by the lock of the list
}

// shareTime is how long a server waits at its start for the stops that are in force.
const shareTime = 10 * time.Second

// share has the list be that of the state. What the file has beside it, from before there
// was one, or because it could not be stored, is stored.
func (s *stopList) share(ctx context.Context, entries state.KV, appeared func(stop)) error {
	shared := &sharedStops{list: s, entries: entries, appeared: appeared, stored: make(map[auth.Owner]state.Revision)}
	s.shared = shared
	s.mu.Lock() // changes wait for the mirror
	shared.mirror = state.NewMirror(ctx, entries, "", readSharedStop, func(key string, _ stop, _ bool) { shared.changed(key) })
	s.mu.Unlock()
	short, cancel := context.WithTimeout(ctx, shareTime)
	defer cancel()
	if err := shared.mirror.Ready(short); err != nil {
		return fmt.Errorf("%w: the stops in force cannot be read: %w", state.ErrUnavailable, err)
	}
	s.mu.Lock()
	all := make(map[auth.Owner]stop)
	for _, key := range shared.mirror.Keys("") {
		if one, there := shared.at(key); there {
			all[one.owner()] = one
		}
	}
	var missing []stop
	for of, one := range *s.current.Load() {
		if _, there := all[of]; !there && !one.InState {
			one.durable = false
			all[of], missing = one, append(missing, one)
		}
	}
	shared.known = true
	s.current.Store(&all)
	s.mu.Unlock()
	for _, one := range missing {
		if s.storeInForce(one.owner()) != nil {
			s.keepLater(ctx)
			break
		}
	}
	return nil
}

// readSharedStop never fails: of a stop that cannot be read, its key tells whom it is about.
func readSharedStop(text []byte) (stop, error) {
	var one stop
	if json.Unmarshal(text, &one) != nil {
		one = stop{Reason: "what is stored of the stop cannot be read", By: auth.Server}
	}
	return one, nil
}

// at returns the stop that the state has under a key.
func (s *sharedStops) at(key string) (one stop, there bool) {
	one, _, there = s.mirror.Get(key)
	parts := state.Parts(key)
	if !there || len(parts) != 2 {
		return stop{}, false
	}
	one.Tenant, one.Principal, one.InState, one.durable = parts[0], parts[1], true, true
	return one, true
}

func stopKey(of auth.Owner) string { return state.Key(of.Tenant(), of.Name()) }

// changed takes note of what the state has under a key by now.
func (s *sharedStops) changed(key string) {
	parts := state.Parts(key)
	if len(parts) != 2 {
		return
	}
	of := auth.NewOwner(parts[0], parts[1])
	s.list.mu.Lock()
	before, known := (*s.list.current.Load())[of]
	one, there := s.at(key)
	switch {
	case !s.known:
		s.list.mu.Unlock()
		return
	case there && known && !before.InState && before.overrules(one): // and is about to be stored
	case there:
		s.list.set(of, &one)
	case known && before.InState:
		s.list.set(of, nil)
	}
	s.list.mu.Unlock()
	if s.list.file != "" && there != known {
		s.list.write("") // or the next change does; the state has the last word
	}
	if there && !known && s.appeared != nil {
		s.appeared(one)
	}
}

// store puts a stop into the state. The caller has the storing lock of the list.
func (s *sharedStops) store(one stop) error {
	if s == nil {
		return nil
	}
	one.InState = false // which is about the file
	value, err := json.Marshal(one)
	if err != nil {
		return err
	}
	revision, err := s.entries.Put(context.Background(), stopKey(one.owner()), value, 0)
	if err == nil {
		key := stopKey(one.owner())
		s.stored[one.owner()] = revision
		s.mirror.Note(key, one, revision)
		s.changed(key) // before the file is written: the mirror may be about to tell it
	}
	return err
}

// remove takes a stop out of the state.
func (s *sharedStops) remove(of auth.Owner) error {
	if s == nil {
		return nil
	}
	if err := s.entries.Delete(context.Background(), stopKey(of), 0); err != nil {
		return err
	}
	delete(s.stored, of)
	s.mirror.Forget(stopKey(of))
	return nil
}

// refresh has the list be as the state is now, for one principal: another replica has just
// changed that.
func (s *sharedStops) refresh(ctx context.Context, of auth.Owner) {
	if s == nil {
		return
	}
	key := stopKey(of)
	switch entry, err := s.entries.Get(ctx, key); {
	case err == nil:
		one, _ := readSharedStop(entry.Value)
		s.mirror.Note(key, one, entry.Revision)
	case errors.Is(err, state.ErrNotFound):
		s.mirror.Forget(key)
	}
}

// lifted is refresh for a stop that another replica was asked to lift at a time. Where this one stored it only
// then, for it could not before, it is taken out again. One that was put later stays in force.
func (s *sharedStops) lifted(ctx context.Context, of auth.Owner, at time.Time) error {
	if s == nil {
		return nil
	}
	s.list.storing.Lock()
	defer s.list.storing.Unlock()
	later := func() bool { return (*s.list.current.Load())[of].Since.After(at) }
	if revision := s.stored[of]; revision != 0 && !later() {
		if err := s.entries.Delete(ctx, stopKey(of), revision); err != nil && !errors.Is(err, state.ErrConflict) {
			return err
		}
		delete(s.stored, of)
	}
	s.refresh(ctx, of)
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	if now, inForce := (*s.list.current.Load())[of]; inForce && !now.InState && !later() { // it never was stored
		s.list.set(of, nil)
	}
	return nil
}
