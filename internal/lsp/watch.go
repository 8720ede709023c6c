// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/workspace"
)

// Bounds of what is known of the files of a workspace.
const (
	maxWatched = 8192    // directories of a session that the kernel tells of
	watchShare = 8       // of what the user may watch, the part for all sessions: the rest is for what agents run
	maxLooked  = 100_000 // entries that are looked at where it does not
	maxPending = 20_000  // changes that a server was not told of yet
)

// late are directories that are watched last: they are large, and change seldom.
var late = []string{"node_modules", "vendor", "target", ".venv", "venv", "__pycache__", "dist", "build"}

// A tracker knows which files of a workspace have changed since it was last asked: the
// kernel tells, at the moment of the change. Where it cannot, all files are looked at.
type tracker struct {
	ws   *workspace.Workspace
	left *atomic.Int64 // directories that trackers may still watch

	mu      sync.Mutex
	begun   bool
	closed  bool
	watch   *workspace.Watch // nil: files are looked at
	dirs    map[int32]string // what is watched, by its number
	seen    map[string]workspace.Version
	partial bool // there are more than are known
	readers []*subscription
}

// A subscription is the changes that one server was not told of yet.
type subscription struct {
	from    *tracker
	changes map[string]protocol.FileChangeType
	missed  bool // anything may have changed
}

func newTracker(ws *workspace.Workspace, left *atomic.Int64) *tracker {
	return &tracker{ws: ws, left: left}
}

// subscribe has changes noted from now on.
func (t *tracker) subscribe() *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &subscription{from: t, changes: make(map[string]protocol.FileChangeType)}
	t.readers = append(t.readers, s)
	if !t.begun && !t.closed {
		t.begun = true
		t.begin()
	}
	return s
}

// end ends that.
func (s *subscription) end() {
	t := s.from
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers = slices.DeleteFunc(t.readers, func(r *subscription) bool { return r == s })
	if len(t.readers) == 0 {
		t.forget()
	}
}

// close ends the watch.
func (t *tracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.forget()
}

func (t *tracker) forget() {
	t.unwatch()
	t.seen, t.begun, t.partial = nil, false, false
}

// unwatch gives back what is watched.
func (t *tracker) unwatch() {
	if t.watch != nil {
		t.watch.Close()
	}
	t.left.Add(int64(len(t.dirs)))
	t.watch, t.dirs = nil, nil
}

// begin watches the workspace, or looks at it.
func (t *tracker) begin() {
	if t.begunWatch() {
		return
	}
	t.unwatch()
	t.seen, t.partial = t.list()
}

// begunWatch watches every directory, and reports whether it could.
func (t *tracker) begunWatch() bool {
	top, err := t.ws.OpenDir(".")
	if err != nil {
		return false
	}
	defer top.Close()
	if !top.Local() {
		return false
	}
	if t.watch, err = workspace.NewWatch(); err != nil {
		t.watch = nil
		return false
	}
	t.dirs = make(map[int32]string)
	return t.follow(".", nil) == nil
}

var errTooMany = errors.New("more than can be watched")

// follow watches a directory and those below it, and tells what is in them.
func (t *tracker) follow(path string, found func(path string)) error {
	queue, rest := []string{path}, []string(nil)
	for len(queue) > 0 || len(rest) > 0 {
		if len(queue) == 0 {
			queue, rest = rest, nil
		}
		at := queue[0]
		queue = queue[1:]
		dir, err := t.ws.OpenDir(at)
		if err != nil {
			continue // it is gone, or may not be read by a server either
		}
		number, err := t.add(dir)
		if err != nil {
			dir.Close()
			return err
		}
		t.dirs[number] = at
		// What is listed after it is watched cannot be missed.
		_ = dir.List(make([]byte, 8<<10), func(name []byte, kind workspace.FileType) bool {
			below := filepath.Join(at, string(name))
			switch {
			case kind == workspace.Directory && string(name) == ".git":
			case kind == workspace.Directory && slices.Contains(late, string(name)):
				rest = append(rest, below)
			case kind == workspace.Directory:
				queue = append(queue, below)
			case found != nil && kind == workspace.Regular:
				found(below)
			}
			return true
		})
		dir.Close()
	}
	return nil
}

