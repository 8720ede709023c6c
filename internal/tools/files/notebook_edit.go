// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed notebook_edit.md
var notebookEditDoc string

//go:embed notebook_edit_help.md
var notebookEditHelp string

type notebookEditInput struct {
	Path         string `json:"path" check:"min=1,max=4096" jsonschema:"notebook to change"`
	EditMode     string `json:"edit_mode,omitempty" check:"enum=replace|insert|delete" jsonschema:"default replace"`
	CellID       string `json:"cell_id,omitempty" check:"min=1,max=256" jsonschema:"the cell, or the one to insert after"`
	CellIndex    *int   `json:"cell_index,omitempty" check:"min=0" jsonschema:"index of the cell, from 0, or of the new one"`
	CellType     string `json:"cell_type,omitempty" check:"enum=code|markdown|raw" jsonschema:"default: as it is; code for a new cell"`
	NewSource    string `json:"new_source,omitempty" jsonschema:"the source of the cell"`
	ClearOutputs bool   `json:"clear_outputs,omitempty" jsonschema:"drop the outputs of the cell"`
	ExpectedHash string `json:"expected_hash,omitempty" check:"min=12,max=64" jsonschema:"hash that read_file told"`
}

// Check finds what does not go together.
func (in notebookEditInput) Check() []tools.Problem {
	named := in.CellID != "" || in.CellIndex != nil
	switch {
	case in.CellID != "" && in.CellIndex != nil:
		return []tools.Problem{{Message: "give cell_id or cell_index, not both"}}
	case !named && in.EditMode != "insert":
		return []tools.Problem{{Pointer: "/cell_id", Message: "is required, or cell_index: name the cell"}}
	case in.EditMode == "delete" && in.NewSource != "":
		return []tools.Problem{{Pointer: "/new_source", Message: "goes with replace and insert, not with delete"}}
	}
	return nil
}

// NotebookEdit returns the tool that changes a cell of a notebook.
func NotebookEdit() tools.Tool {
	return planned(
		tools.Spec{
			Name:            "notebook_edit",
			Aliases:         []string{"NotebookEdit", "edit_notebook"},
			Keys:            []tools.Key{{Other: "file_path", Name: "path"}, {Other: "notebook_path", Name: "path"}},
			Label:           "Edit notebook",
			Summary:         "Replace, insert or delete a cell of a Jupyter notebook.",
			Description:     notebookEditDoc,
			Help:            notebookEditHelp,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "Replace a cell", Input: json.RawMessage(`{"path":"a.ipynb","cell_id":"3f2a","new_source":"print(2)"}`)},
				{Summary: "A heading at the beginning", Input: json.RawMessage(`{"path":"a.ipynb","edit_mode":"insert","cell_index":0,"cell_type":"markdown","new_source":"# Title"}`)},
				{Summary: "Delete a cell", Input: json.RawMessage(`{"path":"a.ipynb","edit_mode":"delete","cell_index":4}`)},
			},
		},
		func(in notebookEditInput) []string { return []string{in.Path} },
		planNotebook)
}

func planNotebook(_ context.Context, env tools.Env, in notebookEditInput) (*plan, error) {
	c, e, err := loadText(env, in.Path, in.ExpectedHash)
	if err != nil {
		return nil, err
	}
	n, err := parseNotebook(env.Words, in.Path, c.before)
	if err != nil {
		return nil, err
	}
	after, note, err := n.edit(in)
	if err != nil {
		return nil, err
	}
	c.become(after, e)
	return &plan{changes: []fileChange{c}, notes: []string{note}}, nil
}

// edit returns the text of the notebook with one change, and what it was.
func (n *notebook) edit(in notebookEditInput) (after, note string, err error) {
	if in.EditMode == "insert" {
		index := len(n.cells)
		switch {
		case in.CellIndex != nil && *in.CellIndex != index:
			index, err = n.find("", in.CellIndex)
		case in.CellID != "":
			index, err = n.find(in.CellID, nil)
			index++
		}
		if err != nil {
			return "", "", err
		}
		return n.insert(index, cmp.Or(in.CellType, "code"), in.NewSource), fmt.Sprintf("the new cell has the index %d", index), nil
	}
	index, err := n.find(in.CellID, in.CellIndex)
	if err != nil {
		return "", "", err
	}
	if in.EditMode == "delete" {
		return n.remove(index), fmt.Sprintf("cell %d was deleted; those after it have moved up", index), nil
	}
	after, err = n.replace(index, in.CellType, in.NewSource, in.ClearOutputs)
	return after, fmt.Sprintf("cell %d was replaced", index), err
}
