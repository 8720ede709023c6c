// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolstest

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

func TestUndeclared(t *testing.T) {
	tree := tools.Effect{Kind: tools.WritesPath, Path: "tree", Tree: true}
	effects := append(Reads("r", "deep/r"), Writes("w", "deep/w")...)
	effects = append(effects, tree)
	var got []string
	for _, path := range []string{"r", "w", "deep", "deep/r", "deep/w", "tree", "tree/x/y", "treetop", "other"} {
		for _, write := range []bool{false, true} {
			got = append(got, undeclared(effects, []touch{{path, write}})...)
		}
	}
	want := "it writes r, it writes deep/r, it reads treetop, it writes treetop, it reads other, it writes other, "
	if joined := strings.ReplaceAll(strings.Join(got, ""), "which is not among its effects", ""); joined != want {
		t.Errorf("%q\nwant %q", joined, want)
	}
}
