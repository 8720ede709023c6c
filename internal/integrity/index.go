// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/toolserver/toolserver/internal/workspace"
)

// index looks at the index of a directory of git, and at the one it shares.
func (s *snapshot) index(dir string) {
	it, there := s.note(ref{s.k.tree, path.Join(dir, "index")}, indexKind, dir)
	if !there {
		return
	}
	for _, shared := range it.shared {
		r := ref{s.k.tree, path.Join(dir, sharedIndex+shared)}
		s.all[r] = it.renames
		s.note(r, indexKind, dir)
	}
}

// gitlinks finds the repositories that the index of one leads git into, wherever they
// lie: "git status" runs in them.
func (s *snapshot) gitlinks(p *place) {
	index := s.now[ref{s.k.tree, path.Join(p.dir, "index")}]
	names := index.links
	for _, shared := range index.shared {
		names = slices.Concat(names, s.now[ref{s.k.tree, path.Join(p.dir, sharedIndex+shared)}].links)
	}
	if len(names) == 0 {
		return
	}
	for _, work := range s.workTrees(p) {
		for _, name := range names {
			at := path.Join(work, name, gitName)
			if s.k.places[at] != nil {
				continue
			}
			_, err := s.k.tree.root.Lstat(at)
			if errors.Is(err, syscall.ENAMETOOLONG) {
				s.far = append(s.far, path.Join(work, name))
			}
			if err != nil {
				continue
			}
			// Git follows no link on the way.
			if real, inside := s.k.tree.ws.Resolve(path.Dir(at)); inside && real == path.Dir(at) {
				s.links = append(s.links, candidate{path: at})
			}
		}
	}
}

const sharedIndex = "sharedindex."

// hashSizes are the sizes of hashes that a repository may have.
type hashSizes [2]int64

// all returns those that are said, or else what git takes without a word.
func (h hashSizes) all() []int64 {
	if h == (hashSizes{}) {
		return []int64{20}
	}
	return slices.DeleteFunc(h[:], func(size int64) bool { return size == 0 })
}

// hashSizes returns how large the hashes of a directory of git are, as its
// configuration says.
func (s *snapshot) hashSizes(dir string) hashSizes {
	if common := s.common[dir]; common != "" {
		dir = common
	}
	return s.now[ref{s.k.tree, path.Join(dir, "config")}].hashes
}

// hashSizesOf returns what a configuration says of hashes. Where it says several
// things, all of them count.
func hashSizesOf(entries []entry) (sizes hashSizes) {
	for _, e := range entries {
		if e.Key != "extensions.objectformat" {
			continue
		}
		if e.Value == "sha256" {
			sizes[1] = 32
		} else {
			sizes[0] = 20
		}
	}
	return sizes
}

// readIndex reads an index. What is kept of it is what is wrong.
func (s *snapshot) readIndex(r ref, it *item) {
	file, err := r.tree.ws.OpenFile(it.at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, fs.ErrPermission):
		it.Data = []byte("it cannot be read")
		return
	case err != nil:
		it.Unread = true
		return
	}
	defer file.Close()
	size := file.Info().Size
	if size > maxIndex {
		it.Data = fmt.Appendf(nil, "it has more than %d MiB", maxIndex>>20)
		return
	}
	for _, hash := range it.hashes.all() {
		facts, err := (&indexReader{file: file, size: size, hash: hash, all: s.all[r]}).read()
		if err != nil {
			it.Unread = true
			return
		}
		if facts.bad != "" && it.Data == nil {
			it.Data = []byte(facts.bad)
		}
		if facts.shared != "" {
			it.shared = append(it.shared, facts.shared)
		}
		it.links, it.renames, it.all = append(it.links, facts.links...), it.renames || facts.renames, s.all[r]
	}
	if same, err := file.Unchanged(); err != nil || !same {
		it.Unread = true
	}
}

// index judges an index: one with which something is wrong is removed, for git makes
// another.
func (c *change) index() {
	what := string(c.now.Data)
	switch {
	case c.there && c.now.Type == workspace.Link && (c.was.Type != workspace.Link || c.was.Link != c.now.Link):
		what = "it is a link to what may change"
	case c.there && c.now.Unread && c.now.Type == workspace.Regular:
		c.k.again = true // something writes there now
		return
	case !c.there || what == "":
		c.accept()
		return
	}
	if stat, err := c.ref.tree.root.Lstat(c.ref.path); err != nil || stat != c.now.stat {
		c.k.again = true
		return
	}
	err := c.remove()
	if dir, name := path.Split(c.ref.path); err == nil && strings.HasPrefix(name, sharedIndex) {
		// Git reads nothing without it.
		beside := change{ref: ref{c.ref.tree, path.Join(dir, "index")}}
		err = beside.remove()
	}
	if err != nil {
		c.say(": %s, and it could not be removed: %v", what, err)
		c.accept()
		return
	}
	c.say(": %s, with which git would write files that run later: it was removed, git reset makes it anew", what)
	delete(c.k.base, c.ref)
	c.k.noted.dirty = true
}

// sameIndex reports whether nothing has changed of what is wrong with an index.
func (i item) sameIndex(now item) bool {
	return i.Type == now.Type && i.Link == now.Link && !now.Unread && bytes.Equal(i.Data, now.Data)
}
