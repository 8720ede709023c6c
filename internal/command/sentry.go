// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A sentry keeps what other programs run by themselves as it was: the hooks and
// the configuration of repositories, and .husky; and what the operator protects.
// The kernel can let a command
// write to a directory or not, but git must write next to its hooks. So what is
// there is noted before a command and looked at after it; what has changed is put
// back.
type sentry struct {
	ws *workspace.Workspace

	mu         sync.Mutex
	protection tools.Protection    // for which dirs were listed
	dirs       map[string]*seenDir // of the whole workspace, by path
	last       map[string]noted    // entries, by path
}

// seenDir is a directory as it was when it was last listed.
type seenDir struct {
	stat     workspace.Stat
	young    bool // it may have changed since without a trace
	children []string
	places   []string // .git and .husky in it
	own      []string // what the operator protects in it
}

const (
	gitName   = ".git"
	huskyName = ".husky"

	// clockStep is how long a change may go unnoticed by the time of a directory.
	clockStep = 20 * time.Millisecond

	// More than this is not looked at: it is no workspace of a person.
	maxSentryDirs  = 200_000
	maxSentryFiles = 10_000
	maxSentryFile  = 1 << 20
	maxSentryBytes = 16 << 20
)

// noted is a file, link or directory as it was.
type noted struct {
	stat workspace.Stat
	data []byte // of a file
	mode fs.FileMode
	link string // of a link

	unread bool // data is not known: there is too much of it
	young  bool // it may have changed since without a trace
	own    bool // it is noted because the operator protects it
}

// same reports whether n is now what was noted before.
func (n noted) same(now noted) bool {
	return n.stat == now.stat || !n.unread && !now.unread &&
		n.stat.Kind == now.stat.Kind && n.mode == now.mode && n.link == now.link && bytes.Equal(n.data, now.data)
}

// watch is what a sentry saw at one moment.
type watch struct {
	protection tools.Protection // what the operator protects; nil: nothing
	places     map[string]noted // .git and .husky themselves
	entries    map[string]noted // what is guarded in them, and what the operator protects
	bytes      int64            // of what is noted
}

func (w watch) clone() watch {
	w.places, w.entries = maps.Clone(w.places), maps.Clone(w.entries)
	return w
}

// follow has a watch go by what another protects: nobody is blamed for what
// changed while it was not protected.
func (w *watch) follow(now *watch) {
	if w.protection == now.protection {
		return
	}
	protects := func(p tools.Protection, name string) bool { return p != nil && p.Protects(name) }
	maps.DeleteFunc(w.entries, func(name string, n noted) bool { return n.own && !protects(now.protection, name) })
	for name, n := range now.entries {
		if n.own && !protects(w.protection, name) {
			w.entries[name] = n
		}
	}
	w.protection = now.protection
}

// same reports whether nothing has changed.
func (w *watch) same(now *watch) bool {
	equal := func(a, b noted) bool { return a.same(b) }
	return w.protection == now.protection && maps.EqualFunc(w.entries, now.entries, equal) &&
		maps.EqualFunc(w.places, now.places, func(a, b noted) bool { return a.stat.Kind == b.stat.Kind })
}

// look notes what there is.
func (s *sentry) look(protection tools.Protection) watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.protection != protection {
		s.protection, s.dirs = protection, nil
	}
	w := watch{protection: protection, places: make(map[string]noted), entries: make(map[string]noted)}
	root, err := s.ws.OpenDir(".")
	if err != nil {
		return w
	}
	defer root.Close()
	seen := make(map[string]*seenDir, len(s.dirs))
	s.visit(root, ".", seen, &w)
	s.dirs, s.last = seen, w.entries
	return w
}

