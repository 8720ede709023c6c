// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import "strings"

// awk runs a program that can read, write and run. It is clear only where the
// program has nothing in it that could.
func awk(c *call, p *program) {
	words := c.begin(p)
	files := words.operands
	switch {
	case words.flag("scriptfile"):
		c.doubt("its program is in a file")
	case len(files) > 0:
		if !files[0].known() {
			c.doubt("its program is not known")
		} else if why := awkDoes(files[0].text); why != "" {
			c.doubt(why)
		}
		if strings.Contains(files[0].text, "ENVIRON") {
			c.readOnly, c.told = false, false
		}
		files = files[1:]
	}
	for _, w := range files {
		if !w.known() || !isAssignment(w.text) {
			c.input(w, false)
		}
	}
}

// awkDoes tells what a program may do besides printing; "" where it can do
// nothing. A command or a file can come into it only with the words looked for:
// a redirection or a pipe of print comes after the print.
func awkDoes(program string) string {
	for _, word := range []string{"system", "getline", "ARGV", "ARGC", "@", "close", "fflush", "PROCINFO", "extension"} {
		if strings.Contains(program, word) {
			return "its program has " + word + " in it"
		}
	}
	if i := strings.Index(program, "print"); i >= 0 {
		rest := strings.ReplaceAll(strings.ReplaceAll(program[i:], ">=", ""), "||", "")
		if strings.ContainsAny(rest, ">|") {
			return "its program may print into a file or a command"
		}
	}
	return ""
}
