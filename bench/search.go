// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A pattern is what is searched for, and what is to be reached: cold, warm with
// all text in memory, and warm with none. 0 is information.
type pattern struct {
	name               string
	text               string
	fold               bool
	cold, warm, reread float64
}

var patterns = []pattern{
	{"rare word", `ErrTooLarge`, false, 1.3, 40, 5},
	{"frequent words", `err != nil`, false, 1.3, 8, 5},
	{"whatever the case", `deadlineexceeded`, true, 1.3, 40, 5},
	{"alternation", `(TODO|FIXME|XXX)\(\w+\)`, false, 1.3, 8, 0},
	{"expression with a literal", `func\s+\(\w+\s+\*?\w+\)\s+(Get|Set|Update)\w*Status`, false, 1.3, 8, 0},
	{"expression without one", `[a-z]+[0-9]{4,}[a-z]+`, false, 0.9, 0, 0},
}

// fileGlob is what is looked for by name.
const fileGlob = "**/*_test.go"

// searching is figure 8. The engine runs inside the harness, as it does inside
// the server; ripgrep and fd are started for each search and their output is
// read, as a tool would that uses them. The page cache is warm for all. Where the
// engine is warm, they have a copy of the tree: what is opened in a workspace that
// is in memory is looked at, which slows down whoever reads all of it.
func searching(ctx context.Context, h *harness) ([]row, error) {
	others, err := h.findOthers(ctx)
	if err != nil {
		return nil, err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src")
	made := filepath.Join(h.dir, "tree")
	files, err := makeTree(made, source, h.plan.treeFiles)
	if err != nil {
		return nil, err
	}
	trees := []struct{ name, dir string }{{fmt.Sprintf("%d files", files), made}, {"Go's source", source}}
	if h.plan.treeFiles < 1000 {
		trees = trees[:1] // a short run
	}
	var rows []row
	for i, tree := range trees {
		others.dir = filepath.Join(h.dir, fmt.Sprintf("copy-%d", i))
		if err := os.CopyFS(others.dir, os.DirFS(tree.dir)); err != nil {
			return nil, err
		}
		more, err := h.searchTree(ctx, tree.name, tree.dir, others)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tree.name, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// otherTools are the programs that search is compared with, and where they search.
type otherTools struct{ rg, fd, dir string }

// findOthers finds them. Without ripgrep there is nothing to compare with.
func (h *harness) findOthers(ctx context.Context) (otherTools, error) {
	var o otherTools
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return o, err
	}
	o.rg = filepath.Join(strings.TrimSpace(string(module)), ".bin/rg")
	if _, err := os.Stat(o.rg); err != nil {
		return o, fmt.Errorf("%w: ripgrep, which make ripgrep installs where there is npm", errMissing)
	}
	for _, name := range []string{"fdfind", "fd"} {
		if path, err := exec.LookPath(name); err == nil {
			o.fd = path
			return o, nil
		}
	}
	h.notes = append(h.notes, "there is no fd here: install Debian's fd-find to compare glob with it as well.")
	return o, nil
}

// searchTree measures one tree.
func (h *harness) searchTree(ctx context.Context, name, dir string, others otherTools) ([]row, error) {
	ws, err := workspace.Open(dir)
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	// One after another, since what one engine opens another would look at.
	var rows []row
	var text int64
	for _, how := range []string{"cold", "warm", "warm, text not in memory"} {
		var x *index.Index
		if how != "cold" {
			x = index.New(ws, index.Config{MaxText: map[string]size.Bytes{"warm": 1 << 30, "warm, text not in memory": 1}[how]})
			defer x.Close()
			if err := x.Warm(ctx); err != nil {
				return nil, err
			}
		}
		e := search.New(ws, x)
		if how == "warm" {
			all, kept, size := x.Memory()
			if text = all; kept == 0 || kept != text {
				return nil, fmt.Errorf("%w: a file system under %s that can be watched", errMissing, dir)
			}
			rows = append(rows, single(name+", index to text", "", float64(size)/float64(text), valueAtMost(0.25)))
		}
		beside := others
		if how == "cold" {
			beside.dir = dir
		}
		more, err := h.searchAs(ctx, name, how, e, beside)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
		if x != nil {
			x.Close()
		}
	}
	more, err := keptRows(ctx, name, ws, text)
	return append(rows, more...), err
}

// searchAs measures one tree as it is searched in one way.
func (h *harness) searchAs(ctx context.Context, name, how string, e *search.Engine, others otherTools) ([]row, error) {
	var groups []group
	var finish []func() row
	compare := func(what string, own, other func(context.Context) (float64, error), t target) {
		var s sides[float64]
		groups = append(groups, s.entrants(own, other, other))
		finish = append(finish, func() row { return s.row(name+", "+what, "searches/s", itself, t) })
	}
	for _, p := range patterns {
		rg := h.runOther(others.dir, others.rg, p.arguments()...)
		least := map[string]float64{"cold": p.cold, "warm": p.warm, "warm, text not in memory": p.reread}[how]
		if how == "warm, text not in memory" && least == 0 {
			continue
		}
		if err := sameLines(ctx, e, p, others); err != nil {
			return nil, err
		}
		compare(p.name+", "+how, h.timed(func(ctx context.Context) error {
			_, err := grepOnce(ctx, e, p)
			return err
		}), rg, atLeast(least))
	}
	globs := map[string]func(context.Context) (float64, error){
		"rg --files -g": h.runOther(others.dir, others.rg, "--no-config", "--no-require-git", "--files", "-g", fileGlob),
	}
	if others.fd != "" { // where there is no repository, old ones know of no rules: less to do
		globs["fd -g"] = h.runOther(others.dir, others.fd, "-t", "f", "-g", strings.TrimPrefix(fileGlob, "**/"))
	}
	for _, other := range []string{"rg --files -g", "fd -g"} {
		run := globs[other]
		least := map[string]float64{"cold": 2, "warm": 50}[how]
		if run == nil || least == 0 {
			continue
		}
		compare("glob, "+how+" (bare: "+other+")", h.timed(func(ctx context.Context) error {
			files, _, err := e.Glob(ctx, search.Scope{Match: fileGlob}, search.ByName)
			if err == nil && len(files) == 0 {
				err = errors.New("no file was found")
			}
			return err
		}), run, atLeast(least))
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

// keptRows tell how much text is kept with a budget of a quarter of it, as part of
// the budget, and how many bytes of anything once nobody searches.
func keptRows(ctx context.Context, name string, ws *workspace.Workspace, text int64) ([]row, error) {
	const idle = 200 * time.Millisecond
	x := index.New(ws, index.Config{MaxText: size.Bytes(text / 4), IdleAfter: idle})
	defer x.Close()
	if err := x.Warm(ctx); err != nil {
		return nil, err
	}
	_, kept, _ := x.Memory()
	if kept == 0 {
		return nil, errors.New("nothing was kept")
	}
	tick := time.NewTicker(idle / 10)
	defer tick.Stop()
	left := int64(1)
	for waited := 0; left > 0 && waited < 100; waited++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		text, kept, size := x.Memory()
		left = text + kept + size
	}
	return []row{
		single(name+", text kept to its budget", "", float64(kept)/float64(text/4), valueAtMost(1)),
		single(name+", bytes kept once it is idle", "bytes", float64(left), valueAtMost(0)),
	}, nil
}

func atLeast(limit float64) target {
	if limit == 0 {
		return target{}
	}
	return ratioAtLeast(limit)
}

func (p pattern) arguments() []string {
	args := []string{"--no-config", "--no-require-git", "-n", "--no-heading"}
	if p.fold {
		args = append(args, "-i")
	}
	return append(args, "-e", p.text, ".")
}

// grepOnce searches for all lines and counts them.
func grepOnce(ctx context.Context, e *search.Engine, p pattern) (lines int, err error) {
	_, err = e.Grep(ctx, search.Pattern{Text: p.text, IgnoreCase: p.fold}, search.Scope{}, search.Options{}, func(f search.File) bool {
		lines += len(f.Lines)
		return true
	})
	return lines, err
}

// sameLines sees that both find the same number of lines.
func sameLines(ctx context.Context, e *search.Engine, p pattern, others otherTools) error {
	own, err := grepOnce(ctx, e, p)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, others.rg, p.arguments()...)
	cmd.Dir = others.dir
	out, _ := cmd.Output() // it fails where it finds nothing
	if theirs := bytes.Count(out, []byte("\n")); own != theirs {
		return fmt.Errorf("%s: %d lines, and ripgrep finds %d", p.text, own, theirs)
	}
	return nil
}

// runOther measures a program that is started, how often a second.
func (h *harness) runOther(dir, program string, arguments ...string) func(context.Context) (float64, error) {
	return h.timed(func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, program, arguments...)
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 && ctx.Err() == nil {
			return nil // nothing was found
		}
		return err
	})
}

