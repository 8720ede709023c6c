// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package companion

import (
	_ "embed"
	"strings"
)

// An interpreter takes code and its name on standard input, and marks where the
// output of that code ends, on both of its streams. The name is a number nobody
// can guess, so that code does not write the mark by chance:
//
//	standard error   output  NUL name 0|1 NUL
//	standard output  output  NUL name v NUL  value  NUL name 0|1 NUL
//
// 1 says that the code failed. Who has no driver, but reads lines, is given a
// statement behind the code that writes a line with the name and 0; its streams
// are one.

//go:embed drivers/python.py
var pythonDriver string

//go:embed drivers/node.js
var nodeDriver string

//go:embed drivers/bash.sh
var bashDriver string

// A Language is what an interpreter understands.
type Language struct {
	Name    string
	Program string

	args    []string
	prelude string
	request func(name, code string) string
	mark    func(name string) string // asks for the mark again; nil where it is never lost
	status  bool                     // the value is an exit status
	lines   bool                     // it has no driver
}

// framed is the request of a driver.
func framed(name, code string) string { return name + "\x00" + code + "\x00" }

// Driven returns a language that a program with a driver of its own speaks: it
// keeps to the protocol that examples/repl.pl explains.
func Driven(name string, line []string) Language {
	return Language{Name: name, Program: line[0], args: line[1:], request: framed}
}

// MarkName is what stands for the text that ends the output in the mark of
// [Lines].
const MarkName = "{mark}"

// Lines returns a language of a program that reads lines and runs them one after
// the other. begin is what it reads first; mark has it write a line that is
// [MarkName].
func Lines(name string, line []string, begin, mark string) Language {
	l := Language{Name: name, Program: line[0], args: line[1:], lines: true}
	if begin != "" {
		l.prelude = begin + "\n"
	}
	l.request = func(name, code string) string {
		return code + "\n" + strings.ReplaceAll(mark, MarkName, name+"0") + "\n"
	}
	return l
}

// Languages returns those there are.
func (s *Set) Languages() []Language { return append(languages(), s.config.Languages...) }

// languages returns those that need no configuration.
func languages() []Language {
	mark := func(name string) string { return "__toolserver_end " + name + "\n" }
	return []Language{
		{Name: "python", Program: "python3", args: []string{"-c", pythonDriver}, request: framed},
		{Name: "node", Program: "node", args: []string{"-e", nodeDriver}, request: framed},
		{
			// An interactive shell goes on after an interrupt. What it says of that it
			// has no terminal is nobody's business.
			Name: "bash", Program: "bash",
			args:    []string{"-c", `exec {TOOLSERVER_ERR}>&2 2>/dev/null; export TOOLSERVER_ERR; exec bash --norc --noprofile --noediting +H -i`},
			prelude: bashDriver,
			request: func(name, code string) string {
				return "eval '" + strings.ReplaceAll(code, "'", `'\''`) + "' </dev/null\n" + mark(name)
			},
			mark:   mark,
			status: true,
		},
	}
}
