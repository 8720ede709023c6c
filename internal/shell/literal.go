// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolserver/toolserver/internal/tools"
)

// LiteralCommands returns the words of every simple command of a script for /bin/sh, as
// they are written: a word that is expanded is [tools.UnknownWord]. It is for what an
// operator wrote, of which nobody wants to know what it would do.
func LiteralCommands(script, name string) (commands [][]string, err error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(script), name)
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			var words []string
			for _, word := range call.Args {
				words = append(words, written(word.Parts))
			}
			commands = append(commands, words)
		}
		return true
	})
	return commands, nil
}

// written returns what the parts of a word say without being expanded, or
// [tools.UnknownWord].
func written(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(part.Value)
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			b.WriteString(written(part.Parts))
		default:
			return tools.UnknownWord
		}
	}
	return b.String()
}
