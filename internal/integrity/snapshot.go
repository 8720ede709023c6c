// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/workspace"
)

// itemKind is why something is looked after, and so how it is judged.
type itemKind int

const (
	configKind  itemKind = iota // configuration of git
	hookKind                    // in a directory of hooks of git's own
	scriptKind                  // in one that lies in a work tree, such as .husky
	pointerKind                 // a .git that is no directory
	commonKind                  // where a directory of git says that another has the rest
	todoKind                    // what a rebase is going to do
	ownKind                     // what the operator protects
	indexKind                   // what git writes to a work tree
)

const (
	maxFile     = 1 << 20
	maxBytes    = 16 << 20 // of all that is kept
	maxItems    = 10_000   // of one directory, and that an operator protects
	maxHooks    = 100      // new ones that are removed one by one
	maxNested   = 16
	maxIncludes = 10
	maxPointer  = 8 << 10
)

// ref names a file or directory that is looked after.
type ref struct {
	tree *tree
	path string
}

func (r ref) String() string { return r.tree.name + r.path }

// item is something that is looked after, as it is or was.
type item struct {
	Kind   itemKind
	Owner  string // the repository it is part of; "" where it is of none
	Type   workspace.FileType
	Mode   fs.FileMode
	Link   string
	Data   []byte
	Unread bool    // Data is not known: there is too much of it
	Broken bool    // git cannot read it either
	Keys   []entry // what makes git run something

	hashes hashSizes // of a repository, as its configuration says
	shared []string  // the indexes that have the rest of one
	links  []string  // the repositories that an index names
	works  []string  // where a configuration has the work tree
	leads  bool      // what is in it depends on where a path leads

	// renames says that the shared index has the name of such a repository, and all that
	// each entry of one may be one therefore.
	renames, all bool
	at           string // where Data is from, if that is not its own path
	stat         workspace.Stat
	young        bool // it may have changed since without a trace
}

// same reports whether nothing has changed that matters.
func (i item) same(now item) bool {
	if now.Kind == indexKind {
		return i.sameIndex(now)
	}
	if i.stat == now.stat && i.Type != workspace.Link && (!i.young || i.Unread && now.Unread) {
		return !now.leads || len(surplus(now.Keys, i.Keys)) == 0
	}
	return i.Type == now.Type && i.Link == now.Link && i.Mode == now.Mode && i.Broken == now.Broken &&
		!i.Unread && !now.Unread && bytes.Equal(i.Data, now.Data) && (!now.leads || len(surplus(now.Keys, i.Keys)) == 0)
}

// version is a hook of a repository with a content.
type version struct {
	owner string
	name  string
	mode  fs.FileMode
	hash  workspace.Hash
}

func versionOf(owner string, r ref, it item) version {
	return version{owner, path.Base(r.path), it.Mode & 0o111, workspace.HashOf(it.Data)}
}

// version returns which hook of which repository something is. Work trees of one
// share its hooks.
func (s *snapshot) version(r ref, it item) version {
	return versionOf(cmp.Or(s.common[it.Owner], it.Owner), r, it)
}

// listing is what a directory has, as of a time.
type listing struct {
	stat  workspace.Stat
	young bool
	names []string
}

// A snapshot is what there is at one moment.
type snapshot struct {
	k        *keeper
	trusting bool // what is there is going to be trusted
	now      map[ref]item
	kept     map[string]bool     // what was looked for in the workspace, there or not
	done     map[string]bool     // the owners that were looked at
	hooks    map[string][]string // trusted core.hooksPath of directories of git
	works    map[string][]string // where their configuration has the work tree
	common   map[string]string   // directories of git that have another
	all      map[ref]bool        // indexes each entry of which may be a repository
	links    []candidate         // repositories that indexes name and are not known
	far      []string            // those that nobody can look at
	bytes    int
	own      int
}

func (k *keeper) newSnapshot(trusting bool) *snapshot {
	return &snapshot{
		k: k, trusting: trusting, now: make(map[ref]item, len(k.seen)), done: make(map[string]bool),
		hooks: make(map[string][]string), works: make(map[string][]string), common: make(map[string]string), kept: make(map[string]bool),
		all: make(map[ref]bool),
	}
}

