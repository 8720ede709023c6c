// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
	"github.com/toolserver/toolserver/internal/tools"
)

// handler returns what follows the words of a program, by the last word of its
// line in programs/programs.txt; nil where there is no such thing.
func handler(name string) func(*invocation, *programs.Program) {
	switch name {
	case "data": // words that are neither files nor programs
		return func(c *invocation, p *programs.Program) { c.begin(p); c.printsData() }
	case "reads":
		return readFiles
	case "lists":
		return listFiles
	case "strings":
		return readStrings
	case "diff":
		return diff
	case "xxd":
		return xxd
	case "ps":
		return ps
	case "compress":
		return compress
	case "gofmt":
		return gofmt
	case "formats":
		return format
	case "pattern":
		return searchFiles
	case "jq":
		return jq
	case "inout":
		return inOut
	case "nothing":
		return takesNothing
	case "date":
		return date
	case "pager":
		return pager
	case "writes":
		return writeFiles
	case "tree":
		return writeTrees
	case "firstwrites":
		return writeFirst
	case "modes":
		return changeModes
	case "dest":
		return copyFiles
	case "dd":
		return dd
	case "split":
		return split
	case "mktemp":
		return mktemp
	case "patch":
		return patch
	case "tar":
		return tar
	case "zip":
		return zip
	case "unzip":
		return unzip
	case "rsync":
		return rsync
	case "edits":
		return edit
	case "find":
		return find
	case "fd":
		return fd
	case "sed":
		return sed
	case "awk":
		return awk
	case "git":
		return git
	case "curl":
		return curl
	case "wget":
		return wget
	case "ssh":
		return ssh
	case "scp":
		return scp
	case "nc":
		return nc
	case "hosts":
		return resolveHost
	case runsCommand:
		return wrap
	case "flock":
		return flock
	case "watch":
		return watch
	case "env":
		return env
	case "sudo":
		return sudo
	case "su":
		return su
	case "script":
		return script
	case "xargs":
		return xargs
	case "starter":
		return starter
	case "language":
		return languageByItself
	case "applet":
		return applet
	case "shell":
		return shell
	case "othershell":
		return otherShell
	case "interpreter":
		return interpreter
	case "subcommand":
		return subcommand
	case "unknown":
		return func(c *invocation, _ *programs.Program) { c.doubt("what its words do is not known") }
	}
	return nil
}

// runsCommand is what wrappers do with their operands.
const runsCommand = "command"

// begin takes the words of the call apart.
func (c *invocation) begin(p *programs.Program) parsed {
	c.readOnly, c.complete = p.ReadOnly, p.Complete || p.ReadOnly
	return c.parse(p, c.words[1:])
}

func readFiles(c *invocation, p *programs.Program) {
	words := c.begin(p)
	for _, w := range words.operands {
		c.input(w, words.flag("recursive"))
	}
}

// mayLeave doubts a walk over trees that goes where links in them lead.
func (c *invocation) mayLeave(words parsed, tree bool) {
	if tree && words.flag("linked") {
		c.doubt("it follows links, wherever they lead")
	}
}

// input reads a file, unless it is "-", the standard input.
func (c *invocation) input(w word, tree bool) {
	if !w.is("-") {
		c.reads(w, tree)
	}
}

// pager shows files. What begins with + is a command to it.
func pager(c *invocation, p *programs.Program) {
	for _, w := range c.begin(p).operands {
		if strings.HasPrefix(w.text, "+") || !w.known() && w.text == "" {
			c.doubt("a word that begins with + is a command to it")
		}
		c.input(w, false)
	}
}

// here is the directory the shell is in.
var here = lit(".")

// listFiles reads the directory it is in where it is given none.
func listFiles(c *invocation, p *programs.Program) {
	words := c.begin(p)
	tree := words.flag("recursive") || c.base() != "ls"
	c.mayLeave(words, tree)
	if len(words.operands) == 0 {
		c.reads(here, tree)
	}
	for _, w := range words.operands {
		c.reads(w, tree)
	}
}

