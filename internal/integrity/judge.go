// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/workspace"
)

// rebase trusts all that is there.
func (k *keeper) rebase() {
	for _, p := range k.places {
		p.fresh = false // before it is looked at: from now on its .husky counts as well
	}
	s := k.takeSnapshot(true)
	for r, it := range s.now {
		if was, known := k.base[r]; !known || !was.equivalent(it) {
			k.noted.dirty = true
		}
		if it.Kind == hookKind || it.Kind == scriptKind {
			k.trusted[s.version(r, it)] = true
		}
	}
	for r, it := range k.base {
		if _, there := s.now[r]; there {
			continue
		}
		if s.done[it.Owner] {
			k.noted.dirty = true
		} else if it.Owner != "" { // it may have been moved
			s.now[r] = it
		}
	}
	k.base, k.seen = s.now, maps.Clone(s.now)
	k.root = identity{}
	if stat, err := k.tree.root.Lstat(gitName); err == nil && stat.Kind == workspace.Directory {
		k.root = identityOf(stat)
	}
}

// equivalent reports whether two would be judged alike.
func (i item) equivalent(other item) bool {
	if i.Kind == configKind && other.Kind == configKind && i.Type == other.Type && i.Link == other.Link {
		return len(surplus(i.Keys, other.Keys)) == 0 && len(surplus(other.Keys, i.Keys)) == 0
	}
	return i.Kind == other.Kind && i.same(other)
}

