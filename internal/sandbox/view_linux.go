// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// planOf returns the steps that make a view: what is mounted comes before what is
// mounted in it.
func planOf(v *View) []helper.Mount {
	p := plan{links: make(map[string]string)}
	for _, path := range v.Read {
		p.show(path, helper.BindRead, maxLinks)
	}
	for _, path := range v.Write {
		if path != v.Temp && path != v.Calls { // without links: who shows it knows where it is
			p.binds = append(p.binds, helper.Mount{Kind: helper.BindWrite, Source: path, Target: path})
		}
	}
	for _, path := range v.Empty {
		p.binds = append(p.binds, helper.Mount{Kind: helper.Empty, Target: path})
	}
	if v.Calls != "" {
		p.binds = append(p.binds, helper.Mount{Kind: helper.BindWrite, Source: v.Calls, Target: CallsPath})
	}
	if v.Temp != "" {
		p.binds = append(p.binds, helper.Mount{Kind: helper.BindWrite, Source: v.Temp, Target: "/tmp"})
	}
	for _, path := range devices {
		p.binds = append(p.binds, helper.Mount{Kind: helper.BindDevice, Source: path, Target: path})
	}
	steps := []helper.Mount{
		{Kind: helper.MakeDir, Target: "/tmp"}, {Kind: helper.MakeDir, Target: "/run"}, {Kind: helper.MakeLink, Source: "/tmp", Target: "/var/tmp"},
		{Kind: helper.MountProc, Target: "/proc"},
		{Kind: helper.MountShared, Target: "/dev/shm"}, {Kind: helper.MountTerminals, Target: "/dev/pts"},
		{Kind: helper.MakeLink, Source: "pts/ptmx", Target: "/dev/ptmx"}, {Kind: helper.MakeLink, Source: "/proc/self/fd", Target: "/dev/fd"},
		{Kind: helper.MakeLink, Source: "/proc/self/fd/0", Target: "/dev/stdin"}, {Kind: helper.MakeLink, Source: "/proc/self/fd/1", Target: "/dev/stdout"},
		{Kind: helper.MakeLink, Source: "/proc/self/fd/2", Target: "/dev/stderr"},
	}
	steps = append(steps, p.steps()...)
	// Behind what the steps leave out: each is shown already, and mounted on itself.
	held := slices.Clone(v.Held)
	slices.Sort(held)
	for _, path := range slices.Compact(held) {
		steps = append(steps, helper.Mount{Kind: helper.Hold, Target: path})
	}
	for _, path := range v.Fixed {
		steps = append(steps, helper.Mount{Kind: helper.Fix, Target: path})
	}
	for _, path := range v.Cover {
		steps = append(steps, helper.Mount{Kind: helper.Cover, Target: path})
	}
	return steps
}

// maxLinks is how many links lead to a path at most.
const maxLinks = 16

// plan collects what is to be shown.
type plan struct {
	binds []helper.Mount
	links map[string]string // what they say, by path
}

// show shows a path, with the links that lead to it. One that is not there is left
// out.
func (p *plan) show(path string, kind helper.MountKind, links int) {
	path = filepath.Clean(path)
	if links == 0 || path == "/" {
		return
	}
	for at := range prefixes(path) {
		info, err := os.Lstat(at)
		if err != nil {
			return
		}
		if info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		text, err := os.Readlink(at)
		if err != nil {
			return
		}
		p.links[at] = text
		if !filepath.IsAbs(text) {
			text = filepath.Join(filepath.Dir(at), text)
		}
		p.show(text+path[len(at):], kind, links-1)
		return
	}
	p.binds = append(p.binds, helper.Mount{Kind: kind, Source: path, Target: path})
}

// prefixes iterates over the directories that lead to a path, and it.
func prefixes(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 1; i <= len(path); i++ {
			if (i == len(path) || path[i] == '/') && !yield(path[:i]) {
				return
			}
		}
	}
}

// steps returns what is left when everything is taken away that something else
// shows already: in the order of paths, so that the same view has the same steps.
func (p *plan) steps() []helper.Mount {
	slices.SortStableFunc(p.binds, func(a, b helper.Mount) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), -cmp.Compare(a.Kind, b.Kind)) // writing before reading
	})
	var steps []helper.Mount
	for _, m := range p.binds {
		if around := innermost(steps, m.Target); around == nil || around.Source != around.Target || m.Source != m.Target ||
			around.Kind == helper.BindRead && m.Kind == helper.BindWrite {
			steps = append(steps, m)
		}
	}
	for path, text := range p.links {
		if innermost(steps, path) == nil {
			steps = append(steps, helper.Mount{Kind: helper.MakeLink, Source: text, Target: path})
		}
	}
	slices.SortStableFunc(steps, func(a, b helper.Mount) int { return strings.Compare(a.Target, b.Target) })
	return steps
}

// innermost returns the last of the steps that shows a path; nil if none does.
func innermost(steps []helper.Mount, path string) *helper.Mount {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Kind != helper.MakeLink && below(path, steps[i].Target) {
			return &steps[i]
		}
	}
	return nil
}
