// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Touched is a file that an edit has written.
type Touched struct {
	Path   string  // of the workspace
	Was    string  // the path it had before it was moved; empty where it was not
	Before *string // what it had; nil where it was not there
}

// NewErrors are the errors that files have since an edit, and what has to be said of them.
type NewErrors struct {
	List  []Problem
	By    []string // the servers that found them
	Notes []string
}

// NewErrors returns the errors that files have and did not have before. It takes no longer
// than limit: a server that needs longer, such as one that starts, goes on and is quicker the
// next time. Files without a server are left out.
func (a *Asker) NewErrors(ctx context.Context, limit time.Duration, files []Touched) (all NewErrors) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	of := make(map[*Server][]Touched)
	for _, f := range files {
		if server, _, err := a.set.serverFor(f.Path); err == nil && len(of[server]) < maxFiles {
			of[server] = append(of[server], f)
		}
	}
	answers := make(map[*Server]chan NewErrors)
	for server, files := range of {
		answers[server] = a.check(ctx, server, files)
	}
	for _, server := range slices.SortedFunc(maps.Keys(of), func(a, b *Server) int { return cmp.Compare(a.Name, b.Name) }) {
		select {
		case answer := <-answers[server]:
			all.List, all.Notes = append(all.List, answer.List...), append(all.Notes, answer.Notes...)
			if len(answer.List) > 0 {
				all.By = append(all.By, server.Name)
			}
		case <-ctx.Done():
			all.Notes = append(all.Notes, fmt.Sprintf("%s is still at work: whether there are new errors is not known yet", server.Name))
		}
	}
	return all
}

// check has a server look at files, and goes on with it when ctx is done. One check after
// the other has its turn; one whose time is over before that does nothing.
func (a *Asker) check(ctx context.Context, server *Server, files []Touched) chan NewErrors {
	answer := make(chan NewErrors, 1)
	place, err := a.set.serversOf(a.env)
	if err != nil {
		answer <- NewErrors{}
		return answer
	}
	turn := place.turnOf(server)
	go func() {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.set.config.Timeout)
		defer cancel()
		list, note, err := a.newErrors(ctx, files)
		if err != nil {
			note = "which errors are new is not known: " + err.Error()
		}
		found := NewErrors{List: list}
		if note != "" {
			found.Notes = []string{note}
		}
		answer <- found
	}()
	return answer
}

// turnOf returns what holds a value while files are checked by a server.
func (p *sessionServers) turnOf(server *Server) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turns == nil {
		p.turns = make(map[string]chan struct{})
	}
	if p.turns[server.Name] == nil {
		p.turns[server.Name] = make(chan struct{}, 1)
	}
	return p.turns[server.Name]
}

// newErrors returns the errors of files, which are all of one server, that they had not
// before.
func (a *Asker) newErrors(ctx context.Context, files []Touched) (list []Problem, note string, err error) {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	now, err := a.Diagnostics(ctx, paths...)
	if err != nil {
		return nil, "", err
	}
	before := make(map[string]string) // of files that are wrong
	moved := make(map[string]string)  // of those, where they were to where they are
	for _, f := range files {
		if f.Before == nil || !slices.ContainsFunc(now.List, func(p Problem) bool { return p.Path == f.Path && p.Severity == "error" }) {
			continue
		}
		before[f.Path] = *f.Before
		if f.Was != "" {
			before[f.Path], before[f.Was], moved[f.Was] = "", *f.Before, f.Path
		}
	}
	list = slices.DeleteFunc(now.List, func(p Problem) bool { _, had := before[p.Path]; return had || p.Severity != "error" })
	late, indexing := now.Late, now.Indexing
	if len(before) > 0 {
		// What would be right again with the texts of before is wrong since, unless it was
		// wrong where the file was.
		change, err := a.compare(ctx, before, false)
		if err != nil {
			return nil, "", err
		}
		was := make(map[Problem]int)
		for _, p := range change.New {
			if path := moved[p.Path]; path != "" {
				p.Path = path
				was[p.same()]++
			}
		}
		for _, p := range change.Fixed {
			if _, touched := before[p.Path]; !touched || p.Severity != "error" {
				continue
			}
			if was[p.same()]--; was[p.same()] < 0 {
				list = append(list, p)
			}
		}
		late, indexing = late || change.Late, cmp.Or(indexing, change.Indexing)
	}
	switch {
	case now.Trouble != "":
		note = now.Server + " says: " + now.Trouble
	case late || indexing != "":
		note = now.Server + " had not looked at everything yet: there may be other errors"
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return byPlace(a.Location, b.Location) })
	return list, note, nil
}