// base is the name of the program without its directory.
func (c *invocation) base() string { return base(c.words[0].text) }

// searchFiles looks for a pattern: the first operand, unless an option has it.
func searchFiles(c *invocation, p *programs.Program) {
	words := c.begin(p)
	files := words.operands
	if !words.flag("pattern") && !words.flag("patternfile") && !words.flag("nopattern") && len(files) > 0 {
		if files[0].many {
			c.doubt("which of its words are files is not known")
		}
		files = files[1:]
	}
	tree := words.flag("recursive") || words.flag("linked") || c.base() == "rg"
	if how, ok := words.has("directories"); ok && (!how.known() || strings.HasPrefix("recurse", how.text)) {
		tree = true
	}
	c.mayLeave(words, tree)
	if len(files) == 0 && tree {
		files = []word{here}
	}
	for _, w := range files {
		c.input(w, tree)
	}
}

// inOut reads its first operand and writes its second.
func inOut(c *invocation, p *programs.Program) {
	words := c.begin(p)
	for i, w := range words.operands {
		switch {
		case w.many:
			c.readOnly = false
			c.reads(w, false)
			c.writes(w, false)
		case i == 0:
			c.input(w, false)
		default:
			c.readOnly = false
			if !w.is("-") {
				c.writes(w, false)
			}
		}
	}
}

func takesNothing(c *invocation, p *programs.Program) {
	if len(c.begin(p).operands) > 0 {
		c.readOnly, c.complete = false, false
	}
	c.printsData()
}

// date sets the clock where an operand is not a format.
func date(c *invocation, p *programs.Program) {
	words := c.begin(p)
	for _, w := range words.operands {
		if !strings.HasPrefix(w.text, "+") || w.many {
			c.readOnly, c.complete = false, false
		}
	}
	if c.prints = data; len(words.operands) > 0 {
		c.prints = word{}
		if len(words.operands) == 1 && words.operands[0].known() {
			c.prints = datePrints(words.operands[0].text)
		}
	}
	if words.flag("read") {
		c.prints = word{} // a line for each of a file
	}
}

func writeFiles(c *invocation, p *programs.Program) {
	for _, w := range c.begin(p).operands {
		c.writes(w, false)
	}
}

// writeTrees writes what is below its operands too, with -r or with a word that
// could be that.
func writeTrees(c *invocation, p *programs.Program) {
	words := c.begin(p)
	tree := words.flag("recursive") || slices.ContainsFunc(words.operands, word.hidesOption)
	for _, w := range words.operands {
		c.writes(w, tree)
	}
}

func writeFirst(c *invocation, p *programs.Program) {
	if words := c.begin(p); len(words.operands) > 0 {
		c.writes(words.operands[0], false)
	}
}

// changeModes takes a mode or an owner, and then files. A mode such as -x looks
// like an option.
func changeModes(c *invocation, p *programs.Program) {
	var rest []word
	given := false
	for i, w := range c.words[1:] {
		if w.is("--") {
			rest = append(rest, c.words[1+i:]...)
			break
		}
		if w.known() && len(w.text) > 1 && w.text[0] == '-' && strings.Trim(w.text[1:], "rwxXstugoa,+=-") == "" && w.text[1] != '-' {
			given = true
			continue
		}
		rest = append(rest, w)
	}
	words := c.parse(p, rest)
	files := words.operands
	if !given && !words.flag("read") && len(files) > 0 && !files[0].many {
		files = files[1:]
	}
	for _, w := range files {
		c.writes(w, words.flag("recursive"))
	}
}

