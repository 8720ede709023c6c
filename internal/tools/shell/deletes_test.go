// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestDeletes: a command is judged by what it runs, not by its first word.
func TestDeletes(t *testing.T) {
	for command, want := range map[string]bool{
		"rm x":                             true,
		"rm -rf build dist":                true,
		"rm -rf $TMPDIR/x":                 true,
		"/bin/rm x":                        true,
		"rmdir d":                          true,
		"unlink d":                         true,
		"cd build && rm -rf x":             true,
		"rm -f a; rm -f b":                 true,
		"env LANG=C rm x":                  true,
		"for f in a b; do rm $f; done":     true,
		"find . -name '*.o' -delete":       true,
		"find \"$TMPDIR\" -type f -delete": true,
		"find . -name '*.o' -exec rm {} +": true,

		"":                                    false,
		"ls":                                  false,
		"cd build":                            false,
		"find . -name rm":                     false,
		"rm x > log":                          false,
		"rm x; cp a b":                        false,
		"rm x & yes":                          false,
		"rm() { cp a b; }; rm x":              false,
		"alias rm=cp; rm a b":                 false,
		"function rm { dd if=a of=b; }\nrm x": false,
		"./rm x":                              false,
		"PATH=. rm x":                         false,
		"sudo rm x":                           false,
		"git rm x":                            false,
		"ls | xargs rm":                       false,
		"rm $(touch y)":                       false,
		"rm `touch y`":                        false,
		"find . -delete -fprint list":         false,
		"find . -delete -fls list":            false,
		"find . -delete $X":                   false,
		"find . -delete -exec touch {} +":     false,
		"TMPDIR=-fprint; find . -delete $TMPDIR x":              false,
		"for TMPDIR in -fls; do find . -delete $TMPDIR x; done": false,
		"find . -delete $TMPDIRS":                               false,
		"rm x; rm 'unclosed":                                    false,
	} {
		if got := deletes(command, shell.Place{}); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

// TestLevels: what runs code lists the highest level that a call can need; a call that
// only looks needs the lowest.
func TestLevels(t *testing.T) {
	for _, tool := range Tools(command.New(command.Config{}), companion.New(nil, companion.Config{})) {
		spec := tool.Spec()
		if runs := spec.Name == "bash" || spec.Name == "repl" || spec.Name == "powershell"; runs &&
			(spec.Level != tools.DangerFullAccess || spec.Needs() != tools.ReadOnly) {
			t.Errorf("%s lists %s, and each call needs %s", spec.Name, spec.Level, spec.Needs())
		}
	}
}
