// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"
)

// builtin returns what a command does that bash runs itself; nil where it is not
// one. Builtins change nothing but the shell, unless they say otherwise.
func builtin(name string) func(*invocation) {
	switch name {
	case ":", "true", "false", "echo", "dirs", "times", "type", "caller", "help", "break", "continue", "return",
		"bg", "fg", "disown", "suspend", "logout", "ulimit", "umask", "unalias":
		return quiet
	case "pwd":
		return pwd
	case "jobs":
		return jobs
	case "cd":
		return cd
	case "pushd":
		return pushd
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

func quiet(*invocation) {}

// pwd prints the directory that $PWD is.
func pwd(c *invocation) {
	if values, ok := c.a.value("PWD", c.s); ok && len(c.words) == 1 {
		c.prints = values[0]
	}
}

func puzzling(c *invocation) { c.doubt("what " + c.words[0].text + " does is not known") }

// jobs runs the words after -x.
func jobs(c *invocation) {
	for i, w := range c.words[1:] {
		switch {
		case w.hidesOption():
			c.doubt("a word that is not known may be an option")
		case w.is("--") || !w.mayBeOption():
			return
		case strings.Contains(w.text, "x"):
			c.doubt("jobs -x runs a command")
			if rest := c.words[i+2:]; len(rest) > 0 {
				c.a.run(rest, c.s.fork(), "jobs may change its words", asWritten)
			}
			return
		}
	}
}

func kill(c *invocation) { c.readOnly = false }

func shift(c *invocation) { c.s.params, c.s.paramsKnown = nil, false; c.expect(c.a.survey.shift) }

// expect doubts the call where the survey of the script did not see it coming,
// because its name was made up on the way.
func (c *invocation) expect(seen bool) {
	if !seen {
		c.doubt("the name of a command of the shell is hidden")
	}
}

// set knows the options that do not change how the rest is read.
func set(c *invocation) {
	c.s.params, c.s.paramsKnown = nil, false
	c.expect(c.a.survey.shift)
	c.readOnly = len(c.words) > 1 // alone it shows all variables
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

func shopt(c *invocation) {
	for _, w := range c.words[1:] {
		if !w.known() || !slices.Contains(shopts, w.text) && strings.Trim(w.text, "-suqp") != "" {
			c.doubt("what shopt " + clip(w.text) + " does is not known")
		}
	}
}

func exit(c *invocation) {
	sure := len(c.words) == 1 || len(c.words) == 2 && (c.words[1].number || c.words[1].known() && isNumber(c.words[1].text))
	if sure && c.unclear == "" {
		c.s.dead = true
	}
}

func cd(c *invocation) {
	operands, physical := cdOptions(c.words[1:])
	var to []string
	switch {
	case physical, len(operands) > 1: // links would have to be followed
	case len(operands) == 0 && (c.a.place.Home == "" || c.a.assigns("HOME")):
	case len(operands) == 0:
		to = c.dirs(lit(c.a.place.Home))
	case operands[0].is("-"):
		to = c.s.old
	default:
		to = c.dirs(operands[0])
	}
	c.moves(to, c.s.stack)
}

// cdOptions returns the operands of cd, and whether it goes where links lead, as
// with -P; so it counts too where bash may not know an option.
func cdOptions(words []word) (operands []word, physical bool) {
	for len(words) > 0 && words[0].known() && words[0].mayBeOption() && !words[0].is("--") {
		for _, letter := range words[0].text[1:] {
			switch letter {
			case 'L':
				physical = false
			case 'P':
				physical = true
			case 'e':
			default:
				return nil, true
			}
		}
		words = words[1:]
	}
	return skipFlags(words), physical
}

// pushd puts the directory on the stack and goes to another. Without an operand it goes
// to the one that was on top, and with -n, +N or -N the stack is any.
func pushd(c *invocation) {
	operands := skipFlags(c.words[1:])
	stack := append(slices.Clip(c.s.stack), c.s.dirs)
	var to []string
	switch {
	case len(operands) == 0:
		stack = [][]string{c.s.dirs}
	case len(operands) > 1, operands[0].mayBeOption(), strings.HasPrefix(operands[0].text, "+"):
		stack = nil
	case operands[0].is("-"):
		to = c.s.old
	default:
		to = c.dirs(operands[0])
	}
	c.moves(to, stack)
}

// moves has the shell go to a directory, or stay where it cannot.
func (c *invocation) moves(to []string, stack [][]string) {
	c.expect(c.a.survey.move)
	c.ok, c.fail = c.s, c.s.fork()
	c.s.old, c.s.dirs, c.s.stack = c.s.dirs, to, stack
	c.a.moved(c.s)
}

func popd(c *invocation) {
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
func (c *invocation) dirs(w word) []string {
	if !w.known() && (!w.made || w.glob) || w.text == "" {
		return nil
	}
	if strings.HasPrefix(w.text, "/") {
		return []string{inWorkspace(c.a.place, w.text)}
	}
	var to []string
	for _, dir := range c.s.dirs {
		if len(dir)+len(w.text) > maxPath {
			return nil
		}
		to = append(to, inWorkspace(c.a.place, dir+"/"+w.text))
	}
	return to
}

// entered are the directories that w means to a program that goes there. Unlike
// cd it follows links before "..", so then nobody knows.
func (c *invocation) entered(w word) []string {
	hides := func(dir string) bool { return cleaningHides(dir + "/" + w.text) }
	if slices.ContainsFunc(c.s.dirs, hides) || cleaningHides(w.text) {
		return nil
	}
	return c.dirs(w)
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

// eval runs its words, joined, in this shell.
func eval(c *invocation) {
	text := sentence(skipFlags(c.words[1:]))
	c.expect(c.a.survey.blind)
	c.s.forgetAll()
	c.script(text, c.s, evaled)
	c.s.forgetAll()
}

// source runs a file in this shell, and nobody knows what it does.
func source(c *invocation) {
	words := skipFlags(c.words[1:])
	if len(words) > 0 {
		c.reads(words[0], false)
	}
	c.s.forgetAll()
	c.doubt("it runs the commands of a file")
}

// trap keeps a text that is run at some time from now on.
func trap(c *invocation) {
	words := skipFlags(c.words[1:])
	if slices.ContainsFunc(words, func(w word) bool { return w.many }) {
		c.doubt("it runs a text that is not known")
	}
	if len(words) < 2 || words[0].is("-l") || words[0].is("-p") || words[0].is("-") || words[0].is("") {
		return
	}
	c.expect(c.a.survey.blind)
	c.s.forgetAll()
	later := func(w word) bool { return !w.is("EXIT") && !w.is("0") }
	if slices.ContainsFunc(words[1:], later) && (c.a.survey.move || mayMove(words[0])) {
		c.s.dirs, c.s.old, c.s.stack = nil, nil, nil // from now on, at any time
		c.a.moved(c.s)
	}
	if !words[0].known() {
		c.doubt("it runs a text that is not known")
		return
	}
	c.a.traps = append(c.a.traps, words[0].text)
}

// mayMove reports whether a text could change the directory.
func mayMove(w word) bool {
	text := strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(w.text)
	return !w.known() || slices.ContainsFunc([]string{"cd", "pushd", "popd", "eval", "source", ". ", "{", "PWD", "DIRSTACK"}, func(name string) bool {
		return strings.Contains(text, name)
	})
}

// exec runs a program in place of the shell.
func exec(c *invocation) {
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
func command(c *invocation) {
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
func alias(c *invocation) {
	for _, w := range c.words[1:] {
		_, text, ok := strings.Cut(w.text, "=")
		if w.known() && !ok {
			continue
		}
		c.doubt("an alias changes what a word means")
		c.a.add(guess(text, "an alias stands for it")[1:]...)
	}
}

func hash(c *invocation) {
	for _, w := range c.words[1:] {
		if w.mayBeOption() && !w.is("-r") {
			c.doubt("hash can make a name stand for another program")
		}
	}
}
