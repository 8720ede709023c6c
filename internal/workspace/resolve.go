// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// Find returns the first path at or below top for which match says so, looking
// at no more than limit of them. Where there are more, it reports that it did
// not see them all. Links are not followed.
func (w *Workspace) Find(top string, limit int, match func(path string) bool) (found string, all bool) {
	all = true
	_ = fs.WalkDir(w.root.FS(), top, func(path string, _ fs.DirEntry, err error) error {
		if limit--; limit < 0 {
			all = false
			return fs.SkipAll
		}
		if match(path) {
			found = path
			return fs.SkipAll
		}
		if err != nil {
			all = all && os.IsNotExist(err)
			return fs.SkipDir
		}
		return nil
	})
	return found, all
}
