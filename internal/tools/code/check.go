// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package code

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// maxNewErrors is how many an edit tells of.
const maxNewErrors = 20

// WithNewErrors returns a tool that changes files, and tells in a session which wants that
// which errors they have since.
func WithNewErrors(tool tools.Tool, servers *lsp.Set) tools.Tool {
	return tools.After(tool, func(ctx context.Context, env tools.Env, result tools.Result) tools.Result {
		if env.EditErrors <= 0 {
			return result
		}
		return withText(result, newErrors(ctx, env, servers, result.Details))
	})
}

// withText returns a result that has a text more, also when it is restated.
func withText(result tools.Result, text string) tools.Result {
	if text == "" {
		return result
	}
	result.Content = append(slices.Clip(result.Content), tools.Text(text))
	if restate := result.Restate; restate != nil {
		result.Restate = func() (tools.Result, bool) {
			again, changed := restate()
			return withText(again, text), changed
		}
	}
	return result
}

// newErrors returns what is told of the files of a change, as the details of its call name
// it.
func newErrors(ctx context.Context, env tools.Env, servers *lsp.Set, details json.RawMessage) string {
	var made struct {
		Change string
		Files  []struct {
			Path string
			Was  string `json:"moved_from"`
		}
	}
	if json.Unmarshal(details, &made) != nil || made.Change == "" {
		return ""
	}
	moved := make(map[string]string)
	for _, f := range made.Files {
		moved[f.Path] = f.Was
	}
	found := servers.For(env, nil).NewErrors(ctx, env.EditErrors, touched(env, made.Change, moved))
	var b strings.Builder
	for i, one := range found.List {
		if i == maxNewErrors {
			b.WriteString("(" + tools.Count(len(found.List)-i, "more new error is", "more new errors are") + " left out)\n")
			break
		}
		b.WriteString("new " + problem(one))
	}
	if len(found.By) > 0 {
		b.WriteString("(answered by " + strings.Join(found.By, ", ") + ")\n")
	}
	for _, note := range found.Notes {
		b.WriteString("(" + note + ")\n")
	}
	return output.ValidText(b.String())
}

// touched returns the files that a change has written, and what they had, also where they
// were moved from.
func touched(env tools.Env, change string, moved map[string]string) (files []lsp.Touched) {
	for _, record := range env.Changes.Records() {
		if record.ID != change {
			continue
		}
		gone := make(map[string]string)
		for _, c := range record.Changes {
			if c.Before.Kind == workspace.Regular && c.After.Kind != workspace.Regular {
				if old, err := c.Old(nil); err == nil && len(old) <= maxChecked {
					gone[c.Path] = string(old)
				}
			}
		}
		for _, c := range record.Changes {
			now, err := env.Workspace.ReadFile(c.Path, maxChecked)
			if err != nil || c.After.Kind != workspace.Regular || now.Hash() != c.After.Hash {
				continue // it is gone, or somebody else's by now
			}
			f := lsp.Touched{Path: c.Path}
			if c.Before.Kind == workspace.Regular {
				old, err := c.Old(now.Data)
				if err != nil {
					continue
				}
				text := string(old)
				f.Before = &text
			} else if text, ok := gone[moved[c.Path]]; ok {
				f.Was, f.Before = moved[c.Path], &text
			}
			files = append(files, f)
		}
	}
	return files
}

// maxChecked is the largest file that is looked at, in bytes: language servers are asked
// about none that is larger.
const maxChecked = 8 << 20
