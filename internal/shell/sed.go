// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// sed edits a stream, or files with -i. Its scripts can read, write and run.
func sed(c *invocation, p *programs.Program) {
	words := c.begin(p)
	files := words.operands
	scripts := 0
	for _, o := range words.given {
		switch o.Does {
		case "script":
			c.sedScript(o.value)
			scripts++
		case "scriptfile":
			c.reads(o.value, false)
			c.doubt("its script is in a file")
			scripts++
		}
	}
	if scripts == 0 && len(files) > 0 {
		c.sedScript(files[0])
		files = files[1:]
	}
	suffix, inPlace := words.has("inplace")
	for _, w := range files {
		c.input(w, false)
		if inPlace {
			c.writes(w, false)
			if backup := suffix.text; suffix.known() && backup != "" && !strings.Contains(backup, "*") {
				c.writes(joined(w, suffix), false)
			} else if suffix.unknown || strings.Contains(backup, "*") {
				c.doubt("where it keeps the old file is not known")
			}
		}
	}
	if inPlace {
		c.readOnly = false
	}
}

func (c *invocation) sedScript(w word) {
	if !w.known() {
		c.doubt("its script is not known")
		return
	}
	steps, ok := programs.Sed(w.text)
	for _, step := range steps {
		switch step.Does {
		case "read":
			c.reads(lit(step.Text), false)
		case "write":
			c.readOnly = false
			if step.Text != "/dev/stdout" && step.Text != "/dev/stderr" {
				c.writes(lit(step.Text), false)
			}
		case "run":
			c.doubt("its script runs a command")
			if step.Text != "" {
				c.script(lit(step.Text), c.fresh(nil), posix)
			}
		case "unsafe":
			c.doubt("its script runs what it makes of its input")
		}
	}
	if !ok {
		c.doubt("its script cannot be followed")
	}
}
