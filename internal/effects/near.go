// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// What may be examined to find what a name was to be.
const (
	maxNearEntries = 5_000
	maxNearFolder  = 2_000 // in one directory
	maxNearFiles   = 3     // that are found
)

// crowded are names of directories that hold what nobody wrote here: a file of the
// same name in there is not what was meant.
var crowded = []string{".git", "node_modules", "target", "dist", "build", "vendor", ".cache"}

// NearFiles returns what a name that leads to nothing in the workspace may have
// been meant to be: names that are spelled much like it, then files of that name
// in other directories; at most three. It names nothing that is withheld from
// calls, looks at a bounded number of entries, and returns nothing for a name that
// is there, or that leads out of the workspace. A name that was absolute gives
// absolute ones.
func NearFiles(e tools.Env, name string) []string {
	path, inside := e.Workspace.Resolve(name)
	if !inside || path == "." || len(path) > 4096 {
		return nil
	}
	n := nearFiles{workspace: e.Workspace, left: maxNearEntries}
	if e.Restrictions != nil {
		n.withheld = e.Restrictions.Withheld(".", true)
	}
	parts := strings.Split(path, "/")
	n.spelled(".", parts, false)
	if n.exact {
		return nil
	}
	n.elsewhere(parts[len(parts)-1])
	if filepath.IsAbs(name) {
		for i, path := range n.found {
			n.found[i] = filepath.Join(e.Workspace.Dir(), path)
		}
	}
	return n.found
}

// Glance returns what is in a directory of the workspace, for telling what may have
// been meant: nothing that is withheld from calls, and no more than limit.
func Glance(e tools.Env, dir string, limit int) []fs.DirEntry {
	entries := e.Workspace.Glance(dir, limit)
	if e.Restrictions == nil {
		return entries
	}
	withheld := e.Restrictions.Withheld(".", true)
	if withheld == nil {
		return entries
	}
	for above := filepath.Clean(dir); above != "."; above = filepath.Dir(above) {
		if withheld(above) || !filepath.IsLocal(above) {
			return nil
		}
	}
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return withheld(filepath.Join(dir, entry.Name())) })
}

// nearFiles looks for what a path was meant to be.
type nearFiles struct {
	workspace *workspace.Workspace
	withheld  func(path string) bool // nil where nothing is
	left      int                    // entries that may be examined from now on
	found     []string
	exact     bool // the path is there
}

// list returns what may be named of a directory.
func (n *nearFiles) list(dir string) []fs.DirEntry {
	entries := n.workspace.Glance(dir, min(n.left, maxNearFolder))
	n.left -= len(entries)
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool {
		return strings.ContainsAny(entry.Name(), "\n\r\x1b") || n.withheld != nil && n.withheld(filepath.Join(dir, entry.Name()))
	})
}

func (n *nearFiles) add(path string) {
	if len(n.found) < maxNearFiles && !slices.Contains(n.found, path) {
		n.found = append(n.found, path)
	}
}

// spelled adds paths below dir that are spelled much like parts. The directory may
// be a corrected one already.
func (n *nearFiles) spelled(dir string, parts []string, corrected bool) {
	if n.left <= 0 || len(n.found) == maxNearFiles {
		return
	}
	var names []string
	for _, entry := range n.list(dir) {
		if len(parts) == 1 || entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	if slices.Contains(names, parts[0]) {
		path := filepath.Join(dir, parts[0])
		if len(parts) > 1 {
			n.spelled(path, parts[1:], corrected)
			return
		}
		n.exact = !corrected
		n.add(path)
		return
	}
	for _, near := range nearest.Names(parts[0], names) {
		path := filepath.Join(dir, near)
		if len(parts) > 1 {
			n.spelled(path, parts[1:], true)
		} else {
			n.add(path)
		}
	}
}

// elsewhere adds files and directories of a name wherever they are, those that lie
// least deep first.
func (n *nearFiles) elsewhere(name string) {
	for todo := []string{"."}; len(todo) > 0 && n.left > 0 && len(n.found) < maxNearFiles; todo = todo[1:] {
		for _, entry := range n.list(todo[0]) {
			path := filepath.Join(todo[0], entry.Name())
			if strings.EqualFold(entry.Name(), name) {
				n.add(path)
			}
			if entry.IsDir() && !slices.Contains(crowded, entry.Name()) {
				todo = append(todo, path)
			}
		}
	}
}
