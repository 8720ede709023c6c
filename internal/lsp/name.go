// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"slices"
	"strings"
	"unicode"

	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/tools"
)

// Words that are no names. Servers of these languages rename to anything.
var (
	reservedInPython = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
		global if import in is lambda nonlocal not or pass raise return try while with yield`)
	reservedInScript = strings.Fields(`break case catch class const continue debugger default delete do else enum export extends false finally for
		function if implements import in instanceof interface let new null package private protected public return static super switch this throw
		true try typeof var void while with yield`)
)

// checkName refuses a name that what is at a position cannot have in its language. Of other
// languages than these it is known only that a name has no blanks.
func (q *question) checkName(d *document, at protocol.Position, name string) error {
	called, reserved, more := "Python", reservedInPython, "" // more is what names may have beside letters, digits and _
	switch q.server.languageOf(d.path) {
	case "python":
	case "typescript", "typescriptreact", "javascript", "javascriptreact":
		called, reserved, more = "JavaScript and TypeScript", reservedInScript, "$"
	default:
		if strings.ContainsFunc(name, unicode.IsSpace) {
			return tools.Failf("no_name", "%.40q is no name: it has blanks in it.", name)
		}
		return nil
	}
	isPart := func(r rune) bool { return unicode.IsLetter(r) || r == '_' || strings.ContainsRune(more, r) }
	plain := name
	if more != "" && q.isPrivate(d, at) {
		plain = strings.TrimPrefix(name, "#")
	}
	if !isPart(firstRune(plain)) || strings.ContainsFunc(plain, func(r rune) bool { return !isPart(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) }) {
		return tools.Failf("no_name", "%.40q is no name of %s: one has letters, digits and %s, and does not begin with a digit.", name, called, strings.Join(strings.Split("_"+more, ""), ", "))
	}
	if !slices.Contains(reserved, name) {
		return nil
	}
	if more != "" { // a member of an object may be called so
		symbols, err := q.symbolsIn(d)
		if err != nil {
			return err
		}
		line, column := d.text.place(at, q.encoding)
		if slices.ContainsFunc(symbols, func(s Symbol) bool {
			return s.Line == line && s.Column <= column && column <= s.EndCol && slices.Contains([]string{"method", "property", "field", "enum member"}, s.Kind)
		}) {
			return nil
		}
	}
	return tools.Failf("no_name", "%s is a reserved word of %s, and no name.", name, called)
}

// isPrivate reports whether a name is one that begins with #.
func (q *question) isPrivate(d *document, at protocol.Position) bool {
	before := d.text.all[:d.text.offset(at, q.encoding)]
	before = strings.TrimRightFunc(before, isWord)
	return strings.HasSuffix(before, "#")
}
