// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"slices"
	"sync"
)

// tells are the first words with which tools of projects only tell something.
// Tools that a file of the workspace can exchange for another (cargo, yarn)
// are not here: whatever they are asked, they may run something else first.
var tells = sync.OnceValue(func() map[string][]string {
	return map[string][]string{
		"go":   {"version", "env"}, // GOTOOLCHAIN says that no file can exchange it
		"npm":  {"ls", "list", "--version", "-v"},
		"pip":  {"list", "show", "freeze", "--version", "-V"},
		"pip3": {"list", "show", "freeze", "--version", "-V"},
		"gcc":  {"--version"}, "cc": {"--version"}, "clang": {"--version"}, "g++": {"--version"}, "make": {"--version"}, "cmake": {"--version"},
		"java": {"-version", "--version"}, "javac": {"-version", "--version"}, "docker": {"--version"},
		"dpkg": {"-l", "-L", "-s", "--version"}, "apt": {"--version"}, "apt-get": {"--version"}, "rpm": {"--version"}, "systemctl": {"--version"},
	}
})

// tellsWith are the options that do not change that.
var tellsWith = []string{"--all", "--json", "--long", "--parseable", "-g", "--global", "--depth=0", "--depth=1", "--prod", "--dev"}

// OnlyTells reports whether a tool of projects only tells something when this is its
// first word.
func OnlyTells(program, word string) bool { return slices.Contains(tells()[program], word) }

// TellsMore reports whether an option of such a tool changes nothing of that.
func TellsMore(option string) bool { return slices.Contains(tellsWith, option) }
