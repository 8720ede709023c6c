// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package programs

import "strings"

// Awk tells what a program may do besides printing; "" where it can do
// nothing. A command or a file can come into it only with the words looked for:
// a redirection or a pipe of print comes after the print.
func Awk(program string) string {
	for _, word := range []string{"system", "getline", "ARGV", "ARGC", "@", "close", "fflush", "PROCINFO", "extension"} {
		if strings.Contains(program, word) {
			return "its program has " + word + " in it"
		}
	}
	if i := strings.Index(program, "print"); i >= 0 {
		rest := strings.ReplaceAll(strings.ReplaceAll(program[i:], ">=", ""), "||", "")
		if strings.ContainsAny(rest, ">|") {
			return "its program may print into a file or a command"
		}
	}
	return ""
}

// SedStep is something that a script of sed does outside its stream.
type SedStep struct {
	Does string // read, write, run, or unsafe for what it makes of its input
	Text string // a file, or a command; "" for the line at hand
}

// Sed returns what a script of GNU sed does outside its stream, in order, and
// whether the script was understood to its end.
func Sed(script string) (steps []SedStep, ok bool) {
	r := sedReader{text: script}
	ok = r.script()
	return r.steps, ok
}

func (r *sedReader) add(does, text string) { r.steps = append(r.steps, SedStep{does, text}) }

// A sedReader reads a script of GNU sed, as far as it takes to know what it does
// outside its stream.
type sedReader struct {
	text  string
	at    int
	steps []SedStep
}

func (r *sedReader) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

func (r *sedReader) skip(chars string) {
	for r.at < len(r.text) && strings.IndexByte(chars, r.text[r.at]) >= 0 {
		r.at++
	}
}

// line returns the rest of the line and steps behind it.
func (r *sedReader) line() string {
	end := strings.IndexByte(r.text[r.at:], '\n')
	if end < 0 {
		end = len(r.text) - r.at
	}
	line := r.text[r.at : r.at+end]
	r.at += end
	return strings.TrimLeft(line, " \t")
}

// script reads commands up to the end; false where one is not understood.
func (r *sedReader) script() bool {
	for {
		r.skip(" \t\n;}")
		if r.at == len(r.text) {
			return true
		}
		if !r.addresses() || !r.command() {
			return false
		}
	}
}

// addresses reads what lines a command is for.
func (r *sedReader) addresses() bool {
	for range 2 {
		switch c := r.peek(); {
		case c >= '0' && c <= '9':
			r.skip("0123456789")
			r.skip(" \t")
			if r.peek() == '~' {
				r.at++
				r.skip("0123456789")
			}
		case c == '$':
			r.at++
		case c == '+' || c == '~':
			r.at++
			r.skip("0123456789")
		case c == '/' || c == '\\':
			if c == '\\' {
				r.at++
			}
			if r.at >= len(r.text) || !r.delimited(r.text[r.at]) {
				return false
			}
			r.skip("IM")
		}
		r.skip(" \t")
		if r.peek() != ',' {
			break
		}
		r.at++
		r.skip(" \t")
	}
	r.skip(" \t!")
	return true
}

// delimited reads a text between two delimiters, of which the first is here. In
// brackets a slash does not end it, to some versions: such a text is not
// understood.
func (r *sedReader) delimited(delimiter byte) bool {
	r.at++
	if delimiter == '\n' || delimiter == '\\' || delimiter >= 0x80 {
		return false
	}
	bracket := false
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '\\':
			r.at++
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case c == delimiter:
			r.at++
			return !bracket
		}
	}
	return false
}

// command reads one command.
func (r *sedReader) command() bool {
	c := r.peek()
	r.at++
	switch c {
	case '{', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		return true
	case 'l', 'L', 'q', 'Q':
		r.skip(" \t0123456789")
		return r.ends()
	case ':', 'b', 't', 'T':
		r.skip(" \t")
		r.skip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
		return r.ends()
	case '#':
		r.line()
		return true
	case 'a', 'i', 'c':
		return r.textBlock()
	case 'r', 'R':
		if file := r.line(); file != "-" {
			r.add("read", file)
		}
		return true
	case 'w', 'W':
		r.add("write", r.line())
		return true
	case 'e':
		r.add("run", r.line())
		return true
	case 's':
		return r.substitute()
	case 'y':
		delimiter := r.peek()
		return delimiter != 0 && r.delimited(delimiter) && r.second(delimiter) && r.ends()
	}
	return false
}

// second reads the part between the second delimiter and the third.
func (r *sedReader) second(delimiter byte) bool {
	r.at--
	return r.plainPart(delimiter)
}

// plainPart is like delimited, for a text in which brackets are not special.
func (r *sedReader) plainPart(delimiter byte) bool {
	for r.at++; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			r.at++
		case delimiter:
			r.at++
			return true
		}
	}
	return false
}

// ends reports whether a command is over here.
func (r *sedReader) ends() bool {
	r.skip(" \t")
	switch r.peek() {
	case 0, '\n', ';', '}', '#':
		return true
	}
	return false
}

func (r *sedReader) substitute() bool {
	delimiter := r.peek()
	if delimiter == 0 || !r.delimited(delimiter) || !r.second(delimiter) {
		return false
	}
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case strings.IndexByte("gpiImM0123456789", c) >= 0:
			r.at++
		case c == 'e':
			r.at++
			r.add("unsafe", "")
		case c == 'w':
			r.at++
			r.add("write", r.line())
			return true
		default:
			return r.ends()
		}
	}
	return true
}

// textBlock reads the text of a, i and c, which goes on after a backslash.
func (r *sedReader) textBlock() bool {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case '\\':
			r.at += 2
		case '\n':
			return true
		default:
			r.at++
		}
	}
	r.at = min(r.at, len(r.text))
	return true
}
