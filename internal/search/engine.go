// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/workspace"
)

// Config says how much is kept in memory. Zero fields take the defaults named.
type Config struct {
	// MaxText is how many bytes of text are kept, of all workspaces of a pool
	// together; 256 MiB. Negative: nothing is kept in memory, and every search
	// reads files.
	MaxText int64

	// MaxIndex is how many bytes their indexes may take, of all workspaces of a
	// pool together; 64 MiB. Text without an index is looked through.
	MaxIndex int64

	// IdleAfter is how long a workspace is kept in memory that is not searched;
	// twenty seconds.
	IdleAfter time.Duration

	// KernelShare is the part of the kernel's limits that is used to keep workspaces
	// in memory: one in so many of the inotify watches and instances of the user,
	// and of the files that this process may have open; 8. All of it is given back
	// when others run short.
	KernelShare int
}

// warmAfter is how many searches make it worth to keep a workspace in memory.
const warmAfter = 2

const (
	// attention is how long after a search files that others open are looked at
	// without waiting for the next one.
	attention = 30 * time.Second

	// maxLooks is how often, in the mean, a file is looked at for that.
	maxLooks = 8

	// soon and late are how long it takes to look at them, when many are opened and
	// when none are.
	soon, late = 5 * time.Millisecond, 40 * time.Millisecond
)

// An Engine searches one workspace. Its methods are safe for concurrent use.
type Engine struct {
	ws     *workspace.Workspace
	idle   time.Duration
	shared *shared

	ctx    context.Context // of what goes on in the background
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	searches int
	last     time.Time // when the last search began
	busy     bool      // something goes on in the background
	guarded  bool      // it is watched whether others run short
	retreat  time.Time // until when nothing is kept, since others ran short
	refused  bool      // the workspace cannot be kept in memory
	changed  bool      // what is kept has changed since it was tidied
	timer    *time.Timer

	attentive bool // files that are opened are looked at
	until     time.Time
	looks     int // how many of them may be, until the next search

	// memory is nil while nothing is kept. It is changed with known locked, and
	// read with known locked for reading.
	known  sync.RWMutex
	memory *memory
}

// New returns an engine for a workspace, which must outlive it. Close it after
// use.
func New(ws *workspace.Workspace, config Config) *Engine {
	return newEngine(ws, config, newShared(config))
}

func newEngine(ws *workspace.Workspace, config Config, with *shared) *Engine {
	e := &Engine{ws: ws, idle: cmp.Or(config.IdleAfter, 20*time.Second), shared: with, refused: with.text.max < 0}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Close ends what goes on in the background and drops what is kept in memory.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
	e.mu.Unlock()
	e.cancel()
	e.tasks.Wait()
	e.Drop()
}

// rest drops what was kept, and gives the memory back: a process that rests has
// no other reason to.
func (e *Engine) rest() {
	_, kept, index := e.Memory()
	e.Drop()
	if kept+index > freeFrom {
		debug.FreeOSMemory()
	}
}

// freeFrom is how much memory is given back at once.
const freeFrom = 8 << 20

// Drop forgets what is kept in memory.
func (e *Engine) Drop() {
	e.mu.Lock()
	e.searches = 0
	e.mu.Unlock()
	e.known.Lock()
	defer e.known.Unlock()
	e.forget()
}

// forget is called with known locked.
func (e *Engine) forget() {
	if e.memory != nil {
		e.memory.forget()
		e.memory = nil
	}
}

// Warm reads the workspace into memory, unless it is there. It does nothing
// where that cannot be done.
func (e *Engine) Warm(ctx context.Context) error {
	e.known.RLock()
	warm := e.memory != nil
	e.known.RUnlock()
	e.mu.Lock()
	refused := e.refused || e.closed || time.Now().Before(e.retreat)
	e.mu.Unlock()
	if warm || refused {
		return nil
	}
	m, err := (*memory)(nil), errShort
	if !e.shared.limits.runsShort() {
		m, err = remember(ctx, e.ws, e.shared)
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		e.mu.Lock()
		e.refused = e.refused || errors.Is(err, errCold)
		e.mu.Unlock()
		if errors.Is(err, errShort) {
			e.giveBack()
		}
		return nil
	}
	e.known.Lock()
	e.forget()
	e.memory = m
	e.known.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touch()
	if !e.guarded && !e.closed {
		e.guarded = true
		e.tasks.Go(e.guard)
	}
	return nil
}

