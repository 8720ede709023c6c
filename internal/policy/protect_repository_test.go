// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

// TestRepositoryPaths tells what of a repository is its data, what git runs, and what
// is never taken.
func TestRepositoryPaths(t *testing.T) {
	for _, test := range []struct {
		path               string
		runs, never, isCfg bool
	}{
		{"main.go", false, false, false},
		{".github/workflows/x", false, false, false},
		{".gitignore", false, false, false},
		{".git", true, true, false},
		{".git/HEAD", false, false, false},
		{".git/objects/ab/" + "00112233445566778899aabbccddeeff001122", false, false, false},
		{".git/config", true, true, true},
		{"a/b/.git/config", true, true, true},
		{".git/modules/m/config", true, true, false},
		{".git/x/.git/config", true, true, false},
		{"node_modules/m/.git/config", true, true, false},
		{".git/hooks/pre-commit", true, true, false},
		{".git/index", true, true, false},
		{".GIT/config", true, true, false},
		{"git~1/config", true, true, false},
		{".g\u200cit/config", true, true, false},
		{"sub/.git", true, true, false},
		{"node_modules/x.js", false, true, false},
		{".husky/pre-commit", true, true, false},
	} {
		if got := RunByGit(test.path); got != test.runs {
			t.Errorf("RunByGit(%q) = %t", test.path, got)
		}
		if got := NeverUploaded(test.path); got != test.never {
			t.Errorf("NeverUploaded(%q) = %t", test.path, got)
		}
		if got := IsRepositoryConfig(test.path); got != test.isCfg {
			t.Errorf("IsRepositoryConfig(%q) = %t", test.path, got)
		}
	}
}