// takeSnapshot looks at everything.
func (k *keeper) takeSnapshot(trusting bool) *snapshot {
	s := k.newSnapshot(trusting)
	s.done[""] = true
	for _, p := range k.places {
		s.place(p)
	}
	k.follow(s, func(c candidate) {
		if trusting {
			k.adoptQuiet(c)
		} else {
			k.adopt(c, false)
		}
	})
	if _, repository := k.places[gitName]; !repository {
		s.tree(ref{k.tree, huskyName}, scriptKind, "", maxNested)
	}
	for member := range k.members {
		s.homes(member)
	}
	for top := range k.own {
		s.tree(ref{k.tree, top}, ownKind, "", maxNested)
	}
	k.seen, k.kept = s.now, s.kept
	return s
}

func (s *snapshot) homes(member *Keeper) {
	for _, home := range member.homes {
		for _, name := range []string{".gitconfig", ".config/git/config"} {
			s.config(ref{home, name}, "", 0)
		}
	}
}

// trustHomes trusts the configuration that a session begins with.
func (k *keeper) trustHomes(member *Keeper) {
	s := k.newSnapshot(true)
	s.homes(member)
	maps.Copy(k.base, s.now)
}

// place looks at a repository.
func (s *snapshot) place(p *place) {
	k := s.k
	if p.work != "" {
		stat, err := k.tree.root.Lstat(p.path)
		switch {
		case err != nil:
			p.dir = ""
			return
		case stat.Kind == workspace.Directory:
			p.dir = p.path
		default:
			owner := p.path
			if owner == gitName {
				owner = "" // the workspace's own is not to go
			}
			s.done[owner] = true
			it, _ := s.note(ref{k.tree, p.path}, pointerKind, owner)
			p.dir, _ = k.target(p.path, it)
		}
	}
	if p.dir == "" {
		return
	}
	d, err := k.tree.ws.OpenDir(p.dir)
	if err != nil {
		return
	}
	stat, err := d.Stat()
	if err != nil {
		d.Close()
		return
	}
	if id := identityOf(stat); id == p.id && p.held != nil {
		d.Close()
	} else {
		if id != p.id && p.id != (identity{}) && !s.trusting { // another one by the same name
			p.fresh = true
			maps.DeleteFunc(k.base, func(_ ref, it item) bool { return it.Owner == p.dir })
		}
		k.hold(p, d, id)
	}
	s.git(p.dir, 0)
	s.scripts(p)
	s.gitlinks(p)
}

// target returns where a .git that is no directory, or a commondir, leads; "" where
// that is nowhere in the workspace. It reports whether it leads out of it. An empty
// one leads nowhere: git is about to write it.
func (k *keeper) target(at string, it item) (dir string, outside bool) {
	to := it.Link
	if it.Type == workspace.Regular {
		to = string(it.Data)
		if it.Kind == pointerKind {
			to = strings.TrimPrefix(to, "gitdir: ")
		}
	}
	to = strings.TrimRight(to, "\r\n")
	if it.Unread || strings.ContainsRune(to, 0) {
		return "", true
	}
	if to == "" {
		return "", false
	}
	if !path.IsAbs(to) {
		to = path.Dir(at) + "/" + to
	}
	resolved, inside := k.tree.ws.Resolve(to)
	if !inside {
		return "", true
	}
	return resolved, false
}

// git looks at a directory of git, and at the one that has the rest of it.
func (s *snapshot) git(dir string, depth int) {
	if s.done[dir] {
		return
	}
	s.done[dir] = true
	t := s.k.tree
	s.config(ref{t, path.Join(dir, "config")}, dir, 0)
	s.config(ref{t, path.Join(dir, "config.worktree")}, dir, 0)
	if it, there := s.note(ref{t, path.Join(dir, "commondir")}, commonKind, dir); there && depth < 3 {
		if common, _ := s.k.target(path.Join(dir, "commondir"), it); common != "" {
			s.common[dir] = common
			s.git(common, depth+1)
		}
	}
	s.index(dir)
	s.tree(ref{t, path.Join(dir, "hooks")}, hookKind, dir, maxNested)
	for _, under := range underWay {
		top := ref{t, path.Join(dir, under.dir)}
		if stat, err := t.root.Lstat(top.path); err != nil {
			continue
		} else if stat.Kind == workspace.Link {
			s.note(top, hookKind, dir) // git makes none
			continue
		}
		for _, name := range under.files {
			s.note(ref{t, path.Join(top.path, name)}, todoKind, dir)
		}
	}
}

