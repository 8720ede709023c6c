// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package index keeps workspaces in memory that are searched often: their
// directories, what ignore files say, texts, and which texts may have what. What
// it tells is always what reading the files would: it hears from the kernel what
// has changed. Search needs it for nothing but speed.
//
// Locks: that of a [Pool] comes before those of its indexes. Of an [Index], known comes before mu,
// and before that of the writers, which all indexes of a pool share.
//
// Goroutines: an index that keeps a workspace has one that sees whether others run short, and
// at most one for what goes on in the background. Close ends them, and waits.
package index

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Config is the section "search" of the configuration: how much is kept in memory. Zero
// fields take the defaults named.
type Config struct {
	// MaxText is how many bytes of text are kept, of all workspaces of a pool
	// together; 256 MiB.
	MaxText size.Bytes `yaml:"max_text"`

	// MaxIndex is how many bytes their indexes may take, of all workspaces of a
	// pool together; 64 MiB. Text without an index is looked through.
	MaxIndex size.Bytes `yaml:"max_index"`

	// IdleAfter is how long a workspace is kept in memory that is not searched;
	// twenty seconds.
	IdleAfter time.Duration `yaml:"idle_after"`

	// KernelShare is the part of the kernel's limits that is used to keep workspaces
	// in memory: one in so many of the inotify watches and instances of the user,
	// and of the files that this process may have open; 8. All of it is given back
	// when others run short.
	KernelShare int `yaml:"kernel_share"`
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	return Config{
		MaxText:     cmp.Or(c.MaxText, 256<<20),
		MaxIndex:    cmp.Or(c.MaxIndex, 64<<20),
		IdleAfter:   cmp.Or(c.IdleAfter, 20*time.Second),
		KernelShare: cmp.Or(c.KernelShare, 8),
	}
}

// warmAfter is how many searches make it worth to keep a workspace in memory.
const warmAfter = 2

const (
	// attention is how long after a search files that others open are looked at
	// without waiting for the next one.
	attention = 30 * time.Second

	// maxChecks is how often, in the mean, a file is looked at for that.
	maxChecks = 8

	// soon and late are how long it takes to look at them, when many are opened and
	// when none are.
	soon, late = 5 * time.Millisecond, 40 * time.Millisecond
)

// An Index keeps one workspace. Its methods are safe for concurrent use.
type Index struct {
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
	yields   bool      // it is tried whether others run short
	retreat  time.Time // until when nothing is kept, since others ran short
	refused  bool      // the workspace cannot be kept in memory
	timer    *time.Timer

	attentive bool // files that are opened are looked at
	until     time.Time
	checks    int // how many of them may be, until the next search

	// tree is nil while nothing is kept. It is changed with known locked, and
	// read with known locked for reading.
	known sync.RWMutex
	tree  *Tree
}

// New returns an index of a workspace, which must outlive it. Close it after use.
func New(ws *workspace.Workspace, config Config) *Index {
	return newIndex(ws, config, newShared(config))
}

func newIndex(ws *workspace.Workspace, config Config, with *shared) *Index {
	x := &Index{ws: ws, idle: config.WithDefaults().IdleAfter, shared: with}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// Close ends what goes on in the background and drops what is kept in memory.
func (x *Index) Close() {
	x.mu.Lock()
	x.closed = true
	if x.timer != nil {
		x.timer.Stop()
	}
	x.mu.Unlock()
	x.cancel()
	x.tasks.Wait()
	x.Drop()
}

// rest drops what was kept, and gives the memory back: a process that rests has
// no other reason to.
func (x *Index) rest() {
	_, kept, index := x.Memory()
	x.Drop()
	if kept+index > freeFrom {
		debug.FreeOSMemory()
	}
}

// freeFrom is how much memory is given back at once.
const freeFrom = 8 << 20

// Drop forgets what is kept in memory.
func (x *Index) Drop() {
	x.mu.Lock()
	x.searches = 0
	x.mu.Unlock()
	x.known.Lock()
	defer x.known.Unlock()
	x.forget()
}

// forget is called with known locked.
func (x *Index) forget() {
	if x.tree != nil {
		x.tree.forget()
		x.tree = nil
	}
}

// Warm reads the workspace into memory, unless it is there. It does nothing
// where that cannot be done.
func (x *Index) Warm(ctx context.Context) error {
	x.known.RLock()
	warm := x.tree != nil
	x.known.RUnlock()
	x.mu.Lock()
	refused := x.refused || x.closed || time.Now().Before(x.retreat)
	x.mu.Unlock()
	if warm || refused {
		return nil
	}
	m, err := remember(ctx, x.ws, x.shared)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		x.mu.Lock()
		x.refused = x.refused || errors.Is(err, errCold)
		x.mu.Unlock()
		if errors.Is(err, errShort) {
			x.giveBack()
		}
		return nil
	}
	x.known.Lock()
	x.forget()
	x.tree = m
	x.known.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touch()
	if !x.yields && !x.closed {
		x.yields = true
		x.tasks.Go(x.yieldToOthers)
	}
	return nil
}

const (
	// yieldEvery is how often it is tried whether others run short, and retreatFor is
	// how long nothing is kept after that.
	yieldEvery = 250 * time.Millisecond
	retreatFor = time.Minute
)

