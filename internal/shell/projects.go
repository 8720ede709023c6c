// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"
)

// tells are the first words with which tools of projects only tell something.
// Tools that a file of the workspace can exchange for another (go, cargo, yarn)
// are not here: whatever they are asked, they may run something else first.
var tells = map[string][]string{
	"npm":  {"ls", "list", "--version", "-v"},
	"pip":  {"list", "show", "freeze", "--version", "-V"},
	"pip3": {"list", "show", "freeze", "--version", "-V"},
	"gcc":  {"--version"}, "cc": {"--version"}, "clang": {"--version"}, "g++": {"--version"}, "make": {"--version"}, "cmake": {"--version"},
	"java": {"-version", "--version"}, "javac": {"-version", "--version"}, "docker": {"--version"},
	"dpkg": {"-l", "-L", "-s", "--version"}, "apt": {"--version"}, "apt-get": {"--version"}, "rpm": {"--version"}, "systemctl": {"--version"},
}

// tellsWith are the options that do not change that.
var tellsWith = []string{"--all", "--json", "--long", "--parseable", "-g", "--global", "--depth=0", "--depth=1", "--prod", "--dev"}

// subcommand follows a tool of projects: it simply runs, but for the few words
// with which it only tells.
func subcommand(c *call, _ *program) {
	words := c.words[1:]
	if len(words) == 0 || !words[0].known() || !slices.Contains(tells[c.base()], words[0].text) {
		return
	}
	c.readOnly = !slices.ContainsFunc(words[1:], func(w word) bool {
		return !w.known() || strings.HasPrefix(w.text, "-") && !slices.Contains(tellsWith, w.text)
	})
}
