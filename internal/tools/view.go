// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/workspace"
)

// A View is something that a call reads and does not change: in the workspace, or
// beside it in a tree that every command may read. Close it after use.
type View struct {
	// Workspace has Path in it. Outside of the session's own it is opened for the
	// view, and nothing may be written through it.
	Workspace *workspace.Workspace
	Path      string

	env  Env
	tree string // "" in the session's own

	artifacts map[string]KeptArtifact // by their files; nil for what is no artifact
}

// Words are those of the call.
func (v *View) Words() Words { return v.env.Words }

// ArtifactScheme is what the URIs of artifacts begin with; by itself it stands for
// all artifacts of the session. A file whose name begins so is told apart by ./
// before it.
const ArtifactScheme = "artifact:"

// IsArtifact reports whether a name is that of an artifact.
func IsArtifact(name string) bool { return strings.HasPrefix(name, ArtifactScheme) }

// place is where a name led outside of the workspace.
type place struct{ tree, path string }

// Views returns the effects of reading files of the workspace, or of what
// [Env.Readable], the home and the temporary directory of the session have beside
// it. A call that tells them reads by [Env.View]. Artifacts are no effects: what is
// in them is what calls of the session were allowed to show.
func (e Env) Views(names ...string) []Effect {
	effects := make([]Effect, 0, len(names))
	for _, name := range names {
		if IsArtifact(name) {
			continue
		}
		path, inside := e.Workspace.Resolve(name)
		if at, ok := e.beside(path, inside); ok {
			path = filepath.Join(at.tree, at.path)
			if e.judged != nil && e.judged.beside == nil {
				e.judged.beside = make(map[string]place)
			}
			if e.judged != nil {
				e.judged.beside[name] = at
			}
		}
		effects = append(effects, e.judge(ReadsPath, name, path, inside))
	}
	return effects
}

// ViewsTree is Views of a directory and what is below it, but for what is
// withheld: a call that tells it leaves out what [View.Withheld] says.
func (e Env) ViewsTree(name string) []Effect {
	effects := e.Views(name)
	for i := range effects {
		effects[i].Tree, effects[i].Withholds = true, e.Restrictions != nil
	}
	return effects
}

// View opens the way to what a name led to when the effects of the call were told.
func (e Env) View(name string) (*View, error) {
	if IsArtifact(name) {
		return e.viewArtifacts(name)
	}
	at, outside := e.judged.beside[name]
	if !outside {
		path, err := e.Path(name)
		if err != nil {
			return nil, err
		}
		return &View{Workspace: e.Workspace, Path: path, env: e}, nil
	}
	ws, err := workspace.Open(at.tree)
	if err != nil {
		return nil, err
	}
	if ws.Dir() != at.tree {
		ws.Close()
		return nil, fmt.Errorf("%s: %w", name, workspace.ErrMoved)
	}
	return &View{Workspace: ws, Path: at.path, env: e, tree: at.tree}, nil
}

// viewArtifacts opens the way to an artifact of the session, or to all of them.
func (e Env) viewArtifacts(name string) (*View, error) {
	if e.Artifacts == nil {
		return nil, Failf("no_artifacts", "%s: this server keeps no artifacts. Name a file.", name)
	}
	all, path := e.Artifacts.All(), "."
	if name != ArtifactScheme {
		one, err := e.Artifacts.Find(name)
		if err != nil {
			return nil, err
		}
		all, path = []KeptArtifact{one}, one.File
	}
	if len(all) == 0 {
		return nil, Failf("artifact_not_found", "This session has no artifacts.")
	}
	ws, err := workspace.Open(all[0].Dir)
	if err != nil {
		return nil, err
	}
	v := &View{Workspace: ws, Path: path, env: e, tree: all[0].Dir, artifacts: make(map[string]KeptArtifact, len(all))}
	for _, a := range all {
		v.artifacts[a.File] = a
	}
	return v, nil
}

// Artifact returns the artifact that is viewed; false for a file, or several.
func (v *View) Artifact() (KeptArtifact, bool) {
	a, ok := v.artifacts[v.Path]
	return a, ok
}

// Artifacts reports whether artifacts are viewed.
func (v *View) Artifacts() bool { return v.artifacts != nil }