// visit goes through a directory and those below it. One that has not changed is
// not listed again.
func (s *sentry) visit(root *workspace.Dir, dir string, seen map[string]*seenDir, w *watch) {
	stat, err := root.Lstat(dir)
	if err != nil || stat.Kind != workspace.Directory || len(seen) >= maxSentryDirs {
		return
	}
	d := s.dirs[dir]
	if d == nil || d.young || d.stat != stat {
		d = s.list(dir, stat)
	}
	seen[dir] = d
	for _, name := range d.places {
		s.guard(root, path.Join(dir, name), w)
	}
	for _, name := range d.own {
		s.noteTree(root, path.Join(dir, name), true, w)
	}
	for _, child := range d.children {
		s.visit(root, path.Join(dir, child), seen, w)
	}
}

func (s *sentry) list(dir string, stat workspace.Stat) *seenDir {
	d := &seenDir{stat: stat, young: time.Since(time.Unix(0, stat.CTime)) < clockStep}
	open, err := s.ws.OpenDir(dir)
	if err != nil {
		d.young = true
		return d
	}
	defer open.Close()
	open.List(make([]byte, 16<<10), func(name []byte, kind workspace.Kind) bool {
		switch string(name) {
		case gitName, huskyName:
			d.places = append(d.places, string(name))
		default:
			switch {
			case s.protection != nil && s.protection.Protects(path.Join(dir, string(name))):
				d.own = append(d.own, string(name))
			case kind == workspace.Directory:
				d.children = append(d.children, string(name))
			}
		}
		return true
	})
	return d
}

// guard notes a .git or .husky and what is guarded in it.
func (s *sentry) guard(root *workspace.Dir, place string, w *watch) {
	n, err := s.note(root, place, w)
	if err != nil {
		return
	}
	w.places[place] = n
	switch {
	case n.stat.Kind != workspace.Directory:
		w.entries[place] = n
	case path.Base(place) == huskyName:
		s.noteTree(root, place, false, w)
	default:
		s.noteGit(root, place, w)
	}
}

// noteGit notes what git obeys in a directory of its own, and in those of
// submodules below it.
func (s *sentry) noteGit(root *workspace.Dir, dir string, w *watch) {
	for _, name := range []string{"config", "config.worktree"} {
		s.noteTree(root, path.Join(dir, name), false, w)
	}
	s.noteTree(root, path.Join(dir, "hooks"), false, w)
	for _, kind := range []string{"modules", "worktrees"} {
		entries, _, err := s.ws.ReadDir(path.Join(dir, kind), maxSentryFiles)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			s.noteGit(root, entry.Path, w)
		}
	}
}

// noteTree notes a file, or a directory with all that is in it.
func (s *sentry) noteTree(root *workspace.Dir, name string, own bool, w *watch) {
	if len(w.entries) >= maxSentryFiles {
		return
	}
	n, err := s.note(root, name, w)
	if err != nil {
		return
	}
	n.own = own
	w.entries[name] = n
	if n.stat.Kind != workspace.Directory {
		return
	}
	entries, _, err := s.ws.ReadDir(name, maxSentryFiles)
	if err != nil {
		return
	}
	for _, entry := range entries {
		s.noteTree(root, entry.Path, own, w)
	}
}

// note notes one entry. A file that has not changed is not read again, and one
// that is too large, alone or with the others, is not read at all.
func (s *sentry) note(root *workspace.Dir, name string, w *watch) (noted, error) {
	stat, err := root.Lstat(name)
	if err != nil {
		return noted{}, err
	}
	n := noted{stat: stat, young: time.Since(time.Unix(0, stat.CTime)) < clockStep}
	switch stat.Kind {
	case workspace.Regular:
		if old, known := s.last[name]; known && old.stat == stat && !old.young && !old.unread {
			n = old
		} else if n.unread = stat.Size > maxSentryFile || w.bytes+stat.Size > maxSentryBytes; !n.unread {
			file, err := s.ws.ReadFile(name, maxSentryFile)
			n.data, n.mode, n.unread = file.Data, file.Mode.Perm(), err != nil
		}
		w.bytes += int64(len(n.data))
	case workspace.Link:
		n.link, _ = s.ws.Readlink(name)
	}
	return n, nil
}

