// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// parsed are the words of a call, taken apart as getopt_long does.
type parsed struct {
	given    []given
	operands []word
	behind   int // how many of the operands, the last ones, are behind --
}

// around returns the operands before -- and behind it.
func (p parsed) around() (before, behind []word) {
	n := len(p.operands) - p.behind
	return p.operands[:n:n], p.operands[n:]
}

// given is an option as it was given.
type given struct {
	*programs.Option
	value  word
	behind int // as many operands
}

// has returns the value of the last option that does something.
func (p parsed) has(does string) (word, bool) {
	for i := len(p.given) - 1; i >= 0; i-- {
		if p.given[i].Does == does {
			return p.given[i].value, true
		}
	}
	return word{}, false
}

// flag reports whether an option that does something was given.
func (p parsed) flag(does string) bool {
	_, ok := p.has(does)
	return ok
}

// parse takes words apart by the options of p, without the program's name. What
// is not known makes the call unclear, unless no option could do harm.
func (c *invocation) parse(p *programs.Program, words []word) parsed {
	var out parsed
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.is("--") {
			out.operands = append(out.operands, words[i+1:]...)
			out.behind = len(words) - i - 1
			return out
		}
		isOption := !w.pipe && !w.number && len(w.text) > 1 && w.text[0] == '-'
		if !isOption || w.many {
			c.mayHide(p, w)
		}
		switch {
		case !isOption:
			out.operands = append(out.operands, w)
			if p.Stop {
				out.operands = append(out.operands, words[i+1:]...)
				return out
			}
		case strings.HasPrefix(w.text, "--"):
			i += c.long(p, w, words[i+1:], &out)
		case p.Number && isNumber(w.text):
		default:
			i += c.short(p, w, words[i+1:], &out)
		}
	}
	return out
}

// long takes one --option, and returns how many further words it used.
func (c *invocation) long(p *programs.Program, w word, rest []word, out *parsed) int {
	name, value, attached := strings.Cut(w.text[2:], "=")
	o := p.Options[name]
	if o == nil || len(name) == 1 {
		if o = p.Abbreviated(name); o == nil || !p.AnyOption {
			c.unknownOption(p, "--"+name)
		}
		if o == nil {
			return 0
		}
	}
	switch {
	case attached:
		c.apply(o, word{text: value, unknown: w.unknown, glob: w.glob}, out)
	case !w.known() && !p.AnyOption:
		c.unknownOption(p, "--"+name+"…")
	case o.Value != programs.NeedsValue:
		c.apply(o, word{}, out)
	case len(rest) == 0:
	default:
		c.takeNext(p, o, rest[0], out)
		return 1
	}
	return 0
}

// takeNext gives an option the next word as its value. Where that is several
// words, the others are operands.
func (c *invocation) takeNext(p *programs.Program, o *programs.Option, w word, out *parsed) {
	c.apply(o, w, out)
	if w.many {
		c.mayHide(p, w)
		out.operands = append(out.operands, w)
	}
}

// mayHide doubts a word that could be an option.
func (c *invocation) mayHide(p *programs.Program, w word) {
	if w.hidesOption() && !p.AnyOption {
		c.doubt("a word that is not known may be an option")
	}
}

// short takes a word of one or more one-letter options, and returns how many
// further words it used.
func (c *invocation) short(p *programs.Program, w word, rest []word, out *parsed) int {
	letters := w.text[1:]
	for i := 0; i < len(letters); i++ {
		o := p.Options[letters[i:i+1]]
		if o == nil {
			c.unknownOption(p, "-"+letters[i:i+1])
			continue
		}
		value := word{text: letters[i+1:], unknown: w.unknown, glob: w.glob}
		attached := value.text != "" || w.unknown
		switch {
		case o.Value == programs.NoValue:
			c.apply(o, word{}, out)
			continue
		case attached || o.Value == programs.MayHaveValue:
			c.apply(o, value, out)
		case len(rest) > 0:
			c.takeNext(p, o, rest[0], out)
			return 1
		}
		return 0
	}
	if w.unknown && !p.AnyOption {
		c.unknownOption(p, w.text+"…")
	}
	return 0
}

func (c *invocation) unknownOption(p *programs.Program, name string) {
	if !p.AnyOption {
		c.doubt("what the option " + clip(name) + " does is not known")
	}
}

// apply notes an option and what it does by itself.
func (c *invocation) apply(o *programs.Option, value word, out *parsed) {
	out.given = append(out.given, given{o, value, len(out.operands)})
	switch o.Does {
	case "read", "patternfile":
		if !value.is("-") {
			c.reads(value, false)
		}
	case "tree":
		c.reads(value, true)
	case "names":
		c.doubt("a list names the files it reads")
	case "in":
		away := func(dir string) bool { return !filepath.IsLocal(dir) || hidden(dir) }
		if at := c.entered(value); len(at) > 0 && !slices.ContainsFunc(at, away) {
			c.readOnly = false
			c.reads(value, true)
			return
		}
		fallthrough
	case "below":
		c.readOnly = false
		c.writes(value, false)
		c.writes(beneath(value), false)
	case "write":
		c.readOnly = false
		if !value.is("-") {
			c.writes(value, false)
		}
	case "run":
		c.doubt("the option " + dashed(o.Name) + " runs a program")
		if value.known() {
			c.a.add(guess(value.text, "the option "+dashed(o.Name)+" runs it")[1:]...)
		}
	case "unsafe":
		c.doubt("the option " + dashed(o.Name) + " can change or run anything")
	case "changes":
		c.readOnly, c.complete = false, false
	}
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
