// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

const (
	gitName   = ".git"
	huskyName = ".husky"

	// What one walk may take. A look from the directories near a repository goes
	// through those alone that have changed.
	maxDirs   = 200_000
	maxDepth  = 200
	maxPlaces = 500 // that are made, beside those that were there
	maxHeld   = 256
	nearDirs  = 512
	nearNames = 1_000

	// nearSize is how large a directory may be for that: some file systems read
	// all of it to list a part.
	nearSize = 32 << 10
)

// A place is a repository: a .git, which may lead to a directory elsewhere, or a
// directory of git that has another name.
type place struct {
	path string // of the .git, or of the directory
	work string // the directory that has the .git; "" where there is none
	dir  string // the directory of git; "" where it is not in the workspace
	id   identity
	held *workspace.Dir // that directory: as long as it is open, no other gets its number

	// fresh says that it was made while something ran, so that what is new in it
	// is no change of what a person had.
	fresh bool

	// first says that it was there before the first that could write.
	first bool
}

// identity tells a directory from others, whatever it is called.
type identity struct{ Dev, Ino uint64 }

func identityOf(s workspace.Stat) identity { return identity{s.Dev, s.Ino} }

// hold notes which directory a place is, and keeps it open if not too many are;
// nil: it is none any more.
func (k *keeper) hold(p *place, d *workspace.Dir, id identity) {
	if p.held != nil {
		p.held.Close()
		k.held--
	}
	p.held, p.id = nil, id
	if d != nil && k.held < maxHeld {
		p.held = d
		k.held++
	} else if d != nil {
		d.Close()
	}
}

// candidate is something a walk has found.
type candidate struct {
	path string
	git  bool // a directory of git, not a .git
	own  bool // something that the operator protects
}

// A walker goes through directories and finds what has to be looked after.
type walker struct {
	ctx         context.Context
	protections []tools.Protection
	found       func(candidate)

	inside bool  // what is in directories of git, too
	budget int   // directories
	names  int   // of one directory; 0: all
	since  int64 // when what is gone through has changed at the earliest
	skip   func(path string) bool
	cut    string // what was left out, if anything was

	buffer [16 << 10]byte
}

// walk goes through a directory and those below it.
func (w *walker) walk(t *tree, dir string) {
	d, err := t.ws.OpenDir(dir)
	if err != nil {
		return
	}
	defer d.Close()
	w.visit(d, dir, maxDepth)
}

func (w *walker) visit(d *workspace.Dir, dir string, depth int) {
	switch w.budget--; {
	case w.ctx.Err() != nil:
		return
	case depth == 0:
		w.cut = cmp.Or(w.cut, fmt.Sprintf("%s, which lies below %d directories", clip(dir), maxDepth))
		return
	case w.budget < 0:
		w.cut = cmp.Or(w.cut, fmt.Sprintf("%s and others, for there are very many directories", clip(dir)))
		return
	}
	var subs []string
	var head, objects, refs, common bool
	listed := 0
	d.List(w.buffer[:], func(name []byte, kind workspace.FileType) bool {
		if listed++; w.names > 0 && listed > w.names {
			return false
		}
		if w.protected(dir, name) {
			w.found(candidate{path: path.Join(dir, string(name)), own: true})
			return true
		}
		switch string(name) {
		case gitName:
			w.found(candidate{path: path.Join(dir, gitName)})
			return true
		case "HEAD":
			head = true
		case "commondir":
			common = true
		case "objects":
			objects = true
		case "refs":
			refs = true
		}
		if kind == workspace.Directory {
			subs = append(subs, string(name))
		}
		return true
	})
	git := head && (common || objects && refs)
	if git {
		w.found(candidate{path: dir, git: true})
	}
	for _, name := range subs {
		below := path.Join(dir, name)
		if git && !w.inside && gitInside[name] || w.skip != nil && w.skip(below) {
			continue
		}
		if w.since > 0 {
			if stat, err := d.Lstat(name); err != nil || stat.CTime < w.since || stat.Size > nearSize {
				continue
			}
		}
		sub, err := d.OpenDir(name)
		if err != nil {
			continue // gone, or nothing that a person would find either
		}
		w.visit(sub, below, depth-1)
		sub.Close()
	}
}

