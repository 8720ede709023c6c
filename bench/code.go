// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolserver/toolserver/internal/programtest"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/workspace"
)

// shapes are what is looked for, with their longest literal, for which ripgrep looks.
var shapes = []struct{ pattern, literal string }{
	{"http.StatusText($A)", "StatusText"},
	{"errors.Is($E, fs.ErrNotExist)", "ErrNotExist"},
	{"strings.NewReplacer($$$)", "NewReplacer"},
	{"errors.New($A)", "errors"},
}

// codeFigure is figure 25. The engine runs inside the harness, as it does inside the
// server, and toolserver-syntax in the sandbox. ripgrep is started for each search.
func codeFigure(ctx context.Context, h *harness) ([]row, error) {
	others, err := h.findOthers(ctx)
	if err != nil {
		return nil, err
	}
	helper, err := programtest.Build(h.dir, "cmd/toolserver-exec")
	if err != nil {
		return nil, err
	}
	program, err := programtest.BuildSyntax(h.dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMissing, err)
	}
	jails, err := sandbox.Open(sandbox.Config{Helper: helper})
	if err != nil {
		return nil, err
	}
	defer jails.Close()
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src")
	dir := source
	if h.plan.treeFiles < 1000 { // a short run
		dir = filepath.Join(source, "net/http/httputil")
	}
	others.dir = filepath.Join(h.dir, "copy-of-code")
	if err := os.CopyFS(others.dir, os.DirFS(dir)); err != nil {
		return nil, err
	}
	config := syntax.Config{Program: program}
	rows, err := h.outlines(ctx, config, jails, source)
	if err != nil {
		return nil, err
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	indexes := index.NewPool(index.Config{MaxText: 1 << 30, IdleAfter: time.Hour})
	pool := syntax.NewPool(config, jails, indexes, search.NewPool(indexes))
	first, err := h.indexRow(ctx, config, jails, dir, valueAtMost(30))
	if err != nil {
		return nil, err
	}
	rows = append(rows, first)
	more, err := h.symbolRows(ctx, pool, ws, indexes)
	if err != nil {
		return nil, err
	}
	rows = append(rows, more...)
	more, err = h.shapeRows(ctx, pool.Engine(ws), others)
	if err != nil {
		return nil, err
	}
	rows = append(rows, more...)
	beside, err := h.besideRow(ctx, config, jails, dir)
	if err != nil {
		return nil, err
	}
	rows = append(rows, beside)
	more, err = h.typescriptRows(ctx, config, jails)
	return append(rows, more...), err
}

// besideRow compares how often a text is found in a tree while its first index is made,
// in the background, with how often it is at other times.
func (h *harness) besideRow(ctx context.Context, config syntax.Config, jails *sandbox.Sandbox, dir string) (row, error) {
	var s sides[float64]
	calls := func(indexing bool) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			ws, err := workspace.Open(dir)
			if err != nil {
				return 0, err
			}
			defer ws.Close() // which ends the index
			indexes := index.NewPool(index.Config{MaxText: 1 << 30, IdleAfter: time.Hour})
			engines := search.NewPool(indexes)
			if err := indexes.Index(ws).Warm(ctx); err != nil {
				return 0, err
			}
			if indexing { // a name that nothing has begins it, and does not wait for it
				if _, _, err := syntax.NewPool(config, jails, indexes, engines).Engine(ws).Find(ctx, syntax.Scope{}, syntax.Query{Name: "no symbol has this name", Exact: true}, nil); err != nil {
					return 0, err
				}
			}
			return h.timed(func(ctx context.Context) error {
				_, err := engines.Engine(ws).Grep(ctx, search.Pattern{Text: "ErrTooLarge", Literal: true}, search.Scope{}, search.Options{}, func(search.File) bool { return true })
				return err
			})(ctx)
		}
	}
	if err := interleave(ctx, h.plan.searchRounds, s.entrants(calls(true), calls(false), calls(false))); err != nil {
		return row{}, err
	}
	return s.row("grep while the first index is made (bare: at other times)", "searches/s", itself, ratioAtLeast(0.9)), nil
}

