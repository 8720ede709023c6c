// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestFoundNames has a real find print the names of random trees, into a program
// that records its words. Where the effects are clear, the words are names that
// the patterns of the effects stand for.
func TestFoundNames(t *testing.T) {
	for _, program := range []string{"find", "xargs", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	stubs := t.TempDir()
	for _, name := range []string{"cat", "wc"} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/bash\nprintf '%s\\0' \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := func() string {
		if r.IntN(8) > 0 {
			return pick("a.go", "b.go", "main.c", ".env", ".go", ".x.go", "-n", "go")
		}
		return pick("a b.go", "x'y.go", `q"r.go`, `s\t.go`, "a*.go", "new\nline.go", " lead.go", "ü.go", "-f x.go", "[a].go")
	}
	clear := 0
	for i := range 400 {
		root := t.TempDir()
		dirs := []string{"."}
		for range r.IntN(4) {
			dir := filepath.Join(pick(dirs...), pick("d", "e", ".h", "-x", "x y"))
			if os.MkdirAll(filepath.Join(root, dir), 0o755) == nil {
				dirs = append(dirs, dir)
			}
		}
		for range r.IntN(5) {
			os.WriteFile(filepath.Join(root, pick(dirs...), name()), nil, 0o644)
		}
		tests := pick("", "-name '*.go'", "-name 'a*'", "-name '*.go' -o -name '*.c'", "! -name '*.go'", "-type f", `\( -name '*.go' \)`,
			"-name d -prune -o -name '*.go' -print", "-name '*' -name 'a.go'", "-not -name x -name '*.go'", "-name '*.go' -print -o -name '*.c' -print")
		find := "find " + pick(".", ".", "d", "./d/", "d e", "'x y'", `"-x"`) + " " + tests
		command := pick(
			find+" | xargs cat", find+" | xargs -n 2 wc -l", find+" | xargs -I{} cat {}", find+" | grep -v env | sort -u | head -4 | xargs -r cat",
			"for f in $("+find+"); do cat \"$f\"; done", "cat $("+find+" | tail -n 3)", find+" -exec cat {} +", find+" -print0 | xargs -0 cat",
			"cd d && "+find+" | xargs cat", find+" -exec cat {}x ';'",
		)
		ws, err := (workspace.Config{}).Open(root)
		if err != nil {
			t.Fatal(err)
		}
		env := tools.Env{Workspace: ws}
		effects := effects.Resolve(env, shell.Effects(command, shell.PlaceOf(env, "")))
		if slices.ContainsFunc(effects, func(e tools.Effect) bool { return e.Unclear != "" }) {
			continue
		}
		run := exec.Command("bash", "-c", command)
		run.Dir, run.Env = root, []string{"PATH=" + stubs + ":" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
		out, _ := run.Output() // find fails where its root is not there
		for word := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if word == "" || word == "-l" {
				continue
			}
			clear++
			if strings.HasPrefix(command, "cd d ") {
				word = "d/" + word
			}
			if !slices.ContainsFunc(effects, func(e tools.Effect) bool { return tells(e, filepath.Clean(word)) }) {
				t.Errorf("%d: %s\nuses %q, which is none of\n%s", i, command, word, fmt.Sprint(effects))
			}
		}
		ws.Close()
	}
	if clear < 50 {
		t.Errorf("only %d words were clear: there is little to see", clear)
	}
}

// tells reports whether a path is one that an effect tells, by itself or, for a
// path without a pattern, as what find was told to walk.
func tells(e tools.Effect, path string) bool {
	if e.Kind != tools.ReadsPath {
		return false
	}
	if !e.Glob {
		return e.Path == path
	}
	return matchPath(strings.Split(e.Path, "/"), strings.Split(path, "/"))
}

func matchPath(pattern, path []string) bool {
	switch {
	case len(pattern) == 0 || len(path) == 0:
		return len(pattern) == len(path)
	case pattern[0] == "**" && matchPath(pattern[1:], path):
		return true
	case pattern[0] == "**":
		return len(pattern) == 1 || matchPath(pattern, path[1:])
	case strings.HasPrefix(path[0], ".") && !strings.HasPrefix(pattern[0], "."):
		return false
	}
	ok, err := filepath.Match(pattern[0], path[0])
	return ok && err == nil && matchPath(pattern[1:], path[1:])
}