const (
	// guardEvery is how often it is tried whether others run short, and retreatFor is
	// how long nothing is kept after that.
	guardEvery = 250 * time.Millisecond
	retreatFor = time.Minute
)

// guard gives everything back when others run short, and ends when nothing is kept.
func (e *Engine) guard() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(guardEvery):
		}
		e.known.RLock()
		e.mu.Lock()
		e.guarded = e.memory != nil
		guarded := e.guarded
		e.mu.Unlock()
		e.known.RUnlock()
		if !guarded {
			return
		}
		if e.shared.limits.runsShort() {
			e.giveBack()
		}
	}
}

// giveBack drops what is kept, and keeps nothing for a while.
func (e *Engine) giveBack() {
	e.mu.Lock()
	e.retreat = time.Now().Add(retreatFor)
	e.mu.Unlock()
	e.rest()
}

// Memory tells what is kept: the bytes of text there are, those of them that are
// in memory, and those of the index.
func (e *Engine) Memory() (text, kept, index int64) {
	e.known.RLock()
	defer e.known.RUnlock()
	if e.memory == nil {
		return 0, 0, 0
	}
	for _, f := range e.memory.order {
		text += int64(f.length)
		kept += int64(len(f.text))
	}
	for _, s := range e.memory.segments {
		index += int64(s.size())
	}
	return text, kept, index
}

// use counts a search, and begins to keep the workspace in memory when it is
// worth it.
func (e *Engine) use(answerable bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touch()
	if !answerable || e.refused || time.Now().Before(e.retreat) {
		return
	}
	e.last = time.Now()
	if e.searches++; e.searches == warmAfter {
		e.background(e.warmSoon)
	}
}

// quiet is how long no search may have begun before the workspace is read into
// memory, which would take the processors from one that comes right after another;
// eagerAfter is how many searches need not wait for that.
const (
	quiet      = 2 * time.Second
	eagerAfter = warmAfter + 8
)

// warmSoon reads the workspace into memory when it is quiet.
func (e *Engine) warmSoon() {
	for {
		e.mu.Lock()
		wait := time.Until(e.last.Add(quiet))
		if e.searches >= eagerAfter {
			wait = 0
		}
		e.mu.Unlock()
		if wait <= 0 {
			break
		}
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	_ = e.Warm(e.ctx)
}

// touch puts off the time when the engine is idle. It is called with mu locked.
func (e *Engine) touch() {
	switch {
	case e.closed:
	case e.timer == nil:
		e.timer = time.AfterFunc(e.idle, e.rest)
	default:
		e.timer.Reset(e.idle)
	}
}

// background runs a task unless one runs already. It is called with mu locked.
func (e *Engine) background(task func()) {
	if e.busy || e.closed {
		return
	}
	e.busy = true
	e.tasks.Go(func() {
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.busy = false
		}()
		task()
	})
}

// warm calls search with what is kept in memory, brought up to date: the names,
// and the texts if these matter. It returns false where nothing is, or search
// does.
func (e *Engine) warm(ctx context.Context, texts bool, search func(*memory) bool) (ok bool, err error) {
	e.known.Lock()
	m := e.memory
	if m != nil {
		err = m.sync(ctx, texts)
		if err != nil && ctx.Err() == nil { // it is of no use any more
			e.forget()
			m, err = nil, nil
			e.again()
		}
	}
	e.known.Unlock()
	if m == nil || err != nil {
		return false, err
	}
	e.known.RLock()
	defer e.known.RUnlock()
	if e.memory == nil {
		return false, nil
	}
	return search(e.memory), nil
}

// again lets the workspace be read into memory once more.
func (e *Engine) again() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.searches = 0
}

// tidy sees after a search to what can be done without anybody waiting for it.
func (e *Engine) tidy(changed bool, files int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until, e.looks = time.Now().Add(attention), maxLooks*files
	if !e.attentive && !e.closed {
		e.attentive = true
		e.tasks.Go(e.attend)
	}
	if e.changed = e.changed || changed; e.changed && !e.busy {
		e.changed = false
		e.background(e.reindex)
	}
}

