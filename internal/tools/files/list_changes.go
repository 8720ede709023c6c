// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed list_changes.md
var listChangesDoc string

type listChangesInput struct {
	Limit int `json:"limit,omitempty" check:"min=1,max=10000" jsonschema:"default 200"`
}

// ListChanges returns the tool that lists what a session changed.
func ListChanges() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "list_changes",
			Aliases:         []string{"ListChanges"},
			Label:           "List changes",
			Summary:         "List the files this session created, changed or deleted.",
			Description:     listChangesDoc,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples:        []tools.Example{{Summary: "All changes", Input: json.RawMessage(`{}`)}},
		},
		func(env tools.Env, _ listChangesInput) []tools.Effect {
			origins, _ := env.Changes.Origins()
			return env.ReadsEntries(slices.Sorted(maps.Keys(origins))...)
		},
		runListChanges)
}

// changedFile is how a file differs from what it was.
type changedFile struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"` // created, changed, deleted or replaced
	Was     int64  `json:"size_before"`
	Size    int64  `json:"size"`
	Added   *int   `json:"added,omitempty"`
	Removed *int   `json:"removed,omitempty"`
}

type changeRecord struct {
	Call     string   `json:"call"`
	Tool     string   `json:"tool"`
	Time     string   `json:"time"`
	Changes  []string `json:"changes"`
	Undoable bool     `json:"undoable"`
	Client   bool     `json:"by_client,omitempty"` // which brought or removed the files itself
}

func runListChanges(ctx context.Context, env tools.Env, in listChangesInput, _ tools.Sink) (tools.Result, error) {
	limit := cmp.Or(in.Limit, 200)
	origins, all := env.Changes.Origins()
	var files []changedFile
	more := !all
	for _, path := range slices.Sorted(maps.Keys(origins)) {
		if ctx.Err() != nil {
			return tools.Result{}, context.Cause(ctx)
		}
		file, changed := compare(env, path, origins[path])
		if !changed {
			continue
		}
		if len(files) == limit {
			more = true
			break
		}
		files = append(files, file)
	}
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "%-8s %s", f.Kind, plain(f.Path))
		if f.Added != nil {
			fmt.Fprintf(&b, " (+%d -%d lines)", *f.Added, *f.Removed)
		} else if f.Was != 0 || f.Size != 0 {
			fmt.Fprintf(&b, " (%d to %d bytes)", f.Was, f.Size)
		}
		b.WriteByte('\n')
	}
	forgot := env.Changes.Forgot()
	switch {
	case len(files) == 0 && forgot:
		b.WriteString("No file differs from what it was when this session first changed one since the server was last started, or since the session came to this server.\n")
	case len(files) == 0:
		b.WriteString("No file differs from what it was when this session first changed one.\n")
	}
	if forgot {
		fmt.Fprintf(&b, "(what calls changed before the server was last started, or before the session came to this server, is not known: %s shows what is different)\n", env.Words.Tool("git_diff"))
	}
	if more {
		b.WriteString("(there are more than are listed)\n")
	}
	records := env.Changes.Records()
	calls := []changeRecord{}
	if len(records) > 0 {
		b.WriteString("\nCalls that can be undone, the last first:\n")
	}
	for _, r := range slices.Backward(records) {
		if len(calls) == limit {
			fmt.Fprintf(&b, "(and %s before)\n", tools.Count(len(records)-limit, "call", "calls"))
			break
		}
		b.WriteString(describe(r))
		c := changeRecord{Call: r.ID, Tool: r.Tool, Time: r.Time.UTC().Format(time.RFC3339), Undoable: r.Lost == "", Client: r.Transfer()}
		for _, change := range r.Changes[:min(len(r.Changes), 100)] {
			c.Changes = append(c.Changes, visible(sayChange(change)))
		}
		calls = append(calls, c)
	}
	if files == nil {
		files = []changedFile{}
	}
	for i := range files {
		files[i].Path = visible(files[i].Path)
	}
	details := map[string]any{"files": files, "more": more, "calls": calls}
	if forgot {
		details["forgot_earlier"] = true
	}
	return tools.Detailed(visible(b.String()), details)
}

// maxCounted is the largest file whose lines are counted, in bytes.
const maxCounted = 4 << 20

// compare tells how a file differs from what it was.
func compare(env tools.Env, path string, was history.Origin) (changedFile, bool) {
	file := changedFile{Path: path, Was: was.Size}
	var info workspace.Info
	judged, err := env.Path(path)
	if err == nil { // otherwise a link to elsewhere has taken the place of its directory
		if info, err = env.Workspace.Stat(judged); err != nil {
			return file, false
		}
	}
	isDir := info.Mode.IsDir() && info.Exists()
	switch {
	case !info.Exists() && was.Kind == workspace.Absent, isDir && was.Kind == workspace.Directory, sameLink(env, judged, info, was):
		return file, false
	case !info.Exists():
		file.Kind = "deleted"
	case was.Kind == workspace.Absent:
		file.Kind = "created"
	case info.Mode.IsRegular() && was.Kind == workspace.Regular:
		file.Kind = "changed"
	default:
		file.Kind = "replaced"
	}
	if isDir {
		file.Path += "/"
	}
	if !info.Mode.IsRegular() || !info.Exists() {
		return file, true
	}
	file.Size = info.Size
	if file.Kind == "replaced" {
		return file, true
	}
	if info.Size > maxCounted || was.Size > maxCounted {
		return file, !sameContent(env, path, judged, info, was)
	}
	now, err := env.Workspace.ReadFile(judged, maxCounted)
	if err != nil {
		return file, true
	}
	before := ""
	if file.Kind == "changed" {
		before = string(now.Data)
		if !env.Changes.Older(path, now.Data, func(old []byte, _ bool) bool { before = string(old); return true }) {
			return file, true
		}
		if before == string(now.Data) && info.Mode.Perm() == was.Mode {
			return file, false
		}
	}
	d := diffOf("", "", before, string(now.Data), nil)
	file.Added, file.Removed = &d.added, &d.removed
	return file, true
}

// sameLink reports whether a link still leads where it led.
func sameLink(env tools.Env, path string, info workspace.Info, was history.Origin) bool {
	if was.Kind != workspace.Link || info.Mode&fs.ModeSymlink == 0 {
		return false
	}
	target, err := env.Workspace.Readlink(path)
	return err == nil && target == was.Target
}

// sameContent reports whether a file that is too large to count its lines is as
// it was.
func sameContent(env tools.Env, path, judged string, info workspace.Info, was history.Origin) bool {
	if was.Kind != workspace.Regular || info.Size != was.Size || info.Mode.Perm() != was.Mode {
		return false
	}
	now, err := env.Workspace.ReadFile(judged, maxEdited)
	if err != nil {
		return false
	}
	before := now.Data
	all := env.Changes.Older(path, now.Data, func(old []byte, _ bool) bool { before = old; return true })
	return all && bytes.Equal(before, now.Data)
}
