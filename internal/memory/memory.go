// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory keeps what agents remember and what they were given to know: entries, and
// sources of documents, in namespaces of a principal or of a tenant. The truth is in
// [state]; each process has an index of the namespaces that are in use, made of it and kept
// up to date by a watch. Nothing of a namespace is told outside of it, also not by ranks or
// counts: each has an index of its own.
//
// Locks: Store.opening is held while the engine opens the buckets, and no other with it. Store.mu
// guards which namespaces are open, that of a space what is known of it, that of an [Ingestion] what
// was added: none of these is held while another is taken, or the engine or a model is asked.
//
// Goroutines: a namespace that is open has one that follows the state and one that loads
// sources, until it is idle or the store is closed. A call that has vectors made or texts stored
// waits for those that it began.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is the section "memory" of the configuration. Each bound is of one principal, and
// once more of what a tenant shares.
type Config struct {
	MaxEntries   int        `yaml:"max_entries"`   // memories; 100,000
	MaxBytes     size.Bytes `yaml:"max_bytes"`     // their text; 32 MiB
	MaxSources   int        `yaml:"max_sources"`   // of knowledge; 200
	MaxFiles     int        `yaml:"max_files"`     // of one source; 20,000
	MaxKnowledge size.Bytes `yaml:"max_knowledge"` // text of all sources; 128 MiB

	// Embeddings names the endpoint among models that makes vectors of texts; empty: what is
	// searched for is found by its words alone.
	Embeddings string `yaml:"embeddings"`
}

// WithDefaults returns the section with what is not set filled in.
func (c Config) WithDefaults() Config {
	c.MaxEntries = cmp.Or(c.MaxEntries, 100_000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 32<<20)
	c.MaxSources = cmp.Or(c.MaxSources, 200)
	c.MaxFiles = cmp.Or(c.MaxFiles, 20_000)
	c.MaxKnowledge = cmp.Or(c.MaxKnowledge, 128<<20)
	return c
}

// Check tells what is wrong with the section. Names are those of the models.
func (c *Config) Check(names []string, fault func(key, format string, args ...any)) {
	for key, bound := range map[string]struct{ n, most int64 }{
		"max_entries": {int64(c.MaxEntries), 1_000_000}, "max_bytes": {int64(c.MaxBytes), 256 << 20}, "max_sources": {int64(c.MaxSources), 10_000},
		"max_files": {int64(c.MaxFiles), 1_000_000}, "max_knowledge": {int64(c.MaxKnowledge), 1 << 30},
	} {
		if bound.n < 1 || bound.n > bound.most {
			fault("memory."+key, "%d is out of bounds: want 1 to %d", bound.n, bound.most)
		}
	}
	if c.Embeddings != "" && !slices.Contains(names, c.Embeddings) {
		fault("memory.embeddings", "there is no model named %.64q among models", c.Embeddings)
	}
}

// Options are what a store works with.
type Options struct {
	Config

	// Engine opens the state, when it is first needed. Lasting says that it outlives the
	// process.
	Engine  func(context.Context) (state.Engine, error)
	Lasting bool

	// Mask takes secrets out of what is stored.
	Mask func(text string) string

	// Embed makes vectors of texts, and Model names what makes them; nil: nobody does.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
	Model string

	Logger *zap.Logger
}

// A Store keeps memories and knowledge. It is safe for concurrent use. Nothing is opened
// before it is first used.
type Store struct {
	options Options
	ctx     context.Context // of what goes on beside calls
	stop    context.CancelFunc
	work    sync.WaitGroup

	opening sync.Mutex
	entries state.KV // memories and manifests of sources
	packs   state.KV // texts of sources

	mu     sync.Mutex
	spaces map[string]*space // that are open, by their prefixes
	closed bool
}

// Where the truth is, and how much of it there may be of all namespaces.
var (
	entriesSpace = state.Space{Name: "memory", MaxBytes: 256 << 20}
	packsSpace   = state.Space{Name: "knowledge", MaxBytes: 1 << 30}
)

const (
	maxOpen  = 64               // namespaces whose index is kept
	idleTime = 15 * time.Minute // after which it is forgotten
)

