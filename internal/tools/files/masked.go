// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"regexp"

	"github.com/toolserver/toolserver/internal/tools"
)

// mask matches what models are shown in place of a secret.
var mask = regexp.MustCompile(`\[masked: [a-z0-9 ]{1,40}\]`)

// unmasked fails for a plan that would write what stands for a secret in place of
// the secret: a model has only seen the mask.
func (p *plan) unmasked() error {
	for i := range p.changes {
		c := &p.changes[i]
		written := mask.FindAll(c.data, -1)
		if len(written) > len(mask.FindAll(c.old.Data, -1)) {
			return tools.Failf("masked_text", "%s would have %s in it, which stands for a secret that you were not shown. Nothing was written. Change the lines around it alone, and leave its line as it is.", c.name, written[len(written)-1])
		}
	}
	return nil
}

// notOccurs tells what is like a text that does not occur, or why it cannot.
func notOccurs(text, old string) string {
	if found := mask.FindString(old); found != "" {
		return " " + found + " in it stands for a secret that you were not shown: choose text beside it."
	}
	return nearest(text, old)
}
