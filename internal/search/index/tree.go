// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/search/ignore"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A Tree is what is known of a workspace: its directories, which the kernel
// watches for us, and the text of its files. sync brings it up to date. Beside
// sync and adopt nothing changes it. Others only read it.
type Tree struct {
	Root     *Dir
	Order    []*File       // visible files, in the order of a walk
	ByPath   []*File       // the same, by path
	Failed   map[*Dir]bool // directories that could not be entered
	Binaries int           // visible files that are binary

	ws     *workspace.Workspace
	shared *shared
	news   news // of files, from shared.writers
	watch  *workspace.Watch
	mounts *workspace.Mounts
	top    *workspace.Dir
	dev    uint64

	watched  map[int32]*Dir
	restless map[*Dir]bool // with rules whose changes are not told
	nodes    int           // that were made
	state    uint64        // see State

	segments []*segment
	loose    map[*File]bool // whose text is in no segment
	unsure   map[*File]bool // to be read whenever they are needed

	looseBytes           int // of the text that is loose
	length, looseAtFirst int // of all text, and of what was loose, when all was read

	dirtyDirs  map[*Dir]bool
	dirtyFiles map[*File]bool
	rearrange  bool // files have come or gone since Order was made

	lister ignore.Lister
	reader reader
}

// A Dir is a directory.
type Dir struct {
	Name, Path string
	Ignore     ignore.Match
	Entered    bool  // it is visible, and what is in it is known
	Problem    error // why it could not be entered
	Dirs       []*Dir
	Files      []*File

	parent  *Dir // nil for the workspace
	depth   int
	gone    bool
	number  int32           // of its watch
	above   ignore.Patterns // those that hold around it
	texts   ignore.Texts
	rules   ignore.Patterns   // those that hold in it
	sources map[string]*inode // files with rules that are followed, by name
}

// A File is a regular file.
type File struct {
	Name, Path string
	Ignore     ignore.Match
	Visible    bool // nothing but a glob or a flag is needed to find it
	Binary     bool
	Rank       int // where it is in Order
	Stat       workspace.Stat
	Length     int    // of the text
	Text       []byte // as UTF-8; nil where it is not kept

	dir     *Dir
	gone    bool
	indexed bool   // its blocks are in a segment
	young   bool   // when it was read, it could change once more without another time
	version uint32 // counts what was read of it
	stamp   uint64 // see Stamp
	inode   *inode // by which it is followed, or nil

	// open is the file, if it is kept open. Searches may set it; it is closed only
	// while there are none.
	open atomic.Pointer[workspace.Reader]
}

var (
	// errCold says that a workspace cannot be kept in memory.
	errCold = errors.New("the workspace cannot be kept in memory")

	// errShort says that a workspace cannot be kept in memory for now: other processes need the watches.
	errShort = errors.New("there are too few inotify watches to keep the workspace in memory")

	// errMissed says that changes were missed.
	errMissed = errors.New("changes were missed")
)

// maxNodes is how many files and directories are kept in memory.
const maxNodes = 400_000

// remember reads a workspace. It fails with errCold where the kernel cannot tell
// of its changes, or where it is too large.
func remember(ctx context.Context, ws *workspace.Workspace, with *shared) (*Tree, error) {
	m := &Tree{
		ws: ws, shared: with, watched: make(map[int32]*Dir), restless: make(map[*Dir]bool), Failed: make(map[*Dir]bool),
		loose: make(map[*File]bool), unsure: make(map[*File]bool),
		dirtyDirs: make(map[*Dir]bool), dirtyFiles: make(map[*File]bool),
	}
	var err error
	if m.top, err = ws.OpenDir("."); err != nil {
		return nil, err
	}
	if m.watch, err = with.newWatch(); err != nil {
		m.top.Close()
		return nil, err
	}
	if m.mounts, err = ws.NewMounts(); err != nil {
		with.close(m.watch)
		m.top.Close()
		return nil, errCold
	}
	m.Root = &Dir{Path: ".", Entered: true}
	if err = with.join(m); err != nil {
		m.mounts.Close()
		with.close(m.watch)
		m.top.Close()
		return nil, err
	}
	if err = m.enter(ctx, m.Root); err == nil {
		m.arrange()
		clear(m.dirtyFiles)
		if m.tooMany(len(m.Order) - int(with.watches.left())) {
			err = errShort
		}
	}
	if err == nil {
		err = m.readAll(ctx)
	}
	if err != nil {
		m.forget()
		return nil, err
	}
	return m, nil
}

