// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package effects examines the workspace for what a call would touch, before the
// call runs: what shell patterns stand for, where links lead, what lies in trees
// that are moved and removed, and what a name was meant to be where it leads to
// nothing. It reads within bounds and changes nothing; package tools has the words.
package effects

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// What may be examined for the effects of one call, all together.
const (
	maxEntries = 20_000 // of directories
	maxMatches = 1_000  // of patterns
	maxFound   = 64     // in one tree, that are effects by themselves
)

// An examination is what the effects of one call share while the workspace is
// examined: how much may be examined from now on, and what was found.
type examination struct {
	env     tools.Env
	entries int
	matches int
	trees   map[treeKey]*contents

	made     []made // by the commands of the call
	fills    map[string]*filled
	compared int
}

// treeKey is how a tree was examined: as if it lay elsewhere, or to be removed.
type treeKey struct {
	top, as string
	removed bool
}

type examinationKey struct{}

// examine returns the examination of the call that an Env is of.
func examine(e tools.Env) *examination {
	return e.Once(examinationKey{}, func() any {
		return &examination{env: e, entries: maxEntries, matches: maxMatches}
	}).(*examination)
}

// contents are what there is at a path and below it.
type contents struct {
	missing, dir bool
	all          bool     // nothing was left out
	more         bool     // found or links has not everything
	found        []found  // what is protected or cared about; if protected, nothing else
	links        []string // seen from the top
}

// found is something in a tree that is an effect by itself.
type found struct {
	path      string
	dir       bool
	protected bool
}

func (f found) effect(named string, of tools.Effect) tools.Effect {
	return tools.Effect{Kind: tools.WritesPath, Path: f.path, Named: named, Tree: f.dir && !f.protected, Rooted: of.Rooted, Removes: of.Removes}
}

// tree examines what is below top, as if it were below as. Where it is removed by
// a command, only what the operator protects is protected: nothing is planted, and
// the repository of the workspace is not below any other directory.
func (x *examination) tree(top, as string, removed bool) *contents {
	key := treeKey{top, as, removed}
	if s := x.trees[key]; s != nil {
		return s
	}
	s := &contents{missing: true}
	if x.entries <= 0 {
		return s
	}
	protected := x.env.Protected
	if removed {
		protected = func(string) bool { return false }
		if own := x.env.Protection(); own != nil {
			protected = own.Protects
		}
	}
	examined, all := x.env.Workspace.Examine(top, x.entries, func(path string, kind fs.FileMode) bool {
		if path == top {
			s.missing, s.dir = false, kind.IsDir()
			return true // it is judged by itself
		}
		rest := path[len(prefixOf(top)):]
		if as != top {
			path = filepath.Join(as, rest)
		}
		if protected(path) {
			s.found = []found{{path, kind.IsDir(), true}}
			return false
		}
		known := slices.ContainsFunc(s.found, func(f found) bool { return f.dir && strings.HasPrefix(path, f.path+"/") })
		if !known && x.named(tools.WritesPath, path) {
			s.found = append(s.found, found{path, kind.IsDir(), false})
		}
		if kind&fs.ModeSymlink != 0 {
			s.links = append(s.links, rest)
		}
		if len(s.found) > maxFound || len(s.links) > maxFound {
			s.more, s.found, s.links = true, s.found[:min(len(s.found), maxFound)], s.links[:min(len(s.links), maxFound)]
		}
		return true
	})
	s.all = all
	x.entries -= min(examined, x.entries)
	slices.SortFunc(s.found, func(a, b found) int { return cmp.Compare(a.path, b.path) })
	if x.trees == nil {
		x.trees = make(map[treeKey]*contents)
	}
	x.trees[key] = s
	return s
}

// prefixOf returns what the paths below a directory begin with.
func prefixOf(dir string) string {
	if dir == "." {
		return ""
	}
	return dir + "/"
}

func tooMuch(path string) string {
	return fmt.Sprintf("there is more below %s than can be examined", path)
}

