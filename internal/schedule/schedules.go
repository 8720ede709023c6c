// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package schedule has calls made at times, by whom they were asked for and with no more than
// the rights of then: each in a session of its own, judged by the policy in force at the time.
//
// The parts:
//
//	times.go      when a schedule fires: cron, intervals, once
//	record.go     what is stored of one, and what becomes of a time that is due
//	schedules.go  which there are, and what their owners do with them
//	clock.go      who waits for the next time, and begins what is due
//	fire.go       one firing: its session, its call, its end
//
// Of several replicas one sees to each time: the one whose compare-and-set of the record wins.
// What it began and did not end, because it is gone, another one takes over under the same
// call id.
//
// Locks: Schedules.opening is held while the engine opens what is stored, and comes before
// Schedules.mu, which guards the heap of times and the firings, and comes before those of the mirrors. mu
// is not held while something is waited for.
//
// Goroutines: one waits for the next time. Each firing has one, and where schedules outlive the server
// one takes over what other replicas left, and keeps this replica known as alive. Mirrors have their own. Close
// ends all, and waits.
package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/schedule"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// Config is the section "schedules" of the configuration. Zero fields take the defaults named.
type Config struct {
	MaxPerPrincipal int           `yaml:"max_per_principal"` // 100
	MinInterval     time.Duration `yaml:"min_interval"`      // the least time between two firings; 1m
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.MaxPerPrincipal, c.MinInterval = cmp.Or(c.MaxPerPrincipal, 100), cmp.Or(c.MinInterval, time.Minute)
	return c
}

// A Door makes the calls of schedules.
type Door interface {
	Call(ctx context.Context, who errand.Who, call errand.Call, tell func(*errand.Event)) (*errand.End, error)
	Check(ctx context.Context, who errand.Who, session, tool string, input json.RawMessage) (errand.Preview, error)
	SettingsOf(ctx context.Context, who errand.Who, session string) (errand.Settings, error)
	Open(ctx context.Context, who errand.Who, id string, settings errand.Settings) error
	Shut(ctx context.Context, who errand.Who, id string)
}

// Options are what schedules are kept and seen to with.
type Options struct {
	Config
	Door Door

	// Known, if set, returns a principal with what it may be by now, or why it may not call any
	// more.
	Known func(errand.Who) (errand.Who, error)

	// Digest, if set, returns the digest of the workflow that a call runs, as it is now, with all workflows
	// below it; empty where the call runs none.
	Digest func(ctx context.Context, who errand.Who, tool string, input json.RawMessage) (string, error)

	// Run, if set, names the run of a workflow that a call begins; empty where it begins none.
	Run func(who errand.Who, session, call, tool string, input json.RawMessage) string

	// Engine returns where all is kept. It is asked when that is first needed. Lasting says
	// that this outlives the process; Alone, that no other process has it.
	Engine         func(context.Context) (state.Engine, error)
	Lasting, Alone bool

	// Remembered is how long the server knows the id of a call that it did not see the end of; 0: for ever.
	Remembered time.Duration

	Logger *zap.Logger

	// Now is the clock on the wall; nil: [time.Now].
	Now func() time.Time
}

// Schedules keeps schedules and sees to them. Close it after use.
type Schedules struct {
	options                  Options
	me                       string
	base                     context.Context
	end                      context.CancelCauseFunc
	atWork                   sync.WaitGroup
	replicaTime, replicaTell time.Duration // after which a process that says nothing is dead, and how often this one does

	slots chan struct{} // firings that are begun or ended at once

	opening sync.Mutex
	kept    *buckets

	mu      sync.Mutex
	heap    timeHeap
	waited  map[string]time.Time               // by key: the newest of its times in the heap
	wake    chan struct{}                      // has room for one
	running map[string]context.CancelCauseFunc // by session: firings of this process
	closing bool
}

// buckets is what is stored.
type buckets struct {
	kv       state.KV
	alive    state.KV // replicas, which say so also where there is no room for schedules
	records  *state.Mirror[*record]
	replicas *state.Mirror[string]
	end      context.CancelFunc // of the mirrors
}

var (
	errClosed   = errors.New("the server is shutting down")
	errReplaced = errors.New("the next firing took its place")
	errDeleted  = errors.New("the schedule was deleted")
)

// New returns schedules that nobody has yet; Begin has those seen to that are kept.
func New(options Options) *Schedules {
	options.Config = options.Config.WithDefaults()
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	s := &Schedules{options: options, me: rand.Text(), slots: make(chan struct{}, maxAtOnce), wake: make(chan struct{}, 1), running: make(map[string]context.CancelCauseFunc), waited: make(map[string]time.Time)}
	s.replicaTime, s.replicaTell = 15*time.Second, 4*time.Second
	s.base, s.end = context.WithCancelCause(context.Background())
	return s
}

