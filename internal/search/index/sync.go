// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/search/ignore"
	"github.com/toolserver/toolserver/internal/workspace"
)

// sync brings the memory up to date with everything that had happened when it
// was called: the names, and the texts if these matter. After errCold and
// errMissed the memory is of no use.
func (m *Tree) sync(ctx context.Context, texts bool) error {
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
	if checked, err := m.findWriters(ctx, texts); err != nil {
		return err
	} else if checked {
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
func (m *Tree) hear() error {
	missed := false
	if err := m.watch.Changes(func(c workspace.Notice) { missed = !m.note(c) || missed }); err != nil || missed {
		return errMissed
	}
	o := &m.shared.writers
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
func (m *Tree) refresh(ctx context.Context) error {
	for len(m.dirtyDirs)+len(m.dirtyFiles) > 0 {
		if err := m.relistDirty(ctx); err != nil {
			return err
		}
		if err := m.readDirty(ctx); err != nil {
			return err
		}
	}
	return nil
}

// findWriters looks at files with rules that were opened, and at those with
// texts if these matter, and reports whether there were any. What has a writer is
// told by the next hear.
func (m *Tree) findWriters(ctx context.Context, texts bool) (checked bool, err error) {
	o := &m.shared.writers
	o.mu.Lock()
	missed := m.news.missed
	m.news.missed.rules = false
	o.mu.Unlock()
	if missed.rules {
		m.suspectRules()
	}
	if missed.texts && texts {
		m.arrange()
		return true, m.checkEverything(ctx)
	}
	list := m.suspects(texts, -1)
	return missed.rules || len(list) > 0, m.checkAll(ctx, list)
}

// nextStamp returns a new one, which is the state of the tree.
func (m *Tree) nextStamp() uint64 {
	m.state = stamps.Add(1)
	return m.state
}

// suspectRules has all rules read again.
func (m *Tree) suspectRules() {
	for _, n := range m.watched {
		if n.texts != (ignore.Texts{}) || len(n.sources) > 0 {
			m.dirtyDirs[n] = true
		}
	}
}

// restlessChanged reports whether rules of which nothing is told have changed:
// what git excludes, which is in a directory that is not watched, and files that
// can be written to without a word.
func (m *Tree) restlessChanged(n *Dir) bool {
	d, err := m.ws.OpenDir(n.Path)
	if err != nil {
		return true
	}
	defer d.Close()
	return n.texts.Unsure || ignore.ReadExclude(d) != n.texts.Excludes
}

// relistDirty lists the directories that have changed.
func (m *Tree) relistDirty(ctx context.Context) error {
	// From above to below: rules come from above, and so does the end.
	for _, n := range slices.SortedFunc(maps.Keys(m.dirtyDirs), func(a, b *Dir) int { return a.depth - b.depth }) {
		delete(m.dirtyDirs, n)
		if err := m.relist(ctx, n); err != nil {
			m.dirtyDirs[n] = true
			return err
		}
	}
	return nil
}

// note takes note of a change. It returns false where changes were missed.
func (m *Tree) note(c workspace.Notice) bool {
	if c.Missed {
		return false
	}
	n := m.watched[c.Dir]
	if n == nil || c.Gone {
		// Of a directory that was left; or the directory above tells where it has gone.
		// The top has none, but is kept open: it is the workspace, whatever its name.
		return true
	}
	if c.Name == "" || c.Came || c.Went || c.IsDir || new(ignore.Present).See([]byte(c.Name)) {
		m.dirtyDirs[n] = true
	}
	if c.IsDir {
		// Whether it was made, moved, removed or had its mode changed: it is entered
		// anew. It is left at once, since it may be entered elsewhere.
		if i, ok := slices.BinarySearchFunc(n.Dirs, c.Name, func(s *Dir, name string) int { return strings.Compare(s.Name, name) }); ok {
			m.leave(n.Dirs[i])
			n.Dirs[i].gone = true
		}
		return true
	}
	if i, ok := slices.BinarySearchFunc(n.Files, c.Name, func(f *File, name string) int { return strings.Compare(f.Name, name) }); ok {
		m.dirtyFiles[n.Files[i]] = true
	}
	return true
}

// relist lists a directory again.
func (m *Tree) relist(ctx context.Context, n *Dir) error {
	if !n.Entered || n.gone || n.Problem != nil {
		return nil
	}
	d, err := m.ws.OpenDir(n.Path)
	if err != nil {
		return m.cannotEnter(n, err)
	}
	defer d.Close()
	return m.list(ctx, n, d)
}