// forget gives everything back.
func (m *Tree) forget() {
	m.shared.close(m.watch)
	m.shared.watches.give(len(m.watched))
	m.mounts.Close()
	m.top.Close()
	m.shared.leave(m)
	m.Root.eachFile(m.drop)
	for _, s := range m.segments {
		m.shared.index.give(s.size())
	}
}

// enter lists a directory that was not known, and those below it. It is watched
// before it is listed: what changes later is told.
func (m *Tree) enter(ctx context.Context, n *Dir) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d, err := m.ws.OpenDir(n.Path)
	if err != nil {
		return m.cannotEnter(n, err)
	}
	defer d.Close()
	stat, err := d.Stat()
	if err != nil || stat.Dev != m.dev && !d.Watchable() {
		return errCold
	}
	m.dev = stat.Dev
	if !m.shared.watches.take(1) {
		return errShort
	}
	number, err := m.watch.Add(d)
	if err != nil || m.watched[number] != nil {
		if m.shared.watches.give(1); errors.Is(err, unix.ENOSPC) {
			return errShort
		}
		return errCold // one directory in two places
	}
	n.number = number
	m.watched[number] = n
	return m.list(ctx, n, d)
}

// cannotEnter deals with a directory that was there a moment ago, or that may
// not be read. Either change is told by the directory above.
func (m *Tree) cannotEnter(n *Dir, err error) error {
	if n.parent == nil {
		return err
	}
	gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, workspace.ErrMoved)
	if !gone {
		n.Problem = err
		m.Failed[n] = true
	}
	return nil
}

