// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import "testing"

func TestFeeds(t *testing.T) {
	const patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch"
	tests := []struct {
		line string
		want Fed
		ok   bool
	}{
		{"apply_patch <<'EOF'\n" + patch + "\nEOF", Fed{Text: patch + "\n"}, true},
		{"apply_patch <<EOF\n$x `y` \\$z\nEOF\n", Fed{Text: "$x `y` \\$z\n"}, true},
		{"cd a/b/ && apply_patch <<\"EOF\"\n" + patch + "\nEOF", Fed{Dir: "a/b", Text: patch + "\n"}, true},
		{"apply_patch '" + patch + "'", Fed{Text: patch}, true},
		{`apply_patch "it's \\n \$x \"y\" \n"`, Fed{Text: `it's \n $x "y" \n`}, true},
		{`apply_patch <<E"O"F` + "\nx\n EOF\nEOF", Fed{Text: "x\n EOF\n"}, true},
		{"apply_patch <<'EOF'\nEOF", Fed{}, false},
		{Line([]string{"apply_patch", "it's $x"}), Fed{Text: "it's $x"}, true},

		{"apply_patch <<'EOF'\n" + patch + "\nEOF\nrm -rf .", Fed{}, false},
		{"apply_patch <<'EOF' && rm x\n" + patch + "\nEOF", Fed{}, false},
		{"apply_patch <<'EOF' >out\n" + patch + "\nEOF", Fed{}, false},
		{"apply_patch <<'EOF' &\n" + patch + "\nEOF", Fed{}, false},
		{"! apply_patch <<'EOF'\n" + patch + "\nEOF", Fed{}, false},
		{"X=1 apply_patch <<'EOF'\n" + patch + "\nEOF", Fed{}, false},
		{"rm x && apply_patch <<'EOF'\n" + patch + "\nEOF", Fed{}, false},
		{"cd $d && apply_patch <<'EOF'\n" + patch + "\nEOF", Fed{}, false},
		{"cd d >x && apply_patch <<'EOF'\n" + patch + "\nEOF", Fed{}, false},
		{"cd d || apply_patch <<'EOF'\n" + patch + "\nEOF", Fed{}, false},
		{"apply_patch \"$(cat p)\"", Fed{}, false},
		{"apply_patch --help me", Fed{}, false},
		{"apply_patch <<-EOF\n\tx\n\tEOF", Fed{}, false},
		{"apply_patch <p", Fed{}, false},
		{"which apply_patch", Fed{}, false},
		{"apply_patch <<'EOF", Fed{}, false},
		{"ls", Fed{}, false},
		{"", Fed{}, false},
	}
	for _, test := range tests {
		if got, ok := Feeds(test.line, "apply_patch"); got != test.want || ok != test.ok {
			t.Errorf("Feeds(%q) = %q, %t; want %q, %t", test.line, got, ok, test.want, test.ok)
		}
	}
}