// attend looks for a while at files that others open, so that the next search
// need not, and closes those that are kept open when that is over. It has a limit:
// to look is to open, and another server may look for that reason, which opens
// again.
func (e *Engine) attend() {
	for pause := late; ; {
		select {
		case <-e.ctx.Done():
		case <-time.After(pause):
		}
		e.mu.Lock()
		looks := e.looks
		if e.attentive = e.ctx.Err() == nil && looks > 0 && time.Now().Before(e.until); !e.attentive {
			e.mu.Unlock()
			e.shut()
			return
		}
		e.mu.Unlock()
		looked := 0
		for n := -1; n != 0 && looked < looks; looked += n {
			n = e.lookAtSome()
		}
		if pause = min(2*pause, late); looked > 0 {
			pause = soon
		}
		e.mu.Lock()
		e.looks -= looked
		e.mu.Unlock()
	}
}

// lookAtSome looks at some of the files that were opened, and returns how many.
func (e *Engine) lookAtSome() int {
	if !e.known.TryLock() {
		return 0 // a search looks at what it opens itself
	}
	defer e.known.Unlock()
	if e.memory == nil {
		return 0
	}
	return e.memory.lookAtSome(e.ctx)
}

// shut closes the files that are kept open.
func (e *Engine) shut() {
	e.known.Lock()
	defer e.known.Unlock()
	if e.memory != nil {
		e.memory.shutAll()
	}
}

// reindex makes an index of text that has none.
func (e *Engine) reindex() {
	e.known.Lock()
	m := e.memory
	var list []snapshot
	if m != nil {
		list = m.unindexed()
	}
	e.known.Unlock()
	segments := index(e.ctx, list)
	if segments == nil {
		return
	}
	e.known.Lock()
	defer e.known.Unlock()
	if e.memory != m {
		return
	}
	for _, s := range segments {
		m.adopt(s)
	}
}

// Grep finds lines and calls yield for every file that has some, in order: the
// files of a directory by name, and then its directories. It ends early when
// yield returns false. When ctx is done it returns its cause, after yield was
// given what was found until then.
func (e *Engine) Grep(ctx context.Context, p Pattern, s Scope, o Options, yield func(File) bool) (Summary, error) {
	q, err := p.compile()
	if err != nil {
		return Summary{}, err
	}
	c, err := s.compile()
	if err != nil {
		return Summary{}, err
	}
	if e.use(c.answerable()); !c.answerable() {
		return grepCold(ctx, e.ws, q, c, o, yield)
	}
	var parts []output
	var sum Summary
	var failed error
	changed, known := false, 0
	ok, err := e.warm(ctx, true, func(m *memory) (ok bool) {
		changed, known = m.changed, len(m.order)
		parts, sum, ok, failed = m.grep(ctx, q, c, o)
		return ok
	})
	if err != nil {
		return sum, err
	}
	if !ok {
		return grepCold(ctx, e.ws, q, c, o, yield)
	}
	e.tidy(changed, known)
	taken := newLimit(o, yield)
	for i := range parts {
		if !parts[i].each(taken.yield) {
			break
		}
	}
	return sum, failed
}

// Glob finds files. When ctx is done it returns what was found until then, with
// its cause.
func (e *Engine) Glob(ctx context.Context, s Scope, order Order) ([]File, Summary, error) {
	c, err := s.compile()
	if err != nil {
		return nil, Summary{}, err
	}
	if e.use(c.answerable()); !c.answerable() {
		return globCold(ctx, e.ws, c, order)
	}
	var files []File
	var sum Summary
	changed, known := false, 0
	ok, err := e.warm(ctx, order == ByTime || c.MaxSize > 0, func(m *memory) (ok bool) {
		changed, known = m.changed, len(m.order)
		files, sum, ok = m.glob(c, order)
		return ok
	})
	if err != nil {
		return nil, sum, err
	}
	if !ok {
		return globCold(ctx, e.ws, c, order)
	}
	e.tidy(changed, known)
	return files, sum, nil
}
