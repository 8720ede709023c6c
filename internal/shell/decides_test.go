// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/shell"
)

func TestDecides(t *testing.T) {
	for text, want := range map[string]string{
		"grep x y":                            "grep",
		"grep pipefail y":                     "grep",
		"A=b /usr/bin/grep x y 2>/dev/null":   "grep",
		"grep x <y >z 2>&1":                   "grep",
		"git grep x":                          "git grep",
		"[[ a == b ]]":                        "[[",
		"ls a 2>/dev/null; grep x y":          "grep",
		"{ a; b; } 2>&1 | grep x":             "grep",
		"a |& b | grep x":                     "grep",
		"a || grep x y":                       "grep",
		"cd a && cat b >c && ls && grep x y":  "grep",
		"cd a && cat b | grep x":              "grep",
		"if a; then b; fi; x=$(c); grep $x y": "grep",

		// Something else may end it.
		"[ -f a ] || exit 1; grep x y":           "",
		"set -e; [ -f a ]; grep x y":             "",
		"set -o pipefail; a | grep x":            "",
		"shopt -s failglob; a *; grep x y":       "",
		"if a; then return 1; fi; grep x y":      "",
		"exec 2>/dev/null; cd a && grep x y":     "",
		"exec ./a; grep x y":                     "",
		"trap 'exit 1' EXIT; grep x y":           "",
		"eval a; grep x y":                       "",
		"source a; grep x y":                     "",
		". a; grep x y":                          "",
		"command exit 1; grep x y":               "",
		"builtin exit 1; grep x y":               "",
		`\exit 1; grep x y`:                      "",
		`"exit" 1; grep x y`:                     "",
		"{exit,1}; grep x y":                     "",
		"$a 1; grep x y":                         "",
		"grep() { exit 1; }; grep x y":           "",
		"exit() { :; }; grep x y":                "",
		"{ UID=1; } 2>/dev/null; grep x y":       "",
		"for i in $((1/0)); do a; done &>b; [ a": "",

		// Something else may have failed without a word.
		"cd a 2>/dev/null && grep x y":          "",
		"cd a 2>&1 && grep x y":                 "",
		"cd a &>/dev/null && grep x y":          "",
		"cd a &>>b && grep x y":                 "",
		"cd a >&b && grep x y":                  "",
		"cd a && ls b 2>/dev/null && grep x y":  "",
		"! cd a && grep x y":                    "",
		"[ -f a ] && grep x y":                  "",
		"{ cd a && grep x y; } 2>/dev/null":     "",
		"grep x 2>/dev/null <y":                 "",
		"[[ 1/0 -eq 1 ]] 2>/dev/null":           "",
		"a && b || c && grep x y":               "",
		"(cd a 2>/dev/null && grep x y)":        "",
		"! grep x y":                            "",
		"grep x y &":                            "",
		"time grep x y":                         "",
		"grep 'x":                               "",
		"":                                      "",
		"grep x " + strings.Repeat("y", 16<<10): "",
	} {
		if got := shell.Decides(text); got != want {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}
