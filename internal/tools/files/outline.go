// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	maxOutlined = 8 << 20 // bytes of a file that is outlined
	maxEntries  = 1000    // of an outline
)

// languages are the extensions and what begins something in them.
var languages = []struct{ extensions, head string }{
	{".go", `^(?:func|type|var|const)\b`},
	{".py .pyi", `^\s*(?:async\s+def|def|class)\s+\w+`},
	{".js .jsx .mjs .cjs .ts .tsx .mts .vue .svelte", `^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\b|class\s+\w+|interface\s+\w+|enum\s+\w+|namespace\s+\w+|type\s+\w+\s*[=<])|^(?:export\s+)?const\s+\w+\s*=\s*(?:async\s*)?(?:\(|function|\w+\s*=>)|^\s{2,4}(?:static\s+|async\s+|public\s+|private\s+|protected\s+|readonly\s+)*[\w$]+\([^;]*\)\s*(?::[^;{]+)?\{\s*$`},
	{".rs", `^\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+)?(?:unsafe\s+)?(?:const\s+)?(?:fn|struct|enum|trait|impl|mod|union|macro_rules!)\b`},
	{".java .kt .kts .cs .scala .groovy .swift .dart", `^\s*(?:@\w+\s+)*(?:(?:public|private|protected|internal|static|final|abstract|sealed|open|override|async|virtual|data|inline|suspend|partial|extension|mutating)\s+)*(?:class|interface|enum|record|object|struct|protocol|trait|extension|fun|func|def)\s+\w+|^\s*(?:public|private|protected|internal)\s[^=;]*\([^;]*\)?\s*\{?\s*$`},
	{".c .h .cc .cpp .cxx .hpp .hh .m .mm", `^(?:[A-Za-z_][\w:<>,*&\s~]*\([^;]*$|(?:typedef\s+)?(?:struct|class|enum|union|namespace)\s+\w+[^;]*$|#define\s+\w+\()`},
	{".rb", `^\s*(?:def|class|module)\s+\S+`},
	{".php", `^\s*(?:(?:abstract|final|public|private|protected|static)\s+)*(?:function|class|interface|trait|enum)\s+\w+`},
	{".sh .bash .zsh", `^\s*(?:function\s+[\w-]+|[\w-]+\s*\(\)\s*\{?)`},
	{".lua", `^\s*(?:local\s+)?function\b`},
	{".ex .exs", `^\s*(?:defmodule|defp?|defmacro)\s+\S+`},
	{".hs .elm", `^\w+\s*::`},
	{".sql", `(?i)^\s*create\s+(?:or\s+replace\s+)?\w+`},
	{".proto", `^\s*(?:message|service|rpc|enum)\s+\w+`},
	{".md .markdown", `^#{1,6}\s`},
	{".css .scss .less", `^[^\s{}/][^{}]*\{\s*$`},
	{".zig", `^\s*(?:pub\s+)?(?:fn|const\s+\w+\s*=\s*(?:struct|enum|union))\b`},
	{".tf .hcl", `^\w+\s+"[^"]+"`},
}

// headOf returns what begins something in files of a name, or nil.
func headOf(name string) *regexp.Regexp {
	extension := strings.ToLower(filepath.Ext(name))
	for _, l := range languages {
		for known := range strings.FieldsSeq(l.extensions) {
			if known == extension {
				return regexp.MustCompile(l.head)
			}
		}
	}
	return nil
}

// outlineEntry is a line of an outline.
type outlineEntry struct {
	first, last int // lines; last is 0 where it is not known
	text        string
}

// outline shows what is in a file, and where.
func (r *reader) outline(ctx context.Context, view *tools.View, op readOp, room int) ([]tools.Content, any, error) {
	if headOf(op.Path) == nil && !(r.outlines.Available() && syntax.Known(op.Path)) {
		return nil, nil, tools.Failf("no_outline", "There is no outline of files like %s. Read its lines.", op.Path)
	}
	text, file, err := wholeText(view, op.Path)
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxOutlined {
		return nil, nil, tools.Failf("file_too_large", "%s is too large for an outline. Read its lines with offset and limit.", op.Path)
	}
	lines := lineCount(text)
	var b strings.Builder
	fmt.Fprintf(&b, "(%s has %s, %s. This is its outline: read a part with offset and limit, or all lines with mode lines.)\n",
		plain(op.Path), tools.Count(lines, "line", "lines"), tools.Count(len(file.Data), "byte", "bytes"))
	entries := r.entries(ctx, view, op.Path, text)
	for i, e := range entries {
		if i == maxEntries || b.Len()+len(e.text) > room-maxMark {
			fmt.Fprintf(&b, "(and %d more)\n", len(entries)-i)
			break
		}
		if e.last > e.first {
			fmt.Fprintf(&b, "%d-%d\t%s\n", e.first, e.last, e.text)
		} else {
			fmt.Fprintf(&b, "%d\t%s\n", e.first, e.text)
		}
	}
	if len(entries) == 0 {
		b.WriteString("(nothing in it looks like a declaration)\n")
	}
	details := map[string]any{"path": op.Path, "outline": true, "lines": lines, "hash": file.Hash().Short()}
	return []tools.Content{tools.Text(visible(b.String()))}, details, nil
}

// entries returns the outline of a file by its syntax or, where that cannot be known,
// by how its lines begin.
func (r *reader) entries(ctx context.Context, view *tools.View, name, text string) []outlineEntry {
	if !r.outlines.Available() || !syntax.Known(name) {
		return outlineOf(name, text)
	}
	o, err := r.outlines.Engine(view.Workspace).Outline(ctx, name, []byte(text))
	if err != nil {
		return outlineOf(name, text)
	}
	var entries []outlineEntry
	for _, s := range o.Symbols {
		entries = append(entries, outlineEntry{s.Line, s.EndLine, strings.Repeat("  ", s.Depth) + cmp.Or(s.Signature, s.Name)})
	}
	if o.Flawed { // what does not parse may have swallowed some
		if lines := outlineOf(name, text); len(lines) > len(entries) {
			return lines
		}
	}
	return entries
}

// outlineOf returns the lines of a file that begin something.
func outlineOf(name, text string) []outlineEntry {
	head := headOf(name)
	if head == nil {
		return nil
	}
	var entries []outlineEntry
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if len(line) < 1000 && head.MatchString(line) {
			shown, _ := firstRunes([]byte(strings.TrimRight(line, " \t{")), 160)
			entries = append(entries, outlineEntry{first: number, text: string(shown)})
		}
	}
	return entries
}
