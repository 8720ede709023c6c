// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// awk runs a program that can read, write and run. It is clear only where the
// program has nothing in it that could.
func awk(c *invocation, p *programs.Program) {
	words := c.begin(p)
	files := words.operands
	switch {
	case words.flag("scriptfile"):
		c.doubt("its program is in a file")
	case len(files) > 0:
		if !files[0].known() {
			c.doubt("its program is not known")
		} else if why := programs.Awk(files[0].text); why != "" {
			c.doubt(why)
		}
		if strings.Contains(files[0].text, "ENVIRON") {
			c.readOnly, c.complete = false, false
		}
		files = files[1:]
	}
	for _, w := range files {
		if !w.known() || !isAssignment(w.text) {
			c.input(w, false)
		}
	}
}
