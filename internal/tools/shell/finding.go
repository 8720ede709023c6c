// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/shell"
)

// findings are programs whose exit status 1 is an answer and no failure.
var findings = map[string]command.Finding{
	"grep": command.NothingFound, "egrep": command.NothingFound, "fgrep": command.NothingFound, "zgrep": command.NothingFound,
	"rg": command.NothingFound, "ag": command.NothingFound, "pgrep": command.NothingFound, "git grep": command.NothingFound,
	"diff": command.TheyDiffer, "cmp": command.TheyDiffer, "git diff": command.TheyDiffer,
	"test": command.NotSo, "[": command.NotSo, "[[": command.NotSo,
}

// finding returns what exit status 1 means of a command whose status is that of a
// program that looks for something; "" where it is of something else, or unclear.
func finding(text string) command.Finding { return findings[shell.Decides(text)] }
