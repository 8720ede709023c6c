// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"cmp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// wrap follows a program that runs the rest of its words: nice, timeout, nohup.
func wrap(c *invocation, p *programs.Program) {
	operands := c.begin(p).operands
	for range p.Skip {
		if len(operands) > 0 && operands[0].many {
			c.doubt("where its command begins is not known")
		}
		operands = operands[min(1, len(operands)):]
	}
	if len(operands) == 0 && c.base() != "nice" && c.base() != "ionice" {
		c.doubt("without a command it may start a shell")
	}
	c.starts(operands, "")
}

// starter follows a program that runs some of its words, nobody knows which: the
// first that is not an option is taken for it.
func starter(c *invocation, _ *programs.Program) {
	c.doubt("which of its words are a command is not known")
	words := c.words[1:]
	for len(words) > 0 && (!words[0].known() || strings.HasPrefix(words[0].text, "-") || isAssignment(words[0].text) || isNumber(words[0].text)) {
		words = words[1:]
	}
	c.starts(words, "which of its words are a command is not known")
	for i, w := range c.words[1:] {
		if (w.is("-c") || w.is("--command") || w.is("--run")) && i+2 < len(c.words) {
			c.script(c.words[i+2], c.fresh(nil), posix)
		}
	}
}

// env sets variables and runs the rest of its words.
func env(c *invocation, p *programs.Program) {
	c.readOnly = p.ReadOnly
	words := c.words[1:]
	s := c.s
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		if !w.known() {
			if isAssignment(w.text) && !w.many {
				c.sets(w)
				continue
			}
			c.doubt("a word that is not known may be an option")
			words = append([]word{w}, words...)
			break
		}
		name, value, attached := strings.Cut(w.text, "=")
		switch {
		case isAssignment(w.text), !strings.HasPrefix(name, "-") && attached:
			c.sets(w)
			continue
		case w.text == "-" || w.text == "-i" || w.text == "--ignore-environment" || w.text == "-0" || w.text == "--null" ||
			w.text == "-v" || w.text == "--debug" || w.text == "--list-signal-handling" || w.text == "-iv" || w.text == "-vi" || w.text == "--version" || w.text == "--help":
			continue
		case w.text == "-u" || w.text == "--unset":
			words = words[min(1, len(words)):]
			continue
		case strings.HasPrefix(w.text, "-u"), name == "--unset" && attached:
			continue
		case strings.HasPrefix(w.text, "--") && strings.HasSuffix(name, "-signal"):
			continue
		case w.text == "-C" || w.text == "--chdir" || name == "--chdir" || strings.HasPrefix(w.text, "-C"):
			dir := lit(value)
			if rest, ok := strings.CutPrefix(w.text, "-C"); ok {
				dir = lit(rest)
			}
			if dir.text == "" && len(words) > 0 {
				dir, words = words[0], words[1:]
			}
			s = s.fork()
			s.dirs = c.entered(dir)
			continue
		case w.text == "-S" || w.text == "-vS" || w.text == "-iS" || w.text == "--split-string" || name == "--split-string" || strings.HasPrefix(w.text, "-S"):
			text := lit(value)
			if rest, ok := strings.CutPrefix(w.text, "-S"); ok {
				text = lit(rest)
			}
			if text.text == "" && len(words) > 0 {
				text, words = words[0], words[1:]
			}
			words = append(c.splitString(text), words...)
			continue
		case w.text == "--":
		case strings.HasPrefix(w.text, "-"):
			c.doubt("what the option " + clip(w.text) + " does is not known")
			continue
		default:
			words = append([]word{w}, words...)
		}
		break
	}
	for len(words) > 0 && isAssignment(words[0].text) {
		c.sets(words[0])
		words = words[1:]
	}
	if len(words) == 0 {
		c.readOnly = false // it shows the environment, which may hold secrets
		return
	}
	c.a.run(words, s.fork(), "", asProgram)
}

// sets follows a word NAME=value that becomes part of the environment.
func (c *invocation) sets(w word) {
	name, value, _ := strings.Cut(w.text, "=")
	if why := danger(name, word{text: value, unknown: w.unknown}); why != "" {
		c.doubt(why)
	}
}

// splitString makes words of the text of env -S.
func (c *invocation) splitString(text word) []word {
	if !text.known() {
		c.doubt("it splits a text that is not known")
		return nil
	}
	if strings.ContainsAny(text.text, `\'"$#`) {
		c.doubt("it splits a text with quotes in it")
		return lits(strings.FieldsFunc(text.text, func(r rune) bool { return strings.ContainsRune(" \t\n\\'\"", r) }))
	}
	return lits(strings.Fields(text.text))
}

