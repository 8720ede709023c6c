// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/soaktest"
)

// TestIgnoreAsGit compares with git check-ignore, in random repositories.
func TestIgnoreAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here to compare with")
	}
	x := newTree(t, 1)
	x.git = true
	paths := 0
	for i := range soaktest.Times(50, 5000) {
		x.clear()
		for _, dir := range []string{".git/objects", ".git/refs", ".git/info"} {
			if err := os.MkdirAll(filepath.Join(x.root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		x.write(".git/HEAD", "ref: refs/heads/main\n")
		x.grow(30)
		x.ignore(".gitignore")
		if x.r.IntN(2) == 0 {
			x.write(".git/info/exclude", x.rules())
		}
		found, _, err := x.engine().Glob(t.Context(), search.Scope{Hidden: true, Globs: []string{"!/.git"}}, search.ByName)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			got = append(got, f.Path)
		}
		want := notIgnored(t, x)
		paths += len(x.files)
		if !slices.Equal(got, want) {
			t.Fatalf("tree %d\ngot  %q\nwant %q\n%s", i, got, want, x.describe())
		}
		if ref := reference(x.root, search.Scope{Hidden: true, Globs: []string{"!/.git"}}); !slices.Equal(ref, want) {
			t.Fatalf("tree %d: the reference is wrong\ngot  %q\nwant %q\n%s", i, ref, want, x.describe())
		}
	}
	t.Logf("%d paths were judged", paths)
}

// notIgnored asks git which files are not ignored.
func notIgnored(t *testing.T, x *tree) []string {
	t.Helper()
	var files []string
	for _, f := range x.files {
		if !strings.HasPrefix(f, ".git/") && !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	slices.Sort(files)
	cmd := exec.Command("git", "-c", "core.excludesFile=", "-c", "core.ignoreCase=false", "check-ignore", "--no-index", "-z", "--stdin")
	cmd.Dir = x.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	cmd.Stdin = strings.NewReader(strings.Join(files, "\x00"))
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // which is that none is ignored
		t.Fatalf("%v: %s", err, &problem)
	}
	ignored := strings.Split(out.String(), "\x00")
	return slices.DeleteFunc(files, func(f string) bool { return slices.Contains(ignored, f) })
}
