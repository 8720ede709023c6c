// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtin returns what a command does that bash runs itself; nil where it is not
// one. Builtins change nothing but the shell, unless they say otherwise.
func builtin(name string) func(*call) {
	switch name {
	case ":", "true", "false", "echo", "pwd", "dirs", "times", "type", "jobs", "caller", "help", "break", "continue", "return",
		"bg", "fg", "disown", "suspend", "logout", "ulimit", "umask", "unalias":
		return quiet
	case "cd", "pushd":
		return cd
	case "popd":
		return popd
	case "export", "declare", "typeset", "local", "readonly":
		return declare
	case "read":
		return read
	case "mapfile", "readarray":
		return mapfile
	case "getopts":
		return getopts
	case "printf":
		return printf
	case "test", "[":
		return test
	case "set":
		return set
	case "shift":
		return shift
	case "shopt":
		return shopt
	case "unset":
		return unset
	case "wait":
		return wait
	case "let":
		return let
	case "exit":
		return exit
	case "eval":
		return eval
	case ".", "source":
		return source
	case "trap":
		return trap
	case "exec":
		return exec
	case "command", "builtin":
		return command
	case "alias":
		return alias
	case "hash":
		return hash
	case "kill":
		return kill
	case "enable", "bind", "complete", "compgen", "compopt", "fc", "history":
		return puzzling
	}
	return nil
}

func quiet(*call) {}

func puzzling(c *call) { c.doubt("what " + c.words[0].text + " does is not known") }

func kill(c *call) { c.readOnly = false }

func shift(c *call) { c.s.params, c.s.paramsKnow = nil, false; c.expect(c.a.survey.shift) }

// expect doubts the call where the survey of the script did not see it coming,
// because its name was made up on the way.
func (c *call) expect(seen bool) {
	if !seen {
		c.doubt("the name of a command of the shell is hidden")
	}
}

// set knows the options that do not change how the rest is read.
func set(c *call) {
	c.s.params, c.s.paramsKnow = nil, false
	c.expect(c.a.survey.shift)
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		switch {
		case w.is("--") || w.is("-"):
			return
		case w.is("-o") || w.is("+o"):
			i++
			if i < len(c.words) && !slices.Contains(setNames, c.words[i].arg()) {
				c.doubt("what set -o " + clip(c.words[i].text) + " does is not known")
			}
		case w.mayBeOption() || strings.HasPrefix(w.text, "+"):
			letters := strings.TrimLeft(w.text, "-+")
			if name, cluster := strings.CutSuffix(letters, "o"); cluster && w.known() && strings.Trim(name, setLetters) == "" {
				i++
				if i < len(c.words) && !slices.Contains(setNames, c.words[i].arg()) {
					c.doubt("what set -o " + clip(c.words[i].text) + " does is not known")
				}
				continue
			}
			if !w.known() || strings.Trim(letters, setLetters) != "" {
				c.doubt("what set " + clip(w.text) + " does is not known")
			}
		default:
			return // positional parameters
		}
	}
}

// setLetters and setNames are the options of set that change nothing about what
// a command means.
const setLetters = "euxvfCbhmnET"

var setNames = []string{
	"pipefail", "errexit", "nounset", "xtrace", "verbose", "noglob", "noclobber", "notify", "monitor", "noexec",
	"errtrace", "functrace", "nolog", "ignoreeof", "history", "emacs", "vi",
}

// shopts are the options of shopt that change nothing about what a command means.
var shopts = []string{
	"nullglob", "globstar", "failglob", "nocasematch", "inherit_errexit", "lastpipe",
	"globasciiranges", "checkwinsize", "cmdhist", "histappend", "huponexit", "checkjobs",
}

func shopt(c *call) {
	for _, w := range c.words[1:] {
		if !w.known() || !slices.Contains(shopts, w.text) && strings.Trim(w.text, "-suqp") != "" {
			c.doubt("what shopt " + clip(w.text) + " does is not known")
		}
	}
}

func exit(c *call) {
	sure := len(c.words) == 1 || len(c.words) == 2 && (c.words[1].number || c.words[1].known() && isNumber(c.words[1].text))
	if sure && c.unclear == "" {
		c.s.dead = true
	}
}