// within adds to the effect of changing a whole tree those of changing what is
// in it and has to be judged by itself. The command is what changes it; nil where
// a tool does, which changes nothing but what is there.
func (x *examination) within(effect tools.Effect, by *command) []tools.Effect {
	if effect.Kind != tools.WritesPath || !effect.Tree || !filepath.IsLocal(effect.Path) || x.env.Restrictions == nil {
		return []tools.Effect{effect}
	}
	s := x.tree(effect.Path, effect.Path, effect.Removes && by != nil)
	if !s.missing && !s.dir && !x.putsTree(effect.Path, cmp.Or(effect.Named, effect.Path), by) {
		effect.Tree = false // there is nothing below it
		return []tools.Effect{effect}
	}
	return x.addFound(effect, effect.Path, s, by)
}

// addFound adds what was seen in a tree to the effect of changing it.
func (x *examination) addFound(effect tools.Effect, top string, s *contents, by *command) []tools.Effect {
	effects := []tools.Effect{effect}
	for _, found := range s.found {
		// Of what a pattern stands for it may be something else, and what a command
		// does to a whole tree is not done to put something there.
		if found.protected && (effect.Glob || by != nil && !x.own(found.path)) {
			effects[0].Unclear = "it may change " + found.path + ", which is protected"
			return effects
		}
		effects = append(effects, found.effect(top, effect))
		if found.protected {
			return effects
		}
	}
	brought := x.brings(top, cmp.Or(effect.Named, effect.Path), s, by)
	unclear := brought.unclear
	if !s.all {
		unclear = tooMuch(top)
	}
	effects[0].Unclear = cmp.Or(effect.Unclear, unclear)
	examined := effects[0].Unclear == "" && !s.more && !brought.more && x.env.Restrictions != nil &&
		(by == nil || by.keeps || by.copies && len(by.sources) > 0)
	effects[0].Examined = examined && !brought.trees
	effects[0].NamesExamined = examined && brought.trees && !x.cares(effect.Kind, top)
	return append(effects, brought.effects...)
}

// brought is what a command may put into a tree.
type brought struct {
	more    bool           // something has to be judged by itself
	trees   bool           // it is not known where something comes to lie that the call makes
	unclear string         // why that is not known
	effects []tools.Effect // what has to be judged by itself, and what is written through links that are there
}

// brings tells what a command may put below top, which it calls name.
func (x *examination) brings(top, name string, s *contents, by *command) (b brought) {
	if by == nil || !by.copies {
		return b
	}
	for _, source := range by.sourcesOf(name) {
		switch {
		case source.Glob || !filepath.IsLocal(source.Path):
			b.more = true
			continue
		case source.Path == top:
			continue // mv takes it away
		}
		put, made := x.tree(source.Path, top, false), x.filled(source.Path)
		if !put.all {
			b.unclear = tooMuch(source.Path)
			return b
		}
		if len(put.found) > 0 && put.found[0].protected {
			b.unclear = fmt.Sprintf("what is put there may become %s, which is protected", put.found[0].path)
			return b
		}
		b.more = b.more || len(put.found) > 0 || made.links
		b.trees = b.trees || made.trees
		for _, rest := range made.names {
			if x.entries--; x.entries < 0 {
				b.unclear = tooMuch(source.Path)
				return b
			}
			if e := x.write(top, rest); e.Named != "" || x.cares(e.Kind, e.Path) {
				b.effects = append(b.effects, e)
			}
		}
		for _, link := range s.links {
			through := x.write(top, link)
			switch {
			case x.env.Workspace.Has(source.Path + "/" + link):
				b.effects = append(b.effects, through)
			case made.trees && (!filepath.IsLocal(through.Path) || x.cares(through.Kind, through.Path)):
				b.unclear = "what is put there may be written to " + through.Path
			}
		}
	}
	return b
}

// write returns the effect of writing something below top.
func (x *examination) write(top, rest string) tools.Effect {
	effect := tools.Effect{Kind: tools.WritesPath, Path: filepath.Join(top, rest)}
	x.follow(&effect)
	return effect
}

// own reports whether a path is one that the operator protects.
func (x *examination) own(path string) bool {
	protection := x.env.Protection()
	return protection != nil && protection.Protects(path)
}

// A command is what a program of known ways does with trees.
type command struct {
	removes bool           // takes away the trees that it is given
	keeps   bool           // makes nothing that is not there
	copies  bool           // makes nothing but what it reads
	links   bool           // makes other names of what it reads
	sources []tools.Effect // the trees it reads
	byName  map[string][]tools.Effect
}