// New returns a store.
func New(o Options) *Store {
	o.Config = o.Config.WithDefaults()
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Mask == nil {
		o.Mask = func(text string) string { return text }
	}
	s := &Store{options: o, spaces: make(map[string]*space)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Lasting reports whether what is stored outlives the process.
func (s *Store) Lasting() bool { return s.options.Lasting }

// MaxFiles is how many files a source may have.
func (s *Store) MaxFiles() int { return s.options.MaxFiles }

// Close ends what goes on beside calls.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	return nil
}

// Who is whose memory is meant: a principal of a tenant or, where it acts for somebody, that
// user of it.
type Who struct{ Tenant, Principal, User string }

// WhoOf returns whose memory a call is about.
func WhoOf(env tools.Env) Who {
	who := Who{env.Tenant, env.Principal, env.OnBehalfOf}
	if who.User == who.Principal { // an agent, which acts for its owner
		who.User = ""
	}
	return who
}

// A Scope is who has what is kept.
type Scope string

const (
	OfSession   Scope = "session" // kept with the session, see [Options.Engine]
	OfPrincipal Scope = "principal"
	OfTenant    Scope = "tenant"
)

// prefix begins the keys of a namespace. No prefix begins another one.
func (w Who) prefix(scope Scope) string {
	if scope == OfTenant {
		return state.Key("t"+w.Tenant, "shared") + "/"
	}
	return state.Key("t"+w.Tenant, "p"+w.Principal, "u"+w.User) + "/"
}

func (s *Store) buckets() (err error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.packs != nil {
		return nil
	}
	if s.options.Engine == nil {
		return tools.Failf("not_kept", "This server keeps no memory.")
	}
	engine, err := s.options.Engine(s.ctx)
	if err != nil {
		return unavailable(err)
	}
	if s.entries, err = engine.KV(s.ctx, entriesSpace); err != nil {
		return unavailable(err)
	}
	packs, err := engine.KV(s.ctx, packsSpace)
	if err != nil {
		return unavailable(err)
	}
	s.packs = packs
	return nil
}

// open returns a namespace, with its index.
func (s *Store) open(who Who, scope Scope) (*space, error) {
	if err := s.buckets(); err != nil {
		return nil, err
	}
	prefix := who.prefix(scope)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, unavailable(errors.New("the server is being stopped"))
	}
	sp := s.spaces[prefix]
	if sp == nil {
		s.makeRoom()
		sp = newSpace(s, prefix)
		s.spaces[prefix] = sp
		s.work.Go(sp.follow)
		s.work.Go(sp.load)
	}
	sp.used = time.Now()
	sp.idle.Reset(idleTime)
	return sp, nil
}

// makeRoom closes the namespace that was not used for longest where too many are open.
func (s *Store) makeRoom() {
	if len(s.spaces) < maxOpen {
		return
	}
	var oldest *space
	for _, sp := range s.spaces {
		if oldest == nil || sp.used.Before(oldest.used) {
			oldest = sp
		}
	}
	s.forget(oldest)
}

func (s *Store) forget(sp *space) {
	sp.idle.Stop()
	sp.stop()
	delete(s.spaces, sp.prefix)
}

// catchUp is how long a call waits for an index to be complete.
const catchUp = 2 * time.Second

// ready returns a namespace, and whether it is complete by now, with or without parts.
func (s *Store) ready(ctx context.Context, who Who, scope Scope, parts bool, patience time.Duration) (*space, bool, error) {
	sp, err := s.open(who, scope)
	if err != nil {
		return nil, false, err
	}
	complete, err := sp.wait(ctx, parts, patience)
	return sp, complete, err
}

// whole is ready for those who need all of a namespace.
func (s *Store) whole(ctx context.Context, who Who, scope Scope, parts bool) (*space, error) {
	sp, complete, err := s.ready(ctx, who, scope, parts, 30*time.Second)
	if err == nil && !complete {
		err = unavailable(errors.New("what is kept is still being read"))
	}
	return sp, err
}

func unavailable(err error) error {
	f := &tools.Failure{Code: "memory_unavailable", Retryable: true, Message: fmt.Sprintf("Memory and knowledge cannot be used now: %v. Try again later.", state.Brief(err))}
	if errors.Is(err, state.ErrFull) {
		f.Code, f.Retryable = "memory_full", false
		f.Message = "The server has no room for more memory and knowledge of anybody: forget what is not needed, or tell the operator."
	}
	return f
}
