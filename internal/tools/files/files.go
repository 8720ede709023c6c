// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package files is the family of tools that look at and change files of the
// workspace. One room per tool.
package files

import "github.com/toolserver/toolserver/internal/tools"

// category is the family's name in specs.
const category = "files"

// Tools returns the family. Without documents PDF cannot be read.
func Tools(documents Documents) []tools.Tool {
	return []tools.Tool{
		Read(documents),
		Write(),
		Edit(),
		MultiEdit(),
		Delete(),
		Move(),
		MakeDir(),
		ListDir(),
		ApplyPatch(),
		NotebookEdit(),
		Undo(),
		ListChanges(),
		Watch(),
	}
}
