// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed make_dir.md
var makeDirDoc string

type makeDirInput struct {
	Path string `json:"path" check:"min=1,max=4096" jsonschema:"directory to make"`
}

// MakeDir returns the tool that makes directories.
func MakeDir() tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:            "make_dir",
			Aliases:         []string{"mkdir", "MakeDir", "create_directory"},
			Label:           "Make directory",
			Summary:         "Make a directory and those above it.",
			Description:     makeDirDoc,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples:        []tools.Example{{Summary: "A directory in another", Input: json.RawMessage(`{"path":"docs/images"}`)}},
		},
		func(env tools.Env, in makeDirInput) []tools.Effect { return env.Edits(in.Path) },
		runMakeDir)
	return tools.WithPreview(tool, func(_ context.Context, env tools.Env, in makeDirInput) tools.Preview {
		path, err := env.Path(in.Path)
		if err != nil {
			return wouldFail(explain(err))
		}
		return tools.Preview{Kind: tools.PreviewText, Text: visible(fmt.Sprintf("Makes the directory %q.", path))}
	})
}

func runMakeDir(ctx context.Context, env tools.Env, in makeDirInput, _ tools.Sink) (tools.Result, error) {
	unlock, err := lock(env, []string{in.Path})
	if err != nil {
		return tools.Result{}, explain(err)
	}
	defer unlock()
	if ctx.Err() != nil {
		return tools.Result{}, context.Cause(ctx)
	}
	path, _ := env.Path(in.Path)
	batch := history.Begin(env.Workspace, env.Changes, env.CallID, "make_dir")
	err = batch.Mkdir(path)
	if errors.Is(err, workspace.ErrExists) {
		info, statErr := env.Workspace.Stat(path)
		if statErr == nil && info.Mode.IsDir() {
			return tools.Detailed(visible(fmt.Sprintf("The directory %s is there already.\n", plain(path))), changeDetails{Undoable: true, Files: []fileDetails{}})
		}
		err = tools.Failf("file_exists", "%s is there already and no directory.", in.Path)
	}
	if err != nil {
		return tools.Result{}, errors.Join(explain(err), batch.Rollback())
	}
	record := batch.Commit()
	details := changeDetails{Change: record.ID, Undoable: record.Lost == ""}
	for _, change := range record.Changes {
		details.Files = append(details.Files, fileDetails{Path: change.Path, Kind: "created"})
	}
	return tools.Detailed(visible(fmt.Sprintf("Made the directory %s.\n", plain(path))), details)
}
