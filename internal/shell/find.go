// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// findTests are the tests and actions of find that only look, with how many
// words they take.
var findTests = sync.OnceValue(func() map[string]int {
	return map[string]int{
		"-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-iwholename": 1, "-regex": 1, "-iregex": 1, "-regextype": 1,
		"-type": 1, "-xtype": 1, "-size": 1, "-mtime": 1, "-atime": 1, "-ctime": 1, "-mmin": 1, "-amin": 1, "-cmin": 1,
		"-perm": 1, "-user": 1, "-group": 1, "-uid": 1, "-gid": 1, "-links": 1, "-inum": 1, "-lname": 1, "-ilname": 1,
		"-maxdepth": 1, "-mindepth": 1, "-fstype": 1, "-used": 1, "-printf": 1, "-context": 1,
		"-newermt": 1, "-newerat": 1, "-newerct": 1, "-newerBt": 1,
		"-empty": 0, "-readable": 0, "-writable": 0, "-executable": 0, "-nouser": 0, "-nogroup": 0, "-true": 0, "-false": 0,
		"-print": 0, "-print0": 0, "-ls": 0, "-prune": 0, "-quit": 0, "-depth": 0, "-d": 0, "-mount": 0, "-xdev": 0, "-daystart": 0,
		"-follow": 0, "-noleaf": 0, "-ignore_readdir_race": 0, "-noignore_readdir_race": 0, "-warn": 0, "-nowarn": 0,
		"-not": 0, "-and": 0, "-or": 0, "-a": 0, "-o": 0, "!": 0, "(": 0, ")": 0, ",": 0, "-help": 0, "--help": 0, "-version": 0, "--version": 0,
	}
})

// findFiles are tests of find that look at another file.
var findFiles = map[string]bool{"-newer": true, "-anewer": true, "-cnewer": true, "-samefile": true, "-newermm": true, "-newerma": true}

// find walks trees, and runs, deletes and writes what its expression says.
func find(c *invocation, p *programs.Program) {
	c.readOnly, c.complete = p.ReadOnly, p.ReadOnly
	words := c.words[1:]
	follows := func(w word) bool { return w.is("-L") || w.is("-follow") }
	if slices.ContainsFunc(words, follows) {
		c.doubt("it follows links, wherever they lead")
	}
	for len(words) > 0 && words[0].known() && (words[0].text == "-H" || words[0].text == "-L" || words[0].text == "-P" || strings.HasPrefix(words[0].text, "-O")) {
		words = words[1:]
	}
	var roots []word
	for len(words) > 0 && !startsExpression(words[0]) {
		if words[0].many && !words[0].glob {
			c.doubt("a word that is not known may be an action")
		}
		roots = append(roots, words[0])
		words = words[1:]
	}
	if len(roots) == 0 {
		roots = []word{here}
	}
	for _, root := range roots {
		c.reads(root, true)
	}
	x := &expression{roots: roots}
	for len(words) > 0 {
		rest := c.findAction(words, x)
		x.take(words[:len(words)-len(rest)])
		words = rest
	}
	c.a.printed = x.printed(placesOf(c.s))
	if c.unclear != "" || !c.readOnly {
		c.a.printed = nil
	}
}

func startsExpression(w word) bool {
	return w.hidesOption() || w.known() && (len(w.text) > 1 && w.text[0] == '-' || w.text == "!" || w.text == "(")
}

