// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Resolve returns where a name leads once every symbolic link is followed: a
// path relative to the workspace, or, where it leads outside, an absolute one.
// Parts that do not exist are taken as they are, so that what is yet to be made
// can be judged. Nothing outside the workspace is looked at.
func (w *Workspace) Resolve(name string) (path string, inside bool) {
	return w.walk(name, false)
}

// ResolveAnywhere is Resolve that also follows links outside the workspace, for
// programs that are not kept inside.
func (w *Workspace) ResolveAnywhere(name string) (path string, inside bool) {
	return w.walk(name, true)
}

// maxLinks is how many links one name may lead through, as in the kernel.
const maxLinks = 40

func (w *Workspace) walk(name string, anywhere bool) (string, bool) {
	at, todo := w.start(name)
	links := 0
	for todo != "" {
		var part string
		part, todo, _ = strings.Cut(todo, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, part)
		target, ok := w.readlink(at, anywhere)
		if !ok {
			continue
		}
		if links++; links > maxLinks { // nothing will open it, whatever it leads to
			at, todo = w.start(name)
			at, todo = filepath.Join(at, todo), ""
			break
		}
		todo = target + "/" + todo
		if at = filepath.Dir(at); filepath.IsAbs(target) {
			at, todo = w.start(todo)
		}
	}
	if rel, ok := w.within(at); ok {
		return rel, true
	}
	return at, false
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

// readlink returns the target of a link. What is outside is only looked at
// where anywhere says so.
func (w *Workspace) readlink(path string, anywhere bool) (string, bool) {
	lstat, readlink := os.Lstat, os.Readlink
	rel, inside := w.within(path)
	switch {
	case inside:
		path, lstat, readlink = rel, w.root.Lstat, w.root.Readlink
	case !anywhere:
		return "", false
	}
	info, err := lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", false
	}
	target, err := readlink(path)
	return target, err == nil
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
