// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxFields is how many words a brace expansion may become.
const maxFields = 512

// maxBraces is how many words all brace expansions of a command may become.
const maxBraces = 1000

// splitBraces returns the parts of every word that brace expansion makes of w:
// none where they cannot be told, or are too many.
func (a *analysis) splitBraces(w *syntax.Word) (variants [][]syntax.WordPart, braces bool) {
	clone, braces := bracesOf(w)
	if !braces {
		return [][]syntax.WordPart{w.Parts}, false
	}
	if isAssignment(literalStart(w)) || a.braces > maxBraces {
		return nil, true
	}
	variants = expandBraces(clone)
	if a.braces += len(variants); len(variants) == 0 {
		a.braces += maxFields / 8 // finding that out is work too
	}
	return variants, true
}

// bracesOf returns the parts of a word with its braces found, if it has any.
func bracesOf(w *syntax.Word) ([]syntax.WordPart, bool) {
	has := slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		l, ok := p.(*syntax.Lit)
		return ok && strings.Contains(l.Value, "{")
	})
	if !has {
		return nil, false
	}
	clone := &syntax.Word{Parts: slices.Clone(w.Parts)}
	if !syntax.SplitBraces(clone) {
		return nil, false
	}
	return clone.Parts, true
}

// literalStart is the literal a word begins with.
func literalStart(w *syntax.Word) string {
	if l, ok := w.Parts[0].(*syntax.Lit); ok {
		return l.Value
	}
	return ""
}

func expandBraces(parts []syntax.WordPart) [][]syntax.WordPart {
	variants := [][]syntax.WordPart{nil}
	for _, part := range parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			for i := range variants {
				variants[i] = append(variants[i][:len(variants[i]):len(variants[i])], part)
			}
			continue
		}
		if brace.Sequence {
			return nil
		}
		var choices [][]syntax.WordPart
		for _, elem := range brace.Elems {
			inner := expandBraces(elem.Parts)
			if inner == nil || len(variants)*(len(choices)+len(inner)) > maxFields {
				return nil
			}
			choices = append(choices, inner...)
		}
		var next [][]syntax.WordPart
		for _, before := range variants {
			for _, choice := range choices {
				next = append(next, append(before[:len(before):len(before)], choice...))
			}
		}
		variants = next
	}
	return variants
}
