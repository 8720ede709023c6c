// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Resolve returns where a name leads once every symbolic link is followed: a
// path relative to the workspace, or, where it leads outside, an absolute one.
// Parts that do not exist are taken as they are, so that what is yet to be made
// can be judged. So are names that would take too long to follow: a link in
// them is found when they are opened. Nothing outside the workspace is looked at.
func (w *Workspace) Resolve(name string) (path string, inside bool) {
	path, _ = w.walk(name, false)
	return path, !filepath.IsAbs(path)
}

// ResolveAnywhere is Resolve that also follows links outside the workspace, for
// programs that are not kept inside. It reports whether the name could be
// followed to its end; where it takes too long, the path is only what it says.
func (w *Workspace) ResolveAnywhere(name string) (path string, known bool) {
	return w.walk(name, true)
}

// What following one name may take.
const (
	maxLinks = 40     // as in the kernel
	maxName  = 4096   // bytes: as much as the kernel takes at once
	maxSteps = 40_000 // names on the way to all that is looked at
)

func (w *Workspace) walk(name string, anywhere bool) (path string, known bool) {
	asSaid := func(known bool) (string, bool) {
		at, todo := w.start(name)
		return w.relative(filepath.Join(at, todo)), known
	}
	if len(name) > maxName {
		return asSaid(false)
	}
	at, todo := w.start(name)
	if at == w.dir && w.plain(todo) {
		return todo, true
	}
	links, steps, missing := 0, 0, 0
	for todo != "" {
		var part string
		part, todo, _ = strings.Cut(todo, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at, missing = filepath.Dir(at), max(missing-1, 0)
			continue
		}
		at = filepath.Join(at, part)
		if missing > 0 { // nor is anything below
			missing++
			continue
		}
		if steps += 1 + strings.Count(at, "/"); steps > maxSteps || len(at) >= maxName {
			return asSaid(false)
		}
		target, kind := w.readlink(at, anywhere)
		if kind == isMissing {
			missing = 1
		}
		if kind != isLink {
			continue
		}
		if links++; links > maxLinks { // nothing will open it, whatever it leads to
			return asSaid(true)
		}
		todo = target + "/" + todo
		if at = filepath.Dir(at); filepath.IsAbs(target) {
			at, todo = w.start(todo)
		}
	}
	return w.relative(at), true
}

// plain reports whether a name is that of an entry of the workspace, with no link
// on the way and no detour: nearly all are. Of others it takes no view.
func (w *Workspace) plain(name string) (plain bool) {
	if name == "." || !filepath.IsLocal(name) || filepath.Clean(name) != name {
		return false
	}
	_ = w.control(func(top uintptr) {
		dir, base := int(top), name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			fd, err := openBelow(dir, name[:i], searchOnly|unix.O_DIRECTORY)
			if err != nil {
				return
			}
			defer unix.Close(fd)
			dir, base = fd, name[i+1:]
		}
		var st unix.Stat_t
		err := retry(func() error { return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
		plain = err == nil && kindOfMode(uint32(st.Mode)) != Link //nolint:unconvert // the type differs between systems
	})
	return plain
}

// relative returns an absolute clean path as one relative to the workspace where
// it lies inside.
func (w *Workspace) relative(path string) string {
	if rel, ok := w.within(path); ok {
		return rel
	}
	return path
}

// start returns the directory from which a name is walked, and the way.
func (w *Workspace) start(name string) (at, todo string) {
	if !filepath.IsAbs(name) {
		return w.dir, name
	}
	if rest, ok := strings.CutPrefix(name, w.dir+"/"); ok {
		return w.dir, rest
	}
	return "/", name
}

// within returns an absolute clean path as one relative to the workspace, if it
// lies inside.
func (w *Workspace) within(path string) (string, bool) {
	if path == w.dir {
		return ".", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(w.dir, "/")+"/")
}

// What readlink finds.
const (
	isThere = iota
	isLink
	isMissing
)

// readlink returns what is at a path, and the target where it is a link. What is
// outside is only looked at where anywhere says so.
func (w *Workspace) readlink(path string, anywhere bool) (target string, kind int) {
	lstat, readlink := os.Lstat, os.Readlink
	if !anywhere {
		rel, inside := w.within(path)
		if !inside {
			return "", isThere
		}
		path, lstat, readlink = rel, w.root.Lstat, w.root.Readlink
	}
	info, err := lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", isMissing
	}
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", isThere
	}
	if target, err = readlink(path); err != nil {
		return "", isThere
	}
	return target, isLink
}

// Examine shows see what is at top and below it, and of what type, until see says to stop, and
// returns how many entries it examined. Where that would be more than limit, or
// something cannot be read, it reports that it did not see all. Links are not
// followed.
func (w *Workspace) Examine(top string, limit int, see func(path string, kind fs.FileMode) (more bool)) (examined int, all bool) {
	info, err := w.root.Lstat(top)
	if err != nil {
		return 1, errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	if examined++; !see(top, info.Mode().Type()) || !info.IsDir() {
		return examined, true
	}
	all = true
	for todo := []string{top}; len(todo) > 0 && all; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		examined += strings.Count(dir, "/") / 8 // it is opened name by name
		f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if err != nil {
			all = errors.Is(err, fs.ErrNotExist)
			continue
		}
		for entry, err := range entriesOf(f) {
			if examined++; err != nil || examined > limit {
				all = false
				break
			}
			path := filepath.Join(dir, entry.Name())
			if !see(path, entry.Type()) {
				f.Close()
				return examined, true
			}
			if entry.IsDir() {
				todo = append(todo, path)
			}
		}
		f.Close()
	}
	return examined, all
}

// Glance returns what is in a directory of the workspace, by name, but for what is
// more than limit. It is for telling what somebody may have meant: it is no reading
// of the directory, follows no link out of the workspace, and what cannot be read
// has nothing in it.
func (w *Workspace) Glance(dir string, limit int) []fs.DirEntry {
	if w.isClosed(filepath.Clean(dir)) {
		return nil
	}
	f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	var entries []fs.DirEntry
	for entry, err := range entriesOf(f) {
		if err != nil || len(entries) >= limit {
			break
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// Names returns what is in a directory, wherever a name leads, and whether that
// is all: it looks at no more than limit. What is no directory has nothing in it.
func (w *Workspace) Names(dir string, limit int) (entries []fs.DirEntry, all bool) {
	f, err := os.OpenFile(w.anywhere(dir), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
	}
	defer f.Close()
	for entry, err := range entriesOf(f) {
		if err != nil || len(entries) == limit {
			return entries, false
		}
		entries = append(entries, entry)
	}
	return entries, true
}

// Has reports whether something is at a name, wherever it leads; the last part
// may be a link that leads nowhere.
func (w *Workspace) Has(name string) bool {
	_, err := os.Lstat(w.anywhere(name))
	return err == nil
}

// anywhere returns a name as the kernel takes it, with its ".." where they are.
func (w *Workspace) anywhere(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return w.dir + "/" + name
}

// entriesOf yields what is in an open directory, which may be more than fits in
// memory.
func entriesOf(f *os.File) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		for {
			entries, err := f.ReadDir(256)
			for _, entry := range entries {
				if !yield(entry, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
