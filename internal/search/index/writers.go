// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/search/workers"
	"github.com/toolserver/toolserver/internal/workspace"
)

// writers is told by the kernel what happens to files by whatever name: that they
// are opened, that those who wrote to them are done, that they get or lose a
// name. All workspaces of a pool share one: to find out whether a file has a writer is to open the file,
// and the kernel reports that opening to every watch of the file.
type writers struct {
	mu      sync.Mutex
	watch   *workspace.Watch // nil while there are no users
	users   map[*Tree]bool
	inodes  map[int32]*inode
	watches *budget
	drained uint64 // counts how often everything until then was heard
	kept    budget // of files that are kept open
}

// An inode is a file that is followed, whatever its names.
type inode struct {
	number    int32
	dev, ino  uint64
	opened    uint64 // when that was last heard, by drained; 0 if not since it was last found without a writer
	gone      bool
	followers []follower
}

// A follower is who wants to know of an inode: a file, or a directory that has
// its rules from it.
type follower struct {
	m     *Tree
	file  *File
	dir   *Dir
	rules string // the name of the rules in the directory

	queued bool // it is in what was heard for the memory
}

func (f *follower) path() string {
	if f.file != nil {
		return f.file.Path
	}
	return strings.TrimPrefix(f.dir.Path+"/"+f.rules, "./")
}

// news is what was heard for a memory and not dealt with yet. It belongs to
// writers, and to whoever has that locked.
type news struct {
	missed  missed
	opened  []*inode        // perhaps by a writer; in order
	changed map[*inode]bool // it has another number of names, or a writer less
	written map[*inode]bool // it has a writer, who may write without a word
}

// missed says to what anything may have happened.
type missed struct{ texts, rules bool }

// newWatch returns a watch, if there may be another. It is ended by close.
func (s *shared) newWatch() (*workspace.Watch, error) {
	if !s.instances.take(1) {
		return nil, errShort
	}
	watch, err := workspace.NewWatch()
	if err == nil {
		return watch, nil
	}
	if s.instances.give(1); errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return nil, errShort
	}
	return nil, errCold
}

func (s *shared) close(watch *workspace.Watch) {
	watch.Close()
	s.instances.give(1)
}

// join makes a memory hear.
func (s *shared) join(m *Tree) error {
	o := &s.writers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watch == nil {
		watch, err := s.newWatch()
		if err != nil {
			return err
		}
		o.watch, o.users, o.inodes = watch, make(map[*Tree]bool), make(map[int32]*inode)
	}
	o.users[m] = true
	m.news = news{changed: make(map[*inode]bool), written: make(map[*inode]bool)}
	return nil
}

// leave ends that.
func (s *shared) leave(m *Tree) {
	o := &s.writers
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.users, m)
	if len(o.users) == 0 {
		s.close(o.watch)
		s.watches.give(len(o.inodes))
		o.watch, o.users, o.inodes = nil, nil, nil
		return
	}
	for _, n := range o.inodes {
		o.part(n, func(f *follower) bool { return f.m == m })
	}
}

// part ends following of some.
func (o *writers) part(n *inode, who func(*follower) bool) {
	n.followers = slices.DeleteFunc(n.followers, func(f follower) bool { return who(&f) })
	if len(n.followers) > 0 || n.gone {
		return
	}
	o.lose(n)
	o.watch.Remove(n.number)
}

// lose takes note that an inode is not watched any more.
func (o *writers) lose(n *inode) {
	n.gone = true
	delete(o.inodes, n.number)
	o.watches.give(1)
}

// unfollow ends that a file or directory is told of an inode, which may be nil.
func (o *writers) unfollow(n *inode, file *File, dir *Dir) {
	if n == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.part(n, func(f *follower) bool { return f.file == file && f.dir == dir })
}

