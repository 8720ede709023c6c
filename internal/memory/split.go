// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"html"
	"path"
	"strings"
	"unicode/utf8"
)

// Parts of documents have about so many bytes, and never more than the second.
const (
	partBytes = 1200
	partMost  = 2000
	maxTitle  = 200 // of the headings above a part
)

// A part is a piece of a document that is found by itself.
type part struct {
	text       string
	line, last int
	heading    string // those above it, with " > " between them
}

// split takes a text apart by its structure: at headings, between blocks that blank lines
// part (in code, those that begin at the margin), and only then anywhere. What it returns is
// part of what is stored: the parts of vectors are counted by it, see packVersion.
func split(name, text string, line int) (parts []part) {
	kind := strings.ToLower(path.Ext(name))
	markdown := kind == ".md" || kind == ".markdown" || kind == ".mdx" || kind == ""
	page := kind == ".html" || kind == ".htm" || kind == ".xhtml"
	var headings []string // by their level
	var current strings.Builder
	first, now := line, line
	end := func() {
		if strings.TrimSpace(current.String()) != "" {
			parts = append(parts, part{strings.TrimRight(current.String(), "\n"), first, now - 1, titleOf(headings)})
		}
		current.Reset()
		first = now
	}
	blank, fenced := true, false
	tags := tagStripper{}
	for rest := text; rest != ""; now++ {
		var one string
		one, rest, _ = strings.Cut(rest, "\n")
		one = strings.TrimSuffix(one, "\r")
		level, title := 0, ""
		if page {
			level, title = headingOfPage(one)
			one = tags.strip(one)
		} else if markdown {
			if strings.HasPrefix(strings.TrimSpace(one), "```") {
				fenced = !fenced
			}
			if !fenced {
				level, title = headingOf(one)
			}
		}
		if level > 0 {
			end()
			headings = append(headings[:min(level-1, len(headings))], title)
		}
		margin := one != "" && one[0] != ' ' && one[0] != '\t' && one[0] != '}' && one[0] != ')'
		if n := current.Len(); n > 0 && (n+len(one) > partMost || n > partBytes/2 && n+len(one) > partBytes && blank && (margin || n > partBytes*3/2)) {
			end()
		}
		for len(one) > partMost {
			cut := partMost
			for cut > 0 && !utf8.RuneStart(one[cut]) {
				cut--
			}
			current.WriteString(one[:cut])
			now++
			end()
			now--
			first, one = now, one[cut:]
		}
		if current.Len() == 0 {
			if strings.TrimSpace(one) == "" {
				first = now + 1
				continue
			}
			first = now
		}
		current.WriteString(one)
		current.WriteByte('\n')
		blank = strings.TrimSpace(one) == ""
	}
	end()
	return parts
}

func titleOf(headings []string) string {
	var named []string
	for _, h := range headings {
		if h != "" {
			named = append(named, h)
		}
	}
	title := strings.Join(named, " > ")
	for len(title) > maxTitle {
		_, size := utf8.DecodeLastRuneInString(title[:maxTitle])
		title = title[:maxTitle-size]
	}
	return title
}

// headingOf returns the level and text of a heading of Markdown; 0: it is none.
func headingOf(line string) (level int, title string) {
	for level < len(line) && line[level] == '#' {
		level++
	}
	if level == 0 || level > 6 || level == len(line) || line[level] != ' ' {
		return 0, ""
	}
	return level, strings.TrimSpace(strings.TrimRight(line[level:], "# "))
}

// headingOfPage is headingOf for a line of HTML.
func headingOfPage(line string) (level int, title string) {
	at := strings.Index(line, "<h")
	if at < 0 || at+3 >= len(line) || line[at+2] < '1' || line[at+2] > '6' || line[at+3] != '>' && line[at+3] != ' ' {
		return 0, ""
	}
	tags := tagStripper{}
	return int(line[at+2] - '0'), strings.TrimSpace(tags.strip(line[at:]))
}

// A tagStripper takes the tags out of lines of HTML, which may go on in the next one.
type tagStripper struct{ inside bool }

func (t *tagStripper) strip(line string) string {
	if !t.inside && !strings.ContainsAny(line, "<&") {
		return line
	}
	var b strings.Builder
	for i := range len(line) {
		switch c := line[i]; {
		case t.inside:
			t.inside = c != '>'
		case c == '<' && i+1 < len(line) && (line[i+1] == '/' || line[i+1] == '!' || line[i+1]|0x20 >= 'a' && line[i+1]|0x20 <= 'z'):
			t.inside = true
		default:
			b.WriteByte(c)
		}
	}
	return html.UnescapeString(b.String())
}