// list takes in what is in a directory, and goes into what is new.
func (m *Tree) list(ctx context.Context, n *Dir, d *workspace.Dir) error {
	if err := m.lister.List(d, n.Path); err != nil {
		return errCold
	}
	var above ignore.Patterns
	if n.parent != nil {
		above = n.parent.rules
	}
	texts := m.lister.Has.Read(d, m.followRules(n))
	changed := texts != n.texts || above != n.above
	if changed {
		n.texts, n.above, n.rules = texts, above, above.Enter(n.Path, texts)
	}
	if delete(m.restless, n); texts.Git || texts.Unsure {
		m.restless[n] = true
	}
	enter := m.compare(n, changed)
	if m.nodes > maxNodes {
		return errCold
	}
	for _, s := range enter {
		if err := m.enter(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// compare takes in the list of a directory, and returns the directories to be
// entered. changed says that other rules hold in it than before.
func (m *Tree) compare(n *Dir, changed bool) (enter []*Dir) {
	dirs, files := make(map[string]*Dir, len(n.Dirs)), make(map[string]*File, len(n.Files))
	for _, s := range n.Dirs {
		dirs[s.Name] = s
	}
	for _, f := range n.Files {
		files[f.Name] = f
	}
	n.Dirs, n.Files = nil, nil
	for _, e := range m.lister.Entries {
		switch e.Kind {
		case workspace.Regular:
			f := files[e.Name]
			if delete(files, e.Name); f == nil {
				f = &File{Name: e.Name, Path: e.Path, dir: n, stamp: m.nextStamp()}
				m.nodes++
				m.dirtyFiles[f] = true
			}
			f.Ignore = n.rules.Match(f.Path, f.Name, false)
			if visible := shows(f.Ignore, f.Name); visible != f.Visible {
				f.Visible = visible
				m.dirtyFiles[f] = true
			}
			n.Files = append(n.Files, f)
		case workspace.Directory:
			s := dirs[e.Name]
			if s == nil || s.gone {
				s = &Dir{Name: e.Name, Path: e.Path, parent: n, depth: n.depth + 1}
				m.nodes++
			} else {
				delete(dirs, e.Name)
			}
			s.Ignore = n.rules.Match(s.Path, s.Name, true)
			switch visible := shows(s.Ignore, s.Name); {
			case visible && !s.Entered:
				s.Entered = true
				enter = append(enter, s)
			case !visible && s.Entered:
				m.leave(s)
			case visible && changed:
				m.dirtyDirs[s] = true
			}
			n.Dirs = append(n.Dirs, s)
		}
	}
	for _, f := range files {
		m.lose(f)
	}
	for _, s := range dirs {
		m.leave(s)
		s.gone = true
	}
	slices.SortFunc(n.Files, func(a, b *File) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(n.Dirs, func(a, b *Dir) int { return strings.Compare(a.Name, b.Name) })
	m.rearrange = true
	return enter
}

// shows reports whether a name is found without a flag.
func shows(judged ignore.Match, name string) bool {
	return judged == ignore.Wanted || judged == ignore.Undecided && name[0] != '.'
}

// leave forgets what is in a directory.
func (m *Tree) leave(n *Dir) {
	if n.number != 0 && m.watched[n.number] == n {
		delete(m.watched, n.number)
		m.watch.Remove(n.number)
		m.shared.watches.give(1)
	}
	delete(m.restless, n)
	delete(m.Failed, n)
	for _, f := range n.Files {
		m.lose(f)
	}
	for _, source := range n.sources {
		m.shared.writers.unfollow(source, nil, n)
	}
	for _, s := range n.Dirs {
		m.leave(s)
		s.gone = true
	}
	*n = Dir{Name: n.Name, Path: n.Path, parent: n.parent, depth: n.depth, Ignore: n.Ignore, gone: n.gone}
	m.rearrange = true
}

// lose forgets a file that is not there any more.
func (m *Tree) lose(f *File) {
	m.drop(f)
	m.unfollow(f)
	f.gone = true
}

// unfollow ends that a file is told of.
func (m *Tree) unfollow(f *File) {
	m.shared.writers.unfollow(f.inode, f, nil)
	f.inode = nil
}

// followRules returns what makes the rules of a directory be followed, and
// reports whether they are.
func (m *Tree) followRules(n *Dir) func(name string, r workspace.Reader) bool {
	return func(name string, r workspace.Reader) bool {
		source, sure := m.shared.writers.follow(r, follower{m: m, dir: n, rules: name}, n.sources[name])
		if n.sources == nil {
			n.sources = make(map[string]*inode)
		}
		n.sources[name] = source
		return sure
	}
}

// drop forgets what was read of a file.
func (m *Tree) drop(f *File) {
	if f.Text != nil {
		m.shared.text.give(len(f.Text))
	}
	if f.Binary {
		m.Binaries--
	}
	m.shut(f)
	m.tighten(f)
	f.Text, f.Length, f.Binary, f.indexed = nil, 0, false, false
	f.version++
	f.stamp = m.nextStamp()
	delete(m.unsure, f)
	delete(m.dirtyFiles, f)
}

func (n *Dir) eachFile(yield func(*File)) {
	for _, f := range n.Files {
		yield(f)
	}
	for _, s := range n.Dirs {
		s.eachFile(yield)
	}
}

// arrange puts the files in order again, if some have come or gone.
func (m *Tree) arrange() {
	if !m.rearrange {
		return
	}
	m.rearrange = false
	m.nextStamp()
	m.Order = m.Order[:0]
	m.Root.eachFile(func(f *File) {
		if f.Visible {
			f.Rank = len(m.Order)
			m.Order = append(m.Order, f)
		}
	})
	m.ByPath = append(m.ByPath[:0], m.Order...)
	slices.SortFunc(m.ByPath, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
}

// stamps are how many were given.
var stamps atomic.Uint64

// State stands for what is known of all files: with the same state, Order, stamps and
// what is unsure are the same. It is never 0, and no other tree has had it.
func (m *Tree) State() uint64 { return m.state }

// Stamp stands for what was read of a file: whoever has seen the text of a stamp
// need not read it again while the file has it. It is never 0. A file that is
// [Tree.Unsure] may have another text with the same stamp.
func (f *File) Stamp() uint64 { return f.stamp }

// Unsure reports whether a file may have another text and another time than is
// known: it is read whenever it is needed.
func (m *Tree) Unsure(f *File) bool { return m.unsure[f] }

// Find returns a directory that is known, or nil.
func (m *Tree) Find(path string) *Dir {
	n := m.Root
	if path == "." {
		return n
	}
	for name := range strings.SplitSeq(path, "/") {
		i, ok := slices.BinarySearchFunc(n.Dirs, name, func(s *Dir, name string) int { return strings.Compare(s.Name, name) })
		if !ok || !n.Dirs[i].Entered {
			return nil
		}
		n = n.Dirs[i]
	}
	return n
}
