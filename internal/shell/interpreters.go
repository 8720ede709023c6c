// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
	"github.com/toolserver/toolserver/internal/tools"
)

// plainShell are the long options of bash that change nothing of what a script
// means.
var plainShell = []string{"--norc", "--noprofile", "--noediting", "--verbose"}

// shell follows bash, sh and their kind: a text with -c, standard input, or a
// file.
func shell(c *invocation, _ *programs.Program) {
	words := c.words[1:]
	d := posix
	if c.base() == "bash" {
		d = bash
	}
	takesText := false
	for len(words) > 0 && (words[0].hidesOption() || words[0].known() && len(words[0].text) > 1 && strings.ContainsRune("-+", rune(words[0].text[0]))) {
		w := words[0]
		words = words[1:]
		switch {
		case !w.known():
			c.doubt("a word that is not known may be an option")
			return
		case w.text == "--":
		case w.text == "--version" || w.text == "--help":
			c.readOnly = true
			return
		case w.text == "--posix":
			d = posix
			continue
		case strings.HasPrefix(w.text, "--"):
			if !slices.Contains(plainShell, w.text) {
				c.doubt("what the option " + clip(w.text) + " does is not known")
				if w.text == "--rcfile" || w.text == "--init-file" {
					words = words[min(1, len(words)):]
				}
			}
			continue
		default:
			words, takesText = c.shellFlags(w.text, words, takesText)
			continue
		}
		break
	}
	switch {
	case takesText && len(words) == 0:
		c.doubt("it runs a text that is not given")
	case takesText:
		params := words[1:]
		if words[0].many {
			c.doubt("which word is its text is not known")
		}
		if len(params) > 0 {
			params = params[1:] // the first is $0
		}
		c.script(words[0], c.fresh(params), d)
		c.readOnly = c.unclear == ""
	case len(words) > 0 && !words[0].is("-s"):
		c.doubt("it runs the commands of a file")
		c.reads(words[0], false)
	case c.s.stdin.known:
		c.script(lit(c.s.stdin.text), c.fresh(nil), d)
		if strings.Contains(strings.TrimSpace(c.s.stdin.text), "\n") {
			c.doubt("a command in it may read the lines behind it")
		}
		c.readOnly = c.unclear == ""
	default:
		c.doubt("it runs the commands it reads from standard input")
	}
}

// shellFlags follows a word of one-letter options of a shell.
func (c *invocation) shellFlags(text string, words []word, takesText bool) ([]word, bool) {
	for _, letter := range text[1:] {
		switch {
		case letter == 'c' && text[0] == '-':
			takesText = true
		case strings.ContainsRune(setLetters, letter), letter == 's', letter == 'p':
		case letter == 'l' || letter == 'i':
			c.doubt("it runs start-up files")
		case letter == 'o' || letter == 'O':
			if len(words) > 0 {
				if !slices.Contains(setNames, words[0].arg()) && !slices.Contains(shopts, words[0].arg()) {
					c.doubt("what the option " + clip(words[0].text) + " does is not known")
				}
				words = words[1:]
			}
		default:
			c.doubt("what the option -" + string(letter) + " does is not known")
		}
	}
	return words, takesText
}

// otherShell is a shell with a language of its own, or start-up files it always
// runs.
func otherShell(c *invocation, _ *programs.Program) {
	c.doubt("it is a shell that is not followed")
	for i, w := range c.words[1:] {
		if w.known() && strings.HasPrefix(w.text, "-") && strings.HasSuffix(w.text, "c") && i+2 < len(c.words) && c.words[i+2].known() {
			c.a.add(guess(c.words[i+2].text, "it is in a text for another shell")[1:]...)
		}
	}
}

// puzzlingModules are modules of python that take code or names of files to write.
var puzzlingModules = []string{"timeit", "code", "zipfile", "tarfile", "pdb", "profile", "cProfile", "trace", "runpy", "sqlite3", "idlelib", "zipapp", "gzip"}

// interpreter runs code in another language: given as a word, from standard
// input, or from a file, which is like any program.
func interpreter(c *invocation, p *programs.Program) {
	const code = "it runs code in another language"
	words := c.words[1:]
	for i, w := range words {
		if w.hidesOption() {
			c.doubt("a word that is not known may be an option")
			return
		}
		if !w.known() || !strings.HasPrefix(w.text, "-") {
			if w.text == "eval" || w.text == "repl" { // of deno, bun
				c.doubt(code)
			}
			return // a file and its words
		}
		if w.text == "-" {
			break
		}
		if w.text == "--version" || w.text == "-V" && c.base() != "perl" || w.text == "-v" && len(words) == 1 {
			c.readOnly = len(words) == 1
			return
		}
		o, used := p.InterpreterOption(w.text)
		switch {
		case o == nil:
			// Not known: something of the runtime, unless its letters hide code.
			if !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "eEcr") {
				c.doubt(code)
				return
			}
		case o.Does == "code":
			c.doubt(code)
			return
		case o.Does == "inplace":
			c.doubt("it changes files in place")
			return
		case o.Does == "module":
			module := w.text[strings.IndexByte(w.text, 'm')+1:]
			if module == "" && i+1 < len(words) {
				module = words[i+1].arg()
			}
			if slices.Contains(puzzlingModules, module) || module == tools.UnknownWord {
				c.doubt("the module " + clip(module) + " runs code or writes what it is told")
			}
			return
		case o.Does == "script":
			return
		case o.Value == programs.NeedsValue && !used && i+1 < len(words):
			// The value is the next word; taking it for a file would end the
			// search, so the rest is looked at as options too.
			if slices.ContainsFunc(words[i+2:], func(w word) bool { return isCode(p, w) }) {
				c.doubt(code)
				return
			}
			if i+2 >= len(words) {
				c.doubt(code + " that it reads from standard input")
			}
			return
		}
	}
	c.doubt(code + " that it reads from standard input")
}

// isCode reports whether a word may be an option that brings code.
func isCode(p *programs.Program, w word) bool {
	if !w.known() {
		return w.hidesOption()
	}
	if !strings.HasPrefix(w.text, "-") || len(w.text) < 2 {
		return false
	}
	o, _ := p.InterpreterOption(w.text)
	return o != nil && o.Does == "code"
}

// languageByItself is a program that takes commands in a language of its own.
func languageByItself(c *invocation, _ *programs.Program) {
	c.doubt("it runs commands in a language of its own")
}
