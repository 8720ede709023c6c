// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// paths makes effects of the files that words name, seen from where the shell is.
type paths struct {
	a *analysis
	s *state
}

// free are files that a command has anyway, or that keep nothing.
var free = map[string]bool{
	"/dev/null": true, "/dev/zero": true, "/dev/full": true, "/dev/random": true, "/dev/urandom": true,
	"/dev/stdout": true, "/dev/stderr": true,
}

func (p paths) reads(w word, tree bool)  { p.touch(tools.ReadsPath, w, tree) }
func (p paths) writes(w word, tree bool) { p.touch(tools.WritesPath, w, tree) }

// opens is what a redirection does: bash takes some names for the network.
func (p paths) opens(w word, write bool) {
	for _, prefix := range []string{"/dev/tcp/", "/dev/udp/"} {
		if target, ok := strings.CutPrefix(w.text, prefix); ok {
			p.a.reachesDevice(target, w)
			return
		}
	}
	if w.unknown && (w.text == "" || strings.HasPrefix("/dev/tcp/", w.text) || w.many) {
		p.a.add(tools.Effect{Kind: tools.ReachesHost, Unclear: "a redirection to a word that is not known may open a connection"})
	}
	if write {
		p.writes(w, false)
	} else {
		p.reads(w, false)
	}
}

func (p paths) touch(kind tools.EffectKind, w word, tree bool) {
	e := tools.Effect{Kind: kind, Tree: tree, Glob: w.glob, Cut: w.cut != ""}
	switch {
	case w.pipe, w.known() && free[w.text]:
		return
	case w.is("/dev/stdin"):
		w.text = "/dev/fd/0"
		p.touch(kind, w, tree)
		return
	case w.unknown, e.Cut && (kind == tools.WritesPath || w.cut != placesOf(p.s)):
		e.Glob, e.Cut = false, false
		e.Unclear = "which file is meant is not known"
		p.a.add(e)
		return
	case w.text == "":
		return // no file has no name
	case strings.HasPrefix(w.text, "/"):
		p.tell(p.place(e, w.text, ""))
		return
	case p.s.dirs == nil:
		e.Path = path.Clean(w.text)
		e.Unclear = "the directory is not known"
		p.a.add(e)
		return
	}
	for _, dir := range p.s.dirs {
		if w.glob {
			dir = quoteGlob(dir)
		}
		p.tell(p.place(e, w.text, dir))
	}
}

// tell adds an effect on a path, unless that is the command's own.
func (p paths) tell(e tools.Effect) {
	if rest, ok := ofItself(e.Path); ok {
		if e, ok = p.own(e, rest); !ok {
			return
		}
	}
	p.a.add(e)
}

// ofProcess reports whether a path leads through what some process has open or
// where it is, such as /proc/1/cwd.
func ofProcess(name string) bool {
	rest, ok := strings.CutPrefix(name, "/proc/")
	return ok && (strings.Contains(rest, "self") || strings.ContainsAny(rest[:min(1, len(rest))], "0123456789*?["))
}

// ofItself returns what a path is called below the directory that every process
// has of itself: to whoever judges it, that would be somebody else's.
func ofItself(name string) (rest string, ok bool) {
	for _, prefix := range []string{"/proc/self", "/proc/thread-self"} {
		if rest, ok = strings.CutPrefix(name, prefix); ok && (rest == "" || rest[0] == '/') {
			return strings.TrimPrefix(rest, "/"), true
		}
	}
	if rest, ok = strings.CutPrefix(name, "/dev/fd"); ok && (rest == "" || rest[0] == '/') {
		return "fd" + rest, true
	}
	return "", false
}

// selfFiles are files that tell a process about itself, and nothing that others
// would keep from it.
var selfFiles = onceFields("stat statm status limits mounts mountinfo mountstats cgroup comm cmdline maps smaps smaps_rollup io sched schedstat wchan loginuid oom_score oom_score_adj personality")

