// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// subcommand follows a tool of projects: it simply runs, but for the few words
// with which it only tells, and the options that name a file or a program.
func subcommand(c *invocation, p *programs.Program) {
	if c.formatSubcommand() {
		return
	}
	words := c.words[1:]
	if len(words) > 0 && words[0].known() && programs.OnlyTells(c.base(), words[0].text) {
		c.readOnly = !slices.ContainsFunc(words[1:], func(w word) bool {
			return !w.known() || strings.HasPrefix(w.text, "-") && !programs.TellsMore(w.text)
		})
	}
	var out parsed
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.hidesOption() && len(p.Options) > 0 {
			c.doubt("a word that is not known may be an option")
		}
		if !strings.HasPrefix(w.text, "-") {
			c.toolOperand(w)
			continue
		}
		o, value, attached := toolOption(p, w)
		switch {
		case o == nil:
			c.mayTouch(w)
		case attached || o.Value != programs.NeedsValue:
			c.apply(o, value, &out)
		case i+1 < len(words):
			i++
			c.apply(o, words[i], &out)
		}
	}
	for _, o := range out.given {
		if o.Does == "source" {
			if o.value.is("-") || strings.HasPrefix(o.value.text, "/dev/") || !o.value.known() {
				c.doubt("it runs the commands of a text that is not known")
			}
			c.input(o.value, false)
		}
	}
}

// toolOption finds the option that a word is: with one dash or two, and its value
// in the word or not.
func toolOption(p *programs.Program, w word) (o *programs.Option, value word, attached bool) {
	name, text, attached := strings.Cut(strings.TrimPrefix(w.text[1:], "-"), "=")
	if o = p.Options[name]; o != nil {
		return o, word{text: text, unknown: w.unknown, glob: w.glob}, attached
	}
	if p.Attached && len(w.text) > 2 && w.text[1] != '-' {
		for end := len(w.text); end > 1; end-- {
			if o = p.Options[w.text[1:end]]; o != nil && o.Value != programs.NoValue {
				return o, word{text: w.text[end:], unknown: w.unknown, glob: w.glob}, true
			}
		}
	}
	return nil, word{}, false
}

// toolOperand follows an operand of a tool. To make, NAME=value is a variable.
func (c *invocation) toolOperand(w word) {
	name, value, ok := strings.Cut(w.text, "=")
	switch base := c.base(); {
	case strings.HasPrefix(w.text, "@") && (base == "gcc" || base == "cc" || base == "clang" || base == "g++" || base == "ld" || base == "javac" || base == "rustc"):
		c.doubt("a file that begins with @ has more words")
	case ok && (base == "make" || base == "gmake"):
		if programs.Dangerous(strings.TrimRight(name, "+:?!")) || name == ".SHELLFLAGS" || strings.ContainsAny(value, "$`!") {
			c.doubt("the variable " + clip(name) + " changes what make runs")
		}
	default:
		c.mayTouch(w)
	}
}

// mayTouch names a hidden file or directory that is among the words of a program
// nobody knows the words of: what a project keeps there is not for its tools to
// write. Other names are not worth a question.
func (c *invocation) mayTouch(w word) {
	text := w.text
	if strings.HasPrefix(text, "-") {
		_, value, attached := strings.Cut(text, "=")
		if !attached {
			value = strings.TrimLeft(text, "-")
			if value = value[min(1, len(value)):]; strings.HasPrefix(text, "--") {
				return
			}
		}
		text = value
	}
	if w.unknown || w.pipe || strings.Contains(text, "://") {
		return
	}
	if hidden(text) {
		c.writes(word{text: text, glob: w.glob}, false)
	}
}

// hidden reports whether a path leads through a name that begins with a dot.
func hidden(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(elem string) bool {
		return len(elem) > 1 && elem[0] == '.' && strings.Trim(elem, ".") != ""
	})
}
