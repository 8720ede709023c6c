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

// gitOwn are options of git itself that change nothing.
var gitOwn = []string{"--no-pager", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects", "-P", "--no-lazy-fetch", "--no-advice"}

// gitConfigures are options of git that name other configuration or programs.
var gitConfigures = []string{"-c", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source", "--bare"}

// git does what its subcommand does. What it writes of a repository is told by no
// effect, so that it is neither read-only nor told in full: it is contained, and
// what could run something later is looked at afterwards. For what only reads,
// the configuration is taken for trusted. That holds for the repository of the workspace alone: any other
// directory could have been made into one by what went before.
func git(c *invocation, p *programs.Program) {
	words := c.words[1:]
	for len(words) > 0 && (!words[0].known() || strings.HasPrefix(words[0].text, "-")) {
		w := words[0]
		words = words[1:]
		name, _, attached := strings.Cut(w.text, "=")
		switch {
		case !w.known():
			c.doubt("which subcommand of git is run is not known")
			return
		case slices.Contains(gitOwn, w.text):
		case w.text == "-C":
			if len(words) == 0 {
				return
			}
			c.reads(words[0], true)
			s := c.s.fork()
			s.dirs = c.entered(words[0])
			c.s = s
			c.paths = paths{c.a, s}
			words = words[1:]
		case w.text == "--version" || w.text == "-v":
			c.readOnly = len(words) == 0
			return
		case w.text == "-c" && len(words) > 0:
			c.gitSets(words[0])
			words = words[1:]
		case slices.Contains(gitConfigures, name):
			c.doubt("the option " + name + " names programs or files of its own")
			if !attached && name != "--bare" && name != "--exec-path" && len(words) > 0 {
				words = words[1:]
			}
		default:
			c.doubt("what the option " + clip(w.text) + " of git does is not known")
		}
	}
	if len(words) == 0 {
		return
	}
	sub := words[0].text
	g := programs.Git()[sub]
	if g == nil {
		c.doubt("what the subcommand " + clip(sub) + " of git does is not known")
		return
	}
	atHome := len(c.s.dirs) == 1 && c.s.dirs[0] == "."
	c.unlessChanged = !atHome
	c.readOnly = g.ReadOnly && !c.configured && (atHome || c.sameRepository())
	c.subcommand = sub
	if !atHome && c.s.dirs != nil {
		c.reads(here, true)
	}
	out := c.parse(g, words[1:])
	if f := gitHandler(g.Operands); f != nil {
		f(c, out)
	}
	c.gitContents(sub, words[1:], out)
	if sub == "diff" && slices.ContainsFunc(out.operands, func(w word) bool { return w.unknown && !w.number }) {
		c.readOnly = false // it may be a file somewhere else
	}
}

// sameRepository reports whether git would use the repository of the workspace
// wherever the shell may be.
func (c *invocation) sameRepository() bool {
	other := func(dir string) bool { return dir != "." && !c.a.sameRepository(dir) }
	return c.s.dirs != nil && !slices.ContainsFunc(c.s.dirs, other)
}

// maxRepositories is how many directories are looked at for a repository.
const maxRepositories = 64

func (a *analysis) sameRepository(dir string) bool {
	same, known := a.repositories[dir]
	if known || path.IsAbs(dir) || a.place.SameRepository == nil || len(a.repositories) == maxRepositories {
		return same
	}
	if a.repositories == nil {
		a.repositories = make(map[string]bool)
	}
	same = a.place.SameRepository(dir)
	a.repositories[dir] = same
	return same
}

// gitHandler returns what follows the operands of a subcommand.
func gitHandler(name string) func(*invocation, parsed) {
	switch name {
	case "patches":
		return gitPatches
	case "listing":
		return gitListing
	case "remote":
		return gitRemote
	case "stash":
		return gitStash
	case "bundle":
		return gitBundle
	case "patch":
		return gitPatch
	case "move":
		return gitMove
	case "remove":
		return gitRemove
	case "init":
		return gitInit
	case "mails":
		return gitMails
	case "reflog":
		return gitReflog
	case "grep":
		return gitGrep
	case "config":
		return gitConfig
	case "network":
		return gitNetwork
	case "clone":
		return gitClone
	case "runs":
		return gitRuns
	case "bisect":
		return gitBisect
	case "submodule":
		return gitSubmodule
	case "worktree":
		return gitWorktree
	case "shellrun":
		return func(c *invocation, out parsed) {
			c.doubt("it runs commands of its own")
			for _, w := range c.words[2:] {
				if w.known() {
					c.a.add(guess(w.text, "git may run it")[1:]...)
				}
			}
		}
	}
	return nil
}

// gitPatches compares: --no-index reads any file, and options can ask for
// programs that the configuration names.
func gitPatches(c *invocation, out parsed) {
	if out.flag("noindex") {
		for _, w := range out.operands {
			c.reads(w, true)
		}
		return
	}
	// Two paths of which one is outside the repository are compared as with
	// --no-index.
	for _, w := range out.operands {
		if !w.unknown && c.leaves(w) {
			c.readsStored(w, true)
		}
	}
}

// leaves reports whether a path leads out of the workspace.
func (c *invocation) leaves(w word) bool {
	if strings.HasPrefix(w.text, "/") || c.s.dirs == nil {
		return true
	}
	return slices.ContainsFunc(c.s.dirs, func(dir string) bool {
		name := inWorkspace(c.a.place, dir+"/"+w.text)
		return strings.HasPrefix(name, "/") || name == ".." || strings.HasPrefix(name, "../")
	})
}

// gitReflog shows when a name changed; some words of it forget that.
func gitReflog(c *invocation, out parsed) {
	if len(out.operands) > 0 && !out.operands[0].is("show") && !out.operands[0].is("list") && !strings.HasPrefix(out.operands[0].text, "HEAD") {
		c.readOnly = false
	}
}

// gitGrep reads the files that its operands name: all of them but the first, which
// is the pattern, unless an option has that. Those before -- may name commits.
func gitGrep(c *invocation, out parsed) {
	maybe, paths := out.around()
	if !out.flag("pattern") && !out.flag("patternfile") {
		if len(maybe) == 0 {
			maybe, paths = paths, nil // git grep -- PATTERN COMMIT
		}
		maybe = maybe[min(1, len(maybe)):]
	}
	commits := !out.flag("noindex") && !out.flag("untracked") && !out.flag("cached") && slices.ContainsFunc(maybe, mayBeCommit)
	reads := c.reads
	if commits || out.flag("cached") {
		reads = c.readsStored
	}
	files := paths
	if len(files) == 0 {
		files = maybe
	}
	if len(files) == 0 {
		files = []word{here}
	}
	for _, w := range files {
		if w.known() && strings.ContainsAny(w.text, "*?[:\\") && !c.leaves(w) {
			w = c.repository() // a pattern of its own kind
		}
		reads(w, true)
	}
	if commits && len(paths) == 0 {
		c.readsRepository()
	}
}

// gitListing shows what there is, as long as it gets no name to make.
func gitListing(c *invocation, out parsed) {
	if len(out.operands) > 0 && !out.flag("list") {
		c.readOnly = false
	}
}

// gitRemote shows the names of other repositories, or changes them.
func gitRemote(c *invocation, out parsed) {
	if len(out.operands) == 0 || out.operands[0].is("get-url") {
		return
	}
	c.readOnly = false
	for _, w := range out.operands[1:] {
		switch {
		case out.flag("fetch"):
			c.gitAddress(w)
		case !w.known() && !w.made || strings.Contains(w.text, "::"):
			c.gitAddress(w)
			c.doubt("the address " + clip(w.text) + " may name a program")
		}
	}
}

// gitStash keeps changes for later, or shows what was kept.
func gitStash(c *invocation, out parsed) {
	if len(out.operands) == 0 || !out.operands[0].is("list") && !out.operands[0].is("show") {
		c.readOnly = false
	}
}

// gitBundle writes a file with commits, or reads one.
func gitBundle(c *invocation, out parsed) {
	for i, w := range out.operands {
		switch {
		case i == 0 && !w.known():
			c.doubt("what git bundle is to do is not known")
		case i == 1 && out.operands[0].is("create"):
			c.writes(w, false)
		case i == 1:
			c.reads(w, false)
		}
	}
}

// gitPatch changes the files that a patch names: none outside, and none of the
// repository itself.
func gitPatch(c *invocation, out parsed) {
	for _, w := range out.operands {
		c.input(w, false)
	}
}

// gitMove puts files elsewhere, where they can be read under another name.
func gitMove(c *invocation, out parsed) {
	n := len(out.operands) - 1
	for i := range n {
		c.reads(out.operands[i], true)
		c.writes(out.operands[i], true)
		c.arrives(out.operands[i], out.operands[n], true, n > 1, false, false)
	}
}

func gitRemove(c *invocation, out parsed) {
	for _, w := range out.operands {
		if !out.flag("cached") {
			c.writes(w, false)
		}
	}
}

func gitInit(c *invocation, out parsed) {
	if len(out.operands) > 0 {
		c.writes(out.operands[0], false)
	}
}

// gitMails writes a file for every commit.
func gitMails(c *invocation, out parsed) {
	dir, ok := out.has("target")
	if !ok {
		dir = here
	}
	if !out.flag("stdout") || ok {
		c.writes(within(dir, word{text: "*.patch", glob: true}), false)
	}
}

// gitConfig writes a file of configuration, unless it only shows one.
func gitConfig(c *invocation, out parsed) {
	edits := len(out.operands) > 0 && (out.operands[0].is("edit") || !out.operands[0].known())
	if edits {
		c.doubt("it may start an editor")
	}
	if w, ok := out.has("blob"); ok {
		if file, isFile := c.fileOfCommit(w); isFile {
			c.readsStored(file, false)
		} else {
			c.readsRepository()
		}
	}
	changes := out.flag("edits") || out.flag("unset") || out.flag("section")
	switch {
	case edits:
	case out.flag("shows"), !changes && (len(out.operands) == 1 || len(out.operands) > 0 && (out.operands[0].is("get") || out.operands[0].is("list"))):
		if w, ok := out.has("file"); ok {
			c.reads(w, false)
		}
		return
	}
	c.readOnly = false
	c.gitKeys(out)
	switch w, ok := out.has("file"); {
	case ok:
		c.writes(w, false)
	case out.flag("system"):
		c.writes(lit("/etc/gitconfig"), false)
	case out.flag("global") && c.a.place.Home == "":
		c.writes(word{unknown: true}, false)
	}
}

// gitNetwork talks to the repository that an operand names by its address.
func gitNetwork(c *invocation, out parsed) {
	for _, w := range out.operands {
		c.gitAddress(w)
	}
}

// gitAddress follows the address of a repository.
func (c *invocation) gitAddress(w word) {
	switch text := w.text; {
	case w.unknown:
		if strings.Contains(text, "://") || w.text == "" {
			c.a.add(tools.Effect{Kind: tools.ReachesHost, Unclear: "which repository is meant is not known"})
		}
	case strings.Contains(text, "::"):
		c.doubt("the address " + clip(text) + " names a program")
	case strings.Contains(text, "://"):
		c.reachesURL(w, "")
	case strings.Contains(text, ":") && !strings.Contains(text[:strings.Index(text, ":")], "/"):
		if host, ok := remoteHost(w); ok && strings.Contains(text, "@") {
			c.a.reaches(host, 22)
		}
	case strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") || w.made:
		c.reads(w, true)
		if c.subcommand == "push" || c.subcommand == "send-pack" {
			c.writes(w, true)
		}
	}
}

func gitClone(c *invocation, out parsed) {
	if len(out.operands) == 0 {
		return
	}
	c.gitAddress(out.operands[0])
	if w := out.operands[0]; w.known() && !strings.Contains(w.text, ":") {
		c.reads(w, true)
	}
	if len(out.operands) > 1 {
		c.writes(out.operands[1], false)
		return
	}
	name := strings.TrimSuffix(strings.TrimRight(out.operands[0].text, "/"), ".git")
	name = name[strings.LastIndexAny(name, "/:")+1:]
	c.writes(word{text: name, unknown: !out.operands[0].known() || name == ""}, false)
}

// gitRuns follows the commands that options like rebase --exec name.
func gitRuns(c *invocation, out parsed) {
	for _, o := range out.given {
		if o.Does == "script" {
			c.doubt("the option " + dashed(o.Name) + " runs a command")
			c.script(o.value, c.fresh(nil), posix)
		}
	}
}

func gitBisect(c *invocation, out parsed) {
	if len(out.operands) > 0 && out.operands[0].is("run") {
		c.starts(out.operands[1:], "")
	}
}

// gitSubmodule runs a text in every submodule.
func gitSubmodule(c *invocation, out parsed) {
	for i, w := range out.operands {
		if w.known() && w.text == "foreach" {
			rest := skipFlags(out.operands[i+1:], "--recursive", "-q", "--quiet")
			s := c.fresh(nil)
			s.dirs = nil
			c.doubt("it runs a command in every submodule")
			c.script(sentence(rest), s, posix)
			return
		}
	}
	gitNetwork(c, out)
}

// gitWorktree lists, makes, moves and removes copies of the files.
func gitWorktree(c *invocation, out parsed) {
	if len(out.operands) == 1 && out.operands[0].is("list") {
		return
	}
	c.readOnly = false
	for i, w := range out.operands[min(1, len(out.operands)):] {
		if i == 0 || !out.operands[0].is("add") {
			c.writes(w, true)
		}
	}
}
