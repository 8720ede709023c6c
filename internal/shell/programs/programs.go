// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package programs is what is known of programs: what their options and operands do,
// which variables and keys of git make them run something, and what the scripts of
// sed and awk do. It knows texts and tables; package shell follows the words of a
// command, and asks here.
package programs

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// programs.txt says what the options and operands of programs do.
//
//go:embed programs.txt
var programsText string

// All is the table of programs by name, read when it is first needed.
var All = sync.OnceValue(func() map[string]*Program { return readPrograms(programsText) })

// git.txt has a program for every subcommand of git whose options
// matter, in the format of programs.txt.
//
//go:embed git.txt
var gitText string

// Git are the subcommands of git.
var Git = sync.OnceValue(func() map[string]*Program { return readPrograms(gitText) })

// Builtins are the options of builtins that take names of variables.
var Builtins = onceTable(`
read: data
  r s e a:=name d: i: n: N: p: t: u: E
mapfile: data
  t d: n: O: s: u: C:=run c:
wait: data
  n f p:=name
unset: data
  v f=function n
`)

// wordsOf returns a list of words, made when it is first needed.
func wordsOf(text string) func() []string {
	return sync.OnceValue(func() []string { return strings.Fields(text) })
}

// A Program is what is known of the words of a program.
type Program struct {
	ReadOnly  bool   // with the options that are known and do nothing, it changes nothing
	Complete  bool   // with these options, what it touches is told in full
	AnyOption bool   // so it is with options that are not known
	Stop      bool   // options end at the first operand
	Number    bool   // -5 is an option
	Attached  bool   // -ofile is -o file, though options do not bundle
	Skip      int    // operands before the command it runs
	Operands  string // what it does with its operands: a name that handler knows
	Options   map[string]*Option
}

// An Option is what an option does. Short and long names share it.
type Option struct {
	Name  string
	Value valueKind
	Does  string // a word of doings, or one that a handler looks for
}

type valueKind int

const (
	NoValue valueKind = iota
	NeedsValue
	MayHaveValue // only in the same word
)

// readPrograms reads a table of programs; the format is told at its top. It
// panics on a mistake, which is one in this program.
func readPrograms(text string) map[string]*Program {
	table := make(map[string]*Program)
	var p *Program
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
			p = &Program{Options: make(map[string]*Option)}
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

func (p *Program) attributes(text string) {
	for attribute := range strings.FieldsSeq(text) {
		switch attribute {
		case "readonly":
			p.ReadOnly = true
		case "complete":
			p.Complete = true
		case "any":
			p.AnyOption = true
		case "stop":
			p.Stop = true
		case "number":
			p.Number = true
		case "attached":
			p.Attached = true
		default:
			if n, err := strconv.Atoi(attribute); err == nil {
				p.Skip = n
				continue
			}
			p.Operands = attribute
		}
	}
}

// option reads one token: names, then : or ? for a value, then =doing.
func (p *Program) option(token string) {
	names, does, _ := strings.Cut(token, "=")
	o := &Option{Does: does}
	switch names[len(names)-1] {
	case ':':
		o.Value = NeedsValue
	case '?':
		o.Value = MayHaveValue
	}
	names = strings.TrimRight(names, ":?")
	for name := range strings.SplitSeq(names, ",") {
		if p.Options[name] != nil {
			panic("programs.txt: option twice: " + name)
		}
		o.Name = name // the last, which is the long one
		p.Options[name] = o
	}
}

// onceTable returns a table that is read when it is first needed.
func onceTable(text string) func() map[string]*Program {
	return sync.OnceValue(func() map[string]*Program { return readPrograms(text) })
}

// Abbreviated returns the option whose beginning name is.
func (p *Program) Abbreviated(name string) *Option {
	var found *Option
	for long, o := range p.Options {
		if len(long) < 2 || !strings.HasPrefix(long, name) {
			continue
		}
		// Of several, one that does something: it is asked about anyway.
		if does := o.Does != ""; found == nil || does && found.Does == "" || does == (found.Does != "") && o.Name < found.Name {
			found = o
		}
	}
	return found
}

// InterpreterOption returns the option that decides what a word of options does,
// and whether its value is in the word.
func (p *Program) InterpreterOption(text string) (o *Option, used bool) {
	if long, ok := strings.CutPrefix(text, "--"); ok {
		name, _, attached := strings.Cut(long, "=")
		return p.Options[name], attached
	}
	for i := 1; i < len(text); i++ {
		letter := p.Options[text[i:i+1]]
		if letter == nil {
			return nil, false
		}
		if o = letter; o.Value != NoValue && o.Does != "" || o.Value == NeedsValue {
			return o, i+1 < len(text)
		}
		if o.Value == MayHaveValue {
			// -0777, -l: the rest is its value, or more options.
			if strings.ContainsAny(text[i+1:], "eE") {
				return &Option{Does: "code"}, true
			}
		}
	}
	return o, true
}

// ReadsNames reports whether a program reads all its operands, so that what they
// are is looked at, and changes nothing.
func (p *Program) ReadsNames() bool {
	return p != nil && p.ReadOnly && (p.Operands == "reads" || p.Operands == "lists" || p.Operands == "pattern")
}

// Trusted reports whether a program is the one everybody means by its name.
func Trusted(name string) bool {
	i := strings.LastIndexByte(name, '/')
	return i < 0 || slices.Contains(programDirs, name[:i])
}

// programDirs are where the programs of a system are.
var programDirs = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"}
