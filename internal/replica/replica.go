// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package replica has the servers that share a state know of each other: which of them
// live, where others reach them, and which of them has what. It decides by writes that
// compare and set, so that a partition never has two answers.
//
// A replica is a member while it renews its lease. One that could not renew in time
// fences itself: it begins nothing that others could begin as well. Later, when the lease is over,
// another member buries it. What was buried never comes back: its process is started
// anew, as another run.
//
// Goroutines: one renews the lease, one fences, two watch members and owners, and one
// for each member whose lease is over tries to bury it. Leave ends them.
//
// Locks: that of the owners guards who has what, that of a [Replica] its members; whoever holds the
// first may take the second. Neither is held while the engine is asked.
package replica

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
)

var (
	// ErrFenced says that this replica has not renewed its lease in time: others may
	// have taken over what it had.
	ErrFenced = fmt.Errorf("%w: this replica cannot prove to the others that it lives, and changes nothing meanwhile", state.ErrUnavailable)
	// ErrLives says that a replica may still live.
	ErrLives = fmt.Errorf("%w: the replica that has it does not answer, and it is not known yet that it has ended", state.ErrUnavailable)
	// ErrTaken says that another replica has it by now.
	ErrTaken = fmt.Errorf("%w: another replica has just taken it", state.ErrUnavailable)
)

// Config is what a replica is.
type Config struct {
	Engine state.Engine
	Logger *zap.Logger

	// Run is the number of this server: none before it had the same, nor will one after it.
	Run uint64

	// Address is where others reach it, Key what it proves itself with, and Version what
	// it was built from. Place names the directory of its workspaces: replicas with the
	// same share it.
	Address, Version, Place string
	Key                     []byte

	// Lease is how long after its last renewal a replica may be buried; 0 is 15 s.
	Lease time.Duration

	// Fenced, if set, is called when the replica can no longer prove that it lives. Buried
	// is called once when others have declared it dead.
	Fenced, Buried func()
}

// A Member is a replica as others know it.
type Member struct {
	Run     uint64    `json:"run"`
	Address string    `json:"address,omitempty"`
	Key     []byte    `json:"key,omitempty"`
	Version string    `json:"version,omitempty"`
	Place   string    `json:"place,omitempty"`
	Joined  time.Time `json:"joined,omitzero"`

	// Ended says that the run is over for ever: it left, or By buried it.
	Ended bool   `json:"ended,omitempty"`
	By    uint64 `json:"by,omitempty"`
}

// A member is a Member that lives, and a context that ends when that is over.
type member struct {
	Member
	life context.Context //nolint:containedctx // it is the member's
	end  context.CancelFunc
}

// A Replica is this server among the others. Its methods are safe for concurrent use.
type Replica struct {
	config  Config
	members state.KV
	began   time.Time
	ctx     context.Context //nolint:containedctx // ends with Leave
	cancel  context.CancelFunc
	work    sync.WaitGroup

	renewed   atomic.Int64 // when the last renewal that succeeded was begun, since began
	renewedAt atomic.Int64 // the same, by the clock on the wall
	since     atomic.Int64 // since when there was no lapse, since began
	buried    atomic.Bool
	revision  state.Revision // of the own entry; for the goroutine that renews

	mu      sync.Mutex
	byRun   map[uint64]*member
	over    map[uint64]bool // runs that have ended for ever
	burying map[uint64]bool
	news    chan struct{} // closed when members change

	owners owners
}

const (
	defaultLease = 15 * time.Second

	// A replica renews its lease so many times while it lasts, and fences itself after
	// so many of its quarters.
	renewals = 15
	quarters = 3

	// graveTime is how long it is kept that a run has ended. Later it is found out anew.
	graveTime = 7 * 24 * time.Hour
)

// Join makes a server a member.
func Join(ctx context.Context, config Config) (*Replica, error) {
	config.Lease = cmp.Or(config.Lease, defaultLease)
	r := &Replica{
		config: config, began: time.Now(), byRun: make(map[uint64]*member), over: make(map[uint64]bool), burying: make(map[uint64]bool), news: make(chan struct{}),
		owners: owners{known: make(map[string]owned), mine: make(map[string]bool)},
	}
	var err error
	if r.members, err = config.Engine.KV(ctx, state.Space{Name: "replicas"}); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	if r.owners.kv, err = config.Engine.KV(ctx, state.Space{Name: "owners"}); err != nil {
		return nil, fmt.Errorf("owners: %w", err)
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := r.renew(); err != nil {
		r.cancel()
		return nil, fmt.Errorf("this replica cannot become a member: %w", err)
	}
	r.work.Go(r.keepAlive)
	r.work.Go(r.fence)
	members, owners := make(chan struct{}), make(chan struct{})
	r.work.Go(func() { r.watch(r.members, r.sawMember, func() { close(members) }) })
	r.work.Go(func() { r.watch(r.owners.kv, r.sawOwner, func() { close(owners) }) })
	for _, known := range []chan struct{}{members, owners} { // what is there already is known from the beginning on
		select {
		case <-known:
		case <-ctx.Done():
			r.Leave()
			return nil, fmt.Errorf("this replica does not get to know the others: %w", ctx.Err())
		}
	}
	return r, nil
}

// Run is the number of this server.
func (r *Replica) Run() uint64 { return r.config.Run }

// Lease is how long a replica counts as alive without a sign of life.
func (r *Replica) Lease() time.Duration { return r.config.Lease }

// Leave ends the membership in good order, once nothing runs any more.
func (r *Replica) Leave() {
	r.cancel()
	r.work.Wait()
	if r.buried.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.config.Lease)
	defer cancel()
	if _, err := r.members.Put(ctx, keyOf(r.config.Run), encode(Member{Run: r.config.Run, Ended: true}), graveTime); err != nil {
		r.config.Logger.Warn("other replicas are not told that this one ends: they notice when its lease is over", zap.Error(err))
	}
}