// underWay is where git keeps what it is at, and the files that may have it run
// something. What a strategy is told (strategy_opts) makes those of git run nothing.
var underWay = []struct {
	dir   string
	files []string
}{{"rebase-merge", []string{"git-rebase-todo", "strategy"}}, {"sequencer", []string{"todo", "opts"}}}

// workTrees returns where the files of a repository may lie.
func (s *snapshot) workTrees(p *place) []string {
	works := slices.Concat(s.works[p.dir], s.works[s.common[p.dir]])
	if p.work != "" {
		return append(works, p.work)
	}
	return append(works, p.dir)
}

// scripts looks at hooks that lie in a work tree, or wherever the configuration has
// them.
func (s *snapshot) scripts(p *place) {
	works := s.workTrees(p)
	husky := path.Join(p.work, huskyName)
	named := false
	for _, value := range slices.Concat(s.hooks[p.dir], s.hooks[s.common[p.dir]]) {
		for _, work := range works {
			at := value
			if !path.IsAbs(at) {
				at = work + "/" + at
			}
			at, inside := s.k.tree.ws.Resolve(at)
			if !inside {
				continue
			}
			named = named || at == husky || strings.HasPrefix(at, husky+"/")
			if _, around := below(work, at); around || at == work {
				for _, name := range hookNames { // it is the work tree itself
					s.tree(ref{s.k.tree, path.Join(at, name)}, scriptKind, p.dir, 1)
				}
				continue
			}
			s.tree(ref{s.k.tree, at}, scriptKind, p.dir, maxNested)
		}
	}
	if p.work == "" {
		return
	}
	// In a clone .husky is content as any other, unless git is told of it.
	if named || !p.fresh {
		s.tree(ref{s.k.tree, husky}, scriptKind, p.dir, maxNested)
	}
}

// config looks at a configuration file, and at those it includes and may.
func (s *snapshot) config(r ref, owner string, depth int) {
	it, there := s.note(r, configKind, owner)
	if !there || depth > maxIncludes {
		return
	}
	for _, value := range it.works {
		if !path.IsAbs(value) {
			value = path.Dir(r.path) + "/" + value
		}
		if at, inside := s.k.tree.ws.Resolve(value); inside && r.tree == s.k.tree {
			s.works[owner] = append(s.works[owner], at)
		}
	}
	trusted := it.Keys
	if !s.trusting {
		trusted = s.k.base[r].Keys
	}
	for _, e := range trusted {
		switch section, _, name := e.split(); {
		case e.Key == "core.hookspath":
			s.hooks[owner] = append(s.hooks[owner], e.Value)
		case name == "path" && (section == "include" || section == "includeif"):
			for _, included := range s.k.included(r, e.Value) {
				s.config(included, owner, depth+1)
			}
		}
	}
}

// included returns the files that a configuration file includes by a name, as far
// as they are in the workspace or a home.
func (k *keeper) included(r ref, name string) (files []ref) {
	trees := []*tree{r.tree, k.tree}
	rest, home := strings.CutPrefix(name, "~/")
	for member := range k.members {
		trees = append(trees, member.homes...)
	}
	for i, t := range trees {
		at := name
		switch {
		case home && t == k.tree, !home && !path.IsAbs(name) && i > 0, slices.Contains(trees[:i], t):
			continue
		case home:
			at = rest
		case !path.IsAbs(name):
			at = path.Dir(r.path) + "/" + name
		}
		if at, inside := t.ws.Resolve(at); inside {
			files = append(files, ref{t, at})
		}
	}
	return files
}

// tree looks at a file, or at a directory with all that is in it.
func (s *snapshot) tree(r ref, kind itemKind, owner string, depth int) {
	it, there := s.note(r, kind, owner)
	if !there || depth == 0 {
		return
	}
	switch it.Type {
	case workspace.Directory:
		for _, name := range s.names(r, it, kind) {
			s.tree(ref{r.tree, path.Join(r.path, name)}, kind, owner, depth-1)
		}
	case workspace.Link:
		// What a hook leads to runs as well.
		if at, inside := r.tree.ws.Resolve(r.path); inside && at != r.path && (kind == hookKind || kind == scriptKind) && s.trusts(r, it) {
			s.tree(ref{r.tree, at}, scriptKind, owner, depth-1)
		}
	}
}

// trusts reports whether something is there that a person made.
func (s *snapshot) trusts(r ref, it item) bool {
	before, known := s.k.base[r]
	return s.trusting || known && before.same(it)
}

