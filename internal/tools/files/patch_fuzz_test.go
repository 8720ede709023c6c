// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

// FuzzDiff holds the diff of any two texts against what it came from.
func FuzzDiff(f *testing.F) {
	f.Add("one\ntwo\n", "one\n2\n")
	f.Add("", "a")
	f.Add("a", "")
	f.Add("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nX\nf\ng\nh\n")
	f.Add("x\nx\nx\nx\nx\n", "x\nx\nx\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		if visible(before) != before || visible(after) != after {
			return // the diff shows other bytes
		}
		d := diffOf("a/f", "b/f", before, after, nil)
		if before == after {
			if d.text != "" {
				t.Errorf("no difference, and a diff %q", d.text)
			}
			return
		}
		patch, err := parsePatch(d.text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, d.text)
		}
		got, notes, err := patch[0].apply(before)
		if err != nil || got != after || len(notes) > 0 {
			t.Errorf("%q with\n%s\nis %q, %v, want %q (%v)", before, d.text, got, err, after, notes)
		}
	})
}

// FuzzPatch applies any patch to any text: it fits or is refused with a reason
// that is bounded, and lines it does not name stay.
func FuzzPatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: f\n@@ a\n b\n-c\n+d\n*** End of File\n*** End Patch", "a\nb\nc\n")
	f.Add("*** Begin Patch\n*** Add File: f\n+x\n*** Delete File: g\n*** Update File: h\n*** Move to: i\n*** End Patch\n", "")
	f.Add("diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1,2 +1,2 @@ x\n a\n-b\n+c\n\\ No newline at end of file\n", "a\nb\n")
	f.Add("--- f\n+++ f\n@@ -99999999999999999999 +0,0 @@\n-a\n", "a")
	f.Add("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n-- \n2.39\n", "")
	f.Fuzz(func(t *testing.T, patch, text string) {
		files, err := parsePatch(patch)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("%d bytes: %.100s", len(err.Error()), err)
			}
			return
		}
		for i := range files {
			if files[i].name == "" && files[i].moveTo == "" {
				t.Errorf("a file without a name: %+v", files[i])
			}
			after, _, err := files[i].apply(text)
			if err != nil {
				failure, ok := errors.AsType[*tools.Failure](err)
				if !ok || len(failure.Message) > 20_000+2*len(files[i].name) {
					t.Errorf("%T of %d bytes", err, len(err.Error()))
				}
				continue
			}
			if files[i].kind != patchUpdate {
				continue
			}
			come, go_ := 0, 0
			for _, h := range files[i].hunks {
				for _, l := range h.lines {
					switch l.op {
					case '+':
						come++
					case '-':
						go_++
					}
				}
			}
			if got, want := len(splitText(after)), len(splitText(text))+come-go_; got != want && !strings.Contains(patch+"\n", "\n+\n") &&
				(after != "" || want != 1) { // one empty line without an end is none
				t.Errorf("%d lines, %d come, %d go, and there are %d", len(splitText(text)), come, go_, got)
			}
		}
	})
}
