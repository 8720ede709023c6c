// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"cmp"
	"slices"
	"strings"
)

// gitContents tells which files a subcommand of git shows the contents of, as
// they are or as they were: to rules, a file is the same in every commit. words
// are those behind the subcommand.
func (c *invocation) gitContents(sub string, words []word, out parsed) {
	if out.flag("noindex") || !gitShows(sub, out) {
		return
	}
	if sub == "bundle" {
		c.readsRepository()
		return
	}
	maybe, paths := out.operands, []word(nil)
	if i := slices.IndexFunc(words, func(w word) bool { return w.is("--") }); i >= 0 {
		n := max(0, len(maybe)-(len(words)-i-1))
		maybe, paths = maybe[:n], maybe[n:]
	}
	if n := len(maybe); n > 0 && len(paths) == 0 && (sub == "blame" || sub == "annotate") {
		maybe, paths = maybe[:n-1], maybe[n-1:]
	}
	everything := len(paths) == 0
	for _, w := range maybe {
		file, isFile := c.fileOfCommit(w)
		switch {
		case isFile:
			c.reads(file, true)
			everything = everything && len(maybe) > 1
		case mayBePath(w):
			c.reads(w, true)
		}
	}
	for _, w := range paths {
		if w.known() && strings.ContainsAny(w.text, "*?[:\\") && !c.leaves(w) {
			everything = true // a pattern of its own kind
			continue
		}
		c.reads(w, true)
	}
	if everything {
		c.readsRepository()
	}
}

// readsRepository tells that any file of the workspace's repository is read.
func (c *invocation) readsRepository() {
	c.reads(lit(cmp.Or(c.a.place.Workspace, ".")), true)
}

// gitShows reports whether a subcommand shows what is in files, and not only
// which there are.
func gitShows(sub string, out parsed) bool {
	switch sub {
	case "blame", "annotate", "range-diff", "archive", "format-patch":
		return true
	case "bundle":
		return len(out.operands) > 0 && !out.operands[0].is("verify") && !out.operands[0].is("list-heads")
	case "show", "diff", "cat-file":
		return !out.flag("only") || out.flag("patch")
	case "stash":
		return len(out.operands) > 0 && out.operands[0].is("show")
	}
	return out.flag("patch")
}

// fileOfCommit returns the file that a word like HEAD:file names, which begins at
// the top of the repository unless it says otherwise.
func (c *invocation) fileOfCommit(w word) (word, bool) {
	i := strings.LastIndexByte(w.text, ':')
	if i < 0 || strings.HasPrefix(w.text, ":/") || strings.HasPrefix(w.text, ":(") || w.text[i+1:] == "" {
		return word{}, false
	}
	file := word{text: w.text[i+1:], unknown: w.unknown, glob: w.glob}
	if top := c.a.place.Workspace; top != "" && !strings.HasPrefix(file.text, ".") && !strings.HasPrefix(file.text, "/") {
		file.text = top + "/" + file.text
	}
	return file, true
}

// mayBePath reports whether a word that may name a commit may be a path as well.
func mayBePath(w word) bool {
	return w.known() && strings.ContainsAny(w.text, "./") && !strings.Contains(w.text, "..") && !strings.ContainsAny(w.text, "~^@")
}