// timed measures how often a second something can be done.
func (h *harness) timed(do func(context.Context) error) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		runtime.GC() // of what others left
		begin := time.Now()
		for n := 1; ; n++ {
			if err := do(ctx); err != nil {
				return 0, err
			}
			if took := time.Since(begin); took > h.plan.sample {
				return float64(n) / took.Seconds(), nil
			}
		}
	}
}

// makeTree makes a tree of so many files out of the lines of another, and
// returns how many there are.
func makeTree(dir, source string, files int) (int, error) {
	const inDir, size = 20, 6 << 10
	var text []byte
	made := 0
	write := func() error {
		at := filepath.Join(dir, fmt.Sprintf("p%02d/q%02d/r%d", made/inDir/100%100, made/inDir%100, made/inDir/10_000))
		if made%inDir == 0 {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
		}
		end := bytes.LastIndexByte(text[:min(len(text), size+made%size)], '\n') + 1
		if end == 0 {
			end = len(text)
		}
		name := fmt.Sprintf("file_%d.go", made)
		if made%7 == 0 {
			name = fmt.Sprintf("file_%d_test.go", made)
		}
		err := os.WriteFile(filepath.Join(at, name), text[:end], 0o644)
		text = text[end:]
		made++
		return err
	}
	for made < files {
		err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			more, err := os.ReadFile(path)
			if err != nil || bytes.IndexByte(more, 0) >= 0 {
				return err
			}
			for text = append(text, more...); len(text) > 2*size; {
				if err := write(); err != nil {
					return err
				}
				if made == files {
					return fs.SkipAll
				}
			}
			return nil
		})
		if err != nil {
			return made, err
		}
	}
	return made, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.log\n/out/\nnode_modules/\n"), 0o644)
}