// names returns what is in a directory. What is not seen because there is too much
// is none that git runs.
func (s *snapshot) names(r ref, dir item, kind itemKind) []string {
	last, known := s.k.lists[r]
	if known && last.stat == dir.stat && !last.young {
		return last.names
	}
	list := listing{stat: dir.stat, young: isYoung(dir.stat)}
	d, err := r.tree.ws.OpenDir(r.path)
	if err != nil {
		return nil
	}
	defer d.Close()
	more := false
	d.List(make([]byte, 16<<10), func(name []byte, _ workspace.FileType) bool {
		if kind != ownKind && bytes.HasSuffix(name, []byte(".sample")) {
			return true
		}
		more = len(list.names) >= maxItems
		if !more {
			list.names = append(list.names, string(name))
		}
		return !more
	})
	if more {
		list.names = append(list.names, hookNames...)
	}
	slices.Sort(list.names)
	list.names = slices.Compact(list.names)
	s.k.lists[r] = list
	return list.names
}

func isYoung(stat workspace.Stat) bool { return fileTime().Sub(time.Unix(0, stat.CTime)) < clockStep }

// note looks at one thing, and reports whether it is there. A file that has not
// changed is not read again.
func (s *snapshot) note(r ref, kind itemKind, owner string) (it item, there bool) {
	if kind != ownKind && r.tree == s.k.tree {
		s.kept[r.path] = true
	}
	if it, there = s.now[r]; there {
		return it, true
	}
	stat, err := r.tree.root.Lstat(r.path)
	if err != nil {
		return item{}, false
	}
	if kind == ownKind {
		if s.own++; s.own > maxItems {
			return item{}, false
		}
	}
	var hashes hashSizes
	if kind == indexKind {
		hashes = s.hashSizes(owner)
	}
	old, known := s.k.seen[r]
	if known && old.Kind == kind && old.stat == stat && !old.young && !old.Unread && stat.Kind != workspace.Link && !old.leads && (kind != indexKind || old.hashes == hashes && old.all == s.all[r]) {
		it = old
	} else {
		it = item{Kind: kind, Type: stat.Kind, stat: stat, young: isYoung(stat), hashes: hashes}
		s.read(r, &it)
	}
	it.Owner = owner
	s.bytes += len(it.Data)
	s.now[r] = it
	return it, true
}

// read reads a file or a link.
func (s *snapshot) read(r ref, it *item) {
	it.at = r.path
	if it.Type == workspace.Link {
		it.Link, _ = r.tree.ws.Readlink(r.path)
		at, inside := r.tree.ws.Resolve(r.path)
		if it.Kind != configKind && it.Kind != indexKind || !inside {
			return
		}
		it.at = at
	} else if it.Type != workspace.Regular {
		return
	}
	if it.Kind == indexKind {
		s.readIndex(r, it)
		return
	}
	most := int64(maxFile)
	if it.Kind == pointerKind || it.Kind == commonKind {
		most = maxPointer
	}
	file, err := r.tree.ws.ReadFile(it.at, most)
	for try := 0; errors.Is(err, workspace.ErrChanged) && try < 3; try++ {
		file, err = r.tree.ws.ReadFile(it.at, most)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if it.Unread = err != nil || s.bytes+len(file.Data) > maxBytes; it.Unread {
		return
	}
	it.Data, it.Mode = file.Data, file.Mode.Perm()
	switch it.Kind {
	case configKind:
		entries, err := parseConfig(it.Data)
		it.Broken, it.hashes = err != nil, hashSizesOf(entries)
		for _, e := range entries {
			if e.Key == "core.worktree" {
				it.leads, it.works = true, append(it.works, e.Value)
			}
			if e.executes(func(at string) bool { return s.k.inside(r, at) }) {
				it.Keys = append(it.Keys, e)
			}
		}
	case todoKind:
		it.Keys = todoKeys(path.Base(r.path), it.Data)
	}
}

// inside reports whether a path that a configuration file of the workspace names
// lies inside, and in no directory of git: a work tree there is one of hooks.
func (k *keeper) inside(r ref, at string) bool {
	if r.tree != k.tree || strings.HasPrefix(at, "~") {
		return false
	}
	if !path.IsAbs(at) {
		at = path.Dir(r.path) + "/" + at
	}
	resolved, inside := k.tree.ws.Resolve(at)
	if !inside || leadsAway([]byte(resolved), 0) {
		return false
	}
	own := path.Dir(r.path)
	_, below := below(resolved, own)
	return resolved != own && (own == "." || !below)
}
