// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/workspace"
)

// memory is what is known of a workspace: its directories, which the kernel
// watches for us, and the text of its files. sync brings it up to date. Beside
// sync and adopt nothing changes it.
type memory struct {
	ws     *workspace.Workspace
	shared *shared
	news   news // of files, from shared.opens
	watch  *workspace.Watch
	mounts *workspace.Mounts
	top    *workspace.Dir
	dev    uint64

	root     *dirNode
	watched  map[int32]*dirNode
	restless map[*dirNode]bool // with rules whose changes are not told
	failed   map[*dirNode]bool // those that could not be entered
	nodes    int               // that were made
	binaries int               // visible files that are binary

	segments []*segment
	tried    int                // bytes of loose text when it was last to be indexed
	loose    map[*fileNode]bool // whose text is in no segment
	unsure   map[*fileNode]bool // to be read whenever they are needed

	dirtyDirs  map[*dirNode]bool
	dirtyFiles map[*fileNode]bool
	rearrange  bool // files have come or gone since order was made
	changed    bool // by the last sync

	order  []*fileNode // visible files, in the order of a walk
	byPath []*fileNode // the same, by path
	other  []*fileNode // files that are not visible, of directories that are entered

	lister lister
	reader *searcher
}

// A dirNode is a directory.
type dirNode struct {
	name, path string
	parent     *dirNode // nil for the workspace
	depth      int
	ignore     verdict
	entered    bool // it is visible, and what is in it is known
	gone       bool
	problem    error // why it could not be entered
	number     int32 // of its watch
	above      rules // those that hold around it
	texts      ruleTexts
	rules      rules             // those that hold in it
	sources    map[string]*inode // files with rules that are followed, by name
	dirs       []*dirNode
	files      []*fileNode
}

// A fileNode is a regular file.
type fileNode struct {
	name, path string
	dir        *dirNode
	ignore     verdict
	visible    bool // nothing but a glob or a flag is needed to find it
	gone       bool
	binary     bool
	indexed    bool   // its blocks are in a segment
	young      bool   // when it was read, it could change once more without another time
	version    uint32 // counts what was read of it
	rank       int    // where it is in order
	inode      *inode // by which it is followed, or nil
	stat       workspace.Stat
	length     int    // of the text
	text       []byte // nil where it is not kept

	// open is the file, if it is kept open. Searches may set it; it is closed only
	// while there are none.
	open atomic.Pointer[workspace.Reader]
}

var (
	// errCold says that a workspace cannot be kept in memory.
	errCold = errors.New("the workspace cannot be kept in memory")

	// errShort says that it cannot be for now: others need what it would take.
	errShort = errors.New("there are too few inotify watches to keep the workspace in memory")

	// errMissed says that changes were missed.
	errMissed = errors.New("changes were missed")
)

// maxNodes is how many files and directories are kept in memory.
const maxNodes = 400_000