// own is what a process does with what is its own: nothing that has to be told,
// but where it leads elsewhere. What it has open it may have opened in another way.
func (p paths) own(e tools.Effect, rest string) (_ tools.Effect, known bool) {
	reads := e.Kind == tools.ReadsPath
	for _, fd := range []string{"fd", "fd/0", "fd/1", "fd/2"} {
		if rest == fd && (reads || fd == "fd/1" || fd == "fd/2") {
			return e, false
		}
	}
	if rest == "" && !e.Tree || reads && slices.Contains(selfFiles(), rest) {
		return e, false
	}
	e.Path, e.Named, e.Unclear = "", "", "the path means something else to every process"
	return e, true
}

// place gives an effect its path: relative to the workspace where it is inside.
func (p paths) place(e tools.Effect, name, dir string) tools.Effect {
	full := name
	if !strings.HasPrefix(name, "/") {
		full = dir + "/" + name
	}
	full = inTemp(p.a.place, full)
	e.Path = inWorkspace(p.a.place, full)
	if ofProcess(e.Path) {
		e.Unclear = "the path means something else to every process"
	}
	if e.Glob && cleaningHides(full) {
		e.Unclear = "what a pattern finds may be a link, and .. behind it leads elsewhere"
	}
	if cleaningHides(full) {
		e.Named = full
		if rest, ok := strings.CutPrefix(full, "./"); ok {
			e.Named = rest
		}
	}
	return e
}

// cleaningHides reports whether cleaning a path takes away a name that may be a
// link: one before "..".
func cleaningHides(name string) bool {
	seen := false
	for elem := range strings.SplitSeq(name, "/") {
		switch elem {
		case "", ".":
		case "..":
			if seen {
				return true
			}
		default:
			seen = true
		}
	}
	return false
}

// inWorkspace cleans a path and makes it relative to the workspace, where it is
// inside of it, and absolute where it is not.
func inWorkspace(place Place, name string) string {
	root := place.Workspace
	name = path.Clean(name)
	if !path.IsAbs(name) {
		if name != ".." && !strings.HasPrefix(name, "../") || root == "" {
			return name
		}
		name = path.Join(root, name)
	}
	if root == "" {
		return name
	}
	root = path.Clean(root)
	if name == root {
		return "."
	}
	if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/"); ok {
		return rest
	}
	return name
}

// inTemp gives a path below another name of the temporary directory its own name.
func inTemp(place Place, name string) string {
	clean := path.Clean(name)
	own := func(dir string) bool { return dir != "" && isBelow(clean, dir) }
	if place.Temp == "" || !path.IsAbs(name) || own(place.Temp) || own(place.Workspace) || own(place.Home) {
		return name
	}
	for _, other := range place.Temporary {
		if isBelow(clean, other) {
			return place.Temp + strings.TrimPrefix(name, strings.TrimSuffix(other, "/"))
		}
	}
	return name
}

// isBelow reports whether a clean path is a directory or below it.
func isBelow(name, dir string) bool {
	dir = strings.TrimSuffix(path.Clean(dir), "/")
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// absolute makes a path of inWorkspace absolute, where the workspace is known.
func absolute(place Place, name string) string {
	if path.IsAbs(name) || place.Workspace == "" {
		return name
	}
	return path.Join(place.Workspace, name)
}

// resolveDir is the directory a command begins in.
func resolveDir(place Place) string {
	if place.Dir == "" {
		return "."
	}
	return inWorkspace(place, place.Dir)
}

// beneath is the pattern of everything below a directory.
func beneath(dir word) word {
	switch {
	case dir.unknown || dir.pipe:
		return word{unknown: true}
	case dir.known() && (dir.text == "." || dir.text == ""):
		return word{text: "**", glob: true}
	}
	return word{text: strings.TrimSuffix(pattern(dir), "/") + "/**", glob: true}
}

// within is the name of an entry of a directory.
func within(dir word, entry word) word {
	if dir.unknown || entry.unknown || dir.pipe || entry.pipe {
		return word{unknown: true}
	}
	if dir.known() && dir.text == "." {
		return entry
	}
	return joined(joined(dir, lit("/")), entry)
}
