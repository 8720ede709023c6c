// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/search/ignore"
	"github.com/toolserver/toolserver/internal/search/workers"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A walk goes through a tree with several workers. What they find is delivered
// in order: the files of a directory by name, and then its directories.
type walk struct {
	ws      *workspace.Workspace
	scope   *chooser
	workers int

	// newWorker returns a function that looks at one file and adds what it finds
	// to an output. Each worker has its own.
	newWorker func() visitor

	// deliver takes outputs, one at a time and in order. Where it returns false the
	// walk ends.
	deliver func(*output) bool

	mu       sync.Mutex
	wake     sync.Cond
	queue    pieces   // waiting for a worker
	order    []*piece // what is to be delivered, the next one last
	active   int      // pieces that workers have
	waiting  int      // bytes of outputs that wait for others before them
	handing  bool     // somebody delivers
	stopped  bool
	problems problems
}

// A visitor looks at a file.
type visitor func(ctx context.Context, d *workspace.Dir, f target, out *output) error

// A target is a file to look at.
type target struct {
	path  string // by which it is told
	name  string // in the directory
	plain bool   // it was listed as a file, on a file system that reads all there is at once
}

// A piece is work for one worker: a directory to go through, or files of one
// that was gone through.
type piece struct {
	key   string // sorts pieces in the order of delivery
	path  string
	real  string // where it is, which differs from path below a link
	depth int
	rules ignore.Patterns
	dir   *workspace.Dir // of files; nil before the directory was opened
	local bool           // it is on a file system of this machine
	files []entry

	out  output
	next []*piece // what comes after it
	done bool
}

// An entry is a name in a directory that is meant.
type entry struct {
	name string
	path string
	real string // where a link leads; empty for what is no link
}

const (
	// chunk is how many files a worker takes at once.
	chunk = 64

	// maxWaiting is how many bytes may wait to be delivered.
	maxWaiting = 16 << 20
)

// problems are what could not be looked at.
type problems struct {
	count int
	first string
}

func (p *problems) add(path string, err error) {
	if p.count++; p.count == 1 {
		p.first = path + ": " + err.Error()
	}
}

// run walks, and returns when everything was delivered, deliver has had enough,
// or ctx is done: then with its cause, after everything found until then was
// delivered.
func (w *walk) run(ctx context.Context) error {
	root := &piece{path: w.scope.Path, real: w.scope.Path}
	if w.excludes(root.path) {
		return nil
	}
	if err := w.begin(root); err != nil {
		return err
	}
	w.wake.L = &w.mu
	w.queue = pieces{root}
	w.order = []*piece{root}
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stopped = true
		w.wake.Broadcast()
	})
	defer stop()
	workers.Run(w.workers, func(int) { w.work(ctx) })
	for _, p := range w.queue {
		p.release()
	}
	if ctx.Err() != nil {
		w.deliverRest()
		return context.Cause(ctx)
	}
	return nil
}

// begin finds out what Path is and which rules of directories above it hold.
func (w *walk) begin(root *piece) error {
	at := "."
	for _, part := range strings.Split(root.path, "/") {
		if root.path == "." {
			break
		}
		d, err := w.ws.OpenDir(at)
		if err != nil {
			return err
		}
		if !w.scope.NoIgnore {
			var has ignore.Present
			for _, name := range ignore.Names {
				if _, err := d.Lstat(name); err == nil {
					has.See([]byte(name))
				}
			}
			root.rules = root.rules.Enter(at, has.Read(d, nil))
		}
		d.Close()
		at = path.Join(at, part)
	}
	d, err := w.ws.OpenDir(root.path)
	if errors.Is(err, unix.ENOTDIR) && root.path != "." {
		if d, err = w.ws.OpenDir(path.Dir(root.path)); err != nil {
			return err
		}
		file, _, err := d.Open(path.Base(root.path))
		if err != nil {
			d.Close()
			return err
		}
		file.Close()
		root.files = []entry{{name: path.Base(root.path), path: root.path}}
		root.path, root.real = path.Dir(root.path), path.Dir(root.path)
	}
	if err != nil {
		return err
	}
	if root.dir = d; root.files == nil {
		root.dir = nil
		d.Close()
	}
	return nil
}

