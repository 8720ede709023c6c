// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolserver/toolserver/internal/wholefile"
	"github.com/toolserver/toolserver/internal/workspace"
)

// notes keep what was trusted before the commands that run in a file, which tells
// by its name whether any do: after a crash, what is there is compared with that.
type notes struct {
	dir   string // empty: there are none
	file  string // without its suffix
	dirty bool   // something else is trusted than the file says
	runs  bool   // the file says that something runs
}

const (
	busySuffix = ".busy"
	idleSuffix = ".idle"
	maxNotes   = 64 << 20
)

type savedNotes struct {
	Dir    string
	Root   identity
	Places []savedPlace
	Items  []savedItem
}

type savedPlace struct {
	Path, Work, Dir string
	ID              identity
	First           bool
}

type savedItem struct {
	Path string
	item
}

// load reads what a server left that did not end well. It reports whether there
// was anything.
func (n *notes) load(k *keeper) bool {
	if n.dir == "" {
		return false
	}
	hash := workspace.HashOf([]byte(k.tree.ws.Dir()))
	n.file = filepath.Join(n.dir, hex.EncodeToString(hash[:16]))
	n.dirty = true
	os.Remove(n.file + idleSuffix)
	data, err := os.ReadFile(n.file + busySuffix)
	if err != nil || len(data) > maxNotes {
		return false
	}
	var saved savedNotes
	if err := json.Unmarshal(data, &saved); err != nil || saved.Dir != k.tree.ws.Dir() {
		return false
	}
	k.root = saved.Root
	for _, p := range saved.Places {
		k.places[p.Path] = &place{path: p.Path, work: p.Work, dir: p.Dir, id: p.ID, first: p.First}
	}
	for _, it := range saved.Items {
		r := ref{k.tree, it.Path}
		k.base[r] = it.item
		if it.Kind == hookKind || it.Kind == scriptKind {
			k.trusted[versionOf(it.Owner, r, it.item)] = true
		}
		if it.Kind == ownKind {
			k.own[it.Path] = true
		}
	}
	return true
}

// busy notes what is trusted, before something runs.
func (n *notes) busy(k *keeper) {
	if n.dir == "" || n.runs && !n.dirty {
		return
	}
	if !n.dirty && os.Rename(n.file+idleSuffix, n.file+busySuffix) == nil {
		n.runs = true
		return
	}
	saved := savedNotes{Dir: k.tree.ws.Dir(), Root: k.root}
	for _, p := range k.places {
		saved.Places = append(saved.Places, savedPlace{p.path, p.work, p.dir, p.id, p.first})
	}
	for r, it := range k.base {
		if r.tree == k.tree {
			saved.Items = append(saved.Items, savedItem{r.path, it})
		}
	}
	data, err := json.Marshal(saved)
	if err == nil {
		err = wholefile.Replace(n.file+busySuffix, data)
	}
	if err != nil {
		return // the next command tries again
	}
	n.dirty, n.runs = false, true
}

// idle notes that nothing runs, and that all was looked at.
func (n *notes) idle() {
	if n.runs && os.Rename(n.file+busySuffix, n.file+idleSuffix) == nil {
		n.runs = false
	}
}

// close forgets what was trusted, unless something was not looked at.
func (n *notes) close(clean bool) {
	if n.dir == "" || n.file == "" || !clean {
		return
	}
	for _, suffix := range []string{busySuffix, idleSuffix} {
		if err := os.Remove(n.file + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}
