// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package search finds files of a workspace by name and by what is in them, the
// way ripgrep does: the same ignore rules, types, globs and flags, in process.
//
// The first search of a workspace reads its files. One that is searched again
// is kept in memory, with an index, for as long as it is used; the answers are
// always those that reading the files would give.
package search

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/search/workers"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Mode is what a search for lines tells.
type Mode uint8

const (
	Lines  Mode = iota // the lines that match
	Files              // the files with lines that match
	Counts             // how many lines match in each file
)

// Options say what a search for lines tells.
type Options struct {
	Mode Mode

	// Before and After are how many lines around a match to show.
	Before, After int

	// MaxPerFile is how many matching lines of a file are enough; 0 means all.
	MaxPerFile int

	// MaxColumns is how many bytes of a line are shown; 0 means all.
	MaxColumns int

	// Limit is how many matching lines are enough, or files where Mode is another
	// than Lines; 0 means all. A search may find a few more.
	Limit int
}

// Summary tells of a search as a whole.
type Summary struct {
	Files   int // that were looked at
	Matches int // lines that match, in the files that were looked at
	Binary  int // files left out since they are no text

	// Problems counts what could not be looked at, and Problem is the first.
	Problems int
	Problem  string

	// Warm says that the answer came from memory.
	Warm bool
}

// isGone reports the errors of what was there a moment ago.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) ||
		errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EISDIR) // a pipe or a directory has taken its name
}

// grepCold reads the files.
func grepCold(ctx context.Context, ws *workspace.Workspace, q *query, c *chooser, o Options, yield func(File) bool) (Summary, error) {
	var mu sync.Mutex
	var searchers []*searcher
	taken := newLimit(o, yield)
	w := &walk{ws: ws, scope: c, workers: workers.Count()}
	w.newWorker = func() visitor {
		s := newSearcher(q, o, w.halted)
		mu.Lock()
		defer mu.Unlock()
		searchers = append(searchers, s)
		return s.visit
	}
	w.deliver = func(out *output) bool { return out.each(taken.yield) }
	err := w.run(ctx)
	var sum Summary
	for _, s := range searchers {
		sum.Files += s.counts.Files
		sum.Binary += s.counts.Binary
		sum.Matches += s.counts.Matches
		s.done()
	}
	sum.Problems, sum.Problem = w.problems.count, w.problems.first
	return sum, err
}

// limit ends a search when there is enough.
type limit struct {
	max   int
	files bool
	give  func(File) bool
	taken int
}

func newLimit(o Options, give func(File) bool) *limit {
	return &limit{max: o.Limit, files: o.Mode != Lines, give: give}
}

func (l *limit) yield(f File) bool {
	if !l.give(f) {
		return false
	}
	if l.taken++; !l.files {
		l.taken += f.Count - 1
	}
	return l.max == 0 || l.taken < l.max
}

// Order is how files are sorted.
type Order uint8

const (
	ByName Order = iota
	ByTime       // the one that was changed last first
)

// globCold goes through the directories.
func globCold(ctx context.Context, ws *workspace.Workspace, c *chooser, order Order) ([]File, Summary, error) {
	w := &walk{ws: ws, scope: c, workers: workers.Count()}
	w.newWorker = func() visitor {
		return func(_ context.Context, d *workspace.Dir, f target, out *output) error {
			found := foundFile{path: f.path}
			if order == ByTime {
				s, err := d.Lstat(f.name)
				if err != nil {
					return gone(err)
				}
				found.mtime = s.MTime
			}
			out.files = append(out.files, found)
			return nil
		}
	}
	var files []File
	w.deliver = func(out *output) bool {
		for _, f := range out.files {
			files = append(files, File{Path: f.path, MTime: f.mtime})
		}
		return true
	}
	err := w.run(ctx)
	return sorted(files, order), Summary{Files: len(files), Problems: w.problems.count, Problem: w.problems.first}, err
}

func sorted(files []File, order Order) []File {
	slices.SortFunc(files, func(a, b File) int {
		if order == ByTime && a.MTime != b.MTime {
			if a.MTime > b.MTime {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	return files
}
