// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import "testing"

func TestVisibleCommand(t *testing.T) {
	for _, test := range []struct {
		argv []string
		want string
	}{
		{[]string{"git", "push", "--force"}, "git push --force"},
		{[]string{"rm", "a b", "", "it's"}, `rm 'a b' '' 'it'\''s'`},
		{[]string{"…", "x\x1b[A"}, "… 'x^[[A'"},
		{[]string{"echo", "a\u202eb", "$HOME"}, "echo 'a<U+202E>b' '$HOME'"},
		{[]string{"echo", "a<U+202E>b", "a\tb"}, "echo 'a<U+202E>b' 'a→   b'"},
	} {
		if got := visibleCommand(test.argv); got != test.want {
			t.Errorf("visibleCommand(%q) = %q, want %q", test.argv, got, test.want)
		}
	}
}