// Close ends the view. What was opened through it stays open.
func (v *View) Close() {
	if v.Beside() {
		v.Workspace.Close()
	}
}

// Beside reports whether it lies outside of the session's workspace.
func (v *View) Beside() bool { return v.tree != "" }

// Name returns how a path of the view's workspace is told: absolute, unless the
// workspace is the session's own, and as a URI where it is an artifact.
func (v *View) Name(path string) string {
	if v.Artifacts() {
		return ArtifactScheme + path
	}
	if v.Beside() {
		return filepath.Join(v.tree, path)
	}
	return path
}

// Withheld is [Restrictions.Withheld] for what is below Path; nil where nothing is.
func (v *View) Withheld(asked bool) func(path string) bool {
	if v.Artifacts() {
		return func(path string) bool { return v.artifacts[path].File == "" && path != "." }
	}
	withheld := v.env.WithheldBelow(v.Name(v.Path), asked)
	if !v.Beside() {
		return withheld
	}
	return func(path string) bool {
		path = v.Name(path)
		return isSpecial(path) || withheld != nil && withheld(path)
	}
}

// isSpecial reports whether a path is of the kernel: what is there depends on who
// looks, and the server is not to look in place of a command.
func isSpecial(path string) bool { return isBelow(path, "/proc") || isBelow(path, "/dev") }

// Beside reports whether a name leads out of the workspace to what a call may
// read by [Env.View].
func (e Env) Beside(name string) bool {
	_, ok := e.beside(e.Workspace.Resolve(name))
	return ok
}

// maxTrees is how often a name may lead from one tree to another.
const maxTrees = 40

// beside returns where a path that leads out of the workspace lies among what may
// be read. Links are followed as long as they stay in there, and nothing else is
// looked at.
func (e Env) beside(path string, inside bool) (at place, ok bool) {
	if inside {
		return place{}, false
	}
	for range maxTrees {
		tree, in := e.treeOf(&path)
		if !in || isSpecial(path) {
			return place{}, false
		}
		ws, file, err := openTree(tree)
		if err != nil {
			return place{}, false
		}
		rel, inside := file, true
		if file == "" {
			rel, inside = ws.Resolve("./" + strings.TrimPrefix(path, tree))
		}
		at = place{ws.Dir(), rel}
		ws.Close()
		if file != "" && path != tree {
			return place{}, false
		}
		if inside {
			return at, !isSpecial(filepath.Join(at.tree, at.path))
		}
		path = rel
	}
	return place{}, false
}

// treeOf returns the tree that a path lies in. Where the path is of a directory
// that stands for the session's temporary one, it becomes a path of that.
func (e Env) treeOf(path *string) (tree string, ok bool) {
	*path = filepath.Clean(*path)
	var home, temp string
	if e.Session != nil {
		home, temp = e.Session.Home(), e.Session.Temp()
	}
	for _, tree := range append(slices.Clone(e.Readable), home, temp) {
		if tree != "" && isBelow(*path, tree) {
			return tree, true
		}
	}
	for _, dir := range e.Temporary {
		if temp != "" && isBelow(*path, dir) {
			*path = filepath.Join(temp, strings.TrimPrefix(*path, dir))
			return temp, true
		}
	}
	return "", false
}

// openTree opens a directory; where the tree is one file, the directory that it
// lies in, with its name there.
func openTree(tree string) (ws *workspace.Workspace, file string, err error) {
	dir, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return nil, "", err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, "", err
	}
	if !info.IsDir() {
		dir, file = filepath.Split(dir)
	}
	ws, err = workspace.Open(dir)
	return ws, file, err
}

// isBelow reports whether a path is top or lies below it; both are clean and
// absolute.
func isBelow(path, top string) bool {
	return path == top || strings.HasPrefix(path, strings.TrimSuffix(top, "/")+"/")
}

// ReadableTrees returns what [Offer.Readable] and [Env.Readable] are where commands
// may read paths: those that are there, and where they lead.
func ReadableTrees(paths ...string) []string {
	var list []string
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		for _, path := range []string{filepath.Clean(path), real} {
			if !isSpecial(path) && !slices.Contains(list, path) {
				list = append(list, path)
			}
		}
	}
	return list
}