// gitInside are directories in which git keeps its own. What is to be looked after
// in them is known; work trees may lie beside them. Sweeps go into them nevertheless,
// for anything may look like a directory of git.
var gitInside = set("branches hooks info lfs logs modules objects rebase-apply rebase-merge refs rr-cache sequencer worktrees")

func (w *walker) protected(dir string, name []byte) bool {
	if len(w.protections) == 0 {
		return false
	}
	at := path.Join(dir, string(name))
	return slices.ContainsFunc(w.protections, func(p tools.Protection) bool { return p.Protects(at) })
}

// begin gets to know the workspace. What is there is trusted, unless commands were
// running when the server last ended.
func (k *keeper) begin(m *Mark) {
	k.ready, k.most = true, maxDirs
	m.keeper.protection = m.writer.Protection
	k.protections = k.protectionsNow()
	crashed := k.noted.load(k)
	w := walker{ctx: k.ctx, protections: k.protections, budget: maxDirs, inside: true, found: func(c candidate) { k.adopt(c, !crashed) }}
	w.walk(k.tree, ".")
	k.most = len(k.places) + maxPlaces
	if crashed {
		for member := range k.members {
			k.trustHomes(member)
		}
		m.found = k.examine()
	}
	k.rebase()
	m.found = append(m.found, k.unseenNow(&w)...)
}

// follow adopts the repositories that the indexes of others lead git into, and those
// that their indexes do.
func (k *keeper) follow(s *snapshot, adopt func(candidate)) {
	for len(s.links) > 0 {
		links := s.links
		s.links = nil
		for _, c := range links {
			if k.places[c.path] != nil {
				continue
			}
			adopt(c)
			if p := k.places[c.path]; p != nil {
				s.place(p)
				k.again = true
			}
		}
	}
}

// unseenNow returns what a walk has left out, if the one before has not done so too.
func (k *keeper) unseenNow(w *walker) (found []string) {
	if w.cut != "" && k.cut == "" {
		found = []string{unseen + w.cut}
	}
	k.cut = w.cut
	return found
}

// farNow returns the repositories that an index names and nobody can look at, each once.
func (k *keeper) farNow(s *snapshot) (found []string) {
	for _, at := range s.far {
		if len(k.far) < maxFound && !k.far[at] {
			k.far[at] = true
			found = append(found, unseen+clip(at)+", which an index of git names: its path is too long")
		}
	}
	return found
}

// unseen begins what is told of directories that nobody has looked at.
const unseen = "Not searched for repositories: "

