// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// programs.txt says what the options and operands of programs do.
//
//go:embed programs.txt
var programsText string

// programs is the table of programs by name, read when it is first needed.
var programs = sync.OnceValue(func() map[string]*program { return readPrograms(programsText) })

// wordsOf returns a list of words, made when it is first needed.
func wordsOf(text string) func() []string {
	return sync.OnceValue(func() []string { return strings.Fields(text) })
}

// A program is what is known of the words of a program.
type program struct {
	readOnly  bool   // with the options that are known and do nothing, it changes nothing
	told      bool   // with these options, what it touches is told in full
	anyOption bool   // so it is with options that are not known
	stop      bool   // options end at the first operand
	number    bool   // -5 is an option
	attached  bool   // -ofile is -o file, though options do not bundle
	skip      int    // operands before the command it runs
	operands  string // what it does with its operands: a name that handler knows
	options   map[string]*option
}

// An option is what an option does. Short and long names share it.
type option struct {
	name  string
	value valueKind
	does  string // a word of doings, or one that a handler looks for
}

type valueKind int

const (
	noValue valueKind = iota
	needsValue
	mayHaveValue // only in the same word
)

// runsCommand is what wrappers do with their operands.
const runsCommand = "command"

// readPrograms reads a table of programs; the format is told at its top. It
// panics on a mistake, which is one in this program.
func readPrograms(text string) map[string]*program {
	table := make(map[string]*program)
	var p *program
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if line[0] != ' ' {
			names, attributes, ok := strings.Cut(line, ":")
			if !ok {
				panic("programs.txt: no colon in " + line)
			}
			p = &program{options: make(map[string]*option)}
			p.attributes(attributes)
			for name := range strings.SplitSeq(names, ",") {
				if table[name] != nil {
					panic("programs.txt: twice: " + name)
				}
				table[name] = p
			}
			continue
		}
		for token := range strings.FieldsSeq(line) {
			p.option(token)
		}
	}
	return table
}

func (p *program) attributes(text string) {
	for attribute := range strings.FieldsSeq(text) {
		switch attribute {
		case "readonly":
			p.readOnly = true
		case "told":
			p.told = true
		case "any":
			p.anyOption = true
		case "stop":
			p.stop = true
		case "number":
			p.number = true
		case "attached":
			p.attached = true
		default:
			if n, err := strconv.Atoi(attribute); err == nil {
				p.skip = n
				continue
			}
			p.operands = attribute
		}
	}
}

// option reads one token: names, then : or ? for a value, then =doing.
func (p *program) option(token string) {
	names, does, _ := strings.Cut(token, "=")
	o := &option{does: does}
	switch names[len(names)-1] {
	case ':':
		o.value = needsValue
	case '?':
		o.value = mayHaveValue
	}
	names = strings.TrimRight(names, ":?")
	for name := range strings.SplitSeq(names, ",") {
		if p.options[name] != nil {
			panic("programs.txt: option twice: " + name)
		}
		o.name = name // the last, which is the long one
		p.options[name] = o
	}
}

// onceTable returns a table that is read when it is first needed.
func onceTable(text string) func() map[string]*program {
	return sync.OnceValue(func() map[string]*program { return readPrograms(text) })
}
