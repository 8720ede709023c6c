// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
)

// machine makes a directory with entries: a name that ends with a slash is a
// directory, one with an arrow a link, any other an executable file.
func machine(t *testing.T, entries ...string) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name, target, link := strings.Cut(entry, " -> ")
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		switch {
		case link && filepath.IsAbs(target):
			err = os.Symlink(top+target, path)
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// find returns what FindPrograms makes of a machine: paths are below it, and what
// is the system's is left out.
func find(top string, c command.ProgramsConfig, inherited ...string) command.Programs {
	under := func(paths []string) []string {
		all := make([]string, len(paths))
		for i, path := range paths {
			all[i] = filepath.Join(top, path)
		}
		return all
	}
	c.Operator, c.Apart, c.Covered = under(c.Operator), under(c.Apart), append(under(c.Covered), "/usr")
	c.Inherited, c.Home = strings.Join(under(inherited), ":"), filepath.Join(top, "home/me")
	p := command.FindPrograms(c)
	short := func(list []string) []string {
		var all []string
		for _, path := range list {
			if rest, ok := strings.CutPrefix(path, top+"/"); ok {
				all = append(all, rest)
			}
		}
		return all
	}
	p.Path, p.Trees = short(p.Path), short(p.Trees)
	for i := range p.Refused {
		p.Refused[i].Dir = strings.TrimPrefix(p.Refused[i].Dir, top+"/")
		p.Refused[i].Why = strings.ReplaceAll(p.Refused[i].Why, top+"/", "")
	}
	for i, pair := range p.Env {
		p.Env[i] = strings.ReplaceAll(pair, top+"/", "")
	}
	return p
}

func TestProgramTrees(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []string
		path    []string
		want    []string
	}{
		{"an installation", []string{"sdk/bin/go", "sdk/lib/"}, []string{"sdk/bin"}, []string{"sdk"}},
		{"not one", []string{"work/bin/x", "work/notes"}, []string{"work/bin"}, []string{"work/bin"}},
		{"shims", []string{"home/me/.pyenv/shims/python3", "home/me/.pyenv/versions/3/bin/python3"}, []string{"home/me/.pyenv/shims"}, []string{"home/me/.pyenv"}},
		{"a home", []string{"home/me/bin/x", "home/me/lib/"}, []string{"home/me/bin"}, []string{"home/me/bin"}},
		{"~/.local", []string{"home/me/.local/bin/x", "home/me/.local/lib/"}, []string{"home/me/.local/bin"}, []string{"home/me/.local/bin"}},
		{"~/go", []string{"home/me/go/bin/x", "home/me/go/lib/"}, []string{"home/me/go/bin"}, []string{"home/me/go/bin"}},
		{"credentials beside", []string{"tool/bin/x", "tool/lib/", "tool/credentials.json"}, []string{"tool/bin"}, []string{"tool/bin"}},
		{"a tree of another name", []string{"x/programs/x", "x/lib/"}, []string{"x/programs"}, []string{"x/programs"}},
		{
			"links into installations", []string{"home/me/.local/bin/x -> ../share/pipx/x/bin/x", "home/me/.local/share/pipx/x/bin/x", "home/me/.local/share/pipx/x/pyvenv.cfg", "home/me/.local/share/pipx/x/lib/"},
			[]string{"home/me/.local/bin"},
			[]string{"home/me/.local/bin", "home/me/.local/share/pipx/x"},
		},
		{
			"links to packages", []string{"home/me/bin/x -> ../npm/node_modules/x/cli.js", "home/me/npm/node_modules/x/cli.js", "home/me/npm/private"},
			[]string{"home/me/bin"},
			[]string{"home/me/bin", "home/me/npm/node_modules"},
		},
		{"links to anything", []string{"home/me/bin/x -> ../work/x.sh", "home/me/work/x.sh", "home/me/work/.env"}, []string{"home/me/bin"}, []string{"home/me/bin", "home/me/work/x.sh"}},
		{"a link that is the directory", []string{"bin -> sdk/1/bin", "sdk/1/bin/x", "sdk/1/lib/"}, []string{"bin"}, []string{"sdk/1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := machine(t, test.entries...)
			if p := find(top, command.ProgramsConfig{}, test.path...); !slices.Equal(p.Trees, test.want) {
				t.Errorf("trees %v, want %v (%+v)", p.Trees, test.want, p)
			}
		})
	}
}

func TestProgramsOfRustup(t *testing.T) {
	top := machine(t, "home/me/.cargo/bin/cargo -> rustup", "home/me/.cargo/bin/rustup", "home/me/.cargo/credentials.toml", "home/me/.cargo/lib/",
		"home/me/.rustup/toolchains/stable/bin/cargo", "home/me/.rustup/settings.toml", "home/me/.rustup/update-hashes/stable")
	p := find(top, command.ProgramsConfig{}, "home/me/.cargo/bin")
	want := []string{"home/me/.cargo/bin", "home/me/.rustup/toolchains", "home/me/.rustup/settings.toml", "home/me/.rustup/update-hashes"}
	if !slices.Equal(p.Trees, want) || !slices.Equal(p.Env, []string{"RUSTUP_HOME=home/me/.rustup"}) {
		t.Errorf("%+v", p)
	}
}

func TestProgramPath(t *testing.T) {
	top := machine(t, "a/bin/", "b/bin/", "open/bin/", "theirs/bin/", "link -> a/bin", "sticky/mine/bin/", "file", "ws/bin/", "state/x/", "open/chosen/")
	for name, mode := range map[string]os.FileMode{"open": 0o777, "theirs/bin": 0o775, "sticky": 0o777 | os.ModeSticky} {
		if err := os.Chmod(filepath.Join(top, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	p := find(top, command.ProgramsConfig{Operator: []string{"open/chosen"}, Apart: []string{"ws", "state/x"}},
		"b/bin", "link", "a/bin", "open/chosen", "file", "missing", "open/bin", "theirs/bin", "sticky/mine/bin", "file", "ws/bin", "state")
	path := []string{"open/chosen", "b/bin", "a/bin", "sticky/mine/bin", "state"}
	if os.Geteuid() != 0 {
		path = slices.DeleteFunc(path, func(dir string) bool { return dir == "sticky/mine/bin" }) // the sticky bit is not root's
	}
	if !slices.Equal(p.Path, path) {
		t.Errorf("path %v, want %v", p.Path, path)
	}
	if slices.Contains(p.Trees, "state") {
		t.Errorf("the state of the server can be read: %v", p.Trees)
	}
	why := make(map[string]string)
	for _, r := range p.Refused {
		why[r.Dir] = r.Why
	}
	for dir, want := range map[string]string{"open/bin": "others can write to open", "theirs/bin": "others can write to theirs/bin", "file": "file is no directory", "ws/bin": "commands of sessions can write there"} {
		if why[dir] != want {
			t.Errorf("%s is refused for %q, want %q", dir, why[dir], want)
		}
	}
	delete(why, "sticky/mine/bin")
	if len(why) != 4 || len(p.Refused) > 5 {
		t.Errorf("refused: %v", why)
	}
	relative := command.FindPrograms(command.ProgramsConfig{Inherited: ".::bin"})
	if !slices.Equal(relative.Path[:1], command.DefaultPath[:1]) || len(relative.Refused) != 3 {
		t.Errorf("%+v", relative)
	}
}