func cd(c *call) {
	operands := skipFlags(c.words[1:], "-L")
	c.expect(c.a.survey.move)
	fail := c.s.fork()
	var to []string
	switch {
	case len(operands) == 0 && c.words[0].is("pushd"):
		c.s.stack = nil
	case len(operands) == 0:
		to = c.dirs(lit(c.a.place.Home))
		if c.a.place.Home == "" || c.a.assigns("HOME") {
			to = nil
		}
	case len(operands) > 1 || operands[0].is(""): // -P among them: links would have to be followed
	case operands[0].is("-"):
		to = c.s.old
	case c.words[0].is("pushd") && (operands[0].mayBeOption() || strings.HasPrefix(operands[0].text, "+")):
		c.s.stack = nil
	default:
		to = c.dirs(operands[0])
	}
	if c.words[0].is("pushd") {
		c.s.stack = append(slices.Clip(c.s.stack), c.s.dirs)
	}
	c.s.old, c.s.dirs = c.s.dirs, to
	c.a.moved(c.s)
	c.ok, c.fail = c.s, fail
}

func popd(c *call) {
	c.expect(c.a.survey.move)
	fail := c.s.fork()
	c.s.old = c.s.dirs
	if n := len(c.s.stack); n > 0 && len(c.words) == 1 {
		c.s.dirs, c.s.stack = c.s.stack[n-1], c.s.stack[:n-1]
	} else {
		c.s.dirs, c.s.stack = nil, nil
	}
	c.a.moved(c.s)
	c.ok, c.fail = c.s, fail
}

// dirs are the directories that w means, from where the shell may be.
func (c *call) dirs(w word) []string {
	if !w.known() || w.text == "" {
		return nil
	}
	if strings.HasPrefix(w.text, "/") {
		return []string{inWorkspace(c.a.place, w.text)}
	}
	var to []string
	for _, dir := range c.s.dirs {
		to = append(to, inWorkspace(c.a.place, dir+"/"+w.text))
	}
	return to
}

// skipFlags drops leading words that are one of flags.
func skipFlags(words []word, flags ...string) []word {
	for len(words) > 0 && words[0].known() && slices.Contains(flags, words[0].text) {
		words = words[1:]
	}
	if len(words) > 0 && words[0].is("--") {
		words = words[1:]
	}
	return words
}

// declare follows export and its kind where they are called as a command. Where
// they are a clause of the language see analysis.declare.
func declare(c *call) {
	for _, w := range c.words[1:] {
		c.declares(w)
	}
}

func (c *call) declares(w word) {
	if w.known() && len(w.text) > 1 && (w.text[0] == '-' || w.text[0] == '+') {
		if strings.Trim(w.text[1:], "xgrpFaA") != "" {
			c.doubt(c.words[0].text + " " + clip(w.text) + " changes how variables and functions work")
		}
		return
	}
	name, value, assigns := strings.Cut(w.text, "=")
	if !assigns && w.known() && isName(name) {
		return
	}
	name = strings.TrimSuffix(name, "+")
	if !assigns || !isName(name) {
		c.doubt("which variable it sets is not known")
		return
	}
	c.s.forget(name)
	if why := danger(name, word{text: value, unknown: w.unknown}); why != "" {
		c.doubt(why)
	}
}

// declare follows declare, export, local and their kind.
func (a *analysis) declare(d *syntax.DeclClause, s *state) {
	words := []word{lit(d.Variant.Value)}
	type assignment struct {
		name  string
		value word
	}
	var values []assignment
	for _, arg := range d.Args {
		switch {
		case arg.Name == nil:
			words = append(words, a.fields([]*syntax.Word{arg.Value}, s)...)
		case arg.Naked:
			if arg.Index != nil {
				a.subscript(arg.Index, s)
			}
			words = append(words, lit(arg.Name.Value))
		default:
			value := a.assigned(arg, s)
			if arg.Append || arg.Index != nil {
				value = word{unknown: true}
			}
			values = append(values, assignment{arg.Name.Value, value})
			words = append(words, joined(lit(arg.Name.Value+"="), value))
		}
	}
	if d.Variant.Value == "nameref" {
		a.unclear("nameref makes one variable stand for another")
	}
	for i := range words {
		words[i].glob = false // patterns are text here
	}
	a.run(words, s, "", asBuiltin)
	for _, v := range values {
		a.assign(v.name, v.value, s)
	}
}

