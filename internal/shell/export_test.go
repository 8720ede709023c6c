// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

// Analyse is Effects without the net that catches panics.
var Analyse = analyse

// Strays lists programs of the tables that nobody follows.
func Strays() []string {
	var names []string
	for name, p := range programs() {
		if handler(p.operands) == nil {
			names = append(names, name)
		}
	}
	for name, p := range gitCommands() {
		if p.operands != "plain" && gitHandler(p.operands) == nil {
			names = append(names, "git "+name)
		}
	}
	return names
}