// copyFiles follows cp, mv, ln and install: sources, and then where they go.
func copyFiles(c *invocation, p *programs.Program) {
	words := c.begin(p)
	from := words.operands
	if words.flag("directories") {
		for _, w := range from {
			c.writes(w, false)
		}
		return
	}
	if words.flag("renames") {
		c.doubt("what is there gets another name")
	}
	to, known := words.has("target")
	isDir := known || len(from) > 2
	if !known && len(from) > 1 {
		to, from = from[len(from)-1], from[:len(from)-1]
	} else if !known {
		to, isDir = here, true // ln -s target
	}
	if to.many || len(from) == 0 {
		c.doubt("where it writes is not known")
	}
	name := c.base()
	tree := words.flag("recursive") || name == "mv"
	c.mayLeave(words, tree)
	suffix, named := words.has("suffix")
	if named && tree {
		c.doubt("what it replaces gets another name, with all that is in it")
	}
	backup := func(replaced []word) {
		for _, old := range replaced {
			if named {
				c.writes(joined(old, suffix), tree)
			}
			if named || words.flag("backup") {
				c.reads(old, false) // it is there under another name then
			}
		}
	}
	for _, w := range from {
		if words.flag("symbolic") && c.leadsAway(w) {
			// What a link leads to is not touched by making it, and where it leads out the
			// jail says what can be done through it.
			backup(c.arrives(w, to, false, isDir, words.flag("file"), words.flag("parents")))
			continue
		}
		sources := []word{w}
		if words.flag("symbolic") && !words.flag("relative") && !strings.HasPrefix(w.text, "/") {
			sources = linkTargets(w, to, isDir, words.flag("file"))
		}
		for _, source := range sources {
			c.reads(source, tree || words.flag("symbolic"))
			if name == "mv" || name == "ln" || words.flag("link") {
				// What is moved is gone from there; what is linked can be written
				// through the link.
				c.writes(source, tree || words.flag("symbolic"))
			}
		}
		backup(c.arrives(w, to, tree, isDir, words.flag("file"), words.flag("parents")))
	}
}

// leadsAway reports whether a link to what a word names leads out of the workspace, and not to
// where commands of the session may have made links, nor to what processes have open. It doubts
// one to a directory above these.
func (c *invocation) leadsAway(w word) bool {
	if !w.known() || !strings.HasPrefix(w.text, "/") || cleaningHides(w.text) {
		return false
	}
	place, name := c.a.place, path.Clean(w.text)
	for _, dir := range append([]string{place.Workspace, place.Home, place.Temp, "/proc/self", "/dev/fd"}, place.Temporary...) {
		switch {
		case dir == "":
		case isBelow(name, dir):
			return false
		case isBelow(dir, name):
			c.doubt("through the link, what is in " + dir + " has other names")
			return true
		}
	}
	_, itself := ofItself(name)
	return !itself && !ofProcess(name)
}

// linkTargets are what a symbolic link may mean, seen from the directory it is in: that of its name
// or, where a directory has that name, the directory itself.
func linkTargets(w, link word, isDir, isFile bool) []word {
	if link.unknown || link.pipe {
		return []word{{unknown: true}}
	}
	seenFrom := func(dir string) word {
		if dir == "" || dir == "." {
			return w
		}
		at := link
		at.text = strings.TrimSuffix(dir, "/")
		return within(at, w)
	}
	inside := seenFrom(link.text)
	beside := seenFrom(link.text[:strings.LastIndexByte(link.text, '/')+1])
	switch {
	case isDir:
		return []word{inside}
	case isFile || beside == inside:
		return []word{beside}
	}
	return []word{beside, inside}
}

// arrives adds the effects of putting a file at a destination: the file replaces the destination or,
// where the destination is a directory, gets into it. It returns what may be replaced, where
// that has a name.
func (c *invocation) arrives(w, to word, tree, isDir, isFile, parents bool) (replaced []word) {
	slash := to.known() && (strings.HasSuffix(to.text, "/") || to.text == "." || to.text == ".." || strings.HasSuffix(to.text, "/.") || strings.HasSuffix(to.text, "/.."))
	if !isDir && !slash {
		c.writes(to, tree)
		replaced = append(replaced, to)
	}
	if isFile {
		return replaced
	}
	name := w
	text := strings.TrimRight(w.text, "/")
	switch last := text[strings.LastIndexByte(text, '/')+1:]; {
	case w.unknown || w.pipe:
		c.writes(beneath(to), false)
		return replaced
	case parents:
	case last == "." || last == ".." || last == "":
		c.writes(beneath(to), false)
		return replaced
	default:
		name.text, name.many = last, false
	}
	c.writes(within(to, name), tree)
	return append(replaced, within(to, name))
}

