// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/output"
)

// An entry is one variable of a configuration file of git.
type entry struct {
	Key   string // section.subsection.name, in lower case but for the subsection
	Value string

	name       string // as it is spelled in the file
	start, end int    // the bytes of the file that set it, with the end of the line
	inline     bool   // it stands behind its section, on the same line
}

var errSyntax = errors.New("not a configuration file of git")

// parser reads the configuration files of git as git's config.c does, byte by
// byte: what the two read differently would be a way to hide a key.
type parser struct {
	data []byte
	at   int
	eof  bool
}

// next returns the next byte; a file ends with a line feed.
func (p *parser) next() byte {
	if p.at >= len(p.data) {
		p.eof = true
		return '\n'
	}
	c := p.data[p.at]
	p.at++
	if c == '\r' && p.at < len(p.data) && p.data[p.at] == '\n' {
		p.at++
		return '\n'
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isName(c byte) bool  { return isAlpha(c) || c >= '0' && c <= '9' || c == '-' }

// parseConfig returns the entries of a configuration file, in their order. Of
// one that git refuses it returns those before the mistake and an error.
func parseConfig(data []byte) (entries []entry, err error) {
	p := &parser{data: data}
	if rest, ok := bytes.CutPrefix(data, []byte("\xef\xbb\xbf")); ok {
		p.at = len(data) - len(rest)
	}
	section := ""
	inline := false // nothing but white space since the section
	for {
		c := p.next()
		switch {
		case c == '\n' && p.eof:
			return entries, nil
		case c == '\n':
			inline = false
		case isSpace(c):
		case c == '#' || c == ';':
			for c != '\n' {
				c = p.next()
			}
			if p.eof {
				return entries, nil
			}
			inline = false
		case c == '[':
			if section, err = p.section(); err != nil {
				return entries, err
			}
			inline = true
		case isAlpha(c):
			e := entry{start: p.at - 1, inline: inline}
			if err := p.variable(&e); err != nil {
				return entries, err
			}
			e.Key = section + strings.ToLower(e.name)
			e.end = p.at
			entries = append(entries, e)
			inline = false
		default:
			return entries, errSyntax
		}
	}
}

// section reads the name of a section behind its bracket, and returns what the
// keys in it begin with.
func (p *parser) section() (string, error) {
	var name []byte
	for {
		c := p.next()
		switch {
		case p.eof:
			return "", errSyntax
		case c == ']' && len(name) == 0:
			return "", errSyntax
		case c == ']':
			return string(name) + ".", nil
		case isSpace(c):
			return p.subsection(name, c)
		case !isName(c) && c != '.':
			return "", errSyntax
		}
		name = append(name, lower(c))
	}
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func (p *parser) subsection(name []byte, c byte) (string, error) {
	for isSpace(c) {
		if c == '\n' {
			return "", errSyntax
		}
		c = p.next()
	}
	if c != '"' {
		return "", errSyntax
	}
	name = append(name, '.')
	for {
		switch c = p.next(); c {
		case '"':
			if p.next() != ']' {
				return "", errSyntax
			}
			return string(name) + ".", nil
		case '\\':
			c = p.next()
		}
		if c == '\n' {
			return "", errSyntax
		}
		name = append(name, c)
	}
}

// variable reads a variable whose first letter was read.
func (p *parser) variable(e *entry) error {
	c := p.data[e.start]
	for isName(c) && !p.eof {
		e.name += string(rune(c))
		c = p.next()
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	switch c {
	case '\n':
		e.Value = "true" // which is what git takes a name alone for
		return nil
	case '=':
		return p.value(e)
	}
	return errSyntax
}

func (p *parser) value(e *entry) error {
	var value []byte
	quoted, comment, spaces := false, false, 0
	for {
		c := p.next()
		switch {
		case c == '\n' && quoted:
			return errSyntax
		case c == '\n':
			before, _, _ := bytes.Cut(value, []byte{0}) // git is written in C
			e.Value = string(before)
			return nil
		case comment:
			continue
		case isSpace(c) && !quoted:
			if len(value) > 0 {
				spaces++
			}
			continue
		case (c == ';' || c == '#') && !quoted:
			comment = true
			continue
		}
		for ; spaces > 0; spaces-- {
			value = append(value, ' ')
		}
		switch c {
		case '"':
			quoted = !quoted
			continue
		case '\\':
			switch c = p.next(); c {
			case '\n':
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return errSyntax
			}
		}
		value = append(value, c)
	}
}

// split returns the three parts of a key.
func (e entry) split() (section, subsection, name string) {
	section, rest, _ := strings.Cut(e.Key, ".")
	if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
		return section, rest[:dot], rest[dot+1:]
	}
	return section, "", rest
}

// shown returns the entry as a person would write it.
func (e entry) shown() string {
	key := e.Key[:len(e.Key)-len(e.name)] + e.name
	return clip(key) + " = " + clip(e.Value)
}

// clip bounds what is told of something that others wrote.
func clip(text string) string { return output.Line(text, 120) }

// quote returns a value as it can stand in a file.
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(value) + `"`
}

// surplus returns the entries of now that are not in before, each as often as it
// is one too many.
func surplus(now, before []entry) (more []entry) {
	left := make(map[[2]string]int, len(before))
	for _, e := range before {
		left[[2]string{e.Key, e.Value}]++
	}
	for _, e := range now {
		if key := [2]string{e.Key, e.Value}; left[key] > 0 {
			left[key]--
		} else {
			more = append(more, e)
		}
	}
	return more
}

// without returns a file without some of its entries. Where one of them replaced
// another with the same key, which is in old, that is there again.
func without(data []byte, drop, old []entry) []byte {
	old = slices.Clone(old)
	var out []byte
	at := 0
	for _, e := range drop {
		start := e.start
		for start > at && !e.inline && (data[start-1] == ' ' || data[start-1] == '\t') {
			start--
		}
		out = append(out, data[at:start]...)
		if i := slices.IndexFunc(old, func(o entry) bool { return o.Key == e.Key }); i >= 0 {
			out = append(out, "\t"+e.name+" = "+quote(old[i].Value)+"\n"...)
			old = slices.Delete(old, i, i+1)
		} else if e.inline {
			out = append(out, '\n')
		}
		at = e.end
	}
	return append(out, data[at:]...)
}
