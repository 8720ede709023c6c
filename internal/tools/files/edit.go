// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed edit.md
var editDoc string

//go:embed edit_help.md
var editHelp string

type editInput struct {
	Path         string `json:"path" check:"min=1,max=4096" jsonschema:"file to change"`
	Old          string `json:"old_string,omitempty" jsonschema:"exact text to replace"`
	New          string `json:"new_string" jsonschema:"what takes its place; may be empty"`
	ReplaceAll   bool   `json:"replace_all,omitempty" jsonschema:"every occurrence"`
	InsertLine   *int   `json:"insert_line,omitempty" check:"min=0" jsonschema:"insert new_string after this line instead; 0: at the top"`
	Append       bool   `json:"append,omitempty" jsonschema:"add new_string at the end instead"`
	ExpectedHash string `json:"expected_hash,omitempty" check:"min=12,max=64" jsonschema:"hash that read_file told"`
}

// Check finds the one thing an edit is to do.
func (in editInput) Check() []tools.Problem {
	ways := 0
	for _, given := range []bool{in.Old != "", in.InsertLine != nil, in.Append} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0:
		return []tools.Problem{{Pointer: "/old_string", Message: "is required, unless insert_line or append says where new_string goes; to create a file use write_file"}}
	case ways > 1:
		return []tools.Problem{{Message: "give one of old_string, insert_line and append"}}
	case in.ReplaceAll && in.Old == "":
		return []tools.Problem{{Pointer: "/replace_all", Message: "needs old_string"}}
	case in.Old == in.New:
		return []tools.Problem{{Pointer: "/new_string", Message: "is the same as old_string: nothing would change"}}
	case in.Old == "" && in.New == "":
		return []tools.Problem{{Pointer: "/new_string", Message: "is empty: nothing would change"}}
	}
	return nil
}

// Edit returns the tool that changes part of a file.
func Edit() tools.Tool {
	return planned(
		tools.Spec{
			Name:    "edit_file",
			Aliases: []string{"edit", "Edit", "FileEdit", "str_replace", "strReplace"},
			Keys: []tools.Key{
				{Other: "file_path", Name: "path"}, {Other: "old_text", Name: "old_string"}, {Other: "new_text", Name: "new_string"},
				{Other: "oldStr", Name: "old_string"}, {Other: "newStr", Name: "new_string"}, {Other: "old_str", Name: "old_string"},
				{Other: "new_str", Name: "new_string"}, {Other: "replaceAll", Name: "replace_all"}, {Other: "expected_content_hash", Name: "expected_hash"},
			},
			Label:           "Edit file",
			Summary:         "Replace, insert or append text in a file.",
			Description:     editDoc,
			Help:            editHelp,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "Replace a line", Input: json.RawMessage(`{"path":"main.go","old_string":"const retries = 3\n","new_string":"const retries = 5\n"}`)},
				{Summary: "Rename everywhere in a file", Input: json.RawMessage(`{"path":"main.go","old_string":"oldName","new_string":"newName","replace_all":true}`)},
				{Summary: "Insert at the beginning", Input: json.RawMessage(`{"path":"main.go","insert_line":0,"new_string":"// Package main says hello.\n"}`)},
				{Summary: "Append", Input: json.RawMessage(`{"path":".gitignore","append":true,"new_string":"*.log\n"}`)},
			},
		},
		func(in editInput) []string { return []string{in.Path} },
		planEdit)
}

func planEdit(_ context.Context, env tools.Env, in editInput) (*plan, error) {
	c, e, err := loadText(env, in.Path, in.ExpectedHash)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Append:
		c.edits = appendText(c.before, in.New)
	case in.InsertLine != nil:
		c.edits, err = insertText(in.Path, c.before, *in.InsertLine, in.New)
	default:
		c.edits, err = replaceText(env.Words.Keys("edit_file"), in.Path, c.before, in.Old, in.New, in.ReplaceAll)
	}
	if err != nil {
		return nil, err
	}
	after, err := udiff.Apply(c.before, c.edits)
	if err != nil {
		return nil, err
	}
	c.become(after, e)
	p := &plan{changes: []fileChange{c}}
	if n := len(c.edits); n > 1 {
		p.notes = append(p.notes, tools.Count(n, "occurrence", "occurrences")+" replaced")
	}
	return p, nil
}