// dd takes if=… and of=….
func dd(c *invocation, _ *programs.Program) {
	for _, w := range c.words[1:] {
		key, value, _ := strings.Cut(w.text, "=")
		file := word{text: value, unknown: w.unknown, glob: w.glob}
		switch {
		case w.many || w.unknown && !strings.Contains(w.text, "="):
			c.doubt("a word that is not known may name a file to write")
			c.writes(word{unknown: true}, false)
		case key == "if":
			c.reads(file, false)
		case key == "of":
			c.writes(file, false)
		}
	}
}

// split writes files whose names begin with its second operand; of csplit an option has it.
func split(c *invocation, p *programs.Program) {
	words := c.begin(p)
	prefix := lit("x")
	if w, ok := words.has("prefix"); ok {
		prefix = w
	}
	if format, ok := words.has("format"); ok {
		if format.unknown || strings.Contains(format.text, "/") {
			c.doubt("its files may be in another directory")
		}
		before, after, _ := strings.Cut(format.text, "%")
		if after = strings.TrimLeft(after, "0123456789.-+ #'"); after != "" {
			after = after[1:]
		}
		c.writes(joined(prefix, lit(before+after)), false) // %.0d is nothing for the first
	}
	for i, w := range words.operands {
		switch {
		case i == 0:
			c.input(w, false)
		case c.base() == "split":
			prefix = w
		}
	}
	if len(words.operands) > 0 && words.operands[0].many {
		prefix = anything
	}
	c.writes(joined(prefix, word{text: "*", glob: true}), false)
}

// mktemp makes a file or a directory of a name like its template, and prints it.
func mktemp(c *invocation, p *programs.Program) {
	words := c.begin(p)
	name, inTemp := lit("tmp.XXXXXXXXXX"), true
	if len(words.operands) > 0 {
		name, inTemp = words.operands[0], words.flag("intemp")
	}
	dir, given := words.has("directory")
	if (!given || dir.is("")) && (inTemp || given) {
		dir = word{text: c.a.place.Temp, unknown: c.a.place.Temp == "" || c.a.assigns("TMPDIR")}
		given = true
	}
	if given {
		name = within(dir, name)
	}
	if suffix, ok := words.has("suffix"); ok {
		name = joined(name, suffix)
	}
	if c.a.place.Temp == "" && !c.a.assigns("TMPDIR") && dir.unknown && len(words.operands) == 0 {
		c.add(tools.WritesPath, "/tmp") // where it is unless $TMPDIR says otherwise
		return
	}
	c.writes(name, false)
	if name.known() || name.made {
		c.prints = name
		c.prints.made = true
	}
}

// add adds an effect on an absolute path.
func (c *invocation) add(kind tools.EffectKind, path string) {
	c.a.add(tools.Effect{Kind: kind, Path: inWorkspace(c.a.place, path)})
}

// patch writes the files that a patch names.
func patch(c *invocation, p *programs.Program) {
	words := c.begin(p)
	dir := here
	if d, ok := words.has("directory"); ok {
		dir = d
	}
	c.doubt("the patch names the files it changes")
	for i, w := range words.operands {
		if i == 0 {
			c.writes(w, false)
		} else {
			c.reads(w, false)
		}
	}
	c.writes(beneath(dir), false)
}

// edit is a program that edits files, and runs whatever it is told.
func edit(c *invocation, _ *programs.Program) {
	for _, w := range c.words[1:] {
		if !w.known() || !strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "+") {
			c.writes(w, false)
		}
	}
	c.doubt("an editor changes files and runs commands")
}