// now is the clock on the wall, without what Go knows besides.
func (s *Schedules) now() time.Time { return s.options.Now().Round(0).UTC() }

// Begin has the schedules seen to that are kept. Calls can be made by now.
func (s *Schedules) Begin() {
	if s.options.Lasting { // else there is none before one is made
		s.enter(func() {
			for s.base.Err() == nil {
				if _, err := s.open(s.base); err == nil {
					return
				}
				sleep(s.base, retryAfter)
			}
		})
	}
}

// enter runs f apart, unless all ends.
func (s *Schedules) enter(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.atWork.Go(f)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Close leaves all to whoever sees to it next.
func (s *Schedules) Close() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.end(errClosed)
	s.atWork.Wait()
	return nil
}

// Lasting reports whether all this outlives the server.
func (s *Schedules) Lasting() bool { return s.options.Lasting }

// open opens what is stored, and begins to see to it.
func (s *Schedules) open(ctx context.Context) (*buckets, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.kept != nil {
		return s.kept, nil
	}
	engine, err := s.options.Engine(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	k := new(buckets)
	if k.kv, err = engine.KV(ctx, state.Space{Name: "schedules", MaxBytes: 256 << 20}); err != nil {
		return nil, unavailable(err)
	}
	if k.alive, err = engine.KV(ctx, state.Space{Name: "schedule_replicas", MaxBytes: 16 << 20, Volatile: true}); err != nil {
		return nil, unavailable(err)
	}
	var mirrored context.Context
	mirrored, k.end = context.WithCancel(s.base)
	k.records = state.NewMirror(mirrored, k.kv, schedules, decodeRecord, s.changed)
	k.replicas = state.NewMirror(mirrored, k.alive, replicas, func(text []byte) (string, error) { return string(text), nil }, nil)
	for _, ready := range []func(context.Context) error{k.records.Ready, k.replicas.Ready} {
		if err := ready(ctx); err != nil {
			k.end() // the next one who asks begins anew
			return nil, unavailable(err)
		}
	}
	s.kept = k
	s.enter(func() { s.watch(k) })
	if s.options.Lasting {
		s.enter(func() { s.takeOver(k) })
	}
	return k, nil
}

func unavailable(err error) error {
	return &tools.Failure{Code: "state_unavailable", Message: "What schedules are kept in cannot be used now: " + err.Error() + ". Nothing was changed that you were not told: try again later.", Retryable: true}
}

func ownerOf(env tools.Env) string { return errand.Of(env).Owner() }

// foresight is how long those are kept waiting who are told beforehand that a call fails.
const foresight = 2 * time.Second

// Check returns why a schedule cannot be kept, as far as that can be told before.
func (s *Schedules) Check(env tools.Env, n schedule.New) error {
	ctx, done := context.WithTimeout(s.base, foresight)
	defer done()
	if _, _, err := s.toKeep(ctx, env, n); err != nil {
		return err
	}
	return called(env, n)
}

// called returns why a tool cannot be called as a schedule is to, as far as its session knows.
func called(env tools.Env, n schedule.New) error {
	if env.Catalog == nil {
		return nil
	}
	var names []string
	entries, _ := env.Catalog.All()
	for _, e := range entries {
		if !env.Catalog.Has(e) {
			continue
		}
		if e.Spec.Name == n.Tool || slices.Contains(e.Spec.Aliases, n.Tool) {
			if _, err := e.Tool.Decode(&env, n.Input); err != nil {
				return tools.Failf("invalid_call", "The schedule would fail: the input of %s is not valid: %v", n.Tool, err)
			}
			return nil
		}
		names = append(names, e.Spec.Name)
	}
	return tools.Failf("no_such_tool", "The schedule would fail: there is no tool %.64q%s", n.Tool, cmp.Or(nearest.Hint(nearest.Names(n.Tool, names)), "."))
}

// CheckName returns why there is no schedule of a name.
func (s *Schedules) CheckName(env tools.Env, name string) error {
	ctx, done := context.WithTimeout(s.base, foresight)
	defer done()
	_, err := s.List(ctx, env, name)
	return err
}

// toKeep returns a schedule that can be kept, but for what the policy says.
func (s *Schedules) toKeep(ctx context.Context, env tools.Env, n schedule.New) (*buckets, *record, error) {
	r, err := s.made(env, n)
	if err != nil {
		return nil, nil, err
	}
	k, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	names := k.records.Keys(schedules + state.Key(ownerOf(env)) + "/")
	switch {
	case slices.Contains(names, r.key()):
		return nil, nil, taken(n.Name)
	case len(names) >= s.options.MaxPerPrincipal:
		return nil, nil, tools.Failf("too_many_schedules", "There are %d schedules, which is as many as you may have: delete some.", len(names))
	}
	r.Digest, err = s.digest(ctx, r.Who, r)
	return k, r, err
}

func taken(name string) error {
	return tools.Failf("schedule_exists", "There is a schedule %s already: delete it first, or choose another name.", name)
}

// made returns a schedule as it is kept, or says what is wrong with it.
func (s *Schedules) made(env tools.Env, n schedule.New) (*record, error) {
	if len(n.Input) > maxInput {
		return nil, tools.Failf("input_too_large", "The input has %d bytes: a schedule keeps at most %d. Write it to a file, and pass its path.", len(n.Input), maxInput)
	}
	if workflow.IsRun(n.Tool) {
		n.Tool = workflow.RunName // by its other name, another system's keys would be read, and no digest kept
	}
	r := &record{
		Version: recordVersion, Name: n.Name, Created: s.now(), Who: errand.Of(env), Tool: n.Tool, Input: n.Input, When: n.When,
		Missed: cmp.Or(n.Missed, schedule.MissedOnce), Overlap: cmp.Or(n.Overlap, schedule.OverlapSkip),
	}
	return r, s.timed(r)
}

// Create keeps a schedule.
func (s *Schedules) Create(ctx context.Context, env tools.Env, n schedule.New) (_ schedule.Status, note string, err error) {
	k, r, err := s.toKeep(ctx, env, n)
	if err != nil {
		return schedule.Status{}, "", err
	}
	if note, err = s.preview(ctx, env, r); err != nil {
		return schedule.Status{}, "", err
	}
	revision, err := k.kv.Create(ctx, r.key(), r.encode(), 0)
	switch {
	case errors.Is(err, state.ErrConflict):
		return schedule.Status{}, "", taken(n.Name)
	case err != nil:
		return schedule.Status{}, "", unavailable(err)
	}
	k.records.Note(r.key(), r, revision)
	return r.status(), note, nil
}

// digest names the workflow that a schedule runs as it is now; empty where it runs none.
func (s *Schedules) digest(ctx context.Context, who errand.Who, r *record) (string, error) {
	if s.options.Digest == nil {
		return "", nil
	}
	return s.options.Digest(ctx, who, r.Tool, r.Input)
}

// timed fills in when a schedule fires, or says why it cannot.
func (s *Schedules) timed(r *record) error {
	var err error
	if r.times, err = timesOf(r.When, r.Created); err != nil {
		return tools.Failf("invalid_time", "%v.", err)
	}
	if r.Next = r.times.next(r.Created); r.Next.IsZero() {
		return tools.Failf("invalid_time", "%s is over: it is %s by now.", r.When.At, r.Created.Format(time.RFC3339))
	}
	if least := shortest(r.times, r.Created); least < s.options.MinInterval {
		return tools.Failf("too_often", "It would fire every %s: at least %s have to be between.", least, s.options.MinInterval)
	}
	return nil
}

// preview has the policy judge what a schedule runs, in a session as it fires in. The rights of
// the session that made it are the most that it ever has.
func (s *Schedules) preview(ctx context.Context, env tools.Env, r *record) (note string, err error) {
	door := s.options.Door
	if r.Settings, err = door.SettingsOf(ctx, r.Who, env.SessionID); err != nil {
		return "", tools.Failf("not_judged", "What the schedule runs could not be judged: %v.", err)
	}
	if err = notFor(r.Settings.Below); err != nil {
		return "", err
	}
	if mode := tools.Mode(r.Settings.Mode); r.Who.MaxMode == 0 || r.Who.MaxMode.Above(mode) {
		r.Who.MaxMode = mode
	}
	id := r.session(r.Created)
	if err = door.Open(ctx, r.Who, id, r.Settings); err != nil && r.Settings.Workspace != "" {
		r.Settings.Workspace = ""
		note = "It works in a new, empty workspace each time: the one of this session cannot be used by another. "
		err = door.Open(ctx, r.Who, id, r.Settings)
	}
	if err != nil {
		return "", tools.Failf("no_session", "The schedule would have no session to work in: %v.", err)
	}
	defer door.Shut(context.WithoutCancel(ctx), r.Who, id)
	p, err := door.Check(ctx, r.Who, id, r.Tool, r.Input)
	switch {
	case err != nil:
		return "", tools.Failf("invalid_call", "The schedule would fail: %v.", err)
	case p.Asks:
		note += "A person has to approve each firing, which is refused where nobody does: " + p.Reason + " "
	case !p.Allowed:
		return "", tools.Failf("denied", "The schedule would be refused: %s", p.Reason)
	}
	return note, nil
}

// notFor refuses an agent that works for a session what would run outside its bounds.
func notFor(session string) error {
	if session == "" {
		return nil
	}
	return tools.Failf("not_for_agents", "An agent that works for the session %s neither makes schedules nor has them fire: what they run is not within the bounds that it was given. Tell whoever asked for you what is to be done.", session)
}

// mayFire returns why the session of env has no schedule fire that is there.
func (s *Schedules) mayFire(ctx context.Context, env tools.Env) error {
	settings, err := s.options.Door.SettingsOf(ctx, errand.Of(env), env.SessionID)
	if err != nil {
		return tools.Failf("not_judged", "Whether you may have schedules fire is not known: %v.", err)
	}
	return notFor(settings.Below)
}

// none is the failure of a schedule that is not there, for this principal.
func (s *Schedules) none(k *buckets, env tools.Env, name string) error {
	return tools.Failf("no_such_schedule", "%s", nearest.Missing("schedule", name, k.records.Names(schedules+state.Key(ownerOf(env))+"/")))
}

// List returns the schedules, by name; with a name, that one.
func (s *Schedules) List(ctx context.Context, env tools.Env, name string) ([]schedule.Status, error) {
	k, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if name != "" {
		r, _, there := k.records.Get(scheduleKey(ownerOf(env), name))
		if !there {
			return nil, s.none(k, env, name)
		}
		return []schedule.Status{r.status()}, nil
	}
	var list []schedule.Status
	for _, key := range k.records.Keys(schedules + state.Key(ownerOf(env)) + "/") {
		if r, _, there := k.records.Get(key); there {
			list = append(list, r.status())
		}
	}
	return list, nil
}

// Pause has a schedule not fire until it is resumed.
func (s *Schedules) Pause(ctx context.Context, env tools.Env, name string, paused bool) (status schedule.Status, err error) {
	k, err := s.open(ctx)
	if err != nil {
		return status, err
	}
	if !paused {
		if err := s.mayFire(ctx, env); err != nil {
			return status, err
		}
	}
	there, err := s.change(ctx, k, scheduleKey(ownerOf(env), name), func(r *record) bool {
		if r.Paused = paused; !paused && r.times != nil {
			r.Next = r.times.next(s.now()) // what was not to fire was not missed
		}
		status = r.status()
		return true
	})
	if err == nil && !there {
		err = s.none(k, env, name)
	}
	return status, err
}

// Delete forgets a schedule, and ends what it runs.
func (s *Schedules) Delete(ctx context.Context, env tools.Env, name string) error {
	k, err := s.open(ctx)
	if err != nil {
		return err
	}
	key := scheduleKey(ownerOf(env), name)
	if _, _, there := k.records.Get(key); !there {
		return s.none(k, env, name)
	}
	if err := k.kv.Delete(ctx, key, 0); err != nil {
		return unavailable(err)
	}
	k.records.Forget(key)
	return nil
}

// Fire has a schedule fire now, besides, or reports that it does when the firing before has ended.
func (s *Schedules) Fire(ctx context.Context, env tools.Env, name string) (queued bool, err error) {
	k, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	if err := s.mayFire(ctx, env); err != nil {
		return false, err
	}
	var begin []firing
	now, key := s.now().Truncate(time.Millisecond), scheduleKey(ownerOf(env), name)
	there, err := s.change(ctx, k, key, func(r *record) bool {
		waiting := len(r.Queue)
		begin = r.begin(now, now, s.me, false)
		queued = len(r.Queue) > waiting
		return true
	})
	switch {
	case err != nil:
		return false, err
	case !there:
		return false, s.none(k, env, name)
	case queued:
		return true, nil
	case len(begin) == 0:
		return false, &tools.Failure{Code: "still_running", Message: fmt.Sprintf("The schedule %s did not fire: the firing before has not ended, and what overlaps is skipped here.", name), Retryable: true}
	}
	r, _, there := k.records.Get(key)
	if !there { // it was deleted meanwhile
		return false, s.none(k, env, name)
	}
	s.begin(k, r, begin)
	return false, nil
}

// change changes a record by compare-and-set, until change has nothing to change or nobody was
// faster. It reports whether the record is there.
func (s *Schedules) change(ctx context.Context, k *buckets, key string, change func(*record) bool) (there bool, err error) {
	known, revision, there := k.records.Get(key)
	for there {
		r := known.clone()
		if !change(r) {
			return true, nil
		}
		next, err := k.kv.Update(ctx, key, r.encode(), revision, 0)
		if err == nil {
			k.records.Note(key, r, next)
			return true, nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return true, unavailable(err)
		}
		entry, err := k.kv.Get(ctx, key)
		switch {
		case errors.Is(err, state.ErrNotFound):
			k.records.Forget(key)
			return false, nil
		case err != nil:
			return true, unavailable(err)
		}
		if known, err = decodeRecord(entry.Value); err != nil {
			return true, unavailable(err)
		}
		revision = entry.Revision
		k.records.Note(key, known, revision)
	}
	return false, nil
}