// remember reads a workspace. It fails with errCold where the kernel cannot tell
// of its changes, or where it is too large.
func remember(ctx context.Context, ws *workspace.Workspace, with *shared) (*memory, error) {
	m := &memory{
		ws: ws, shared: with, watched: make(map[int32]*dirNode), restless: make(map[*dirNode]bool), failed: make(map[*dirNode]bool),
		loose: make(map[*fileNode]bool), unsure: make(map[*fileNode]bool),
		dirtyDirs: make(map[*dirNode]bool), dirtyFiles: make(map[*fileNode]bool), reader: newReader(),
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
	m.root = &dirNode{path: ".", entered: true}
	if err = with.join(m); err != nil {
		m.mounts.Close()
		with.close(m.watch)
		m.top.Close()
		return nil, err
	}
	if err = m.enter(ctx, m.root); err == nil {
		m.arrange()
		clear(m.dirtyFiles)
		if m.tooMany(len(m.order) - int(with.watches.left())) {
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
func (m *memory) forget() {
	m.shared.close(m.watch)
	m.shared.watches.give(len(m.watched))
	m.mounts.Close()
	m.top.Close()
	m.shared.leave(m)
	m.root.eachFile(m.drop)
	for _, s := range m.segments {
		m.shared.index.give(s.size())
	}
}

// enter lists a directory that was not known, and those below it. It is watched
// before it is listed: what changes later is told.
func (m *memory) enter(ctx context.Context, n *dirNode) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d, err := m.ws.OpenDir(n.path)
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
func (m *memory) cannotEnter(n *dirNode, err error) error {
	if n.parent == nil {
		return err
	}
	if !isGone(err) && !errors.Is(err, workspace.ErrMoved) {
		n.problem = err
		m.failed[n] = true
	}
	return nil
}

// list takes in what is in a directory, and goes into what is new.
func (m *memory) list(ctx context.Context, n *dirNode, d *workspace.Dir) error {
	if err := m.lister.list(d, n.path); err != nil {
		return errCold
	}
	var above rules
	if n.parent != nil {
		above = n.parent.rules
	}
	texts := m.lister.has.texts(d, m.followRules(n))
	changed := texts != n.texts || above != n.above
	if changed {
		n.texts, n.above, n.rules = texts, above, above.enter(n.path, texts)
	}
	if delete(m.restless, n); texts.git || texts.unsure {
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
func (m *memory) compare(n *dirNode, changed bool) (enter []*dirNode) {
	dirs, files := make(map[string]*dirNode, len(n.dirs)), make(map[string]*fileNode, len(n.files))
	for _, s := range n.dirs {
		dirs[s.name] = s
	}
	for _, f := range n.files {
		files[f.name] = f
	}
	n.dirs, n.files = nil, nil
	for _, e := range m.lister.entries {
		switch e.kind {
		case workspace.Regular:
			f := files[e.name]
			if delete(files, e.name); f == nil {
				f = &fileNode{name: e.name, path: e.path, dir: n}
				m.nodes++
				m.dirtyFiles[f] = true
			}
			f.ignore = n.rules.judge(f.path, f.name, false)
			if visible := shows(f.ignore, f.name); visible != f.visible {
				f.visible = visible
				m.dirtyFiles[f] = true
			}
			n.files = append(n.files, f)
		case workspace.Directory:
			s := dirs[e.name]
			if s == nil || s.gone {
				s = &dirNode{name: e.name, path: e.path, parent: n, depth: n.depth + 1}
				m.nodes++
			} else {
				delete(dirs, e.name)
			}
			s.ignore = n.rules.judge(s.path, s.name, true)
			switch visible := shows(s.ignore, s.name); {
			case visible && !s.entered:
				s.entered = true
				enter = append(enter, s)
			case !visible && s.entered:
				m.leave(s)
			case visible && changed:
				m.dirtyDirs[s] = true
			}
			n.dirs = append(n.dirs, s)
		}
	}
	for _, f := range files {
		m.lose(f)
	}
	for _, s := range dirs {
		m.leave(s)
		s.gone = true
	}
	slices.SortFunc(n.files, func(a, b *fileNode) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(n.dirs, func(a, b *dirNode) int { return strings.Compare(a.name, b.name) })
	m.rearrange = true
	return enter
}

// shows reports whether a name is found without a flag.
func shows(ignore verdict, name string) bool {
	return ignore == wanted || ignore == undecided && name[0] != '.'
}

// leave forgets what is in a directory.
func (m *memory) leave(n *dirNode) {
	if n.number != 0 && m.watched[n.number] == n {
		delete(m.watched, n.number)
		m.watch.Remove(n.number)
		m.shared.watches.give(1)
	}
	delete(m.restless, n)
	delete(m.failed, n)
	for _, f := range n.files {
		m.lose(f)
	}
	for _, source := range n.sources {
		m.shared.opens.unfollow(source, nil, n)
	}
	for _, s := range n.dirs {
		m.leave(s)
		s.gone = true
	}
	*n = dirNode{name: n.name, path: n.path, parent: n.parent, depth: n.depth, ignore: n.ignore, gone: n.gone}
	m.rearrange = true
}

// lose forgets a file that is not there any more.
func (m *memory) lose(f *fileNode) {
	m.drop(f)
	m.unfollow(f)
	f.gone = true
}

// unfollow ends that a file is told of.
func (m *memory) unfollow(f *fileNode) {
	m.shared.opens.unfollow(f.inode, f, nil)
	f.inode = nil
}

// followRules returns what makes the rules of a directory be followed, and
// reports whether they are.
func (m *memory) followRules(n *dirNode) func(name string, r workspace.Reader) bool {
	return func(name string, r workspace.Reader) bool {
		source, sure := m.shared.opens.follow(r, follower{m: m, dir: n, name: name}, n.sources[name])
		if n.sources == nil {
			n.sources = make(map[string]*inode)
		}
		n.sources[name] = source
		return sure
	}
}

// drop forgets what was read of a file.
func (m *memory) drop(f *fileNode) {
	if f.text != nil {
		m.shared.text.give(len(f.text))
	}
	if f.binary {
		m.binaries--
	}
	m.shut(f)
	f.text, f.length, f.binary, f.indexed = nil, 0, false, false
	f.version++
	delete(m.loose, f)
	delete(m.unsure, f)
	delete(m.dirtyFiles, f)
}

func (n *dirNode) eachFile(yield func(*fileNode)) {
	for _, f := range n.files {
		yield(f)
	}
	for _, s := range n.dirs {
		s.eachFile(yield)
	}
}

// arrange puts the files in order again, if some have come or gone.
func (m *memory) arrange() {
	if !m.rearrange {
		return
	}
	m.rearrange = false
	m.order, m.other = m.order[:0], m.other[:0]
	m.root.eachFile(func(f *fileNode) {
		if f.visible {
			f.rank = len(m.order)
			m.order = append(m.order, f)
		} else {
			m.other = append(m.other, f)
		}
	})
	m.byPath = append(m.byPath[:0], m.order...)
	slices.SortFunc(m.byPath, func(a, b *fileNode) int { return strings.Compare(a.path, b.path) })
}

// sync brings the memory up to date with everything that had happened when it
// was called: the names, and the texts if these matter. After errCold and
// errMissed the memory is of no use.
func (m *memory) sync(ctx context.Context, texts bool) error {
	m.changed = false
	if m.mounts.Changed() {
		return errMissed
	}
	if err := m.hear(); err != nil {
		return err
	}
	for n := range m.restless {
		if m.restlessChanged(n) {
			m.dirtyDirs[n] = true
		}
	}
	if err := m.refresh(ctx); err != nil {
		return err
	}
	if looked, err := m.lookForWriters(ctx, texts); err != nil {
		return err
	} else if looked {
		// A writer who was done just before he was looked for has said so.
		if err := m.hear(); err != nil {
			return err
		}
		if err := m.refresh(ctx); err != nil {
			return err
		}
	}
	m.arrange()
	return nil
}

// hear takes note of everything that was told.
func (m *memory) hear() error {
	missed := false
	if err := m.watch.Changes(func(c workspace.Notice) { missed = !m.note(c) || missed }); err != nil || missed {
		return errMissed
	}
	o := &m.shared.opens
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain()
	for _, set := range []map[*inode]bool{m.news.changed, m.news.written} {
		for n := range set {
			for i := range n.followers {
				switch f := &n.followers[i]; {
				case f.m != m:
				case f.file != nil:
					m.dirtyFiles[f.file] = true
				default:
					m.dirtyDirs[f.dir] = true
				}
			}
		}
		clear(set)
	}
	return nil
}

// refresh reads what has changed.
func (m *memory) refresh(ctx context.Context) error {
	for len(m.dirtyDirs)+len(m.dirtyFiles) > 0 {
		m.changed = true
		if err := m.relistDirty(ctx); err != nil {
			return err
		}
		if err := m.readDirty(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lookForWriters looks at files with rules that were opened, and at those with
// texts if these matter, and reports whether there were any. What has a writer is
// told by the next hear.
func (m *memory) lookForWriters(ctx context.Context, texts bool) (looked bool, err error) {
	o := &m.shared.opens
	o.mu.Lock()
	missed := m.news.missed
	m.news.missed.rules = false
	o.mu.Unlock()
	if missed.rules {
		m.suspectRules()
	}
	if missed.files && texts {
		m.arrange()
		return true, m.lookAtEverything(ctx)
	}
	list := m.suspects(texts, -1)
	return missed.rules || len(list) > 0, m.lookAtAll(ctx, list)
}

// suspectRules has all rules read again.
func (m *memory) suspectRules() {
	for _, n := range m.watched {
		if n.texts != (ruleTexts{}) || len(n.sources) > 0 {
			m.dirtyDirs[n] = true
		}
	}
}

// restlessChanged reports whether rules of which nothing is told have changed:
// what git excludes, which is in a directory that is not watched, and files that
// can be written to without a word.
func (m *memory) restlessChanged(n *dirNode) bool {
	d, err := m.ws.OpenDir(n.path)
	if err != nil {
		return true
	}
	defer d.Close()
	return n.texts.unsure || readExclude(d) != n.texts.excludes
}

// relistDirty lists the directories that have changed.
func (m *memory) relistDirty(ctx context.Context) error {
	list := make([]*dirNode, 0, len(m.dirtyDirs))
	for n := range m.dirtyDirs {
		list = append(list, n)
	}
	// From above to below: rules come from above, and so does the end.
	slices.SortFunc(list, func(a, b *dirNode) int { return a.depth - b.depth })
	for _, n := range list {
		delete(m.dirtyDirs, n)
		if err := m.relist(ctx, n); err != nil {
			m.dirtyDirs[n] = true
			return err
		}
	}
	return nil
}

// note takes note of a change. It returns false where changes were missed.
func (m *memory) note(c workspace.Notice) bool {
	if c.Missed {
		return false
	}
	n := m.watched[c.Dir]
	if n == nil || c.Gone {
		// Of a directory that was left; or the directory above tells where it has gone.
		// The top has none, but is kept open: it is the workspace, whatever its name.
		return true
	}
	if c.Name == "" || c.Came || c.Went || c.IsDir || new(ruleFiles).see([]byte(c.Name)) {
		m.dirtyDirs[n] = true
	}
	if c.IsDir {
		// Whether it was made, moved, removed or had its mode changed: it is entered
		// anew. It is left at once, since it may be entered elsewhere.
		if i, ok := slices.BinarySearchFunc(n.dirs, c.Name, func(s *dirNode, name string) int { return strings.Compare(s.name, name) }); ok {
			m.leave(n.dirs[i])
			n.dirs[i].gone = true
		}
		return true
	}
	if i, ok := slices.BinarySearchFunc(n.files, c.Name, func(f *fileNode, name string) int { return strings.Compare(f.name, name) }); ok {
		m.dirtyFiles[n.files[i]] = true
	}
	return true
}

// relist lists a directory again.
func (m *memory) relist(ctx context.Context, n *dirNode) error {
	if !n.entered || n.gone || n.problem != nil {
		return nil
	}
	d, err := m.ws.OpenDir(n.path)
	if err != nil {
		return m.cannotEnter(n, err)
	}
	defer d.Close()
	return m.list(ctx, n, d)
}
