// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// Config is the section "workflows" of the configuration. Zero fields take the defaults named.
type Config struct {
	MaxPerPrincipal int           `yaml:"max_per_principal"` // definitions; 200
	MaxRunning      int           `yaml:"max_running"`       // runs of a principal that have not ended; 50
	MaxKept         int           `yaml:"max_kept"`          // runs of a principal that have; 100
	Retention       time.Duration `yaml:"retention"`         // how long those are kept; 168h
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.MaxPerPrincipal, c.MaxRunning, c.MaxKept = cmp.Or(c.MaxPerPrincipal, 200), cmp.Or(c.MaxRunning, 50), cmp.Or(c.MaxKept, 100)
	c.Retention = cmp.Or(c.Retention, 7*24*time.Hour)
	return c
}

// A Door makes the calls of steps.
type Door interface {
	Call(ctx context.Context, who errand.Who, call errand.Call, tell func(*errand.Event)) (*errand.End, error)
	Made(ctx context.Context, who errand.Who, session string) (time.Time, error)
	Away() bool
}

// Options are what workflows are kept and run with.
type Options struct {
	Config
	Door Door

	// Known, if set, returns a principal with what it may be by now, or why it may not call any
	// more.
	Known func(errand.Who) (errand.Who, error)

	// Engine returns where all is kept. It is asked when that is first needed. Lasting says
	// that this outlives the process; Alone, that no other process has it, so that whoever
	// else carried on a run is dead.
	Engine         func(context.Context) (state.Engine, error)
	Lasting, Alone bool

	Logger *zap.Logger
}

// How long a lease lasts that nobody renews, and how often it is renewed, and runs are looked
// for that nobody carries on.
const (
	leaseTime  = 15 * time.Second
	leaseRenew = 4 * time.Second
	touchEvery = time.Minute
	stepTTL    = 62 * 24 * time.Hour // longer than any wait
)

// Workflows keeps definitions and runs. Close it after use.
type Workflows struct {
	options Options
	me      string // this process, in leases
	base    context.Context
	end     context.CancelCauseFunc
	atWork  sync.WaitGroup

	opening sync.Mutex
	kept    *buckets // nil before it is needed

	mu      sync.Mutex
	local   map[string]*run // by id: those that this process carries on
	news    chan struct{}   // closed, and another one, when a run changes
	closing bool
}

// buckets is what is stored.
type buckets struct {
	definitions, runs, holders state.KV
	texts                      *state.Mirror[*saved]
	heads                      *state.Mirror[*head]
	leases                     *state.Mirror[string]
	end                        context.CancelFunc // of the mirrors
}

var errClosed = errors.New("the server is shutting down")

// New returns workflows that nobody has yet; Begin has those go on that were running.
func New(options Options) *Workflows {
	options.Config = options.Config.WithDefaults()
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}
	w := &Workflows{options: options, me: rand.Text(), local: make(map[string]*run), news: make(chan struct{})}
	w.base, w.end = context.WithCancelCause(context.Background())
	return w
}

// Begin has runs go on that nobody carries on, from now on. Calls can be made by now.
func (w *Workflows) Begin() {
	if !w.options.Lasting {
		return // there is none
	}
	w.enter(func() {
		for w.base.Err() == nil {
			if k, err := w.open(w.base); err == nil {
				w.adopt(k)
			} else if w.base.Err() == nil {
				w.options.Logger.Warn("workflows cannot be read yet", zap.Error(err))
			}
			sleep(w.base, leaseRenew)
		}
	})
}