// takesName follows a command that gives a value to the variable named by w.
func (a *analysis) takesName(w word, s *state) string {
	switch {
	case !w.known():
		return "which variable it sets is not known"
	case plainElement(w.text):
		w.text, _, _ = strings.Cut(w.text, "[")
	case !isName(w.text):
		return "it evaluates the subscript of " + clip(w.text)
	}
	s.forget(w.text)
	if why := danger(w.text, word{unknown: true}); why != "" {
		return why
	}
	if !a.survey.blind && a.survey.sites[w.text] < 2 {
		return "the name of a command of the shell is hidden"
	}
	return ""
}

func (c *call) takes(w word) {
	if why := c.a.takesName(w, c.s); why != "" {
		c.doubt(why)
	}
}

// printf sets a variable with -v.
func printf(c *call) {
	if len(c.words) < 2 {
		return
	}
	first := c.words[1]
	switch {
	case first.is("-v") && len(c.words) > 2:
		c.takes(c.words[2])
	case first.known() && strings.HasPrefix(first.text, "-v"):
		c.takes(lit(first.text[2:]))
	case first.mayBeOption() && !first.known():
		c.doubt("its first word is not known, and -v sets a variable")
	}
}

// builtinOptions are the options of builtins that take names of variables.
var builtinOptions = readPrograms(`
read: data
  r s e a:=name d: i: n: N: p: t: u: E
mapfile: data
  t d: n: O: s: u: C:=run c:
wait: data
  n f p:=name
unset: data
  v f=function n
`)

func read(c *call) { c.takesAll(builtinOptions["read"]) }

func mapfile(c *call) { c.takesAll(builtinOptions["mapfile"]) }

func (c *call) takesAll(p *program) {
	words := c.parse(p, c.words[1:])
	for _, o := range words.given {
		if o.does == "name" {
			c.takes(o.value)
		}
	}
	for _, w := range words.operands {
		c.takes(w)
	}
}

func wait(c *call) {
	for _, o := range c.parse(builtinOptions["wait"], c.words[1:]).given {
		if o.does == "name" {
			c.takes(o.value)
		}
	}
}

func getopts(c *call) {
	if len(c.words) > 2 {
		c.takes(c.words[2])
	} else {
		c.doubt("which variable it sets is not known")
	}
	if slices.ContainsFunc(c.words[1:min(3, len(c.words))], func(w word) bool { return w.many }) {
		c.doubt("which variable it sets is not known")
	}
}

func unset(c *call) {
	words := c.parse(builtinOptions["unset"], c.words[1:])
	for _, w := range words.operands {
		if !w.known() || !isName(w.text) && !plainElement(w.text) {
			if f, ok := c.s.funcs[w.text]; !ok || !w.known() || len(f.bodies) == 0 {
				c.doubt("it evaluates the subscript of what it is given")
			}
		}
		c.s.forget(w.text)
		if w.is("PATH") {
			c.doubt("without PATH the shell runs programs of the directory it is in")
		}
		if f, ok := c.s.funcs[w.text]; ok {
			c.s.own()
			f.maybe = true
			c.s.funcs[w.text] = f
		}
	}
}

// let evaluates its words; where it is a clause of the language they are parsed.
func let(c *call) { c.doubt("it evaluates its words as arithmetic") }

// fileTests are the operators of test that look at a file.
const fileTests = "abcdefghkprsuwxGLNOS"

