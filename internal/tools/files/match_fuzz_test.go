// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolserver/toolserver/internal/tools"
)

// FuzzReplaceText replaces any text in any other: what is not replaced stays as
// it was, and what is refused is refused with a reason that is bounded.
func FuzzReplaceText(f *testing.F) {
	f.Add("one\ntwo\nthree\n", "two", "2", false)
	f.Add("one\r\ntwo\r\n", "one\ntwo", "1\n2", false)
	f.Add("a a a", "a", "aa", true)
	f.Add("\xff\xfe\n\x00", "\xff", "", false)
	f.Add("aaa", "aa", "b", true)
	f.Add("  if x {\n\t\ty()\n  }\n", "if x {\n  y()\n}", "", false)
	f.Fuzz(func(t *testing.T, text, old, new string, all bool) {
		if old == "" || old == new {
			return
		}
		edits, err := replaceText(tools.Words{}.Keys("edit_file"), "f", text, old, new, all)
		if err != nil {
			failure, ok := errors.AsType[*tools.Failure](err)
			if !ok || len(failure.Message) > 40_000 {
				t.Fatalf("%T of %d bytes", err, len(err.Error()))
			}
			return
		}
		if len(edits) == 0 || len(edits) > 1 && !all {
			t.Fatalf("%d edits", len(edits))
		}
		after, err := udiff.Apply(text, edits)
		if err != nil {
			t.Fatal(err)
		}
		crlf := usesCRLF(text)
		if !crlf && strings.Contains(text, old) {
			n := 1
			if all {
				n = -1
			}
			if want := strings.Replace(text, old, new, n); want != after {
				t.Errorf("%q, want %q", after, want)
			}
		}
		if d := diffOf("a", "b", text, after, edits); (d.text == "") != (text == after) {
			t.Errorf("the diff of a change is %q", d.text)
		}
	})
}