// enter runs f apart, unless all ends.
func (w *Workflows) enter(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing {
		w.atWork.Go(f)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Close leaves all runs to whoever carries them on next.
func (w *Workflows) Close() error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.end(errClosed)
	w.atWork.Wait()
	return nil
}

// Lasting reports whether all this outlives the server.
func (w *Workflows) Lasting() bool { return w.options.Lasting }

// open opens what is stored.
func (w *Workflows) open(ctx context.Context) (*buckets, error) {
	w.opening.Lock()
	defer w.opening.Unlock()
	if w.kept != nil {
		return w.kept, nil
	}
	engine, err := w.options.Engine(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	k := new(buckets)
	if k.definitions, err = engine.KV(ctx, state.Space{Name: "workflows"}); err != nil {
		return nil, unavailable(err)
	}
	if k.runs, err = engine.KV(ctx, state.Space{Name: "runs", MaxBytes: 256 << 20}); err != nil {
		return nil, unavailable(err)
	}
	if k.holders, err = engine.KV(ctx, state.Space{Name: "run_leases", MaxBytes: 16 << 20, Volatile: true}); err != nil { // which are kept up where there is no room for runs
		return nil, unavailable(err)
	}
	var mirrored context.Context
	mirrored, k.end = context.WithCancel(w.base)
	k.texts = state.NewMirror(mirrored, k.definitions, definitions, decodeRecord[saved], nil)
	k.heads = state.NewMirror(mirrored, k.runs, runs, decodeRecord[head], w.changed)
	k.leases = state.NewMirror(mirrored, k.holders, leases, func(text []byte) (string, error) { return string(text), nil }, nil)
	for _, ready := range []func(context.Context) error{k.texts.Ready, k.heads.Ready, k.leases.Ready} {
		if err := ready(ctx); err != nil {
			k.end() // the next one who asks begins anew
			return nil, unavailable(err)
		}
	}
	w.kept = k
	return k, nil
}

func unavailable(err error) error {
	return &tools.Failure{Code: "state_unavailable", Message: "What workflows are kept in cannot be used now: " + err.Error() + ". Nothing was changed that you were not told: try again later.", Retryable: true}
}

func noSession(env tools.Env, err error) error {
	return &tools.Failure{Code: "session_unknown", Message: fmt.Sprintf("The session %s that the run is to be made in cannot be found now: %v. Nothing was begun.", env.SessionID, err), Retryable: true}
}

// changed is told of each run that changes. With one that is gone its steps go, which would be
// kept for longer.
func (w *Workflows) changed(_ string, h *head, there bool) {
	if !there {
		w.enter(func() { w.forgetSteps(h.ID) })
	}
	w.mu.Lock()
	r := w.local[h.ID]
	close(w.news)
	w.news = make(chan struct{})
	w.mu.Unlock()
	if r != nil {
		r.applyWanted(h, there)
	}
}

// adopt carries on what nobody does.
func (w *Workflows) adopt(k *buckets) {
	for _, key := range k.heads.Keys(runs) {
		h, _, there := k.heads.Get(key)
		if !there || h.over() || w.base.Err() != nil {
			continue
		}
		w.mu.Lock()
		mine := w.local[h.ID] != nil
		w.mu.Unlock()
		holder, leased, held := k.leases.Get(leaseKey(h.ID))
		switch {
		case mine, held && !w.options.Alone, held && holder == w.me:
			continue
		case held:
			w.carry(k, h, leased) // of a process that is no more
		default:
			w.carry(k, h, 0)
		}
	}
}

// carry takes a run on, if nobody else does: leased is the revision of a lease to take over.
func (w *Workflows) carry(k *buckets, h *head, leased state.Revision) {
	key := leaseKey(h.ID)
	lease, err := k.holders.Update(w.base, key, []byte(w.me), leased, leaseTime)
	if err != nil {
		return // somebody else was faster
	}
	k.leases.Note(key, w.me, lease)
	r := newRun(w, k, h)
	w.mu.Lock()
	if w.local[h.ID] != nil || w.closing {
		w.mu.Unlock()
		k.holders.Delete(context.WithoutCancel(w.base), key, lease)
		return
	}
	w.local[h.ID] = r
	w.atWork.Go(func() { r.carryOn(lease) })
	w.mu.Unlock()
}

func ownerOf(env tools.Env) string { return errand.Of(env).Owner() }

// world is what a definition of a principal may speak of.
func (w *Workflows) world(k *buckets, env tools.Env) World {
	owner := ownerOf(env)
	world := World{Workflow: k.definitionsOf(owner), Env: env}
	if env.Catalog != nil {
		entries, _ := env.Catalog.All()
		known := make(map[string]tools.Tool)
		for _, e := range entries {
			if env.Catalog.Has(e) {
				known[e.Spec.Name] = e.Tool
				for _, alias := range e.Spec.Aliases {
					known[alias] = e.Tool
				}
			}
		}
		world.Tool = func(name string) tools.Tool { return known[name] }
	}
	return world
}

// Digest names the workflow that a call runs, and all that it runs, as they are now; it is empty
// where the call runs none.
func (w *Workflows) Digest(ctx context.Context, who errand.Who, tool string, input json.RawMessage) (string, error) {
	if !workflow.IsRun(tool) {
		return "", nil
	}
	var of struct{ Name string }
	if err := json.Unmarshal(input, &of); err != nil {
		return "", tools.Failf("invalid_input", `The input of %s has to be an object, such as {"name": "nightly"}: %v.`, tool, err)
	}
	name := of.Name
	if name == "" {
		return "", nil // it looks after a run
	}
	k, err := w.open(ctx)
	if err != nil {
		return "", err
	}
	g := &gathering{World{Workflow: k.definitionsOf(who.Owner())}, make(map[string]string), make(map[string]int)}
	text, there := g.world.Workflow(name)
	if !there {
		return "", tools.Failf("no_such_workflow", "There is no workflow %.64q.", name)
	}
	parsed, err := Parse(text, g.world)
	if err == nil {
		_, err = g.below(ctx, parsed, []string{name})
	}
	return digestOf(text, g.others), err
}

// digestOf names a definition and the others that it runs.
func digestOf(text string, others map[string]string) string {
	parts := []string{text}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		parts = append(parts, name, others[name])
	}
	return digest(parts...)
}

// sameJSON reports whether two texts are the same value: what was stored is written in another way.
func sameJSON(a, b json.RawMessage) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// RunOf names the run that a call begins, whether it did or not; empty where the call begins none.
func RunOf(who errand.Who, session, call, tool string, input json.RawMessage) string {
	var of struct{ Name string }
	if !workflow.IsRun(tool) || json.Unmarshal(input, &of) != nil || of.Name == "" {
		return ""
	}
	return runID(who.Owner(), session, call, of.Name)
}

func runID(owner, session, call, name string) string {
	return "run-" + digest(owner, session, call, name)
}

// foresight is how long those are kept waiting who are told beforehand that a call fails.
const foresight = 2 * time.Second

// Check returns why a workflow would not be run, with parameters, or deleted, without.
func (w *Workflows) Check(env tools.Env, name string, parameters json.RawMessage) error {
	ctx, done := context.WithTimeout(w.base, foresight)
	defer done()
	k, err := w.open(ctx)
	if err != nil {
		return err
	}
	if _, _, there := k.texts.Get(definitionKey(ownerOf(env), name)); !there {
		return w.none(k, env, name)
	}
	if parameters != nil {
		_, err = w.toRun(ctx, k, env, name, parameters)
	}
	return err
}

// CheckRun returns why there is no such run.
func (w *Workflows) CheckRun(env tools.Env, id string) error {
	ctx, done := context.WithTimeout(w.base, foresight)
	defer done()
	_, err := w.Find(ctx, env, id)
	return err
}

// toRun returns a run of a workflow as it is now, or why there is none.
func (w *Workflows) toRun(ctx context.Context, k *buckets, env tools.Env, name string, parameters json.RawMessage) (*head, error) {
	s, _, there := k.texts.Get(definitionKey(ownerOf(env), name))
	if !there {
		return nil, w.none(k, env, name)
	}
	_, others, err := w.read(ctx, k, env, name, s.Text)
	if err != nil {
		return nil, err
	}
	parsed, err := Parse(s.Text, World{})
	if err != nil {
		return nil, &tools.Failure{Code: "invalid_workflow", Message: err.Error()}
	}
	if len(parameters) == 0 {
		parameters = json.RawMessage("{}")
	}
	if parameters, err = parsed.parameters.Check(parameters); err != nil {
		return nil, &tools.Failure{Code: "invalid_parameters", Message: "The parameters of " + name + " do not fit: " + err.Error()}
	}
	return &head{
		Version: recordVersion, Workflow: name, Text: s.Text, Others: others, Parameters: parameters,
		Who: errand.Of(env), Session: env.SessionID, State: workflow.Running, Began: time.Now().UTC(),
	}, nil
}

// Start begins a run, of the workflow that has the digest where one is given.
func (w *Workflows) Start(ctx context.Context, env tools.Env, name string, parameters json.RawMessage, digest string) (workflow.Run, error) {
	k, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	id := runID(ownerOf(env), env.SessionID, cmp.Or(env.CallID, rand.Text()), name) // a call without an id is another one each time
	before, _, there := k.heads.Get(runKey(ownerOf(env), id))
	h, err := w.toRun(ctx, k, env, name, parameters)
	switch {
	case there && err == nil && h.Text == before.Text && !sameJSON(h.Parameters, before.Parameters):
		return nil, tools.Failf("call_id_was_used", "The call id %.64q began run %s of %s with other parameters: use a new call id for a new run.", env.CallID, id, name)
	case there:
		return &found{w, k, env, id}, nil
	}
	if err != nil {
		return nil, err
	}
	if digest != "" && digest != digestOf(h.Text, h.Others) {
		return nil, tools.Failf(workflow.ChangedCode, "The workflow %s, or one that it runs, is not the one that was meant: nothing was run.", name)
	}
	if err := w.room(k, env); err != nil {
		return nil, err
	}
	h.ID = id
	if h.SessionMade, err = w.options.Door.Made(ctx, h.Who, h.Session); err != nil {
		return nil, noSession(env, err)
	}
	text := encodeRecord(h)
	revision, err := k.runs.Create(ctx, h.key(), text, 0)
	if err != nil && !errors.Is(err, state.ErrConflict) {
		made, lost := k.runs.Get(ctx, h.key()) // it may have been made, and the answer lost
		if lost != nil || !bytes.Equal(made.Value, text) {
			return nil, unavailable(err)
		}
		revision, err = made.Revision, nil
	}
	if err == nil {
		k.heads.Note(h.key(), h, revision)
		w.carry(k, h, 0)
	}
	return &found{w, k, env, id}, nil
}

// room makes room for one more run of a principal, or says why there is none.
func (w *Workflows) room(k *buckets, env tools.Env) error {
	var ended []*head
	running := 0
	for _, key := range k.heads.Keys(runs + state.Key(ownerOf(env)) + "/") {
		h, _, there := k.heads.Get(key)
		switch {
		case !there:
		case h.State == workflow.Running:
			running++
		default:
			ended = append(ended, h)
		}
	}
	if running >= w.options.MaxRunning {
		return &tools.Failure{Code: "too_many_runs", Message: fmt.Sprintf("%d runs have not ended, which is as many as you may have: wait, or cancel some.", running), Retryable: true}
	}
	slices.SortFunc(ended, func(a, b *head) int { return a.Began.Compare(b.Began) })
	for len(ended) >= w.options.MaxKept {
		w.forget(k, ended[0])
		ended = ended[1:]
	}
	return nil
}

// forget removes a run that has ended.
func (w *Workflows) forget(k *buckets, h *head) {
	if k.runs.Delete(w.base, h.key(), 0) == nil {
		k.heads.Forget(h.key())
	}
}

// forgetSteps removes what is stored of the steps of a run that is gone.
func (w *Workflows) forgetSteps(id string) {
	k, err := w.open(w.base)
	if err != nil {
		return
	}
	steps, _ := loadSteps(w.base, k.runs, id) // or they go when their time is over
	for path := range steps {
		k.runs.Delete(w.base, stepKey(id, path), 0)
	}
}

// Find returns a run.
func (w *Workflows) Find(ctx context.Context, env tools.Env, id string) (workflow.Run, error) {
	k, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	if _, _, there := k.heads.Get(runKey(ownerOf(env), id)); there {
		return &found{w, k, env, id}, nil
	}
	return nil, noRun(id)
}

func noRun(id string) error {
	return tools.Failf("no_such_run", "There is no run %.64q: it was never yours, or it ended too long ago. workflow_get tells the runs of a workflow.", id)
}

// Runs returns the runs that are kept, the newest first.
func (w *Workflows) Runs(ctx context.Context, env tools.Env, name string) ([]workflow.Status, error) {
	k, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	var list []workflow.Status
	for _, key := range k.heads.Keys(runs + state.Key(ownerOf(env)) + "/") {
		if h, _, there := k.heads.Get(key); there && (name == "" || h.Workflow == name) {
			list = append(list, h.status())
		}
	}
	slices.SortFunc(list, func(a, b workflow.Status) int { return b.Began.Compare(a.Began) })
	return list, nil
}

func (h *head) status() workflow.Status {
	return workflow.Status{ID: h.ID, Workflow: h.Workflow, State: h.State, Step: h.Step, Code: h.Code, Reason: h.Reason, Began: h.Began, Ended: h.Ended, Result: h.Result, Pausing: h.State == workflow.Running && h.Want == workflow.Paused}
}
