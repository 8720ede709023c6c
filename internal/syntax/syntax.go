// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package syntax knows what source code is made of, without running or building
// it: the symbols of a file and of a workspace, and where code has a shape. It
// works on trees that toolserver-syntax makes of texts, with tree-sitter, in
// processes of the sandbox that are given the text and see nothing else. Such a
// process may crash on a hostile text; it is of one workspace, and is replaced.
//
// Answers are true to the files as they are: the symbols of a file are those of
// its text, and that is known by [index] or, where the workspace is not kept in
// memory, by reading it.
//
// Locks: that of a [Pool] guards which engines there are. That of symbols guards what is kept of
// files, that of parsers the processes that wait, that of the outlines these. None is held while
// another is taken, or while a process is asked.
//
// Goroutines: an engine has one while files are parsed for nobody, until the engine is closed; what
// a call has parsed at the same time, it waits for.
package syntax

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/search/plain"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Config is the section "syntax" of the configuration: how source code is parsed.
type Config struct {
	// Program is the path of toolserver-syntax; empty: it is looked for beside the
	// server.
	Program string `yaml:"program"`

	// MaxIndex is how many bytes the symbols of all workspaces together may take in
	// memory; 64 MiB. Those that do not fit are found by parsing again.
	MaxIndex size.Bytes `yaml:"max_index"`
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.MaxIndex = cmp.Or(c.MaxIndex, 64<<20)
	return c
}

// symbolsIdle is how long symbols are kept that nobody asks for.
const symbolsIdle = 10 * time.Minute

// A Pool has an engine for every workspace, until the workspace is closed. Its
// methods are safe for concurrent use.
type Pool struct {
	config  Config
	sandbox *sandbox.Sandbox
	indexes *index.Pool // nil: nothing is known of changes, and files are read
	search  *search.Pool
	alive   atomic.Int64 // processes
	memory  atomic.Int64 // bytes of symbols
	cpu     atomic.Int64 // nanoseconds of processes that have ended

	mu      sync.Mutex
	engines map[*workspace.Workspace]*Engine
}

// NewPool returns a pool. It needs no end of its own. indexes may be nil.
func NewPool(config Config, jails *sandbox.Sandbox, indexes *index.Pool, engines *search.Pool) *Pool {
	return &Pool{config: config.WithDefaults(), sandbox: jails, indexes: indexes, search: engines, engines: make(map[*workspace.Workspace]*Engine)}
}

// Memory tells how many bytes the symbols of all workspaces take.
func (p *Pool) Memory() int64 { return p.memory.Load() }

// CPU tells what processes that have ended have used.
func (p *Pool) CPU() time.Duration { return time.Duration(p.cpu.Load()) }

// Available reports whether there is a program that parses.
func (p *Pool) Available() bool { return p != nil && p.config.Program != "" }

// Engine returns the engine of a workspace.
func (p *Pool) Engine(ws *workspace.Workspace) *Engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.engines[ws]
	if e != nil {
		return e
	}
	e = newEngine(p, ws)
	if ws.AtClose(func() { p.end(ws) }) {
		p.engines[ws] = e
	}
	return e
}

func (p *Pool) end(ws *workspace.Workspace) {
	p.mu.Lock()
	e := p.engines[ws]
	delete(p.engines, ws)
	p.mu.Unlock()
	e.close()
}

// An Engine knows the source code of one workspace. Its methods are safe for
// concurrent use.
type Engine struct {
	pool    *Pool
	ws      *workspace.Workspace
	index   *index.Index // nil where there is none
	search  *search.Engine
	parsers *parsers // for those who wait
	quiet   *parsers // for what goes on in the background
	symbols symbols
	recent  recent
}

func newEngine(p *Pool, ws *workspace.Workspace) *Engine {
	cpus := runtime.GOMAXPROCS(0)
	e := &Engine{
		pool: p, ws: ws, search: p.search.Engine(ws),
		parsers: newParsers(p, min(cpus, 4), false), quiet: newParsers(p, max(1, min(cpus/2, 4)), true),
	}
	if p.indexes != nil {
		e.index = p.indexes.Index(ws)
	}
	e.symbols.init(&p.memory, int64(p.config.MaxIndex))
	return e
}

func (e *Engine) close() {
	e.symbols.close()
	e.parsers.close()
	e.quiet.close()
}

// An Outline is the symbols of a file.
type Outline struct {
	Language string
	Lines    int
	Symbols  []Symbol
	Flawed   bool // some of the text does not parse, so that symbols may be missing
}

// Outline returns the symbols of a text that is or will be in a file. They must not
// be changed.
func (e *Engine) Outline(ctx context.Context, path string, text []byte) (Outline, error) {
	l := languageOf(path, text)
	if l == nil {
		return Outline{}, fmt.Errorf("%w: %s", ErrLanguage, path)
	}
	sum := e.symbols.sum(text)
	if o, ok := e.recent.get(l.name, sum); ok {
		return o, nil
	}
	t, err := e.parsers.skim(ctx, l, text)
	if err != nil {
		return Outline{}, err
	}
	o := Outline{Language: l.name, Lines: len(linesOf(text)), Symbols: t.outline(true), Flawed: t.flawed()}
	e.recent.put(sum, o)
	return o, nil
}

// recent keeps the outlines of a few texts: who looks at a file looks at it again.
type recent struct {
	mu   sync.Mutex
	list []recentOutline // the oldest first
}

type recentOutline struct {
	sum uint64
	Outline
}

// What is kept of outlines.
const (
	maxRecent        = 16
	maxRecentSymbols = 2000 // of one
)

func (r *recent) get(language string, sum uint64) (Outline, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if o := &r.list[i]; o.sum == sum && o.Language == language {
			return o.Outline, true
		}
	}
	return Outline{}, false
}

func (r *recent) put(sum uint64, o Outline) {
	if len(o.Symbols) > maxRecentSymbols {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list = append(r.list, recentOutline{sum, o}); len(r.list) > maxRecent {
		r.list = append(r.list[:0], r.list[1:]...)
	}
}

// Read returns the text of a file as UTF-8.
func (e *Engine) Read(path string) ([]byte, error) {
	f, err := e.ws.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size := f.Info().Size; size > MaxText {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are the most", ErrLimit, size, MaxText)
	}
	raw, err := io.ReadAll(io.LimitReader(f, MaxText))
	if err != nil {
		return nil, err
	}
	text := plain.Text(raw, nil)
	if plain.IsBinary(text) {
		return nil, ErrBinary
	}
	return text, nil
}
