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

// WholeOutline is Outline of a text that is parsed with everything in it.
func (e *Engine) WholeOutline(ctx context.Context, path string, text []byte) (Outline, error) {
	l := languageOf(path, text)
	t, err := e.parsers.parse(ctx, l, text)
	if err != nil {
		return Outline{}, err
	}
	return Outline{Language: l.name, Lines: len(linesOf(text)), Symbols: t.outline(true), Flawed: t.flawed()}, nil
}

// WholeMatch is Match in one text that is parsed with everything in it.
func (e *Engine) WholeMatch(ctx context.Context, path string, text []byte, pattern string) ([]Match, error) {
	c, err := e.parsers.compile(ctx, languageOf(path, text), pattern)
	if err != nil {
		return nil, err
	}
	t, err := e.parsers.parse(ctx, c.language, text)
	if err != nil {
		return nil, err
	}
	places, ok := c.places(text, nil)
	if !ok {
		return nil, nil
	}
	found, err := t.matches(ctx, c, places, 1e6)
	return tell(path, text, found, 0), err
}
