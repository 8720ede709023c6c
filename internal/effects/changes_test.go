// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package effects_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestEffectsOfChanges tells what is removed and moved: links themselves, trees
// with what is protected in them, and what is protected where it comes to lie.
func TestEffectsOfChanges(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"vendor/lib/.git/config": "", "plain/bar": "", "g/hooks/x": "", "f": ""})
	env.Restrictions = toolstest.Restrictions{Protects: func(path string) bool {
		return filepath.Base(path) == ".git" || strings.HasPrefix(path, "foo/bar")
	}}
	if err := os.Symlink("vendor/lib/.git", filepath.Join(env.Workspace.Dir(), "link")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		got  []tools.Effect
		want string
	}{
		{"a file", effects.Removes(env, "f", false), "writes f"},
		{"a link", effects.Removes(env, "link", false), "writes link"},
		{"what a link leads to", effects.Removes(env, "link/config", false), "writes vendor/lib/.git/config"},
		{"a tree with something protected", effects.Removes(env, "vendor", true), "writes vendor/**, writes vendor/lib/.git"},
		{"a tree", effects.Removes(env, "plain", true), "writes plain/**"},
		{"outside", effects.Removes(env, "../x", true), "writes " + filepath.Dir(env.Workspace.Dir()) + "/x/**"},
		{"a move", effects.Moves(env, "plain", "other"), "writes plain/**, writes other/**"},
		{"a move of something protected", effects.Moves(env, "vendor", "other"), "writes vendor/**, writes vendor/lib/.git, writes other/**, writes other/lib/.git"},
		{"a move to something protected", effects.Moves(env, "plain", "foo"), "writes plain/**, writes foo/**, writes foo/bar"},
		{"a link that is moved", effects.Moves(env, "link", "f2"), "writes link, writes f2"},
		{"a file that is removed as a tree", effects.Removes(env, "f", true), "writes f"},
		{"edits", env.Edits("link/config"), "writes vendor/lib/.git/config"},
	} {
		var writes []string
		reads := make(map[string]bool)
		for _, e := range test.got {
			if e.Kind == tools.ReadsPath {
				reads[e.Path] = true
				continue
			}
			text := fmt.Sprint(e.Kind, " ", e.Path)
			if e.Tree {
				text += "/**"
			}
			writes = append(writes, text)
			if !e.Rooted {
				t.Errorf("%s: %+v is not rooted", test.name, e)
			}
		}
		if got := strings.Join(writes, ", "); got != test.want || len(reads) == 0 {
			t.Errorf("%s: %s, want %s (reads %v)", test.name, got, test.want, reads)
		}
	}
}
