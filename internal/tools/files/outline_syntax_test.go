// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/programtest"
	"github.com/toolserver/toolserver/internal/syntax/syntaxtest"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestOutlineBySyntax proves that a large file is shown by its syntax: what lies in
// what, and where it ends, and that one that does not parse is shown all the same.
func TestOutlineBySyntax(t *testing.T) {
	long := strings.Repeat("        call()\n", 6000)
	env := toolstest.Env(t, map[string]string{
		"a.py":      "class A:\n    def f(\n        self,\n    ):\n" + long + "\n\ndef g(): pass\n",
		"broken.py": "class A(:::\n" + long + "def g(: pass\ndef h(: pass\n",
		"a.toml":    "[a.b]\nc = 1\n",
	})
	program, err := programtest.BuildSyntax(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	read := files.Read(nil, syntaxtest.Pool(t, program, nil))
	for input, wants := range map[string][]string{
		`{"path":"a.py"}`:                    {"1-6004\tclass A\n", "2-6004\t  def f( self, )\n", "6007\tdef g()\n"},
		`{"path":"broken.py"}`:               {"6002\tdef g(\n", "6003\tdef h(\n"},
		`{"path":"a.toml","mode":"outline"}`: {"1-2\t[a.b]\n"},
	} {
		result, _, err := toolstest.Run(t, read, env, input)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if text := toolstest.Text(result); !strings.Contains(text, want) {
				t.Errorf("%s shows no %q:\n%.1000s", input, want, text)
			}
		}
	}
}
