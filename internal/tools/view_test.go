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
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/workspace"
)

type viewInput struct {
	Path string `json:"path"`
	Tree bool   `json:"tree,omitempty"`
}

// viewer is a tool that reads a file, or tells what is withheld of a tree.
func viewer() tools.Tool {
	return tools.New(tools.Spec{Name: "views", Level: tools.ReadOnly},
		func(env tools.Env, in viewInput) []tools.Effect {
			if in.Tree {
				return env.ViewsTree(in.Path)
			}
			return env.Views(in.Path)
		},
		func(_ context.Context, env tools.Env, in viewInput, _ tools.Sink) (tools.Result, error) {
			view, err := env.View(in.Path)
			if err != nil {
				return tools.Result{}, err
			}
			defer view.Close()
			if in.Tree {
				withheld := view.Withheld(true)
				var names []string
				_, err := view.Workspace.Walk(context.Background(), view.Path, 100, func(e workspace.Entry) error {
					if withheld == nil || !withheld(e.Path) {
						names = append(names, view.Name(e.Path))
					}
					return nil
				})
				return tools.TextResult(strings.Join(names, " ")), err
			}
			file, err := view.Workspace.OpenFile(view.Path)
			if err != nil {
				return tools.Result{}, err
			}
			defer file.Close()
			text, err := io.ReadAll(file)
			return tools.TextResult(string(text)), err
		})
}

// realDir returns a directory without links in its path, with files.
func realDir(t *testing.T, files ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestViews reads beside the workspace: what its effects tell is what is opened,
// even if something else has its name by then.
func TestViews(t *testing.T) {
	dir := realDir(t, "tree/public", "tree/sub/x", "tree/last", "secret")
	for _, test := range []struct {
		name, path string
		change     func() error
		effect     string
		want       string
		err        error
	}{
		{"a file", dir + "/tree/public", nil, dir + "/tree/public", "tree/public", nil},
		{"not clean", dir + "/tree/sub/../public", nil, dir + "/tree/public", "tree/public", nil},
		{"outside", dir + "/secret", nil, dir + "/secret", "", workspace.ErrOutside},
		{"a link of the workspace", "link", nil, dir + "/tree/public", "tree/public", nil},
		{"a link of the workspace that leads outside", "out", nil, dir + "/secret", "", workspace.ErrOutside},
		{"the workspace", "mine", nil, "mine", "mine", nil},
		{"it becomes a link", dir + "/tree/public", func() error {
			return errors.Join(os.Rename(dir+"/tree/public", dir+"/kept"), os.Symlink("../secret", dir+"/tree/public"))
		}, dir + "/tree/public", "", workspace.ErrMoved},
		{"a directory becomes a link", dir + "/tree/sub/x", func() error {
			return errors.Join(os.Rename(dir+"/tree/sub", dir+"/sub"), os.Symlink("../sub", dir+"/tree/sub"))
		}, dir + "/tree/sub/x", "", workspace.ErrMoved},
		{"the tree becomes a link", dir + "/tree/last", func() error {
			return errors.Join(os.Rename(dir+"/tree", dir+"/other"), os.Symlink("other", dir+"/tree"))
		}, dir + "/tree/last", "", workspace.ErrMoved},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := toolstest.Env(t, map[string]string{"mine": "mine"})
			env.Readable = []string{dir + "/tree"}
			for name, target := range map[string]string{"link": dir + "/tree/public", "out": dir + "/secret"} {
				if err := os.Symlink(target, filepath.Join(env.Workspace.Dir(), name)); err != nil {
					t.Fatal(err)
				}
			}
			text, _ := json.Marshal(viewInput{Path: test.path})
			call, err := viewer().Decode(&env, text)
			if err != nil {
				t.Fatal(err)
			}
			effects := call.Effects()
			if e := effects[0]; len(effects) != 1 || e.Kind != tools.ReadsPath || !e.Rooted || e.Path != test.effect {
				t.Errorf("effects %+v, want %s", effects, test.effect)
			}
			if test.change != nil {
				if err := test.change(); err != nil {
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

// TestViewsOfTheSession reads what is the session's own, by the names that its
// commands have for it.
func TestViewsOfTheSession(t *testing.T) {
	env := toolstest.Env(t, nil)
	env.Temporary = []string{"/tmp"}
	for _, dir := range []string{env.Session.Home(), env.Session.Temp()} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/f", []byte(dir), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		env.Session.Home() + "/f": env.Session.Home(), env.Session.Temp() + "/f": env.Session.Temp(), "/tmp/f": env.Session.Temp(),
	} {
		text, _ := json.Marshal(viewInput{Path: path})
		result, _, err := toolstest.Run(t, viewer(), env, string(text))
		if err != nil || toolstest.Text(result) != want {
			t.Errorf("%s: %q, %v, want %q", path, toolstest.Text(result), err, want)
		}
	}
	env.Temporary = nil
	private := filepath.Dir(env.Session.Home())
	text, _ := json.Marshal(viewInput{Path: private, Tree: true})
	if _, _, err := toolstest.Run(t, viewer(), env, string(text)); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("the private directory itself: %v", err)
	}
}

// denies withholds what has secret in its path.
type denies struct{ tools.Restrictions }

func (denies) Withheld(string, bool) func(string) bool {
	return func(path string) bool { return filepath.IsAbs(path) && strings.Contains(path, "secret") }
}

func TestViewsWithhold(t *testing.T) {
	dir := realDir(t, "a", "secret/b")
	env := toolstest.Env(t, nil)
	env.Readable, env.Restrictions = []string{dir}, denies{}
	text, _ := json.Marshal(viewInput{Path: dir, Tree: true})
	call, err := viewer().Decode(&env, text)
	if err != nil {
		t.Fatal(err)
	}
	if e := call.Effects()[0]; !e.Tree || !e.Withholds || e.Path != dir {
		t.Errorf("%+v", e)
	}
	result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
	if got := toolstest.Text(result); err != nil || got != dir+"/a" {
		t.Errorf("%q, %v", got, err)
	}
	// What is the kernel's is withheld even if everything may be read.
	env.Readable, env.Restrictions = []string{"/"}, nil
	if env.Beside("/proc/self/status") || env.Beside("/dev/null") || !env.Beside(dir+"/a") {
		t.Error("/proc or /dev can be read, or a file cannot")
	}
}

func TestReadableTrees(t *testing.T) {
	dir := realDir(t, "usr/bin/x")
	if err := os.Symlink("usr/bin", dir+"/bin"); err != nil {
		t.Fatal(err)
	}
	got := tools.ReadableTrees(dir+"/bin", dir+"/none", dir+"/usr/", dir+"/usr/bin", "/proc/self", "/dev/null")
	if want := []string{dir + "/bin", dir + "/usr/bin", dir + "/usr"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