// follow makes a follower be told of an open file, instead of the inode it
// followed before, and reports whether what is read from now on stays what it is
// until something is told. Where the file cannot be followed, it returns nil.
func (o *writers) follow(r workspace.Reader, f follower, before *inode) (n *inode, sure bool) {
	o.mu.Lock()
	n, known := o.add(r, f, before)
	if n == nil {
		o.mu.Unlock()
		return nil, false
	}
	if known {
		o.drain() // of our own opening as well
	}
	at := o.drained
	o.mu.Unlock()
	if !r.Unwritten() {
		return n, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear(n, at)
	return n, true
}

// add is follow without the question. known says that the file was followed when
// it was opened.
func (o *writers) add(r workspace.Reader, f follower, before *inode) (n *inode, known bool) {
	number, err := int32(0), error(nil)
	if o.watches.left() > 0 || before != nil {
		number, err = o.watch.AddFile(r)
	}
	if n = o.inodes[number]; n != nil && n == before && err == nil {
		return n, true
	}
	if before != nil {
		o.part(before, func(b *follower) bool { return b.file == f.file && b.dir == f.dir && b.rules == f.rules })
	}
	if err != nil || number == 0 {
		return nil, false
	}
	if known = n != nil; !known {
		if !o.watches.take(1) {
			o.watch.Remove(number)
			return nil, false
		}
		stat, _ := r.Stat() // where there is none, it is no file that is looked at
		n = &inode{number: number, dev: stat.Dev, ino: stat.Ino}
		o.inodes[number] = n
	}
	n.followers = append(n.followers, f)
	return n, known
}

// drain hears everything that has happened until now.
func (o *writers) drain() {
	o.drained++
	over := false
	err := o.watch.Changes(func(c workspace.Notice) {
		if c.Missed {
			over = true
			return
		}
		n := o.inodes[c.Dir]
		if n == nil {
			return
		}
		if c.Gone {
			o.lose(n)
		}
		if c.Opened {
			n.opened = o.drained
		}
		for i := range n.followers {
			f := &n.followers[i]
			if !c.Opened {
				f.m.news.changed[n] = true
			} else if !f.queued {
				f.queued = true
				f.m.news.opened = append(f.m.news.opened, n)
			}
		}
	})
	if over || err != nil {
		for m := range o.users {
			m.news.missed = missed{true, true}
		}
	}
}

// clear takes note that an inode was found without a writer after everything
// until at was heard.
func (o *writers) clear(n *inode, at uint64) {
	if n.opened <= at {
		n.opened = 0
	}
}

// A heldFile is a file that was opened, and will be looked at for writers.
type heldFile struct {
	inode  *inode
	reader workspace.Reader
	keep   *File // which keeps it open if it has no writer; nil where none does

	several bool // followers
	other   bool // it is another file, which has taken the name since
}

// settle looks whether files have writers, and closes them, or some of them. All
// that was heard of them before is settled by that; what comes later is not.
func (o *writers) settle(files []heldFile) {
	if len(files) == 0 {
		return
	}
	o.mu.Lock()
	o.drain()
	at := o.drained
	for i := range files {
		files[i].several = len(files[i].inode.followers) > 1
	}
	o.mu.Unlock()
	sure := make([]bool, 0, 2*chunk)
	for i := range files {
		f := &files[i]
		if f.several { // one alone is told that the name is another file's
			stat, err := f.reader.Stat()
			f.other = err != nil || stat.Dev != f.inode.dev || stat.Ino != f.inode.ino
		}
		if f.keep == nil {
			sure = append(sure, f.reader.CloseUnwritten())
			continue
		}
		reader := f.reader
		unwritten := reader.Unwritten()
		if !unwritten || !f.keep.open.CompareAndSwap(nil, &reader) {
			reader.Close()
			o.kept.give(1)
		}
		sure = append(sure, unwritten)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, f := range files {
		if sure[i] {
			if !f.other {
				o.clear(f.inode, at)
			}
			continue
		}
		for k := range f.inode.followers {
			f.inode.followers[k].m.news.written[f.inode] = true
		}
	}
}

// suspects takes inodes that may have got a writer, up to a number of them: those
// of rules, and of files if these matter as well. They must be looked at before
// anything is answered.
func (m *Tree) suspects(files bool, limit int) (list []suspect) {
	o := &m.shared.writers
	o.mu.Lock()
	defer o.mu.Unlock()
	left := m.news.opened[:0]
	for i, n := range m.news.opened {
		if len(list) == limit {
			left = append(left, m.news.opened[i:]...)
			break
		}
		k := slices.IndexFunc(n.followers, func(f follower) bool { return f.m == m && f.queued })
		if k < 0 {
			continue
		}
		f := &n.followers[k]
		switch {
		case n.opened == 0 || f.file != nil && m.unsure[f.file]: // it was looked at; or is read anyway
			f.queued = false
		case files || f.file == nil:
			f.queued = false
			list = append(list, suspect{n, f.path()})
		default:
			left = append(left, n)
		}
	}
	m.news.opened = left
	return list
}

// A suspect is an inode to look at, by one of its names.
type suspect struct {
	inode *inode
	path  string
}

// checkOpened looks whether a few suspects have writers.
func (m *Tree) checkOpened(list []suspect) {
	held := make([]heldFile, 0, len(list))
	o := &m.shared.writers
	for _, s := range list {
		r, err := m.top.OpenBelow(s.path)
		if err != nil {
			o.mu.Lock()
			m.news.written[s.inode] = true
			o.mu.Unlock()
			continue
		}
		held = append(held, heldFile{inode: s.inode, reader: r})
	}
	o.settle(held)
}

// MaxKeptOpen is the size up to which files are kept open.
const MaxKeptOpen = 256 << 10

// chunk is how many files a worker takes at once.
const chunk = 64

// maxOpen is how many files are kept open at most. Whoever starts a program waits the longer the more there are.
const maxOpen = 8192

// mayKeep reports whether a file stays open that was opened for a search, so that
// the next one need neither open it nor look at it. That is for files that are
// read at once, and not where there are mounts, which could not be ended.
func (m *Tree) mayKeep(f *File) bool {
	return f.Stat.Size < MaxKeptOpen && !m.mounts.Any() && m.shared.writers.kept.take(1)
}

// A Reading is the files that a worker of a search has opened. They are closed by
// Settle.
type Reading struct {
	tree *Tree
	held []heldFile
}

// Reading returns one without files.
func (m *Tree) Reading() *Reading { return &Reading{tree: m} }

// Kept returns a file that is still open since another search.
func (f *File) Kept() (workspace.Reader, bool) {
	if r := f.open.Load(); r != nil {
		return *r, true
	}
	return workspace.Reader{}, false
}

// Open opens a file.
func (x *Reading) Open(f *File) (workspace.Reader, error) {
	r, err := x.tree.top.OpenBelow(f.Path)
	if err != nil {
		return r, err
	}
	held := heldFile{reader: r}
	if f.inode != nil && !x.tree.unsure[f] {
		if held.inode = f.inode; x.tree.mayKeep(f) {
			held.keep = f
		}
	}
	x.held = append(x.held, held)
	return r, nil
}

// SettleSome is Settle where there are many files.
func (x *Reading) SettleSome() {
	if len(x.held) >= chunk {
		x.Settle()
	}
}

// Settle closes the files, or keeps them open, after it has looked whether they
// have writers.
func (x *Reading) Settle() {
	followed := x.held[:0]
	for _, h := range x.held {
		if h.inode == nil {
			h.reader.Close()
		} else {
			followed = append(followed, h)
		}
	}
	x.tree.shared.writers.settle(followed)
	x.held = x.held[:0]
}

// Lstat tells of a file without opening it.
func (m *Tree) Lstat(f *File) (workspace.Stat, error) { return m.top.Lstat(f.Path) }

// shut closes a file that was kept open.
func (m *Tree) shut(f *File) {
	if r := f.open.Swap(nil); r != nil {
		r.Close()
		m.shared.writers.kept.give(1)
	}
}

// shutAll closes all of them.
func (m *Tree) shutAll() {
	for _, f := range m.Order {
		m.shut(f)
	}
}

// checkSome hears what has happened, looks at some of the files that were
// opened, and returns how many.
func (m *Tree) checkSome(ctx context.Context) int {
	o := &m.shared.writers
	o.mu.Lock()
	o.drain()
	for n := range m.news.changed { // it may be gone, and take up room while it is open
		for i := range n.followers {
			if f := &n.followers[i]; f.m == m && f.file != nil {
				m.shut(f.file)
			}
		}
	}
	missed := m.news.missed.texts
	o.mu.Unlock()
	if missed {
		_ = m.checkEverything(ctx)
		return len(m.Order)
	}
	list := m.suspects(true, chunk)
	m.checkOpened(list)
	return len(list)
}

// checkAll is checkOpened with as many workers as there are.
func (m *Tree) checkAll(ctx context.Context, list []suspect) error {
	err := inChunks(ctx, list, m.checkOpened)
	if err != nil { // some are not looked at
		m.shared.writers.miss(m, missed{true, true})
	}
	return err
}

// inChunks does something to a list in parts, several at once.
func inChunks[T any](ctx context.Context, list []T, do func(part []T)) error {
	var next atomic.Int64
	workers.Run(min(workers.Count(), (len(list)+chunk-1)/chunk), func(int) {
		for ctx.Err() == nil {
			from := int(next.Add(chunk)) - chunk
			if from >= len(list) {
				return
			}
			do(list[from:min(len(list), from+chunk)])
		}
	})
	return context.Cause(ctx)
}

// checkEverything looks at all files, after something was missed: whether they
// have changed or have a writer. What has is told by the next hear.
func (m *Tree) checkEverything(ctx context.Context) error {
	o := &m.shared.writers
	o.mu.Lock()
	m.news.missed.texts = false
	o.mu.Unlock()
	err := inChunks(ctx, m.Order, func(part []*File) {
		held := make([]heldFile, 0, len(part))
		var changed []*inode
		for _, f := range part {
			if m.unsure[f] {
				continue
			}
			r, err := m.top.OpenBelow(f.Path)
			if err != nil {
				changed = append(changed, f.inode)
				continue
			}
			if now, err := r.Stat(); err != nil || now != f.Stat || f.young {
				changed = append(changed, f.inode)
			}
			held = append(held, heldFile{inode: f.inode, reader: r})
		}
		o.settle(held)
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, n := range changed {
			m.news.changed[n] = true
		}
	})
	if err != nil {
		o.miss(m, missed{texts: true})
	}
	return err
}

// miss takes note that anything may have happened to files of a memory.
func (o *writers) miss(m *Tree, what missed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m.news.missed.texts = m.news.missed.texts || what.texts
	m.news.missed.rules = m.news.missed.rules || what.rules
}
