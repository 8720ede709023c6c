// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFileName(t *testing.T) {
	for owner, want := range map[string]string{
		"alice":       "alice",
		"ci-2":        "ci-2",
		"":            "",
		"Alice":       "_41lice",
		"a_b":         "a_5fb",
		"_41lice":     "_5f41lice",
		".":           "_2e",
		"..":          "_2e_2e",
		"../x":        "_2e_2e_2fx",
		"a\x00b":      "a_00b",
		"a\nb":        "a_0ab",
		"é":           "_c3_a9",
		"\xff":        "_ff",
		"a b@c.d:e\\": "a_20b_40c_2ed_3ae_5c",
	} {
		if got := fileName(owner); got != want {
			t.Errorf("fileName(%q) = %q, want %q", owner, got, want)
		}
	}
}

// FuzzFileName proves that no two principals share a file name, on file systems
// that fold case too, and that none leads anywhere.
func FuzzFileName(f *testing.F) {
	for _, pair := range [][2]string{{"a", "A"}, {"a_b", "a_5fb"}, {"_", "_5f"}, {"", "."}, {"../a", "a"}, {"a\x00", "a"}, {"é", "\xc3\xa9"}} {
		f.Add(pair[0], pair[1])
	}
	f.Add(strings.Repeat("é", 50), strings.Repeat("_", 68))
	safe := regexp.MustCompile(`^([a-z0-9-]|_[0-9a-f]{2})*((_[0-9a-f]?)?~[0-9a-f]{64})?$`) // of a long one, the beginning
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, owner := range []string{a, b} {
			if name := "default-" + fileName(owner); !safe.MatchString(fileName(owner)) || !filepath.IsLocal(name) || filepath.Base(name) != name {
				t.Errorf("fileName(%q) = %q is not safe", owner, name)
			}
		}
		if (a == b) != (fileName(a) == fileName(b)) {
			t.Errorf("%q and %q are %q and %q", a, b, fileName(a), fileName(b))
		}
	})
}
