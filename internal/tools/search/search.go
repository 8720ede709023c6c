// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package search is the family of tools that find files of the workspace by name
// and by what is in them. One room per tool.
package search

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/effects"
	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// category is the family's name in specs.
const category = "search"

// Tools returns the family.
func Tools(engines *engine.Pool) []tools.Tool {
	return []tools.Tool{
		Glob(engines),
		Grep(engines),
	}
}

// engineOf returns what searches a view. Beside the workspace nothing is kept in
// memory: who changes a file there is not known.
func engineOf(engines *engine.Pool, view *tools.View) *engine.Engine {
	if !view.Beside() {
		return engines.Engine(view.Workspace)
	}
	return engine.New(view.Workspace, nil)
}

// explain gives failures of a search the words agent runtimes act on.
func explain(env tools.Env, err error, path string) error {
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && tools.IsArtifact(path):
		return tools.Failf("artifact_not_found", "%s: it is no longer kept. Make the call again whose output it was.", path)
	case errors.Is(err, fs.ErrNotExist):
		near := effects.NearFiles(env, path)
		for i := range near {
			near[i] = shown(near[i])
		}
		return tools.Failf("file_not_found", "%s: there is no such file or directory. %s", shown(path),
			tools.DidYouMean(near, "Check the path: it is relative to the workspace root."))
	case errors.Is(err, fs.ErrPermission):
		return tools.Failf("permission_denied", "%v", err)
	case errors.Is(err, workspace.ErrOutside):
		return tools.Failf("outside_workspace", "%v. Only files of the workspace, and those that commands read beside it, can be searched.", err)
	case errors.Is(err, workspace.ErrNotRegular):
		return tools.Failf("not_a_file", "%s: it is neither a file nor a directory.", path)
	}
	return tools.Failf("invalid_search", "%v", err)
}

// stopped reports whether a search ended because its context did.
func stopped(ctx context.Context, err error) bool { return err != nil && ctx.Err() != nil }

// shown returns a path as one line: names may have anything in them.
func shown(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) && r != '\u00ad' }) || !utf8.ValidString(path) {
		return strconv.Quote(path)
	}
	return path
}

// within returns a glob relative to a directory of the workspace, where it is
// spelled as a path is: with ./ before it, or with all that is above it.
func within(ws *workspace.Workspace, dir, glob string) string {
	negated := strings.HasPrefix(glob, "!")
	glob = strings.TrimPrefix(glob, "!")
	for strings.HasPrefix(glob, "./") {
		glob = strings.TrimLeft(glob[2:], "/")
	}
	if rest, ok := strings.CutPrefix(glob, filepath.Join(ws.Dir(), dir)+"/"); ok {
		glob = "/" + strings.TrimLeft(rest, "/")
	}
	if negated {
		return "!" + glob
	}
	return glob
}

// globOf returns a glob of a call as the engine takes it: beside the workspace one
// with a slash is relative to the path that is searched.
func globOf(view *tools.View, glob string) string {
	relative := within(view.Workspace, ".", glob)
	rest, negated := strings.CutPrefix(relative, "!")
	if !view.Beside() || strings.HasPrefix(rest, "/") || !strings.Contains(strings.TrimSuffix(rest, "/"), "/") {
		return relative
	}
	rest = "/" + plainGlob.Replace(view.Path) + "/" + rest
	if negated {
		return "!" + rest
	}
	return rest
}

// plainGlob makes a glob of a path.
var plainGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`)