// test looks at files, and -v evaluates the subscript of a name.
func test(c *call) {
	words := c.words[1:]
	if n := len(words); n > 0 && c.words[0].is("[") && words[n-1].is("]") {
		words = words[:n-1]
	}
	for i, w := range words {
		if w.many && !w.number {
			c.doubt("test may get operators it cannot be seen to get")
		}
		if i+1 == len(words) {
			break
		}
		next := words[i+1]
		if operator := w.unknown && !w.number || w.is("-v") || w.is("-R"); operator && !(i > 0 && isBinary(words[i-1])) {
			if next.unknown && !next.number || next.known() && strings.Contains(next.text, "[") && !plainElement(next.text) {
				c.doubt("test -v evaluates the subscript of what it is given")
			}
		}
		isUnary := w.known() && len(w.text) == 2 && w.text[0] == '-' && strings.Contains(fileTests, w.text[1:])
		switch {
		case isUnary && !(len(words) > i+2 && isBinary(next)) && !(i > 0 && isBinary(w)):
			c.reads(next, false)
		case w.is("-nt") || w.is("-ot") || w.is("-ef"):
			c.reads(next, false)
			if i > 0 {
				c.reads(words[i-1], false)
			}
		}
	}
}

// isBinary reports whether a word is an operator of test between two words.
func isBinary(w word) bool {
	switch w.arg() {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o":
		return true
	}
	return false
}

// eval runs its words, joined, in this shell.
func eval(c *call) {
	words := skipFlags(c.words[1:])
	text := word{}
	for i, w := range words {
		if i > 0 {
			text = joined(text, lit(" "))
		}
		if w.glob || w.pipe || w.many {
			w = word{unknown: true}
		}
		text = joined(text, w)
	}
	c.expect(c.a.survey.blind)
	c.s.forgetAll()
	c.script(text, c.s, bash)
	c.s.forgetAll()
}

// source runs a file in this shell, and nobody knows what it does.
func source(c *call) {
	words := skipFlags(c.words[1:])
	if len(words) > 0 {
		c.reads(words[0], false)
	}
	c.s.forgetAll()
	c.doubt("it runs the commands of a file")
}

// trap keeps a text that is run at some time from now on.
func trap(c *call) {
	words := skipFlags(c.words[1:])
	if slices.ContainsFunc(words, func(w word) bool { return w.many }) {
		c.doubt("it runs a text that is not known")
	}
	if len(words) < 2 || words[0].is("-l") || words[0].is("-p") || words[0].is("-") || words[0].is("") {
		return
	}
	c.expect(c.a.survey.blind)
	c.s.forgetAll()
	if !words[0].known() {
		c.doubt("it runs a text that is not known")
		return
	}
	c.a.traps = append(c.a.traps, words[0].text)
}

// exec runs a program in place of the shell.
func exec(c *call) {
	words := c.words[1:]
	for len(words) > 0 && words[0].known() {
		switch text := words[0].text; {
		case text == "--":
			words = words[1:]
		case text == "-a" && len(words) > 1:
			words = words[2:]
			continue
		case len(text) > 1 && text[0] == '-' && strings.Trim(text, "-cl") == "":
			words = words[1:]
			continue
		}
		break
	}
	if len(words) > 0 && words[0].known() && strings.HasPrefix(words[0].text, "-") {
		c.doubt("what the option " + clip(words[0].text) + " does is not known")
	}
	c.starts(words, "")
}

// command runs a program or builtin, passing over functions.
func command(c *call) {
	words := c.words[1:]
	for len(words) > 0 && words[0].known() && len(words[0].text) > 1 && words[0].text[0] == '-' {
		switch words[0].text {
		case "-v", "-V", "-pv", "-pV":
			return // it only tells
		case "-p", "--":
			words = words[1:]
			continue
		}
		c.doubt("what the option " + clip(words[0].text) + " does is not known")
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	c.ok, c.fail = c.a.run(words, c.s, "", asBuiltin)
}

// alias makes a word stand for a text, where aliases are on.
func alias(c *call) {
	for _, w := range c.words[1:] {
		_, text, ok := strings.Cut(w.text, "=")
		if w.known() && !ok {
			continue
		}
		c.doubt("an alias changes what a word means")
		c.a.effects = append(c.a.effects, guess(text, "an alias stands for it")[1:]...)
	}
}

func hash(c *call) {
	for _, w := range c.words[1:] {
		if w.mayBeOption() && !w.is("-r") {
			c.doubt("hash can make a name stand for another program")
		}
	}
}