// add watches a directory, unless too many are.
func (t *tracker) add(dir *workspace.Dir) (number int32, err error) {
	if t.left.Add(-1) < 0 || len(t.dirs) >= maxWatched {
		t.left.Add(1)
		return 0, errTooMany
	}
	number, err = t.watch.Add(dir)
	if _, known := t.dirs[number]; known || err != nil {
		t.left.Add(1)
	}
	return number, err
}

// list returns the files of the workspace, and whether there are more.
func (t *tracker) list() (files map[string]workspace.Version, more bool) {
	files = make(map[string]workspace.Version)
	all, err := t.ws.Walk(context.Background(), ".", maxLooked, func(e workspace.Entry) error {
		if e.Mode.IsDir() && filepath.Base(e.Path) == ".git" {
			return workspace.SkipDir
		}
		if e.Mode.IsRegular() && !workspace.IsTemporary(e.Path) {
			files[e.Path] = e.Version
		}
		if len(files) > maxLooked {
			return errTooMany
		}
		return nil
	})
	return files, err != nil || !all
}

// take returns what has changed since it was last asked. missed says that anything may
// have, partial that not every file is known.
func (s *subscription) take() (changes map[string]protocol.FileChangeType, missed, partial bool) {
	t := s.from
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun && !t.closed {
		t.refresh()
	}
	changes, missed = s.changes, s.missed
	if len(changes) > 0 {
		s.changes = make(map[string]protocol.FileChangeType)
	}
	s.missed = false
	return changes, missed, t.partial
}

// pending returns what has changed since the server was last told. missed says that anything
// may have.
func (s *subscription) pending() (paths map[string]bool, missed bool) {
	t := s.from
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun && !t.closed {
		t.refresh()
	}
	paths = make(map[string]bool, len(s.changes))
	for path := range s.changes {
		paths[path] = true
	}
	return paths, s.missed
}

// refresh notes what has changed until now.
func (t *tracker) refresh() {
	if t.watch == nil {
		now, partial := t.list()
		for path, version := range now {
			if was, known := t.seen[path]; !known {
				t.note(path, protocol.FileChangeTypeCreated)
			} else if was != version {
				t.note(path, protocol.FileChangeTypeChanged)
			}
		}
		for path := range t.seen {
			if _, there := now[path]; !there {
				t.note(path, protocol.FileChangeTypeDeleted)
			}
		}
		t.seen, t.partial = now, partial
		return
	}
	again := false
	err := t.watch.Changes(func(n workspace.Notice) { again = t.notice(n) || again })
	if err == nil && !again {
		return
	}
	// Something was not told, or a directory is not watched: from the beginning.
	for _, r := range t.readers {
		r.missed = true
	}
	t.forget()
	t.begun = true
	t.begin()
}

// notice takes one change, and reports whether others may have been missed.
func (t *tracker) notice(n workspace.Notice) (missed bool) {
	if n.Missed {
		return true
	}
	dir, known := t.dirs[n.Dir]
	if !known {
		return false
	}
	if n.Name == "" {
		if n.Gone {
			delete(t.dirs, n.Dir)
			t.left.Add(1)
			return dir == "."
		}
		return false
	}
	path := filepath.Join(dir, n.Name)
	switch {
	case workspace.IsTemporary(path), n.IsDir && n.Name == ".git":
	case n.IsDir && n.Went && n.Move != 0:
		return true // what was in it is elsewhere, by names that are not known
	case n.IsDir && n.Came:
		return t.follow(path, func(path string) { t.note(path, protocol.FileChangeTypeCreated) }) != nil
	case n.IsDir:
	case n.Came:
		t.note(path, protocol.FileChangeTypeCreated)
	case n.Went:
		t.note(path, protocol.FileChangeTypeDeleted)
	default:
		t.note(path, protocol.FileChangeTypeChanged)
	}
	return false
}

// note adds a change to what each server has to be told.
func (t *tracker) note(path string, kind protocol.FileChangeType) {
	for _, r := range t.readers {
		if len(r.changes) >= maxPending {
			r.missed = true
			continue
		}
		was, known := r.changes[path]
		switch {
		case known && was == protocol.FileChangeTypeCreated && kind == protocol.FileChangeTypeChanged:
		case known && was == protocol.FileChangeTypeDeleted && kind == protocol.FileChangeTypeCreated:
			r.changes[path] = protocol.FileChangeTypeChanged // it was replaced
		default:
			r.changes[path] = kind
		}
	}
}
