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
	"reflect"
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
			call, err := tool.Decode(env, text)
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

func TestResolve(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"dir/f": "", "deep/er/.git/config": "", "plain/g": ""})
	dir := env.Workspace.Dir()
	if err := os.Symlink("dir", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("deep/er", filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	env.Guard = toolstest.Guard{Protects: func(path string) bool { return filepath.Base(path) == ".git" }}
	tree := func(path string) tools.Effect { return tools.Effect{Kind: tools.WritesPath, Path: path, Tree: true} }
	for _, test := range []struct {
		name string
		give tools.Effect
		want []tools.Effect
	}{
		{"a link", tools.Reads("link/f")[0], []tools.Effect{{Kind: tools.ReadsPath, Path: "dir/f", Named: "link/f"}}},
		{"up from a link", tools.Effect{Kind: tools.ReadsPath, Path: "f", Named: "away/../f"},
			[]tools.Effect{{Kind: tools.ReadsPath, Path: "deep/f", Named: "away/../f"}}},
		{"what is there", tools.Reads("dir/f")[0], tools.Reads("dir/f")},
		{"outside", tools.Writes("/etc/x")[0], tools.Writes("/etc/x")},
		{"a pattern", tools.Effect{Kind: tools.ReadsPath, Path: "link/*", Glob: true},
			[]tools.Effect{{Kind: tools.ReadsPath, Path: "link/*", Glob: true, Looked: true}, {Kind: tools.ReadsPath, Path: "dir/f", Named: "link/f"}}},
		{"a program", tools.Effect{Kind: tools.RunsProgram, Program: "link/f"}, []tools.Effect{{Kind: tools.RunsProgram, Program: "link/f"}}},
		{"a tree", tree("plain"), []tools.Effect{tree("plain")}},
		{"a tree that is not there", tree("gone"), []tools.Effect{tree("gone")}},
		{"a tree with something protected", tree("deep"),
			[]tools.Effect{{Kind: tools.WritesPath, Path: "deep", Tree: true, Unclear: "it may change deep/er/.git, which is protected"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := env.Resolve([]tools.Effect{test.give}); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v\nwant %+v", got, test.want)
			}
		})
	}
}
