// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// readStrings reads files, and lists of more words.
func readStrings(c *invocation, p *programs.Program) {
	for _, w := range c.begin(p).operands {
		if strings.HasPrefix(w.text, "@") {
			c.doubt("a file that begins with @ has more words")
		}
		c.input(w, false)
	}
}

// diff follows links in the trees it compares, unless it is told not to.
func diff(c *invocation, p *programs.Program) {
	words := c.begin(p)
	if words.flag("recursive") && !words.flag("unlinked") {
		c.doubt("it follows links, wherever they lead")
	}
	for _, w := range words.operands {
		c.input(w, true) // of two directories it compares what is in them
	}
}

// ps shows the environment of programs where it is asked to: a word of letters
// without a dash that has an e.
func ps(c *invocation, p *programs.Program) {
	for _, w := range c.begin(p).operands {
		if !w.known() || strings.ContainsAny(w.text, "eE") {
			c.readOnly, c.complete = false, false
		}
	}
}

// xxdOptions are the options of xxd, which takes no two in one word, with how
// many words they take.
var xxdOptions = map[string]int{
	"a": 0, "autoskip": 0, "b": 0, "bits": 0, "c": 1, "cols": 1, "C": 0, "capitalize": 0, "d": 0, "E": 0, "EBCDIC": 0, "e": 0,
	"g": 1, "groupsize": 1, "h": 0, "help": 0, "i": 0, "include": 0, "l": 1, "len": 1, "n": 1, "name": 1, "o": 1, "p": 0, "ps": 0,
	"plain": 0, "postscript": 0, "r": 0, "revert": 0, "R": 1, "s": 1, "seek": 1, "u": 0, "uppercase": 0, "v": 0, "version": 0,
}

// xxd reads its first operand and writes its second.
func xxd(c *invocation, _ *programs.Program) {
	c.readOnly = true
	operands := 0
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		name := strings.TrimPrefix(strings.TrimPrefix(w.text, "-"), "-")
		n, listed := xxdOptions[name]
		switch {
		case w.hidesOption():
			c.doubt("a word that is not known may be an option")
		case !w.known() || len(w.text) < 2 || w.text[0] != '-':
			if operands++; operands == 1 {
				c.input(w, false)
			}
			if operands > 1 || w.many {
				c.readOnly = false
				c.writes(w, false)
			}
		case listed:
			if i += n; n > 0 && i < len(c.words) && c.words[i].many {
				c.doubt("which of its words are files is not known")
			}
		case len(name) > 1 && strings.Contains("cglos", name[:1]) && strings.Trim(name[1:], "0123456789abcdefx") == "":
		default:
			c.doubt("what the option " + clip(w.text) + " does is not known")
		}
	}
}

// compress puts a file in the place of another, whose name begins like it.
func compress(c *invocation, p *programs.Program) {
	words := c.begin(p)
	suffix, given := words.has("suffix")
	unpacks := words.flag("unpacks") || strings.Contains(c.base(), "un") || c.base() == "lz4" // of a name that ends so
	if unpacks && words.flag("named") && !words.flag("stdout") {
		c.doubt("the archive names the file it writes")
	}
	if unpacks && suffix.unknown {
		c.doubt("what it takes away from a name is not known")
	}
	for _, w := range words.operands {
		if words.flag("stdout") {
			c.input(w, words.flag("recursive"))
			continue
		}
		c.input(w, words.flag("recursive")) // it is there under another name then
		c.writes(w, words.flag("recursive"))
		if !w.known() {
			continue
		}
		stem := w
		name := w.text[strings.LastIndexByte(w.text, '/')+1:]
		if i := strings.LastIndexAny(name, ".-_"); i > 0 && (name[i] == '.' || slices.Contains(gzipEnds, strings.ToLower(name[i:]))) {
			stem.text = strings.TrimSuffix(w.text, name[i:])
		}
		c.writes(joined(stem, word{text: "*", glob: true}), false)
		if unpacks {
			c.writes(stem, false)
		}
		switch n := len(suffix.text); {
		case given && !unpacks:
			c.writes(joined(w, suffix), false)
		case given && n < len(name):
			c.writes(lit(w.text[:len(w.text)-n]), false)
		}
	}
}

// gzipEnds are what gunzip takes away from a name beside what begins with a dot.
var gzipEnds = []string{"-gz", "-z", "_z"}

// jq takes a program and then files; some options take two words.
func jq(c *invocation, p *programs.Program) {
	c.readOnly = p.ReadOnly
	var words []word
	for i := 1; i < len(c.words); i++ {
		o := p.Options[strings.TrimLeft(c.words[i].text, "-")]
		if c.words[i].known() && o != nil && (o.Does == "two" || o.Does == "twofiles") && i+2 < len(c.words) {
			if o.Does == "twofiles" {
				c.reads(c.words[i+2], false)
			}
			i += 2
			continue
		}
		words = append(words, c.words[i])
	}
	out := c.parse(p, words)
	files := out.operands
	if !out.flag("patternfile") && len(files) > 0 {
		if !files[0].known() || strings.Contains(files[0].text, "import") || strings.Contains(files[0].text, "include") {
			c.doubt("its program may read other files")
		}
		if strings.Contains(files[0].text, "env") || strings.Contains(files[0].text, "ENV") {
			c.readOnly, c.complete = false, false // it shows the environment
		}
		files = files[1:]
	}
	for _, w := range files {
		c.reads(w, false)
	}
}
