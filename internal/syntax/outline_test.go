// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/syntax"
)

// shown returns an outline as a text.
func shown(o syntax.Outline) string {
	var b strings.Builder
	for _, s := range o.Symbols {
		fmt.Fprintf(&b, "%s%d-%d %s %s | %s", strings.Repeat("  ", s.Depth), s.Line, s.EndLine, s.Kind, s.Name, s.Signature)
		if s.Container != "" {
			fmt.Fprintf(&b, " | in %s", s.Container)
		}
		if s.Doc != "" {
			fmt.Fprintf(&b, " | %s", s.Doc)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestOutlines holds outlines of every language against what they are to be.
func TestOutlines(t *testing.T) {
	files, err := filepath.Glob("testdata/outline/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	e := engineOf(t, t.TempDir())
	seen := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, ".outline") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o, err := e.Outline(t.Context(), file, text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		seen[o.Language] = true
		if o.Flawed {
			t.Errorf("%s does not parse", file)
		}
		got := []byte(shown(o))
		golden := file + ".outline"
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, _ := os.ReadFile(golden); !bytes.Equal(got, want) {
			t.Errorf("%s has the outline\n%s\nand not\n%s", file, got, want)
		}
	}
	for _, name := range syntax.Languages() {
		if !seen[name] {
			t.Errorf("there is no file of %s in testdata/outline", name)
		}
	}
}
