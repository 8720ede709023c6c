// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed delete.md
var deleteDoc string

type deleteInput struct {
	Path      string `json:"path" check:"min=1,max=4096" jsonschema:"what to delete"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"with everything in it"`
}

// Delete returns the tool that deletes files and directories.
func Delete() tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:            "delete_file",
			FreesSpace:      true,
			Aliases:         []string{"FileDelete", "Delete", "rm", "remove_file"},
			Keys:            []tools.Key{{Other: "file_path", Name: "path"}},
			Label:           "Delete file",
			Summary:         "Delete a file, or a directory with everything in it.",
			Description:     deleteDoc,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "A file", Input: json.RawMessage(`{"path":"old.txt"}`)},
				{Summary: "A directory", Input: json.RawMessage(`{"path":"build","recursive":true}`)},
			},
		},
		func(env tools.Env, in deleteInput) []tools.Effect { return effects.Removes(env, in.Path, in.Recursive) },
		runDelete)
	return tools.WithPreview(tool, func(ctx context.Context, env tools.Env, in deleteInput) tools.Preview {
		d, err := planDelete(ctx, env, in)
		if err != nil {
			return wouldFail(explainOf(env, err, in.Path))
		}
		env.Pin(d.path, d.seen())
		if d.diff.text != "" {
			return tools.Preview{Kind: tools.PreviewDiff, Text: d.diff.text}
		}
		text := "Deletes " + d.what() + "."
		if !d.holds(env) {
			text += " This cannot be undone: it is more than is kept."
		}
		return tools.Preview{Kind: tools.PreviewText, Text: text}
	})
}

// deletion is what would be deleted.
type deletion struct {
	path           string
	info           workspace.Info
	files, folders int // in a directory
	bytes          int64
	names          int64 // how long the names of all are, in bytes
	diff           diff  // of a text that is not too large
}

func planDelete(ctx context.Context, env tools.Env, in deleteInput) (*deletion, error) {
	path, err := env.Path(in.Path)
	if err != nil {
		return nil, err
	}
	if path == "." {
		return nil, tools.Failf("is_workspace", "%s is the workspace itself, which cannot be deleted.", in.Path)
	}
	d := &deletion{path: path, bytes: 0}
	if d.info, err = env.Workspace.Stat(path); err != nil {
		return nil, err
	}
	switch {
	case !d.info.Exists():
		return nil, fmt.Errorf("%s: %w", in.Path, fs.ErrNotExist)
	case d.info.Mode.IsRegular():
		d.bytes = d.info.Size
		if d.bytes <= maxDetailed {
			file, err := env.Workspace.ReadFile(path, maxDetailed)
			if err != nil {
				return nil, err
			}
			if text, _, err := decodeText(path, file.Data); err == nil {
				from, to := diffNames(path, true, false)
				d.diff = diffOf(from, to, text, "", nil)
			}
		}
		return d, nil
	case !d.info.Mode.IsDir():
		return d, nil
	case !in.Recursive:
		entries, _, err := env.Workspace.ReadDir(path, 1)
		if err == nil && len(entries) > 0 {
			err = tools.Failf("directory_not_empty", "%s is a directory with something in it. Set recursive to delete it with everything in it.", in.Path)
		}
		return d, err
	}
	_, err = env.Workspace.Walk(ctx, path, 1<<30, func(e workspace.Entry) error {
		if env.Protected(e.Path) { // it has appeared since the call was judged
			return tools.Failf("protected", "%s is protected. Nothing was deleted.", e.Path)
		}
		d.names += int64(len(e.Path))
		if e.Mode.IsDir() {
			d.folders++
		} else {
			d.files++
			d.bytes += e.Size
		}
		return nil
	})
	return d, err
}

// holds reports whether it can be undone.
func (d *deletion) holds(env tools.Env) bool {
	return env.Changes.Holds(1+d.files+d.folders, d.names+d.bytes)
}

// seen stands for what would be deleted.
func (d *deletion) seen() string {
	return fmt.Sprint(d.info.Version, d.files, d.folders, d.bytes)
}

func (d *deletion) what() string {
	switch {
	case d.info.Mode.IsDir():
		return fmt.Sprintf("the directory %s, with %s and %s in it, %s", plain(d.path), tools.Count(d.files, "file", "files"), tools.Count(d.folders, "directory", "directories"), tools.Count(int(d.bytes), "byte", "bytes"))
	case d.info.Mode&fs.ModeSymlink != 0:
		return "the link " + plain(d.path)
	}
	return fmt.Sprintf("%s (%s)", plain(d.path), tools.Count(int(d.bytes), "byte", "bytes"))
}

func runDelete(ctx context.Context, env tools.Env, in deleteInput, _ tools.Sink) (tools.Result, error) {
	path, err := env.Path(in.Path)
	if err != nil {
		return tools.Result{}, explainOf(env, err, in.Path)
	}
	if in.Recursive {
		defer env.Workspace.LockAll()()
	} else {
		defer env.Workspace.Lock(path)()
	}
	d, err := planDelete(ctx, env, in)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return tools.Result{}, explainOf(env, err, in.Path)
	}
	if was, ok := env.Pinned(path); ok && was != d.seen() {
		return tools.Result{}, tools.Failf("stale_file", "%s has changed since the call was shown for approval. Nothing was deleted.", in.Path)
	}
	batch := history.Begin(env.Workspace, env.Changes, env.CallID, "delete_file")
	if err := batch.RemoveAll(ctx, path); err != nil {
		if !in.Recursive && errors.Is(err, syscall.ENOTEMPTY) {
			err = tools.Failf("directory_not_empty", "%s is a directory with something in it. Set recursive to delete it with everything in it.", in.Path)
		}
		return tools.Result{}, errors.Join(explain(err), batch.Rollback())
	}
	record := batch.Commit()
	var text strings.Builder
	text.WriteString("Deleted " + d.what() + ".\n")
	if record.Lost != "" {
		text.WriteString("(this cannot be undone: " + record.Lost + ")\n")
	}
	return tools.Detailed(visible(text.String()), changeDetails{
		Change: record.ID, Undoable: record.Lost == "", Diff: d.diff.text,
		Files: []fileDetails{{Path: path, Kind: "deleted", Removed: d.diff.removed, Size: d.bytes}},
	})
}
