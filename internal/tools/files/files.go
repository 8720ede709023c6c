// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package files is the family of tools that look at and change files of the
// workspace. One room per tool.
package files

import (
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
)

// category is the family's name in specs.
const category = "files"

// Tools returns the family. Without documents PDF cannot be read; outlines may be nil.
func Tools(documents Documents, outlines *syntax.Pool) []tools.Tool {
	return []tools.Tool{
		Read(documents, outlines),
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
