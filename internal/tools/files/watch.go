// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed watch.md
var watchDoc string

//go:embed watch_help.md
var watchHelp string

type watchInput struct {
	Path      string    `json:"path,omitempty" check:"max=4096" jsonschema:"default the workspace"`
	MaxEvents int       `json:"max_events,omitempty" check:"min=1,max=10000" jsonschema:"end after so many; default 100"`
	TimeoutMS int       `json:"timeout_ms,omitempty" check:"min=1,max=600000" jsonschema:"default 60000"`
	Interval  int       `json:"interval_ms,omitempty" check:"min=20,max=60000" jsonschema:"between looks; default 500"`
	Exclude   *[]string `json:"exclude,omitempty" check:"max=100" jsonschema:"patterns to leave out; default as of list_dir"`
}

// Check finds patterns that are none.
func (in watchInput) Check() []tools.Problem { return checkPatterns(in.Exclude) }

// Watch returns the tool that reports changes as they happen.
func Watch() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "watch_files",
			Aliases:         []string{"WatchFiles", "watch"},
			Label:           "Watch files",
			Summary:         "Report files as they are created, changed and removed.",
			Description:     watchDoc,
			Help:            watchHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			DefaultTimeout:  11 * time.Minute,
			Examples: []tools.Example{
				{Summary: "Until the first change", Input: json.RawMessage(`{"path":"src","max_events":1}`)},
				{Summary: "For ten seconds", Input: json.RawMessage(`{"timeout_ms":10000,"max_events":10000,"exclude":["*.log"]}`)},
			},
		},
		func(env tools.Env, in watchInput) []tools.Effect { return env.ReadsTree(cmp.Or(in.Path, ".")) },
		runWatch)
}

// fileEvent is one change that was seen.
type fileEvent struct {
	Kind string `json:"kind"` // created, changed or removed
	Path string `json:"path"`
}

const (
	maxWatched = 100_000 // entries of a tree that are watched
	// A look may take this part of the time.
	maxShare = 10
)

func runWatch(ctx context.Context, env tools.Env, in watchInput, out tools.Sink) (tools.Result, error) {
	name := cmp.Or(in.Path, ".")
	path, err := env.Path(name)
	if err != nil {
		return tools.Result{}, explainOf(env, err, name)
	}
	w := &watching{env: env, path: path, in: in}
	before, err := w.scan(ctx)
	if err != nil {
		return tools.Result{}, explainOf(env, err, name)
	}
	out.Emit(tools.Progress{Message: fmt.Sprintf("watching %s", tools.Count(len(before), "entry", "entries")), Total: float64(cmp.Or(in.MaxEvents, 100)), Unit: "changes"})
	interval := time.Duration(cmp.Or(in.Interval, 500)) * time.Millisecond
	end := time.NewTimer(time.Duration(cmp.Or(in.TimeoutMS, 60_000)) * time.Millisecond)
	defer end.Stop()
	next := time.NewTimer(interval)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			result, err := w.result("it was cancelled")
			return result, errors.Join(context.Cause(ctx), err)
		case <-end.C:
			return w.result("the time is over")
		case <-next.C:
		}
		began := time.Now()
		now, err := w.scan(ctx)
		if err != nil {
			result, _ := w.result("")
			return result, explain(err)
		}
		if w.report(before, now, out) {
			return w.result("these are as many as were asked for")
		}
		before = now
		next.Reset(max(interval, maxShare*time.Since(began)))
	}
}

// watching is a watch that is under way.
type watching struct {
	env    tools.Env
	path   string
	in     watchInput
	events []fileEvent
}

// scan returns what is there now.
func (w *watching) scan(ctx context.Context) (map[string]workspace.Version, error) {
	seen := make(map[string]workspace.Version)
	info, err := w.env.Workspace.Stat(w.path)
	if err != nil || !info.Exists() {
		return seen, err
	}
	if !info.Mode.IsDir() {
		seen[w.path] = info.Version
		return seen, nil
	}
	exclude := excluding(cmp.Or(w.in.Exclude, &alwaysExcluded))
	withheld := w.env.Withheld(cmp.Or(w.in.Path, "."), true)
	all, err := w.env.Workspace.Walk(ctx, w.path, maxWatched, func(e workspace.Entry) error {
		rel, err := filepath.Rel(w.path, e.Path)
		if err != nil {
			return err
		}
		if exclude.Match(rel) || workspace.IsTemporary(e.Path) {
			return workspace.SkipDir
		}
		version, hidden := e.Version, withheld != nil && withheld(e.Path)
		if hidden || e.Mode.IsDir() {
			version = workspace.Version{} // what happens in a directory is told by itself
		}
		seen[e.Path] = version
		if len(seen) > maxWatched {
			return errEnough
		}
		if hidden {
			return workspace.SkipDir
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough), err == nil && !all:
		return nil, tools.Failf("too_many_files", "There are more than %d entries below %s. Watch a directory in it, or exclude some.", maxWatched, w.path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return seen, nil // it was removed just now
	}
	return seen, err
}

// report tells what changed between two looks, and whether that was enough.
func (w *watching) report(before, now map[string]workspace.Version, out tools.Sink) bool {
	var events []fileEvent
	for path, version := range now {
		was, known := before[path]
		switch {
		case !known:
			events = append(events, fileEvent{"created", path})
		case was != version:
			events = append(events, fileEvent{"changed", path})
		}
	}
	for path := range before {
		if _, there := now[path]; !there {
			events = append(events, fileEvent{"removed", path})
		}
	}
	slices.SortFunc(events, func(a, b fileEvent) int { return cmp.Compare(a.Path, b.Path) })
	limit := cmp.Or(w.in.MaxEvents, 100)
	events = events[:min(len(events), limit-len(w.events))]
	if len(events) == 0 {
		return false
	}
	w.events = append(w.events, events...)
	out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte(lines(events))})
	out.Emit(tools.Progress{Message: events[len(events)-1].Kind + " " + visible(plain(events[len(events)-1].Path)), Done: float64(len(w.events)), Total: float64(limit), Unit: "changes"})
	return len(w.events) == limit
}

func lines(events []fileEvent) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.Kind + " " + visible(plain(e.Path)) + "\n")
	}
	return b.String()
}

func (w *watching) result(why string) (tools.Result, error) {
	text := lines(w.events)
	if len(w.events) == 0 {
		text = "Nothing changed.\n"
	}
	if why != "" {
		text += "(the watch ended: " + why + ")\n"
	}
	events := slices.Clone(w.events)
	for i := range events {
		events[i].Path = visible(events[i].Path)
	}
	if events == nil {
		events = []fileEvent{}
	}
	return tools.Detailed(text, map[string]any{"events": events})
}