// typescriptRows measures the first index and symbols of a tree of TypeScript.
func (h *harness) typescriptRows(ctx context.Context, config syntax.Config, jails *sandbox.Sandbox) ([]row, error) {
	if h.plan.treeFiles < 1000 { // a short run
		return nil, nil
	}
	dir, err := typescriptTree(ctx)
	if errors.Is(err, errMissing) {
		h.notes = append(h.notes, err.Error())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	first, err := h.indexRow(ctx, config, jails, dir, target{}) // the limit is that of Go's source
	if err != nil {
		return nil, err
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	indexes := index.NewPool(index.Config{MaxText: 1 << 30, IdleAfter: time.Hour})
	more, err := h.symbolRows(ctx, syntax.NewPool(config, jails, indexes, search.NewPool(indexes)), ws, indexes)
	rows := append([]row{first}, more...)
	for i := range rows {
		rows[i].Name = "TypeScript: " + rows[i].Name
	}
	return rows, err
}

// outlines measures the outline of 2,000 lines: by a process that has to be started, by
// one that waits, and of a text that was asked about before.
func (h *harness) outlines(ctx context.Context, config syntax.Config, jails *sandbox.Sandbox, source string) ([]row, error) {
	text, err := os.ReadFile(filepath.Join(source, "net/http/server.go"))
	if err != nil {
		return nil, err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	text = bytes.Join(lines[:min(2000, len(lines))], nil)
	var cold, waiting, warm []float64
	for range max(5, h.plan.searchRounds) {
		ws, err := workspace.Open(h.dir)
		if err != nil {
			return nil, err
		}
		e := syntax.NewPool(config, jails, nil, search.NewPool(nil)).Engine(ws)
		for i := range 6 {
			if i < 4 { // another text
				text = append(text, '\n')
			}
			began := time.Now()
			if _, err := e.Outline(ctx, "a.go", text); err != nil {
				return nil, err
			}
			took := float64(time.Since(began).Microseconds()) / 1000
			switch {
			case i == 0:
				cold = append(cold, took)
			case i < 4:
				waiting = append(waiting, took)
			default:
				warm = append(warm, took)
			}
		}
		ws.Close()
	}
	return []row{
		single("outline of 2,000 lines, warm", "ms", middle(warm), valueAtMost(5)),
		single("outline of 2,000 lines, another text", "ms", middle(waiting), target{}),
		single("outline of 2,000 lines, the process is started", "ms", middle(cold), valueAtMost(30)),
	}, nil
}

// indexRow measures the first index of a tree: the CPU of the processes that parse and
// of this one, which reads the files.
func (h *harness) indexRow(ctx context.Context, config syntax.Config, jails *sandbox.Sandbox, dir string, t target) (row, error) {
	ws, err := workspace.Open(dir)
	if err != nil {
		return row{}, err
	}
	pool := syntax.NewPool(config, jails, nil, search.NewPool(nil))
	before := ownCPU()
	_, _, err = pool.Engine(ws).Find(ctx, syntax.Scope{}, syntax.Query{}, nil)
	own := ownCPU() - before
	ws.Close() // which ends the processes
	return single("first index, CPU", "s", (pool.CPU() + own).Seconds(), t), err
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// symbolRows measures symbols by name, and what they take.
func (h *harness) symbolRows(ctx context.Context, pool *syntax.Pool, ws *workspace.Workspace, indexes *index.Pool) ([]row, error) {
	e := pool.Engine(ws)
	all, _, err := e.Find(ctx, syntax.Scope{}, syntax.Query{}, nil)
	if err != nil {
		return nil, err
	}
	if err := indexes.Index(ws).Warm(ctx); err != nil {
		return nil, err
	}
	text, _, _ := indexes.Index(ws).Memory()
	if text == 0 {
		return nil, fmt.Errorf("%w: a file system under %s that can be watched", errMissing, ws.Dir())
	}
	var took [2][]float64 // by exact names, and by names like them
	for i := range 401 {
		name := all[i*len(all)/401].Name
		began := time.Now()
		if _, _, err := e.Find(ctx, syntax.Scope{}, syntax.Query{Name: name, Exact: i%2 == 0}, nil); err != nil {
			return nil, err
		}
		if i > 0 { // the first has texts to compare, if they were read anew
			took[i%2] = append(took[i%2], float64(time.Since(began).Microseconds())/1000)
		}
	}
	slices.Sort(took[0])
	return []row{
		single("symbols kept to text", "", float64(pool.Memory())/float64(text), valueAtMost(0.1)),
		single("symbol by name, p99", "ms", took[0][len(took[0])*99/100], valueAtMost(10)),
		single("symbols with names like one, median", "ms", middle(took[1]), target{}),
	}, nil
}

// shapeRows compares code of a shape with ripgrep for its longest literal.
func (h *harness) shapeRows(ctx context.Context, e *syntax.Engine, others otherTools) ([]row, error) {
	var groups []group
	var finish []func() row
	for _, shape := range shapes {
		var s sides[float64]
		rg := h.runOther(others.dir, others.rg, "--no-config", "--no-require-git", "-F", "-e", shape.literal, ".")
		groups = append(groups, s.entrants(h.timed(func(ctx context.Context) error {
			_, _, err := e.Match(ctx, syntax.Scope{Language: "go"}, shape.pattern, 0, 1e6)
			return err
		}), rg, rg))
		finish = append(finish, func() row {
			return s.row(shape.pattern+" (bare: rg -F "+shape.literal+")", "searches/s", itself, ratioAtLeast(1.0/3))
		})
	}
	if err := interleave(ctx, h.plan.searchRounds, groups...); err != nil {
		return nil, err
	}
	var rows []row
	for _, f := range finish {
		rows = append(rows, f())
	}
	return rows, nil
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