// excludes reports whether a path or a directory above it must not be told of.
func (w *walk) excludes(name string) bool {
	if w.scope.Exclude == nil {
		return false
	}
	for ; name != "."; name = path.Dir(name) {
		if w.scope.Exclude(name) {
			return true
		}
	}
	return w.scope.Exclude(".")
}

// work takes pieces until there are no more.
func (w *walk) work(ctx context.Context) {
	whole := false
	defer func() {
		if !whole { // a panic: nobody may wait for this worker
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stopped = true
			w.wake.Broadcast()
		}
	}()
	visit := w.newWorker()
	var l lister
	for {
		p := w.take()
		if p == nil {
			whole = true
			return
		}
		w.process(ctx, p, visit, &l)
		w.finish(p)
	}
}

func (w *walk) take() *piece {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if w.stopped || len(w.queue) == 0 && w.active == 0 {
			w.wake.Broadcast()
			return nil
		}
		// The next to be delivered is always the first of the queue, or somebody has it.
		if len(w.queue) > 0 && (w.waiting < maxWaiting || w.active == 0) {
			w.active++
			return heap.Pop(&w.queue).(*piece)
		}
		w.wake.Wait()
	}
}

func (w *walk) process(ctx context.Context, p *piece, visit visitor, l *lister) {
	if p.files == nil && !w.open(p, l) {
		return
	}
	for i, f := range p.files {
		if i%8 == 7 && w.halted() {
			break
		}
		d, t := p.dir, target{path: f.path, name: f.name, plain: p.local}
		if f.real != "" {
			t.plain = false
			at, err := w.ws.OpenDir(path.Dir(f.real))
			if err != nil {
				continue
			}
			d, t.name = at, path.Base(f.real)
		}
		if err := visit(ctx, d, t, &p.out); err != nil && ctx.Err() == nil {
			w.mu.Lock()
			w.problems.add(t.path, err)
			w.mu.Unlock()
		}
		if d != p.dir {
			d.Close()
		}
	}
	p.release()
}

func (p *piece) release() {
	if p.dir != nil {
		p.dir.Close()
		p.dir = nil
	}
}

func (w *walk) halted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// open goes through a directory. Its first files stay with the piece; what else
// there is becomes pieces of its own.
func (w *walk) open(p *piece, l *lister) bool {
	d, err := w.ws.OpenDir(p.real)
	if err == nil {
		err = l.List(d, p.path)
	}
	if err != nil {
		if d != nil {
			d.Close()
		}
		// What is gone by now, or has become something else, is simply not there.
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) && !errors.Is(err, workspace.ErrMoved) {
			w.mu.Lock()
			w.problems.add(p.path, err)
			w.mu.Unlock()
		}
		return false
	}
	if !w.scope.NoIgnore {
		p.rules = p.rules.Enter(p.path, l.Has.Read(d, nil))
	}
	files, dirs := w.choose(p, l)
	p.dir, p.local = d, d.Local()
	p.files = files[:min(len(files), chunk)]
	for i := chunk; i < len(files); i += chunk {
		d.Hold()
		p.next = append(p.next, &piece{
			key:  p.key + "\x00\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(i))),
			path: p.path, real: p.real, dir: d, local: p.local, files: files[i:min(len(files), i+chunk)],
		})
	}
	for _, dir := range dirs {
		p.next = append(p.next, &piece{
			key: p.key + "\x00" + dir.name, path: dir.path, real: cmp.Or(dir.real, join(p.real, dir.name)),
			depth: p.depth + 1, rules: p.rules,
		})
	}
	if len(p.next) == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, next := range p.next {
		heap.Push(&w.queue, next)
	}
	w.wake.Broadcast()
	return true
}

