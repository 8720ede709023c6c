// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ErrServers is wrapped by errors about what lies in the workspace and is the
// server's own. It is an [ErrOutside].
var ErrServers = fmt.Errorf("%w: it belongs to the server", ErrOutside)

// close closes those of paths that lie below the workspace. The workspace
// itself may lie below one of them.
func (w *Workspace) close(paths []string) {
	for _, path := range paths {
		if path == "" {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		// The star is part of no name that is looked up.
		path, beside := strings.CutSuffix(path, ".*")
		for _, path := range []string{path, w.anchored(path)} {
			rel, inside := w.within(path)
			if !inside || rel == "." {
				continue
			}
			if beside {
				rel += ".*"
			}
			if !slices.Contains(w.closed, rel) {
				w.closed = append(w.closed, rel)
			}
		}
	}
}

// anchored returns a path without links, as far as it is there.
func (w *Workspace) anchored(path string) string {
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == "/" {
			return path
		}
	}
}

// Closed returns what reports whether a path that [Workspace.Resolve] returned is
// the server's own, which nobody reads or writes; nil where nothing is.
func (w *Workspace) Closed() func(path string) bool {
	if len(w.closed) == 0 {
		return nil
	}
	return w.isClosed
}

func (w *Workspace) isClosed(path string) bool {
	for _, top := range w.closed {
		top, beside := strings.CutSuffix(top, ".*")
		if rest, ok := strings.CutPrefix(path, top); ok && (rest == "" || rest[0] == '/' || beside && rest[0] == '.') {
			return true
		}
	}
	return false
}

// Whole returns an error where something at or below a path is the server's own.
func (w *Workspace) Whole(path string) error {
	for _, top := range w.closed {
		if _, holds := strings.CutPrefix(top, path+"/"); holds || path == "." || w.isClosed(path) {
			return fmt.Errorf("%s: %w", top, ErrServers)
		}
	}
	return nil
}
