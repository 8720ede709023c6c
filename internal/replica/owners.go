// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"strconv"
	"sync"

	"github.com/toolserver/toolserver/internal/state"
)

// An Ownership says which replica has something.
type Ownership struct {
	Run   uint64 `json:"run"`             // 0: none
	Place string `json:"place,omitempty"` // that of the one who has it, or had it last
	Brief bool   `json:"brief,omitempty"` // it ends with its replica
}

type owned struct {
	Ownership
	revision state.Revision
}

// owners are who has what, by keys that the engine takes.
type owners struct {
	kv    state.KV
	mu    sync.RWMutex
	known map[string]owned
	mine  map[string]bool
}

func (r *Replica) sawOwner(key string, e *state.Entry) {
	o := &r.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if e == nil {
		delete(o.known, key)
		return
	}
	if one, err := ownedOf(*e); err == nil && o.known[key].revision < one.revision {
		o.known[key] = one
	}
}

func ownedOf(e state.Entry) (owned, error) {
	one := owned{revision: e.Revision}
	err := json.Unmarshal(e.Value, &one.Ownership)
	return one, err
}

// Mine reports whether this replica has a thing. It asks nobody.
func (r *Replica) Mine(key string) bool {
	r.owners.mu.RLock()
	defer r.owners.mu.RUnlock()
	return r.owners.mine[key]
}

// Owner returns who has a thing, as far as is known here; with fresh, as the engine has it.
// It reports false where nobody ever had it.
func (r *Replica) Owner(ctx context.Context, key string, fresh bool) (Ownership, bool, error) {
	one, err := r.owner(ctx, key, fresh)
	return one.Ownership, one.revision != 0, err
}

func (r *Replica) owner(ctx context.Context, key string, fresh bool) (owned, error) {
	r.owners.mu.RLock()
	one, ok := r.owners.known[key]
	r.owners.mu.RUnlock()
	if ok && !fresh {
		return one, nil
	}
	entry, err := r.owners.kv.Get(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		return owned{}, nil
	}
	if err != nil {
		return owned{}, err
	}
	return ownedOf(entry)
}

// Claim makes a new thing that of this replica, or one that nobody has.
func (r *Replica) Claim(ctx context.Context, key string, brief bool) error {
	if r.Mine(key) {
		return nil
	}
	if err := r.Take(ctx, key, brief); err != nil {
		return err
	}
	r.Keep(key)
	return nil
}

// Take is Claim for a thing that this replica is not ready to answer for yet: Keep says
// when it is.
func (r *Replica) Take(ctx context.Context, key string, brief bool) error {
	if err := r.Prove(); err != nil {
		return err
	}
	one, err := r.owner(ctx, key, true)
	if err != nil {
		return err
	}
	if one.Run != 0 && one.Run != r.config.Run {
		if err := r.Bury(ctx, one.Run); errors.Is(err, ErrLives) {
			return ErrTaken
		} else if err != nil {
			return err
		}
	}
	value := encode(Ownership{Run: r.config.Run, Place: r.config.Place, Brief: brief})
	if _, err = r.owners.kv.Update(ctx, key, value, one.revision, 0); !errors.Is(err, state.ErrConflict) {
		return err
	}
	if one, err = r.owner(ctx, key, true); err == nil && one.Run != r.config.Run {
		return ErrTaken
	}
	return err
}

// Keep says that this replica answers for what it took.
func (r *Replica) Keep(key string) {
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	r.owners.mine[key] = true
}

// Release gives a thing back: it is over, or goes on at another replica.
func (r *Replica) Release(ctx context.Context, key string, goesOn bool) error {
	r.owners.mu.Lock()
	delete(r.owners.mine, key)
	r.owners.mu.Unlock()
	one, err := r.owner(ctx, key, true)
	if err != nil || one.Run != r.config.Run {
		return err
	}
	if goesOn {
		_, err = r.owners.kv.Update(ctx, key, encode(Ownership{Place: one.Place}), one.revision, 0)
	} else {
		err = r.owners.kv.Delete(ctx, key, one.revision)
	}
	if errors.Is(err, state.ErrConflict) {
		return nil // somebody has it already
	}
	return err
}

// Forget removes what is known of a thing that nobody has.
func (r *Replica) Forget(ctx context.Context, key string) error {
	one, err := r.owner(ctx, key, true)
	if err != nil || one.revision == 0 || one.Run == r.config.Run {
		return err
	}
	if one.Run != 0 {
		if err := r.Bury(ctx, one.Run); err != nil {
			return err
		}
	}
	return r.owners.kv.Delete(ctx, key, one.revision)
}

// Unowned returns what no replica has that lives, as far as is known here.
func (r *Replica) Unowned() (keys []string) {
	r.owners.mu.RLock()
	defer r.owners.mu.RUnlock()
	for key, one := range r.owners.known {
		if one.Run == 0 || r.Over(one.Run) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Orphans returns what nobody has and falls to this replica: each thing to one of those that
// share its place, or of all where none does.
func (r *Replica) Orphans() []string {
	others := r.Others()
	r.owners.mu.RLock()
	defer r.owners.mu.RUnlock()
	var list []string
	for key, one := range r.owners.known {
		if one.Run != 0 && !r.Over(one.Run) {
			continue
		}
		best, here := score(key, r.config.Run), one.Place == r.config.Place
		for _, m := range others {
			switch there := m.Place == one.Place; {
			case there && !here:
				best = 0
			case there == here && score(key, m.Run) > best:
				best = 0
			}
		}
		if best != 0 {
			list = append(list, key)
		}
	}
	return list
}

// score says how much a thing belongs to a replica.
func score(key string, run uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strconv.FormatUint(run, 10) + " " + key)) // which never fails
	return max(h.Sum64(), 1)
}
