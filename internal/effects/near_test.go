// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// withholding withholds what has a word in its path.
type withholding struct {
	tools.Restrictions
	word string
}

func (w withholding) Withheld(string, bool) func(string) bool {
	return func(path string) bool { return strings.Contains(path, w.word) }
}

func TestNearFiles(t *testing.T) {
	env := toolstest.Env(t, map[string]string{
		"main.go": "", "Makefile": "", "cmd/server/main.go": "", "cmd/server/serve.go": "", "docs/guide.md": "", "docs/guides.md": "",
		"internal/tools/read.go": "", "secret/main.go": "", "secret/guide.md": "", "node_modules/x/read.go": "", "new\nline.go": "", "a/only.txt": "",
	})
	env.Restrictions = withholding{word: "secret"}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "hidden.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(env.Workspace.Dir(), "out")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, want string }{
		{"mian.go", "main.go"},
		{"makefile", "Makefile"},
		{"cmd/serve/main.go", "cmd/server/main.go main.go"},
		{"cmd/sever/sevre.go", "cmd/server/serve.go"},
		{"interal/tols/read.go", "internal/tools/read.go"},
		{"read.go", "internal/tools/read.go"},
		{"src/only.txt", "a/only.txt"},
		{"src/only.txt/", "a/only.txt"},
		{"docs/guid.md", "docs/guide.md docs/guides.md"},
		{"guide.md", "docs/guide.md"},
		{filepath.Join(env.Workspace.Dir(), "mian.go"), filepath.Join(env.Workspace.Dir(), "main.go")},
		{"secre", ""}, {"secret/mian.go", ""}, // nothing of what is withheld
		{"out/hiden.txt", ""}, {"hidden.txt", ""}, {"../x", ""}, // nothing of what is outside
		{"main.go", ""}, {".", ""}, {"zzzzzz", ""}, {"newline.go", ""},
		{strings.Repeat("x/", 3000) + "y", ""}, {strings.Repeat("x", 300), ""},
	} {
		if got := strings.Join(effects.NearFiles(env, test.name), " "); got != test.want {
			t.Errorf("%.60q: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestNearFilesIsBounded has a tree that is larger than what is examined.
func TestNearFilesIsBounded(t *testing.T) {
	files := map[string]string{"z/z/z/deep.txt": "", "zz.txt": ""}
	for i := range 6_000 {
		files[fmt.Sprintf("many/f%d", i)] = ""
	}
	env := toolstest.Env(t, files)
	if got := effects.NearFiles(env, "zx.txt"); !slices.Equal(got, []string{"zz.txt"}) {
		t.Errorf("in the same directory: %q", got)
	}
	if got := effects.NearFiles(env, "f17"); len(got) > 3 {
		t.Errorf("%d names", len(got))
	}
}