// compare compares what there is with what there was, puts back what has changed,
// and returns what it did, in sentences. What cannot be put back becomes part of
// what there was, so that it is told once.
func (s *sentry) compare(before *watch, after watch, how restorer) []string {
	*before = before.clone() // others may have it too
	before.follow(&after)
	r := how
	r.ws, r.before, r.after = s.ws, *before, after
	for _, place := range slices.Sorted(maps.Keys(before.places)) {
		r.place(place)
	}
	for _, name := range slices.Sorted(maps.Keys(before.entries)) {
		r.old(name)
	}
	for _, name := range slices.Sorted(maps.Keys(after.entries)) {
		if _, known := before.entries[name]; !known {
			r.fresh(name)
		}
	}
	return r.did
}

// restorer puts back what has changed.
type restorer struct {
	ws            *workspace.Workspace
	before, after watch
	did           []string

	// keep, if set, keeps what something had become, and says where.
	keep func(data []byte) string

	// seen, if set, has what was new in a repository that is new, too. It is judged
	// when it is seen again: before, it may not be complete.
	seen map[string]bool
}

func (r *restorer) say(format string, args ...any) {
	r.did = append(r.did, fmt.Sprintf(format, args...))
}

// placeOf returns the .git or .husky that a path lies in.
func placeOf(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == gitName || part == huskyName {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return name
}

// place looks after a .git or .husky as a whole: one that was moved away is
// moved back, if it can be found beside.
func (r *restorer) place(name string) {
	was, now := r.before.places[name], r.after.places[name]
	if was.stat.Kind != workspace.Directory || now.stat.Kind == workspace.Directory {
		return
	}
	entries, _, err := r.ws.ReadDir(path.Dir(name), maxSentryFiles)
	if err != nil {
		return
	}
	root, err := r.ws.OpenDir(".")
	if err != nil {
		return
	}
	defer root.Close()
	for _, entry := range entries {
		stat, err := root.Lstat(entry.Path)
		if err != nil || stat.Dev != was.stat.Dev || stat.Ino != was.stat.Ino || entry.Path == name {
			continue
		}
		if now.stat.Kind != 0 {
			r.remove(name)
		}
		if err := r.ws.Begin(nil, "", "").Rename(entry.Path, name, false); err == nil {
			r.say("%s was moved to %s, and moved back", name, entry.Path)
			s := sentry{ws: r.ws}
			s.guard(root, name, &r.after)
		}
		return
	}
	r.say("%s was removed, which cannot be undone", name)
	delete(r.before.places, name)
	below := func(entry string, _ noted) bool { return placeOf(entry) == name }
	maps.DeleteFunc(r.before.entries, below)
}

// old puts back something that was there.
func (r *restorer) old(name string) {
	was, still := r.before.entries[name]
	if !still {
		return // it went with its place
	}
	now, there := r.after.entries[name]
	if there && was.same(now) {
		return
	}
	if place := r.after.places[placeOf(name)]; place.stat.Kind != workspace.Directory && placeOf(name) != name {
		return // all of it is gone
	}
	if err := r.restore(name, was, now); err != nil {
		r.say("%s was changed, and could not be put back: %v", name, err)
		if delete(r.before.entries, name); there {
			r.before.entries[name] = now
		}
		return
	}
	r.say("%s was changed, and put back%s", name, r.kept(now))
}

func (r *restorer) restore(name string, was, now noted) error {
	if now.stat.Kind != 0 && now.stat.Kind != was.stat.Kind {
		if err := r.remove(name); err != nil {
			return err
		}
	}
	batch := r.ws.Begin(nil, "", "")
	switch was.stat.Kind {
	case workspace.Directory:
		return batch.Mkdir(name)
	case workspace.Regular:
		if was.unread {
			return errors.New("it was too large to be kept")
		}
		current, err := r.ws.ReadFile(name, maxSentryFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			if err := r.remove(name); err != nil {
				return err
			}
			current = workspace.File{}
		}
		_, err = batch.Write(name, was.data, was.mode, current)
		return err
	}
	return errors.New("it was no file")
}

func (r *restorer) remove(name string) error { return r.ws.RemoveAll(context.Background(), name) }

// fresh judges something that was not there.
func (r *restorer) fresh(name string) {
	place := placeOf(name)
	_, known := r.before.places[place]
	now := r.after.entries[name]
	if now.own {
		r.undoFresh(name)
		return
	}
	unseen := r.seen != nil && !r.seen[name]
	switch base := path.Base(name); {
	case place == name && base == gitName:
		if r.pointsInside(name, now) || unseen {
			r.see(name)
			return
		}
	case path.Base(place) == huskyName:
		if !known {
			name = place // as a whole, once
		}
	case base == "hooks" && now.stat.Kind == workspace.Directory, strings.HasSuffix(base, ".sample"):
		return
	case base == "config" && !known && now.stat.Kind == workspace.Regular:
		if !dangerousConfig(now.data) || unseen {
			r.see(name)
			return // of a repository that was made or cloned
		}
	}
	r.undoFresh(name)
}

func (r *restorer) see(name string) {
	if r.seen != nil {
		r.seen[name] = true
	}
}

// kept keeps what something had become, and says where.
func (r *restorer) kept(now noted) string {
	if r.keep == nil || now.stat.Kind != workspace.Regular || now.unread {
		return ""
	}
	return r.keep(now.data)
}

func (r *restorer) undoFresh(name string) {
	if info, err := r.ws.Stat(name); err == nil && !info.Exists() {
		return
	}
	if err := r.remove(name); err != nil {
		r.say("%s was made, and could not be removed: %v", name, err)
		r.before.entries[name] = r.after.entries[name]
		return
	}
	r.say("%s was made, and removed%s", name, r.kept(r.after.entries[name]))
}

// pointsInside reports whether a .git that is a file leads to a directory that
// is looked after: that of a submodule or of a worktree.
func (r *restorer) pointsInside(name string, now noted) bool {
	target, ok := strings.CutPrefix(string(now.data), "gitdir: ")
	if !ok || now.stat.Kind != workspace.Regular {
		return false
	}
	target = strings.TrimSpace(target)
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(name), target)
	}
	resolved, inside := r.ws.Resolve(target)
	place := placeOf(resolved)
	rest := strings.TrimPrefix(resolved, place)
	return inside && path.Base(place) == gitName && (strings.HasPrefix(rest, "/modules/") || strings.HasPrefix(rest, "/worktrees/"))
}

// runsPrograms matches keys of git's configuration that name programs, or files
// that do.
var runsPrograms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\s*(\[\s*(alias|filter|include|includeif|credential|diff|merge|difftool|mergetool|gpg|browser|man|pager|sequence|guitool)\b` +
		`|(hookspath|fsmonitor|sshcommand|gitproxy|pager|editor|askpass|attributesfile|worktree|program|helper|command|textconv|driver|process|clean|smudge|cmd|uploadpack|receivepack|vcs|insteadof|pushinsteadof|diffFilter|alternaterefscommand)\s*(=|$))`)
})

// dangerousConfig reports whether a configuration makes git run something.
func dangerousConfig(data []byte) bool {
	runs := runsPrograms()
	for line := range bytes.Lines(data) {
		// A section may have its first key on its own line.
		for _, part := range bytes.SplitAfter(line, []byte("]")) {
			if runs.Match(bytes.TrimSpace(part)) && !bytes.Contains(bytes.ToLower(part), []byte("fsmonitor = false")) {
				return true
			}
		}
		if bytes.HasSuffix(bytes.TrimRight(line, "\r\n"), []byte("\\")) {
			return true // a key may hide behind a line that goes on
		}
	}
	return false
}