// choose returns what of a directory is meant, sorted. The directories are only
// good until it is called again.
func (w *walk) choose(p *piece, l *lister) (files, dirs []entry) {
	files, dirs = l.files[:0], l.dirs[:0]
	deeper := w.scope.MaxDepth == 0 || p.depth+1 < w.scope.MaxDepth
	for _, e := range l.Entries {
		kind, f, full := e.Kind, entry{name: e.Name, path: e.Path}, e.Path
		if kind == workspace.Link && w.scope.Follow {
			if f.real, kind = w.follow(p, full); f.real == "" {
				continue
			}
		}
		if kind != workspace.Regular && (kind != workspace.Directory || !deeper) {
			continue
		}
		judged := ignore.Undecided
		if !w.scope.NoIgnore {
			judged = p.rules.Match(full, e.Name, kind == workspace.Directory)
		}
		if kind == workspace.Directory {
			if w.scope.enters(full, e.Name, judged) {
				dirs = append(dirs, f)
			}
		} else if w.scope.takes(full, e.Name, judged) {
			files = append(files, f)
		}
	}
	byName := func(a, b entry) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(files, byName)
	slices.SortFunc(dirs, byName)
	l.files, l.dirs = files, dirs
	return slices.Clone(files), dirs
}

// follow returns where a link leads, if that is a file or a directory inside
// the workspace that is not one that the link is in.
func (w *walk) follow(p *piece, link string) (string, workspace.FileType) {
	to, inside := w.ws.Resolve(join(p.real, path.Base(link)))
	if !inside || w.excludes(to) {
		return "", 0
	}
	if to == "." || p.real == to || strings.HasPrefix(p.real, to+"/") {
		return "", 0
	}
	for at := p.path; at != "."; at = path.Dir(at) { // the same for the way by which we came
		if real, _ := w.ws.Resolve(at); real == to || strings.HasPrefix(real, to+"/") {
			return "", 0
		}
	}
	d, err := w.ws.OpenDir(path.Dir(to))
	if err != nil {
		return "", 0
	}
	defer d.Close()
	s, err := d.Lstat(path.Base(to))
	if err != nil {
		return "", 0
	}
	return to, s.Kind
}

// finish marks a piece as done and delivers what is ready.
func (w *walk) finish(p *piece) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.done = true
	p.files, p.rules = nil, ignore.Patterns{}
	w.active--
	w.waiting += p.out.size()
	if !w.handing {
		w.handing = true
		w.hand()
		w.handing = false
	}
	w.wake.Broadcast()
}

// hand delivers outputs as long as the next one is ready. The mutex is not held
// meanwhile.
func (w *walk) hand() {
	for len(w.order) > 0 && !w.stopped {
		p := w.order[len(w.order)-1]
		if !p.done {
			return
		}
		w.order = w.order[:len(w.order)-1]
		for _, next := range slices.Backward(p.next) {
			w.order = append(w.order, next)
		}
		w.waiting -= p.out.size()
		if p.out.empty() {
			continue
		}
		more := w.pass(&p.out)
		p.out = output{}
		if !more {
			w.stopped = true
		}
	}
}

func (w *walk) pass(out *output) bool {
	w.mu.Unlock()
	defer w.mu.Lock()
	return w.deliver(out)
}

// deliverRest delivers, after the workers have ended early, what they found.
func (w *walk) deliverRest() {
	for len(w.order) > 0 {
		p := w.order[len(w.order)-1]
		w.order = w.order[:len(w.order)-1]
		for _, next := range slices.Backward(p.next) {
			w.order = append(w.order, next)
		}
		if !p.out.empty() && !w.deliver(&p.out) {
			return
		}
	}
}

// join returns the path of a name in a directory.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// A lister lists directories and remembers what of them was chosen.
type lister struct {
	ignore.Lister
	files, dirs []entry
}

// pieces is a heap of pieces, the next to be delivered first.
type pieces []*piece

func (p pieces) Len() int           { return len(p) }
func (p pieces) Less(i, j int) bool { return p[i].key < p[j].key }
func (p pieces) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *pieces) Push(x any)        { *p = append(*p, x.(*piece)) }
func (p *pieces) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	return x
}
