// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed write.md
var writeDoc string

//go:embed write_help.md
var writeHelp string

type writeInput struct {
	Path         string `json:"path" check:"min=1,max=4096" jsonschema:"file to write, relative to the workspace"`
	Content      string `json:"content" jsonschema:"the whole content of the file"`
	CreateOnly   bool   `json:"create_only,omitempty" jsonschema:"fail if the file exists"`
	LineEndings  string `json:"line_endings,omitempty" check:"enum=keep|as_given" jsonschema:"of a file that is replaced; default keep"`
	ExpectedHash string `json:"expected_hash,omitempty" check:"min=12,max=64" jsonschema:"hash that read_file told"`
}

// Write returns the tool that writes a whole file.
func Write() tools.Tool {
	return planned(
		tools.Spec{
			Name:            "write_file",
			Aliases:         []string{"write", "Write", "FileWrite", "fs_write", "fsWrite"},
			Keys:            []tools.Key{{Other: "file_path", Name: "path"}},
			Label:           "Write file",
			Summary:         "Create a file or replace its whole content.",
			Description:     writeDoc,
			Help:            writeHelp,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "A new file", Input: json.RawMessage(`{"path":"notes/todo.md","content":"# To do\n","create_only":true}`)},
				{Summary: "Replace a file that was read before", Input: json.RawMessage(`{"path":"VERSION","content":"1.2.0\n","expected_hash":"d8f4590320e1"}`)},
			},
		},
		func(in writeInput) []string { return []string{in.Path} },
		planWrite)
}

func planWrite(_ context.Context, env tools.Env, in writeInput) (*plan, error) {
	c, err := load(env, in.Path)
	if err != nil {
		return nil, err
	}
	if in.CreateOnly && c.old.Exists() {
		return nil, tools.Failf("file_exists", "%s exists already. Leave create_only out to replace it, or use %s to change part of it.", in.Path, env.Words.Tool("edit_file"))
	}
	if err := c.demand(env, in.ExpectedHash); err != nil {
		return nil, err
	}
	p := new(plan)
	text, e := in.Content, utf8Plain
	if c.old.Exists() {
		before, was, err := decodeText(in.Path, c.old.Data)
		if err != nil { // what is no text is replaced as a whole
			c.binary = true
		}
		c.before, e = before, was
		if e == utf8Marked {
			text = strings.TrimPrefix(text, "\uFEFF")
		}
		lone := strings.Count(before, "\n") - strings.Count(before, "\r\n")
		if in.LineEndings != "as_given" && lone == 0 && strings.Contains(before, "\r\n") && text != toCRLF(text) {
			text = toCRLF(text)
			p.notes = append(p.notes, "the line endings of the file were kept: CRLF")
		}
		if e != utf8Plain {
			p.notes = append(p.notes, "the encoding of the file was kept: "+e.String())
		}
	}
	c.become(text, e)
	p.changes = []fileChange{c}
	return p, nil
}
