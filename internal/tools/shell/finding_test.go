// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"testing"

	"github.com/toolserver/toolserver/internal/command"
)

func TestFinding(t *testing.T) {
	for text, want := range map[string]command.Finding{
		"grep -rn TODO src":              command.NothingFound,
		"cd src && rg -n 'a b' | rg c":   command.NothingFound,
		"ls | /usr/bin/grep x":           command.NothingFound,
		"git grep -n x":                  command.NothingFound,
		"git diff --exit-code":           command.TheyDiffer,
		"diff a b":                       command.TheyDiffer,
		"test -f x":                      command.NotSo,
		"[ -f x ]":                       command.NotSo,
		"[[ $a == b ]]":                  command.NotSo,
		"echo a; grep x y":               command.NothingFound,
		"[ -f no ] || exit 1; grep x y":  "",
		"set -e; [ -f no ]; grep x y":    "",
		"cd no 2>/dev/null && grep x y":  "",
		"make && go test ./...":          "",
		"grep x y; false":                "",
		"! grep x y":                     "",
		"grep x y &":                     "",
		"set -o pipefail; make | grep x": "",
		"grep x y | wc -l":               "",
		"false && grep x y":              "",
		"if grep x y; then a; fi":        "",
		"$grep x":                        "",
		"git commit -m grep":             "",
		"grep 'unterminated":             "",
		"":                               "",
	} {
		if got := finding(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