// examine compares what there is with what is trusted, takes back what was planted,
// and tells it.
func (k *keeper) examine() (found []string) {
	if k.ctx.Err() != nil {
		return nil // the last session has ended
	}
	k.discover()
	found = k.keepRoot()
	for range maxRounds {
		k.again = false
		s := k.takeSnapshot(false)
		more := append(k.judge(s), k.farNow(s)...)
		if found = append(found, more...); len(more) == 0 && !k.again {
			break
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// judge judges what has changed.
func (k *keeper) judge(s *snapshot) (found []string) {
	var changed []ref
	for r, it := range s.now {
		if was, known := k.base[r]; !known || was.Kind != it.Kind || !was.same(it) {
			changed = append(changed, r)
		} else {
			k.base[r] = it
		}
	}
	for r, it := range k.base {
		if _, there := s.now[r]; !there && s.done[it.Owner] {
			changed = append(changed, r)
		}
	}
	slices.SortFunc(changed, func(a, b ref) int { return cmp.Compare(a.path, b.path) }) // directories first
	flooded := k.unflood(s, changed)
	for _, r := range changed {
		if dir := (ref{r.tree, path.Dir(r.path)}); flooded[dir] {
			continue // the next round sees what is missing
		}
		was, known := k.base[r]
		now, there := s.now[r]
		c := change{k: k, ref: r, was: was, now: now, known: known, there: there}
		kind := was.Kind
		if there {
			kind = now.Kind
		}
		switch kind {
		case configKind:
			c.config(s)
		case hookKind, scriptKind:
			c.hook(s, kind)
		case pointerKind, commonKind:
			c.pointer(kind)
		case todoKind:
			c.todo()
		case ownKind:
			c.own()
		case indexKind:
			c.index()
		}
		found = append(found, c.found...)
	}
	for dir := range flooded {
		found = append(found, clip(dir.String())+" was filled with new hooks, and put back")
	}
	return found
}

// unflood removes directories of hooks that have very many new ones, which is
// quicker than removing each. It returns them; what is left of one that is still
// being filled is for the next round.
func (k *keeper) unflood(s *snapshot, changed []ref) (flooded map[ref]bool) {
	fresh := make(map[ref]int)
	for _, r := range changed {
		if _, known := k.base[r]; !known && s.now[r].Kind == hookKind {
			fresh[ref{r.tree, path.Dir(r.path)}]++
		}
	}
	flooded = make(map[ref]bool)
	for dir, n := range fresh {
		if n > maxHooks {
			c := change{ref: dir}
			c.remove()
			flooded[dir] = true
		}
	}
	return flooded
}

// A change is something that is not as it was.
type change struct {
	k            *keeper
	ref          ref
	was, now     item
	known, there bool
	found        []string
}

func (c *change) say(format string, args ...any) {
	c.found = append(c.found, clip(c.ref.String())+fmt.Sprintf(format, args...))
}

// accept trusts what there is now.
func (c *change) accept() {
	if !c.known || !c.there || !c.was.equivalent(c.now) {
		c.k.noted.dirty = true
	}
	if c.there {
		c.k.base[c.ref] = c.now
	} else {
		delete(c.k.base, c.ref)
	}
}

func (c *change) config(s *snapshot) {
	switch {
	case !c.there, c.now.Type != workspace.Regular && c.now.Type != workspace.Link:
		c.accept() // git reads nothing there
		return
	case c.now.Type == workspace.Link && (c.was.Type != workspace.Link || c.was.Link != c.now.Link), c.now.Unread, c.now.Broken:
		c.undo()
		return
	}
	allowed := c.was.Keys
	if common := s.common[c.now.Owner]; common != "" { // a work tree begins with a copy
		for _, name := range []string{"config", "config.worktree"} {
			allowed = slices.Concat(allowed, c.k.base[ref{c.ref.tree, path.Join(common, name)}].Keys)
		}
	}
	planted := surplus(c.now.Keys, allowed)
	if len(planted) == 0 {
		c.accept()
		return
	}
	data := without(c.now.Data, planted, surplus(c.was.Keys, c.now.Keys))
	if !c.keepsRest(data, allowed) {
		c.undo()
		return
	}
	if err := c.edit(data); err != nil {
		c.failed(err)
		return
	}
	for _, e := range planted {
		c.say(": %s would run programs later, and was taken back", e.shown())
	}
}

// keepsRest reports whether a file that was edited has all that it had, but for
// what was planted.
func (c *change) keepsRest(data []byte, allowed []entry) bool {
	entries, err := parseConfig(data)
	if err != nil {
		return false
	}
	before, _ := parseConfig(c.now.Data)
	runs := func(e entry) bool { return e.executes(func(at string) bool { return c.k.inside(c.ref, at) }) }
	rest := slices.DeleteFunc(slices.Clone(before), runs)
	kept := slices.DeleteFunc(slices.Clone(entries), runs)
	left := slices.DeleteFunc(entries, func(e entry) bool { return !runs(e) })
	return len(surplus(rest, kept)) == 0 && len(surplus(kept, rest)) == 0 && len(surplus(left, allowed)) == 0
}

func (c *change) hook(s *snapshot, kind itemKind) {
	switch {
	case !c.there && kind == scriptKind: // a branch that has none may have been checked out
		c.accept()
	case !c.there && c.k.midway: // all of the repository may be on its way out
	case !c.there:
		c.undo()
	case c.now.Type == workspace.Directory && (!c.known || c.was.Type == workspace.Directory):
		c.accept()
	case c.now.Type == workspace.Regular && !c.now.Unread && c.k.trusted[s.version(c.ref, c.now)]:
		c.accept()
	case c.now.Type == workspace.Regular && c.k.midway && c.half():
		c.k.soon()
	default:
		c.undo()
	}
}

// half reports whether a hook may be a trusted one of which git has written nothing or
// a part so far: for a moment, however often it changes.
func (c *change) half() bool {
	since, known := c.k.half[c.ref]
	if !known {
		since = time.Now()
		c.k.half[c.ref] = since
	}
	return time.Since(since) < sweepSoon
}

// pointer judges what says where a repository is: it has to be in the workspace,
// where it is looked after. A repository that had no other directory gets none.
func (c *change) pointer(kind itemKind) {
	_, outside := c.k.target(c.ref.path, c.now)
	switch {
	case !c.there && c.ref.path == gitName:
		c.undo()
	case !c.there:
		c.accept()
	case outside, kind == commonKind && !c.k.isFresh(c.now.Owner):
		c.undo()
	default:
		c.accept()
	}
}

// isFresh reports whether a directory of git was made while something ran.
func (k *keeper) isFresh(dir string) bool {
	for _, p := range k.places {
		if p.dir == dir && !p.fresh {
			return false
		}
	}
	return true
}

func (c *change) todo() {
	planted := surplus(c.now.Keys, c.was.Keys)
	rebases := slices.ContainsFunc(c.k.marks, func(m *Mark) bool { return m.writer.Rebases })
	switch {
	case c.there && (c.now.Type != workspace.Regular || c.now.Unread):
		c.undo()
	case len(planted) == 0 || rebases:
		c.accept()
	default:
		if err := c.edit(without(c.now.Data, planted, nil)); err != nil {
			c.failed(err)
			return
		}
		for _, e := range planted {
			what := "the line exec"
			if e.Key != "exec" {
				what = "the strategy"
			}
			c.say(": %s %s would run programs later, and was taken back", what, clip(e.Value))
		}
	}
}

func (c *change) own() {
	if c.k.isOwn(c.ref.path) {
		c.undo()
	} else {
		c.accept()
	}
}

// undo puts back what was there, or removes what was not.
func (c *change) undo() {
	if !c.known {
		if err := c.remove(); err != nil {
			c.say(" was made, and could not be removed: %v", err)
			c.accept()
			return
		}
		c.say(" was made, and removed%s", c.kept())
		return
	}
	if err := c.restore(); err != nil {
		c.failed(err)
		return
	}
	c.say(" was changed, and put back%s", c.kept())
}

// failed tells once that something could not be put back.
func (c *change) failed(err error) {
	if errors.Is(err, workspace.ErrChanged) {
		c.k.again = true // something writes there now
		return
	}
	c.say(" was changed, and could not be put back: %v", err)
	c.accept()
}

// kept keeps what a file had become, and says where, while something runs that is
// part of no call: then it may have been a person.
func (c *change) kept() string {
	if c.now.Type != workspace.Regular || len(c.now.Data) == 0 {
		return ""
	}
	for _, m := range c.k.marks {
		if keep := m.keeper.member.Keep; m.writer.Lasting && keep != nil {
			if where := keep(c.now.Data); where != "" {
				return ", what it had become is kept as " + where
			}
		}
	}
	return ""
}

func (c *change) remove() error {
	err := c.ref.tree.ws.RemoveAll(context.Background(), c.ref.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (c *change) restore() error {
	if c.was.Type != workspace.Directory && c.was.Type != workspace.Regular {
		return errors.New("it was no file") // and what it is now stays, lest nothing is left
	}
	if c.there && (c.now.Type != c.was.Type || c.now.Type == workspace.Link) {
		if err := c.remove(); err != nil {
			return err
		}
	}
	switch c.was.Type {
	case workspace.Directory:
		_, err := c.ref.tree.ws.Mkdir(c.ref.path, 0o755)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	case workspace.Regular:
		if c.was.Unread {
			return errors.New("it was too large to be kept")
		}
		if dir := path.Dir(c.ref.path); dir != "." {
			_, err := c.ref.tree.ws.Mkdir(dir, 0o755)
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		info, err := c.ref.tree.ws.Stat(c.ref.path)
		if err == nil {
			_, err = c.ref.tree.ws.WriteFile(c.ref.path, c.was.Data, c.was.Mode, info.Version)
		}
		return err
	}
	return nil
}

// edit gives a file another content, if it still has the one that was judged.
func (c *change) edit(data []byte) error {
	ws := c.ref.tree.ws
	file, err := ws.ReadFile(c.now.at, maxFile)
	if err == nil && !bytes.Equal(file.Data, c.now.Data) {
		err = workspace.ErrChanged
	}
	if err == nil {
		_, err = ws.WriteFile(c.now.at, data, c.now.Mode, file.Version)
	}
	return err
}

// keepRoot looks after the repository of the workspace itself: where it was moved
// away it is moved back, if it can be found beside.
func (k *keeper) keepRoot() (found []string) {
	if k.root == (identity{}) {
		return nil
	}
	stat, err := k.tree.root.Lstat(gitName)
	if err == nil && identityOf(stat) == k.root {
		return nil
	}
	there := err == nil
	if there && stat.Kind == workspace.Regular { // git itself moves it this way
		it, _ := k.newSnapshot(false).note(ref{k.tree, gitName}, pointerKind, "")
		dir, _ := k.target(gitName, it)
		if moved, err := k.tree.root.Lstat(dir); err == nil && identityOf(moved) == k.root {
			return nil
		}
	}
	beside := k.beside()
	if beside == "" || there && stat.Kind == workspace.Directory {
		k.root = identity{}
		if beside != "" {
			return []string{fmt.Sprintf("%s was moved to %s, and another is in its place: that is left as it is", gitName, beside)}
		}
		return []string{gitName + " was removed, which cannot be undone"}
	}
	ws := k.tree.ws
	if there {
		if err := ws.Remove(gitName); err != nil {
			return []string{fmt.Sprintf("%s was moved to %s, and could not be moved back: %v", gitName, beside, err)}
		}
	}
	if err := ws.Rename(beside, gitName, false); err != nil {
		return []string{fmt.Sprintf("%s was moved to %s, and could not be moved back: %v", gitName, beside, err)}
	}
	if p := k.places[gitName]; p != nil { // it may have been found there meanwhile
		k.newSnapshot(false).place(p)
		k.inherit(p)
	}
	return []string{fmt.Sprintf("%s was moved to %s, and moved back", gitName, beside)}
}

// beside returns what the repository of the workspace is called now.
func (k *keeper) beside() (name string) {
	d, err := k.tree.ws.OpenDir(".")
	if err != nil {
		return ""
	}
	defer d.Close()
	d.List(make([]byte, 16<<10), func(entry []byte, kind workspace.FileType) bool {
		if kind != workspace.Directory {
			return true
		}
		if stat, err := k.tree.root.Lstat(string(entry)); err == nil && identityOf(stat) == k.root {
			name = string(entry)
		}
		return name == ""
	})
	return name
}

// Text says in a result what was taken back, and where nobody has looked.
func Text(found []string) string {
	var taken, texts []string
	for _, what := range found {
		if isTaken(what) {
			taken = append(taken, what)
		} else {
			texts = append(texts, what+".")
		}
	}
	if len(taken) > 0 {
		texts = append([]string{"Taken back: " + strings.Join(taken, "; ") + ". The rest of the command's work stays. " +
			"No command may plant what runs later, outside of its sandbox, or change what is protected: go on without it, or have the user do it."}, texts...)
	}
	return strings.Join(texts, " ")
}

// isTaken reports whether something that is told was taken back, and not left unseen.
func isTaken(what string) bool { return !strings.HasPrefix(what, unseen) }
