// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestJudgedAsRun changes a workspace between the moment a call is judged and
// the moment it runs: it opens what was judged, or nothing.
func TestJudgedAsRun(t *testing.T) {
	type input struct {
		Declared string `json:"declared"`
		Opened   string `json:"opened"`
	}
	tool := tools.New(tools.Spec{Name: "opens", Level: tools.ReadOnly},
		func(env tools.Env, in input) []tools.Effect { return env.Reads(in.Declared) },
		func(_ context.Context, env tools.Env, in input, _ tools.Sink) (tools.Result, error) {
			file, err := env.Open(in.Opened)
			if err != nil {
				return tools.Result{}, err
			}
			defer file.Close()
			text, err := io.ReadAll(file)
			return tools.TextResult(string(text)), err
		})
	for _, test := range []struct {
		name             string
		declared, opened string
		change           func(dir string) error
		want             string
		err              error
	}{
		{"nothing changes", "link", "link", nil, "public", nil},
		{"the link leads elsewhere", "link", "link",
			func(dir string) error {
				return errors.Join(os.Remove(dir+"/link"), os.Symlink("secret", dir+"/link"))
			}, "public", nil},
		{"the file becomes a link", "public", "public",
			func(dir string) error {
				return errors.Join(os.Remove(dir+"/public"), os.Symlink("secret", dir+"/public"))
			}, "", workspace.ErrMoved},
		{"not declared", "public", "secret", nil, "", workspace.ErrOutside},
		{"outside", "../x", "../x", nil, "", workspace.ErrOutside},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := toolstest.Env(t, map[string]string{"public": "public", "secret": "secret"})
			dir := env.Workspace.Dir()
			if err := os.Symlink("public", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(input{test.declared, test.opened})
			call, err := tool.Decode(&env, text)
			if err != nil {
				t.Fatal(err)
			}
			call.Effects()
			if test.change != nil {
				if err := test.change(dir); err != nil {
					t.Fatal(err)
				}
			}
			result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
			if toolstest.Text(result) != test.want || !errors.Is(err, test.err) {
				t.Errorf("%q, %v, want %q, %v", toolstest.Text(result), err, test.want, test.err)
			}
		})
	}
}

// TestPinnedStaysPinned proves that a call which is judged anew knows what something was when
// it was judged first: that is what a person was shown.
func TestPinnedStaysPinned(t *testing.T) {
	version := "1"
	tool := tools.New(tools.Spec{Name: "pins", Level: tools.ReadOnly},
		func(env tools.Env, _ struct{}) []tools.Effect {
			env.Pin("version", version)
			return nil
		},
		func(_ context.Context, env tools.Env, _ struct{}, _ tools.Sink) (tools.Result, error) {
			was, _ := env.Pinned("version")
			return tools.TextResult(was), nil
		})
	call, err := tool.Decode(new(toolstest.Env(t, nil)), json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	call.Effects()
	version = "2"
	renewed, err := call.(tools.Renewer).Renew(nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := renewed.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
	if err != nil || toolstest.Text(result) != "1" {
		t.Errorf("version %s is pinned: %v; 1 was judged", toolstest.Text(result), err)
	}
}
