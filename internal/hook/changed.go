// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
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
// time: of those that its effects name, the ones that have changed since or are gone; where
// it ran a program that could write, all that have changed since.
func ChangedFiles(ctx context.Context, ws *workspace.Workspace, effects []tools.Effect, access *tools.Access, began time.Time) []string {
	since := began.Add(-slack)
	var paths []string
	programs := false
	for i := range effects {
		e := &effects[i]
		programs = programs || e.Kind == tools.RunsProgram && !e.ReadOnly
		if e.Kind != tools.WritesPath || strings.HasPrefix(e.Path, "/") || e.Glob {
			continue
		}
		if info, err := ws.Stat(e.Path); err != nil || !info.Exists() || !info.Mode.IsDir() && info.Changed().After(since) {
			paths = append(paths, e.Path)
		}
	}
	if programs && access != nil && access.Confinement != tools.Reading {
		ws.Walk(ctx, ".", maxWalked, func(entry workspace.Entry) error {
			switch name := base(entry.Path); {
			case entry.Mode.IsDir() && (name == ".git" || name == "node_modules"):
				return workspace.SkipDir
			case entry.Mode.IsRegular() && entry.Changed().After(since):
				paths = append(paths, entry.Path)
			}
			return nil
		})
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