// sudo runs the rest of its words as somebody else.
func sudo(c *invocation, p *programs.Program) {
	words := c.parse(&programs.Program{Stop: true, Options: p.Options}, c.words[1:])
	operands := words.operands
	for len(operands) > 0 && isAssignment(operands[0].text) {
		c.sets(operands[0])
		operands = operands[1:]
	}
	s := c.s.fork()
	if dir, ok := words.has("directory"); ok {
		s.dirs = c.entered(dir)
	}
	if words.flag("shell") {
		c.doubt("it starts a shell")
		s.dirs = nil
	}
	if len(operands) > 0 {
		c.a.run(operands, s, "", asProgram)
	}
}

// su runs a text as somebody else, with the start-up files of theirs.
func su(c *invocation, p *programs.Program) {
	words := c.begin(p)
	c.doubt("it starts a shell of another user")
	if text, ok := words.has("script"); ok {
		c.script(text, c.fresh(nil), posix)
	}
}

// script runs a text, and writes down what it prints.
func script(c *invocation, p *programs.Program) {
	words := c.begin(p)
	if text, ok := words.has("script"); ok {
		c.script(text, c.fresh(nil), posix)
	} else {
		c.doubt("it starts a shell")
	}
	file := lit("typescript")
	if len(words.operands) > 0 {
		file = words.operands[0]
	}
	c.writes(file, false)
}

// flock makes a lock of a file, and runs the rest of its words or a text.
func flock(c *invocation, p *programs.Program) {
	words := c.begin(p)
	if len(words.operands) == 0 {
		return
	}
	if lock := words.operands[0]; !lock.known() || !isNumber(lock.text) {
		c.writes(lock, false)
	}
	rest := words.operands[1:]
	if text, ok := words.has("script"); ok {
		c.script(text, c.fresh(nil), posix)
	} else if len(rest) > 1 && (rest[0].is("-c") || rest[0].is("--command")) {
		c.script(rest[1], c.fresh(nil), posix)
	} else {
		c.starts(rest, "")
	}
}

// watch runs a text again and again.
func watch(c *invocation, p *programs.Program) {
	words := c.begin(p)
	if words.flag("exec") {
		c.starts(words.operands, "")
		return
	}
	c.script(sentence(words.operands), c.fresh(nil), posix)
}

// xargs runs its words with more words, which it reads.
func xargs(c *invocation, p *programs.Program) {
	words := c.begin(p)
	for _, o := range words.given {
		if o.Does == "variable" {
			c.sets(word{text: o.value.text + "=", unknown: true})
		}
	}
	command := words.operands
	if len(command) == 0 {
		return // it prints
	}
	mark, replaces := words.has("replace")
	why := "its words come from standard input"
	var reader *programs.Program
	if command[0].known() {
		reader = programs.All()[base(command[0].text)]
	}
	if names := c.namesRead(words); names != nil && reader.ReadsNames() && (!replaces || mark.text == "" || mark.known()) {
		for _, w := range names {
			if replaces {
				w.many = false
				c.starts(replaced(command, cmp.Or(mark.text, "{}"), w), "")
			} else {
				c.starts(append(slices.Clone(command), w), "")
			}
		}
		return
	}
	if reader != nil && reader.ReadOnly && reader.AnyOption {
		why = "" // whatever the words are, it reads
	}
	if !replaces {
		c.starts(append(slices.Clone(command), anything), why)
		return
	}
	if mark.text == "" {
		mark = lit("{}")
	}
	if !mark.known() {
		c.starts([]word{anything}, why)
		return
	}
	c.starts(replaced(command, mark.text, word{unknown: true}), why)
}

// wholeOptions are the options of xargs that leave the words it reads as they are.
var wholeOptions = []string{"null", "no-run-if-empty", "max-args", "max-procs", "verbose", "exit", "I", "replace"}

// namesRead returns the words that xargs reads where they are names of find; nil
// where they are anything else.
func (c *invocation) namesRead(words parsed) []word {
	names := c.s.stdin.found
	other := func(o given) bool { return !slices.Contains(wholeOptions, o.Name) }
	null := slices.ContainsFunc(words.given, func(o given) bool { return o.Name == "null" })
	switch {
	case names == nil || null != names.null || slices.ContainsFunc(words.given, other):
		return nil
	case null:
		return names.names
	}
	return cut(names)
}

// applet is a program that is many programs.
func applet(c *invocation, _ *programs.Program) {
	words := c.words[1:]
	if len(words) > 0 && strings.HasPrefix(words[0].text, "--") {
		c.doubt("what the option " + clip(words[0].text) + " does is not known")
		return
	}
	c.starts(words, "")
}