// protectionsNow returns what the operator protects of the workspace, as the last
// calls of its sessions were told.
func (k *keeper) protectionsNow() (list []tools.Protection) {
	for member := range k.members {
		if p := member.protection; p != nil && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// protect has what the operator protects looked after from now on: nobody is
// blamed for what changed while it was not protected.
func (k *Keeper) protect(p tools.Protection) {
	if k.protection == p {
		return
	}
	k.protection = p
	before := k.protections
	k.protections = k.protectionsNow()
	for top := range k.own {
		if !k.isOwn(top) {
			delete(k.own, top)
		}
	}
	maps.DeleteFunc(k.base, func(r ref, it item) bool { return it.Kind == ownKind && !k.isOwn(r.path) })
	if p == nil || slices.Contains(before, p) {
		return
	}
	w := walker{ctx: k.ctx, protections: []tools.Protection{p}, budget: maxDirs, found: func(c candidate) {
		if !c.own || k.own[c.path] {
			return
		}
		k.own[c.path] = true
		s := k.newSnapshot(true)
		s.tree(ref{k.tree, c.path}, ownKind, "", maxNested)
		for r, it := range s.now {
			if _, known := k.base[r]; !known {
				k.base[r] = it
			}
		}
	}}
	w.walk(k.tree, ".")
	k.noted.dirty = true
}

func (k *keeper) isOwn(at string) bool {
	return slices.ContainsFunc(k.protections, func(p tools.Protection) bool { return p.Protects(at) })
}

// adopt has something looked after from now on. What is not trusted is compared
// with nothing, but for what was written while nothing ran.
func (k *keeper) adopt(c candidate, trust bool) {
	if c.own {
		if !k.own[c.path] {
			k.own[c.path] = true
			if !trust {
				s := k.newSnapshot(false)
				s.tree(ref{k.tree, c.path}, ownKind, "", maxNested)
				k.trustQuiet(s)
			}
		}
		return
	}
	if k.places[c.path] != nil {
		return
	}
	p := &place{path: c.path, fresh: !trust, first: trust}
	if !c.git {
		p.work = path.Dir(c.path)
	} else {
		p.dir = c.path
	}
	k.places[c.path] = p
	s := k.newSnapshot(trust)
	s.place(p)
	if !trust && !k.inherit(p) {
		k.trustQuiet(s)
	}
	if !trust && len(k.places) > k.most { // each sweep has a look at it
		k.tell(k.judge(s))
		k.forget(p)
		return
	}
	if trust {
		for _, c := range s.links {
			k.adopt(c, true)
		}
	}
	if p.dir == "" {
		return
	}
	// Submodules and work trees of it.
	for _, name := range []string{"modules", "worktrees"} {
		w := walker{ctx: k.ctx, budget: maxDirs, found: func(c candidate) { k.adopt(c, trust) }}
		w.walk(k.tree, path.Join(p.dir, name))
	}
}

// trustQuiet trusts what was written while nothing ran.
func (k *keeper) trustQuiet(s *snapshot) {
	for r, it := range s.now {
		if _, known := k.base[r]; known || !k.quiet(it.stat.CTime) {
			continue
		}
		// What is in a directory may have come with it.
		if dir, err := r.tree.root.Lstat(path.Dir(r.path)); it.Kind == hookKind && (err != nil || !k.quiet(dir.CTime)) {
			continue
		}
		if !k.moved(r, it.stat.CTime) {
			k.base[r] = it
		}
	}
}

// trustPersons trusts what was changed in the repositories that are known since
// nothing runs.
func (k *keeper) trustPersons() {
	s := k.takeSnapshot(false)
	k.trustQuiet(s)
	for r, was := range maps.Clone(k.base) {
		it, there := s.now[r]
		dir, err := r.tree.root.Lstat(path.Dir(r.path))
		switch {
		case there && was.Kind == it.Kind && !was.same(it) && k.quiet(it.stat.CTime) && !k.moved(r, it.stat.CTime):
			k.base[r], k.noted.dirty = it, true
		case !there && s.done[was.Owner] && err == nil && k.quiet(dir.CTime):
			delete(k.base, r)
			k.noted.dirty = true
		}
	}
}

// moved reports whether a file may have been moved since it was written, together with a directory
// around it. Moving a directory changes the directory and its parent.
func (k *keeper) moved(r ref, written int64) bool {
	changed := func(dir string) bool {
		stat, err := r.tree.root.Lstat(dir)
		return err != nil || stat.CTime >= written && !k.quiet(stat.CTime)
	}
	last := false
	for at := r.path; at != "."; {
		at = path.Dir(at)
		now := changed(at)
		if now && last {
			return true
		}
		last = now
	}
	return false
}

// inherit keeps the trusted items of a repository that was moved, if the repository was
// there before the first command.
func (k *keeper) inherit(p *place) bool {
	if p.id == (identity{}) {
		return false
	}
	for _, other := range k.places {
		if other == p || !other.first || other.id != p.id || other.dir == p.dir {
			continue
		}
		if stat, err := k.tree.root.Lstat(other.dir); err == nil && identityOf(stat) == p.id {
			continue // it is there as well
		}
		p.fresh, p.first = other.fresh, true
		for r, it := range maps.Clone(k.base) {
			if it.Owner != other.dir {
				continue
			}
			delete(k.base, r)
			if rest, ok := below(r.path, other.dir); ok {
				r.path = path.Join(p.dir, rest)
			} else if rest, ok := below(r.path, other.work); ok && other.work != "" {
				r.path = path.Join(p.work, rest)
			}
			it.Owner = p.dir
			k.base[r] = it
		}
		other.fresh, other.first = true, false // whatever it is now
		k.hold(other, nil, identity{})
		return true
	}
	return false
}

// below returns what of a path lies below a directory.
func below(at, dir string) (rest string, ok bool) {
	if dir == "." {
		return at, true
	}
	return strings.CutPrefix(at, dir+"/")
}

// discover looks for new repositories near those that are known: in what has
// changed since the oldest that runs began.
func (k *keeper) discover() {
	if len(k.marks) == 0 {
		return
	}
	for _, c := range k.near(k.marks[0].begun.Add(-clockStep).UnixNano()) {
		k.adopt(c, false)
	}
}

// discoverQuiet looks near those that are known for repositories that a person made
// since nothing runs, before something does again: later nobody could tell that it
// was not moved there.
func (k *keeper) discoverQuiet() {
	for _, c := range k.near(k.idle.UnixNano()) {
		if !c.own && k.places[c.path] == nil {
			k.adoptQuiet(c)
		}
	}
}

// adoptQuiet adopts a repository while nothing runs: what in it is no person's is
// taken back before the rest is trusted.
func (k *keeper) adoptQuiet(c candidate) {
	k.adopt(c, false)
	if p := k.places[c.path]; p != nil {
		s := k.newSnapshot(false)
		s.place(p)
		k.tell(k.judge(s))
	}
}

// near returns what is near the repositories that are known, in what has changed
// since a time.
func (k *keeper) near(since int64) (found []candidate) {
	w := walker{ctx: k.ctx, protections: k.protections, budget: nearDirs, names: nearNames, since: since}
	w.found = func(c candidate) { found = append(found, c) }
	gone := make(map[string]bool)
	w.skip = func(at string) bool { seen := gone[at]; gone[at] = true; return seen }
	near := func(top string) {
		if stat, err := k.tree.root.Lstat(top); err == nil && stat.Kind == workspace.Directory && stat.CTime >= since && stat.Size <= nearSize && !w.skip(top) {
			w.walk(k.tree, top)
		}
	}
	near(".")
	modules := walker{ctx: k.ctx, budget: nearDirs, found: w.found, skip: func(at string) bool { return k.places[at] != nil }}
	for _, p := range k.places {
		if p.work != "" {
			near(p.work)
		}
		if p.dir == "" {
			continue
		}
		near(path.Join(p.dir, "worktrees"))
		if stat, err := k.tree.root.Lstat(path.Join(p.dir, "modules")); err == nil && stat.Kind == workspace.Directory {
			modules.walk(k.tree, path.Join(p.dir, "modules"))
		}
	}
	return found
}

// forget has a repository no longer looked after.
func (k *keeper) forget(p *place) {
	k.hold(p, nil, identity{})
	delete(k.places, p.path)
	maps.DeleteFunc(k.base, func(_ ref, it item) bool { return it.Owner == p.path })
}

// forgetGone forgets repositories that are no longer there.
func (k *keeper) forgetGone() {
	for _, p := range k.places {
		if stat, err := k.tree.root.Lstat(p.path); err != nil || stat.Kind == workspace.Absent {
			k.forget(p)
		}
	}
}
