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
	"path/filepath"
	"strings"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed move.md
var moveDoc string

//go:embed move_help.md
var moveHelp string

type moveInput struct {
	From      string `json:"from" check:"min=1,max=4096" jsonschema:"what to move"`
	To        string `json:"to" check:"min=1,max=4096" jsonschema:"its new path"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace a file that is there"`
}

// Move returns the tool that moves files and directories.
func Move() tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:            "move_file",
			Aliases:         []string{"FileMove", "Move", "mv", "rename_file"},
			Label:           "Move file",
			Summary:         "Move or rename a file or directory.",
			Description:     moveDoc,
			Help:            moveHelp,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "Rename a file", Input: json.RawMessage(`{"from":"old.go","to":"new.go"}`)},
				{Summary: "Replace another", Input: json.RawMessage(`{"from":"config.new","to":"etc/config","overwrite":true}`)},
			},
		},
		func(env tools.Env, in moveInput) []tools.Effect { return effects.Moves(env, in.From, in.To) },
		runMove)
	return tools.WithPreview(tool, func(_ context.Context, env tools.Env, in moveInput) tools.Preview {
		m, err := planMove(env, in)
		if err != nil {
			return wouldFail(explainOf(env, err, in.From))
		}
		env.Pin("move", m.seen())
		return tools.Preview{Kind: tools.PreviewDiff, Text: m.diff()}
	})
}

// movement is what would be moved, and what is in its place.
type movement struct {
	from, to  string
	is, there workspace.Info
}

func (m *movement) seen() string { return fmt.Sprint(m.is.Version, m.there.Version) }

// diff tells a move as git does.
func (m *movement) diff() string {
	text := renamed(m.from, m.to)
	if m.there.Exists() {
		text = fmt.Sprintf("Replaces %s, which has %s.\n%s", plain(m.to), tools.Count(int(m.there.Size), "byte", "bytes"), text)
	}
	return visible(text)
}

func planMove(env tools.Env, in moveInput) (*movement, error) {
	from, err := env.Path(in.From)
	if err != nil {
		return nil, err
	}
	to, err := env.Path(in.To)
	if err != nil {
		return nil, err
	}
	m := &movement{from: from, to: to}
	if from == "." || to == "." {
		return nil, tools.Failf("is_workspace", "%s to %s: the workspace itself cannot be moved or replaced.", in.From, in.To)
	}
	if m.is, err = env.Workspace.Stat(from); err != nil {
		return nil, err
	}
	if m.there, err = env.Workspace.Stat(to); err != nil {
		return nil, err
	}
	switch {
	case !m.is.Exists():
		return nil, fmt.Errorf("%s: %w", in.From, fs.ErrNotExist)
	case from == to:
		return nil, tools.Failf("same_path", "%s and %s are the same path.", in.From, in.To)
	case strings.HasPrefix(to, from+"/"):
		return nil, tools.Failf("into_itself", "%s cannot be moved to %s, which is in it.", in.From, in.To)
	case m.there.Exists() && m.there.Mode.IsDir():
		return nil, tools.Failf("file_exists", "%s is a directory, which is never replaced. To move into it, name the new path: %s.", in.To, filepath.Join(in.To, filepath.Base(from)))
	case m.there.Exists() && !in.Overwrite:
		return nil, tools.Failf("file_exists", "%s exists already. Set overwrite to replace it.", in.To)
	case m.there.Exists() && m.is.Mode.IsDir():
		return nil, tools.Failf("file_exists", "%s is a file, which a directory cannot replace. Delete it first.", in.To)
	}
	return m, nil
}

func runMove(ctx context.Context, env tools.Env, in moveInput, _ tools.Sink) (tools.Result, error) {
	defer env.Workspace.LockAll()()
	m, err := planMove(env, in)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return tools.Result{}, explainOf(env, err, in.From)
	}
	if was, ok := env.Pinned("move"); ok && was != m.seen() {
		return tools.Result{}, tools.Failf("stale_file", "%s or %s has changed since the call was shown for approval. Nothing was moved.", in.From, in.To)
	}
	batch := history.Begin(env.Workspace, env.Changes, env.CallID, "move_file")
	if err := batch.Rename(m.from, m.to, in.Overwrite); err != nil {
		return tools.Result{}, errors.Join(explain(err), batch.Rollback())
	}
	record := batch.Commit()
	text := fmt.Sprintf("Moved %s to %s.\n", plain(m.from), plain(m.to))
	if record.Lost != "" {
		text += "(this cannot be undone: " + record.Lost + ")\n"
	}
	return tools.Detailed(visible(text), changeDetails{
		Change: record.ID, Undoable: record.Lost == "", Diff: m.diff(),
		Files: []fileDetails{{Path: m.to, Was: m.from, Kind: "moved", Size: m.is.Size}},
	})
}
