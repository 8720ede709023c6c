// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed multi_edit.md
var multiEditDoc string

//go:embed multi_edit_help.md
var multiEditHelp string

type multiEditInput struct {
	Path         string    `json:"path" check:"min=1,max=4096" jsonschema:"file to change"`
	Edits        []oneEdit `json:"edits" check:"min=1,max=200" jsonschema:"made in order"`
	ExpectedHash string    `json:"expected_hash,omitempty" check:"min=12,max=64" jsonschema:"hash that read_file told"`
}

type oneEdit struct {
	Old        string `json:"old_string" check:"min=1" jsonschema:"exact text to replace"`
	New        string `json:"new_string" jsonschema:"what takes its place; may be empty"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"every occurrence"`
}

// MultiEdit returns the tool that makes several changes of one file.
func MultiEdit() tools.Tool {
	return planned(
		tools.Spec{
			Name:            "multi_edit",
			Aliases:         []string{"MultiEdit", "multiEdit"},
			Keys:            []tools.Key{{Other: "file_path", Name: "path"}},
			Label:           "Edit file in several places",
			Summary:         "Make several replacements in one file, all or none.",
			Description:     multiEditDoc,
			Help:            multiEditHelp,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{{Summary: "Two changes", Input: json.RawMessage(
				`{"path":"main.go","edits":[{"old_string":"import \"fmt\"","new_string":"import \"log\""},{"old_string":"fmt.Println","new_string":"log.Println","replace_all":true}]}`)}},
		},
		func(in multiEditInput) []string { return []string{in.Path} },
		func(_ context.Context, env tools.Env, in multiEditInput) (*plan, error) {
			c, e, err := loadText(env, in.Path, in.ExpectedHash)
			if err != nil {
				return nil, err
			}
			text := c.before
			for i, edit := range in.Edits {
				edits, err := replaceText(env.Words.Keys("multi_edit"), in.Path, text, edit.Old, edit.New, edit.ReplaceAll)
				if err == nil {
					text, err = udiff.Apply(text, edits)
				}
				if failure, ok := errors.AsType[*tools.Failure](err); ok {
					return nil, tools.Failf(failure.Code, "Edit %d of %d: %s", i+1, len(in.Edits), failure.Message)
				}
				if err != nil {
					return nil, fmt.Errorf("edit %d: %w", i+1, err)
				}
			}
			c.become(text, e)
			return &plan{changes: []fileChange{c}}, nil
		})
}