// Prove returns nil while nobody else can have taken what this replica has.
func (r *Replica) Prove() error {
	if r.buried.Load() || r.sinceRenewal() > r.fenceAfter() {
		return ErrFenced
	}
	return nil
}

// sinceRenewal is how long ago the lease was renewed, by the clock that says more: one stands
// still while the machine is suspended, the other may be set back.
func (r *Replica) sinceRenewal() time.Duration {
	now := time.Now()
	return max(now.Sub(r.began)-time.Duration(r.renewed.Load()), time.Duration(now.UnixNano()-r.renewedAt.Load()))
}

func (r *Replica) fenceAfter() time.Duration { return r.config.Lease * quarters / 4 }

func keyOf(run uint64) string { return strconv.FormatUint(run, 10) }

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return text
}

func (r *Replica) keepAlive() {
	tick := time.NewTicker(r.config.Lease / renewals)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.renew(); err != nil && r.ctx.Err() == nil && r.Prove() != nil {
			r.config.Logger.Warn("the lease of this replica could not be renewed", zap.Error(err))
		}
	}
}

// renew renews the lease. What counts is when that was begun, which is before the engine
// began to count.
func (r *Replica) renew() error {
	if r.buried.Load() {
		return ErrFenced
	}
	now := time.Now()
	began := now.Sub(r.began)
	me := encode(Member{
		Run: r.config.Run, Address: r.config.Address, Key: r.config.Key, Version: r.config.Version, Place: r.config.Place, Joined: r.began.Round(0),
	})
	revision, err := r.members.Update(r.ctx, keyOf(r.config.Run), me, r.revision, r.config.Lease)
	if errors.Is(err, state.ErrConflict) {
		var entry state.Entry
		switch entry, err = r.members.Get(r.ctx, keyOf(r.config.Run)); {
		case errors.Is(err, state.ErrNotFound): // the lease was over, and nobody has buried this replica yet
			revision, err = r.members.Create(r.ctx, keyOf(r.config.Run), me, r.config.Lease)
		case err == nil && isGrave(entry.Value):
			r.declaredDead()
			return ErrFenced
		case err == nil: // an attempt before this one was heard
			revision, err = r.members.Update(r.ctx, keyOf(r.config.Run), me, entry.Revision, r.config.Lease)
		}
	}
	if err != nil {
		return err
	}
	if r.Prove() != nil || r.revision == 0 {
		r.since.Store(int64(time.Since(r.began)))
	}
	r.revision = revision
	r.renewed.Store(int64(began))
	r.renewedAt.Store(now.UnixNano())
	return nil
}

func isGrave(value []byte) bool {
	var m Member
	return json.Unmarshal(value, &m) == nil && m.Ended
}

func (r *Replica) declaredDead() {
	if r.buried.Swap(true) {
		return
	}
	r.config.Logger.Error("other replicas have declared this one dead, for its lease was over: it changes nothing any more, and has to be started anew")
	if r.config.Fenced != nil {
		r.config.Fenced()
	}
	if r.config.Buried != nil {
		r.config.Buried()
	}
}

// fence tells that the replica can no longer prove that it lives, each time that begins.
func (r *Replica) fence() {
	for {
		left := r.fenceAfter() - r.sinceRenewal()
		if left <= 0 {
			r.config.Logger.Warn("this replica cannot prove that it lives: it ends calls that change something, and begins none", zap.Duration("lease", r.config.Lease))
			if r.config.Fenced != nil {
				r.config.Fenced()
			}
			left = r.config.Lease / renewals
			for r.Prove() != nil {
				if !r.pause(left) {
					return
				}
			}
			r.config.Logger.Info("this replica has its lease again")
			continue
		}
		if !r.pause(left + time.Millisecond) {
			return
		}
	}
}

// pause waits. It reports false where the replica leaves meanwhile.
func (r *Replica) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.ctx.Done():
		return false
	}
}

