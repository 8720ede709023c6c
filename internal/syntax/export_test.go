// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"context"
	"strings"
)

// Shape returns what a text is made of, as the authors of grammars write it.
func (e *Engine) Shape(ctx context.Context, name string, text []byte) (string, error) {
	t, err := e.parsers.parse(ctx, languageNamed(name), text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var write func(i int)
	write = func(i int) {
		named := t.nodes[i].flags&isNamed != 0
		if named {
			b.WriteString(" (" + t.kindOf(i))
		}
		for c := range t.children(i) {
			write(c)
		}
		if named {
			b.WriteString(")")
		}
	}
	write(0)
	return strings.TrimSpace(b.String()), nil
}