// yieldToOthers gives everything back when others run short, and ends when nothing is kept.
func (x *Index) yieldToOthers() {
	for {
		select {
		case <-x.ctx.Done():
			return
		case <-time.After(yieldEvery):
		}
		x.known.RLock()
		x.mu.Lock()
		x.yields = x.tree != nil
		yields := x.yields
		x.mu.Unlock()
		x.known.RUnlock()
		if !yields {
			return
		}
		if x.shared.limits.runsShort() {
			x.giveBack()
		}
	}
}

// giveBack drops what is kept, and keeps nothing for a while.
func (x *Index) giveBack() {
	x.mu.Lock()
	x.retreat = time.Now().Add(retreatFor)
	x.mu.Unlock()
	x.rest()
}

// Memory tells what is kept: the bytes of text there are, those of them that are
// in memory, and those of the index.
func (x *Index) Memory() (text, kept, index int64) {
	x.known.RLock()
	defer x.known.RUnlock()
	if x.tree == nil {
		return 0, 0, 0
	}
	for _, f := range x.tree.Order {
		text += int64(f.Length)
		kept += int64(len(f.Text))
	}
	for _, s := range x.tree.segments {
		index += int64(s.size())
	}
	return text, kept, index
}

// count counts a search, and begins to keep the workspace in memory when it is
// worth it; warm says that it is kept.
func (x *Index) count(warm bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touch()
	if warm || x.refused || time.Now().Before(x.retreat) {
		return
	}
	x.last = time.Now()
	if x.searches++; x.searches == warmAfter {
		x.background(x.warmSoon)
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
func (x *Index) warmSoon() {
	for {
		x.mu.Lock()
		wait := time.Until(x.last.Add(quiet))
		if x.searches >= eagerAfter {
			wait = 0
		}
		x.mu.Unlock()
		if wait <= 0 {
			break
		}
		select {
		case <-x.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	_ = x.Warm(x.ctx)
}

// touch puts off the time when the engine is idle. It is called with mu locked.
func (x *Index) touch() {
	switch {
	case x.closed:
	case x.timer == nil:
		x.timer = time.AfterFunc(x.idle, x.rest)
	default:
		x.timer.Reset(x.idle)
	}
}

// background runs a task unless one runs already. It is called with mu locked.
func (x *Index) background(task func()) {
	if x.busy || x.closed {
		return
	}
	x.busy = true
	x.tasks.Go(func() {
		defer func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.busy = false
		}()
		task()
	})
}

// Search calls search with what is known, brought up to date: the names, and the
// texts if these matter. It returns false where nothing is known, or search does.
// It counts how often it is called, and keeps a workspace that is searched often.
func (x *Index) Search(ctx context.Context, texts bool, search func(*Tree) bool) (ok bool, err error) {
	x.known.Lock()
	m := x.tree
	if m != nil {
		err = m.sync(ctx, texts)
		if err != nil && ctx.Err() == nil { // it is of no use any more
			x.forget()
			m, err = nil, nil
			x.again()
		}
	}
	x.known.Unlock()
	x.count(m != nil)
	if m == nil || err != nil {
		return false, err
	}
	stale, files := false, 0
	ok = func() bool {
		x.known.RLock()
		defer x.known.RUnlock()
		if x.tree == nil {
			return false
		}
		stale, files = x.tree.stale(), len(x.tree.Order)
		return search(x.tree)
	}()
	if ok {
		x.tidy(stale, files)
	}
	return ok, nil
}

// again lets the workspace be read into memory once more.
func (x *Index) again() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.searches = 0
}

// tidy sees after a search to what can be done without anybody waiting for it.
func (x *Index) tidy(stale bool, files int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until, x.checks = time.Now().Add(attention), maxChecks*files
	if !x.attentive && !x.closed {
		x.attentive = true
		x.tasks.Go(x.attend)
	}
	if stale {
		x.background(x.renew)
	}
}

// attend looks for a while at files that others open, so that the next search
// need not, and closes those that are kept open when that is over. It has a limit:
// to look is to open, and another server may look for that reason, which opens
// again.
func (x *Index) attend() {
	for pause := late; ; {
		select {
		case <-x.ctx.Done():
		case <-time.After(pause):
		}
		x.mu.Lock()
		checks := x.checks
		if x.attentive = x.ctx.Err() == nil && checks > 0 && time.Now().Before(x.until); !x.attentive {
			x.mu.Unlock()
			x.shut()
			return
		}
		x.mu.Unlock()
		checked := 0
		for n := -1; n != 0 && checked < checks; checked += n {
			n = x.checkSome()
		}
		if pause = min(2*pause, late); checked > 0 {
			pause = soon
		}
		x.mu.Lock()
		x.checks -= checked
		x.mu.Unlock()
	}
}

// checkSome looks at some of the files that were opened, and returns how many.
func (x *Index) checkSome() int {
	if !x.known.TryLock() {
		return 0 // a search looks at what it opens itself
	}
	defer x.known.Unlock()
	if x.tree == nil {
		return 0
	}
	return x.tree.checkSome(x.ctx)
}

// shut closes the files that are kept open.
func (x *Index) shut() {
	x.known.Lock()
	defer x.known.Unlock()
	if x.tree != nil {
		x.tree.shutAll()
	}
}

// renew reads the workspace into memory again.
func (x *Index) renew() {
	x.known.Lock()
	x.forget()
	x.known.Unlock()
	_ = x.Warm(x.ctx)
}
