// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import "github.com/toolserver/toolserver/internal/shell/programs"

// Analyse is Effects without the net that catches panics.
var Analyse = analyse

// Strays lists programs of the tables that nobody follows.
func Strays() []string {
	var names []string
	for name, p := range programs.All() {
		if handler(p.Operands) == nil {
			names = append(names, name)
		}
	}
	for name, p := range programs.Git() {
		if p.Operands != "plain" && gitHandler(p.Operands) == nil {
			names = append(names, "git "+name)
		}
	}
	return names
}