// findAction takes one test or action from words and returns the rest.
func (c *invocation) findAction(words []word, x *expression) []word {
	w, rest := words[0], words[1:]
	if !w.known() {
		c.doubt("a word that is not known may be an action")
		return rest
	}
	if n, ok := findTests()[w.text]; ok {
		n = min(n, len(rest))
		for _, value := range rest[:n] {
			if value.many {
				c.doubt("a word that is not known may be an action")
			}
		}
		return rest[n:]
	}
	switch {
	case findFiles[w.text] && len(rest) > 0:
		c.reads(rest[0], false)
		return rest[1:]
	case w.text == "-delete":
		c.readOnly = false
		name := x.name
		if x.lost {
			name = ""
		}
		for _, root := range x.roots {
			for _, w := range below(root, name) {
				c.writes(w, false)
			}
		}
		for _, w := range x.nearest() {
			c.writes(w, false)
		}
		return rest
	case strings.HasPrefix(w.text, "-fprint") || w.text == "-fls":
		c.readOnly = false
		if len(rest) > 0 {
			c.writes(rest[0], false)
			rest = rest[1:]
		}
		if w.text == "-fprintf" && len(rest) > 0 {
			rest = rest[1:]
		}
		return rest
	case w.text == "-files0-from" && len(rest) > 0:
		c.reads(rest[0], false)
		c.doubt("a file says where find looks")
		return rest[1:]
	case w.text == "-exec" || w.text == "-execdir" || w.text == "-ok" || w.text == "-okdir":
		n := 0
		for n < len(rest) && !rest[n].is(";") && !(rest[n].is("+") && n > 0 && rest[n-1].is("{}")) {
			n++
		}
		c.findExec(rest[:n], x, strings.HasSuffix(w.text, "dir"))
		return rest[min(n+1, len(rest)):]
	}
	c.doubt("what " + clip(w.text) + " does is not known")
	return rest
}

// findExec follows a command that find runs with the files it finds.
func (c *invocation) findExec(words []word, x *expression, inDir bool) {
	if len(words) == 0 {
		return // find says that it misses them
	}
	s := c.s.fork()
	if inDir {
		s.dirs = nil
	}
	if len(x.roots) > maxRoots {
		x = &expression{roots: []word{{unknown: true}}}
	}
	name := x.name
	if !words[0].known() || !programs.All()[base(words[0].text)].ReadsNames() {
		name = "" // what is not there may be made
	}
	for _, root := range x.roots {
		found := below(root, name)
		if root.known() && strings.HasPrefix(root.text, "-") || inDir {
			found = []word{{unknown: true, text: "./"}}
		}
		for _, w := range found {
			c.a.run(replaced(words, "{}", w), s.fork(), "", asProgram)
		}
	}
	if name == "" {
		for _, w := range x.nearest() { // so that what is protected is not only asked about
			c.a.run(replaced(words, "{}", w), s.fork(), "", asProgram)
		}
	}
}

// replaced puts a word in the place of every mark in words.
func replaced(words []word, mark string, by word) []word {
	out := make([]word, len(words))
	for i, w := range words {
		out[i] = w
		if !w.known() || mark == "" {
			continue
		}
		if before, after, ok := strings.Cut(w.text, mark); ok {
			out[i] = joined(joined(lit(before), by), lit(after))
			deeper := by.glob && after != "" && after[0] != '/' // which no pattern says of names at any depth
			if deeper || strings.Contains(after, mark) {
				out[i] = word{unknown: true, text: before + by.text}
			}
			if out[i].unknown {
				out[i].likely = w.text
			}
			out[i].many = by.many && w.text == mark
		}
	}
	return out
}

// fdRuns are the options of fd that start programs; the others only choose.
var fdRuns = map[string]bool{"-x": true, "--exec": true, "-X": true, "--exec-batch": true}

// fd finds files and runs a command with them.
func fd(c *invocation, _ *programs.Program) {
	var operands int
	for i, w := range c.words[1:] {
		switch {
		case w.hidesOption():
			c.doubt("a word that is not known may be an option")
		case w.known() && fdRuns[w.text]:
			command := c.words[i+2:]
			for n, end := range command {
				if end.is(";") {
					command = command[:n]
					break
				}
			}
			if !strings.Contains(strings.Join(args(command), " "), "{") {
				command = append(command[:len(command):len(command)], anything)
			}
			for _, mark := range []string{"{}", "{/}", "{//}", "{.}", "{/.}"} {
				command = replaced(command, mark, word{unknown: true, text: "./"})
			}
			c.starts(command, "fd gives it the files it finds")
			return
		case w.known() && strings.HasPrefix(w.text, "-x"), w.known() && strings.HasPrefix(w.text, "-X"), w.known() && strings.HasPrefix(w.text, "--exec"):
			c.doubt("it runs a command")
		case w.known() && strings.HasPrefix(w.text, "-"):
		default:
			if operands++; operands > 1 {
				c.reads(w, true)
			}
		}
	}
	if operands < 2 {
		c.reads(here, true)
	}
}
