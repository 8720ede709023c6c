// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Bounds of looking for changed files. slack is how far the clock of a file system may
// be behind.
const (
	maxWalked = 100_000
	slack     = 20 * time.Millisecond
)

// ChangedFiles returns the files of the workspace that a call changed which began at a
// time: of those that its effects name, the ones that have changed since or are gone, and
// those in directories that have come to another name; where it ran a program that could
// write, all that have changed since.
func ChangedFiles(ctx context.Context, ws *workspace.Workspace, effects []tools.Effect, access *tools.Access, began time.Time) []string {
	since := began.Add(-slack)
	var paths, moved []string
	programs, gone := false, false
	for i := range effects {
		e := &effects[i]
		programs = programs || e.Kind == tools.RunsProgram && !e.ReadOnly
		if e.Kind != tools.WritesPath || strings.HasPrefix(e.Path, "/") || e.Glob {
			continue
		}
		info, err := ws.Stat(e.Path)
		switch {
		case err == nil && !info.Exists():
			if belowFile(ws, e.Path) {
				continue // "mv a b" may have written b/a, and b is a file
			}
			gone = true
		case err == nil && info.Mode.IsDir():
			if info.Changed().After(since) && !info.ModTime.After(since) { // its name, and nothing in it
				moved = append(moved, e.Path)
			}
			continue
		case err == nil && !info.Changed().After(since):
			continue
		}
		paths = append(paths, e.Path)
	}
	if gone { // or a directory that has changed has other permissions
		for _, dir := range moved {
			paths = append(paths, filesBelow(ctx, ws, dir, time.Time{})...)
		}
	}
	if programs && access != nil && access.Confinement != tools.Reading {
		paths = append(paths, filesBelow(ctx, ws, ".", since)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// belowFile reports whether a path leads through a file.
func belowFile(ws *workspace.Workspace, name string) bool {
	above, err := ws.Stat(path.Dir(name))
	return err == nil && above.Exists() && !above.Mode.IsDir()
}

// filesBelow returns the files of a directory that have changed since a time.
func filesBelow(ctx context.Context, ws *workspace.Workspace, dir string, since time.Time) (paths []string) {
	ws.Walk(ctx, dir, maxWalked, func(entry workspace.Entry) error {
		switch name := base(entry.Path); {
		case entry.Mode.IsDir() && (name == ".git" || name == "node_modules"):
			return workspace.SkipDir
		case entry.Mode.IsRegular() && entry.Changed().After(since):
			paths = append(paths, entry.Path)
		}
		return nil
	})
	return paths
}