// sourcesOf returns what may come to lie at a name: of several, those with its
// last part, for what is copied into a directory keeps it.
func (c *command) sourcesOf(name string) []tools.Effect {
	if len(c.sources) < 2 {
		return c.sources
	}
	if c.byName == nil {
		c.byName = make(map[string][]tools.Effect)
		for _, source := range c.sources {
			base := filepath.Base(cmp.Or(source.Named, source.Path))
			c.byName[base] = append(c.byName[base], source)
		}
	}
	if same := c.byName[filepath.Base(name)]; same != nil {
		return same
	}
	return c.sources
}

// commandOf returns the command whose effects follow the one of running it.
func commandOf(run tools.Effect, effects []tools.Effect) *command {
	c := new(command)
	dir, name := filepath.Split(run.Program)
	if dir != "" && dir != "/bin/" && dir != "/usr/bin/" {
		return c
	}
	switch name {
	case "rm", "rmdir":
		c.keeps, c.removes = true, true
	case "chmod", "chown", "chgrp":
		c.keeps = true
	case "cp", "mv":
		c.copies = true
	case "ln":
		c.links = true
	}
	for _, e := range effects {
		if e.Kind == tools.RunsProgram {
			break
		}
		if e.Kind == tools.ReadsPath && e.Tree {
			c.sources = append(c.sources, e)
		}
	}
	return c
}

// Resolve returns the effects of a program that is not kept in the workspace,
// with every path as it is once links are followed, and with what patterns name.
func Resolve(e tools.Env, effects []tools.Effect) []tools.Effect {
	x := examine(e)
	effects = slices.Clone(effects)
	for i := range effects {
		x.follow(&effects[i])
		x.single(&effects[i])
	}
	by, commands := new(command), make([]*command, len(effects))
	for i, effect := range effects {
		if effect.Kind == tools.RunsProgram {
			by = commandOf(effect, effects[i+1:])
		}
		commands[i] = by
	}
	x.note(effects, commands)
	resolved := make([]tools.Effect, 0, len(effects))
	for i, effect := range effects {
		by := commands[i]
		// A redirection may follow, but it never writes a tree.
		effect.Removes = effect.Removes || by.removes && effect.Kind == tools.WritesPath && effect.Tree
		switch {
		case effect.Kind == tools.RunsProgram:
			resolved = append(resolved, effect)
		case effect.Glob && effect.Path != "":
			resolved = append(resolved, x.expand(effect, by)...)
		default:
			resolved = append(resolved, x.within(effect, by)...)
		}
	}
	return resolved
}

// SameRepository reports whether a directory, which is relative to the workspace,
// is there and has the repository that the workspace has: none of its own, and no
// directory between them has. A HEAD counts as one, for a repository need not be
// called .git.
func SameRepository(e tools.Env, dir string) bool {
	at, known := e.Workspace.ResolveAnywhere(dir)
	if info, err := e.Workspace.Stat(at); !known || err != nil || !info.Mode.IsDir() {
		return false
	}
	for ; at != "."; at = filepath.Dir(at) {
		if !filepath.IsLocal(at) || e.Workspace.Has(at+"/.git") || e.Workspace.Has(at+"/HEAD") {
			return false
		}
	}
	return true
}

// single takes what a repository keeps of a path for one file where there is one now: a
// rule about some name in a directory is no reason to ask before git shows a file. That
// the path was a directory in another commit is not looked for.
func (x *examination) single(effect *tools.Effect) {
	if !effect.Stored || !effect.Tree || effect.Glob || effect.Named != "" || !filepath.IsLocal(effect.Path) {
		return
	}
	if info, err := x.env.Workspace.Stat(effect.Path); err == nil && info.Exists() && info.Mode.IsRegular() {
		effect.Tree = false
	}
}

// follow follows the links of a path.
func (x *examination) follow(effect *tools.Effect) {
	if effect.Kind != tools.ReadsPath && effect.Kind != tools.WritesPath || effect.Glob || effect.Path == "" {
		return
	}
	name := cmp.Or(effect.Named, effect.Path) // ".." after a link leads elsewhere than a clean path says
	path, known := x.env.Workspace.ResolveAnywhere(name)
	if path != name {
		effect.Named, effect.Path = name, path
	}
	if !known && effect.Unclear == "" {
		effect.Unclear = "it takes too long to tell where the path leads"
	}
}