// watch tells saw of all entries, and of their changes, until the replica leaves. A key
// that saw is told of without a value is not there. known is called once, when all are known.
func (r *Replica) watch(kv state.KV, saw func(key string, e *state.Entry), known func()) {
	known = sync.OnceFunc(known)
	defer known()
	before := make(map[string]bool)
	for r.ctx.Err() == nil {
		now := make(map[string]bool)
		complete := false
		err := kv.Watch(r.ctx, "", func(e state.Entry) {
			switch {
			case e.Key == "":
				for key := range before {
					if !now[key] {
						saw(key, nil)
					}
				}
				complete = true
				known()
			case e.Deleted:
				delete(now, e.Key)
				saw(e.Key, nil)
			default:
				now[e.Key] = true
				saw(e.Key, &e)
			}
		})
		if complete {
			before = now
		}
		if r.ctx.Err() == nil && !errors.Is(err, state.ErrWatchCut) {
			r.config.Logger.Warn("what other replicas do is not known for a moment", zap.Error(err))
		}
		r.pause(r.config.Lease / renewals)
	}
}

func (r *Replica) sawMember(key string, e *state.Entry) {
	run, err := strconv.ParseUint(key, 10, 64)
	if err != nil {
		return
	}
	var m Member
	switch {
	case e == nil:
		r.lapsed(run)
	case json.Unmarshal(e.Value, &m) != nil || m.Run != run:
	case m.Ended:
		r.ended(run)
	default:
		r.lives(m)
	}
}

func (r *Replica) lives(m Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byRun[m.Run]; known != nil || r.over[m.Run] {
		return
	}
	one := &member{Member: m}
	one.life, one.end = context.WithCancel(r.ctx)
	r.byRun[m.Run] = one
	r.changed()
}

// ended notes that a run is over for ever.
func (r *Replica) ended(run uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over[run] = true
	if known := r.byRun[run]; known != nil {
		known.end()
		delete(r.byRun, run)
	}
	r.changed()
}

// changed wakes those who wait for a change. The replica is locked.
func (r *Replica) changed() {
	close(r.news)
	r.news = make(chan struct{})
}

// Changed is closed when the members are others than now.
func (r *Replica) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news
}

// lapsed has a member buried whose lease is over.
func (r *Replica) lapsed(run uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run == r.config.Run || r.over[run] || r.burying[run] {
		return
	}
	r.burying[run] = true
	r.work.Go(func() {
		defer func() {
			r.mu.Lock()
			delete(r.burying, run)
			r.mu.Unlock()
		}()
		for {
			if _, err := r.members.Get(r.ctx, keyOf(run)); err == nil {
				return // it is back, or buried, which the watch tells
			}
			if r.Bury(r.ctx, run) == nil || !r.pause(r.config.Lease/renewals) {
				return
			}
		}
	})
}

// Bury declares a run over whose lease is: it returns nil where that is so for ever.
//
// Where the engine was away, all leases are over when it is back: those who live get the time
// to renew theirs.
func (r *Replica) Bury(ctx context.Context, run uint64) error {
	if r.Over(run) {
		return nil
	}
	if run == r.config.Run {
		return ErrLives
	}
	if r.Prove() != nil || time.Since(r.began)-time.Duration(r.since.Load()) < r.config.Lease/2 {
		if entry, err := r.members.Get(ctx, keyOf(run)); err == nil && isGrave(entry.Value) {
			r.ended(run)
			return nil
		}
		return ErrLives
	}
	_, err := r.members.Create(ctx, keyOf(run), encode(Member{Run: run, Ended: true, By: r.config.Run}), graveTime)
	if errors.Is(err, state.ErrConflict) {
		entry, getErr := r.members.Get(ctx, keyOf(run))
		if getErr != nil || !isGrave(entry.Value) {
			return ErrLives
		}
		err = nil
	}
	if err != nil {
		return err
	}
	r.config.Logger.Warn("a replica has ended without leaving: what ran there is lost", zap.Uint64("replica", run))
	r.ended(run)
	return nil
}

// Over reports whether a run is known to be over for ever.
func (r *Replica) Over(run uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over[run]
}

// Find returns a member that lives, as far as is known, and a context that ends when that is over.
func (r *Replica) Find(run uint64) (Member, context.Context, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.byRun[run]
	if m == nil {
		return Member{}, nil, false
	}
	return m.Member, m.life, true
}

// Members returns those that live, this one too, in the order in which they came.
func (r *Replica) Members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Member
	for _, m := range r.byRun {
		list = append(list, m.Member)
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.Run, b.Run) })
	return list
}

// Others returns the other members, in the order in which they came.
func (r *Replica) Others() []Member {
	return slices.DeleteFunc(r.Members(), func(m Member) bool { return m.Run == r.config.Run })
}

// ByRun returns the member with a number, asking the engine where it is not known yet.
func (r *Replica) ByRun(ctx context.Context, run uint64) (Member, bool) {
	if m, _, ok := r.Find(run); ok || r.Over(run) {
		return m, ok
	}
	entry, err := r.members.Get(ctx, keyOf(run))
	var m Member
	if err != nil || json.Unmarshal(entry.Value, &m) != nil || m.Ended || m.Run != run {
		return Member{}, false
	}
	r.lives(m)
	return m, true
}
