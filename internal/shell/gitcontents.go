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
	shows := gitShows(sub, words, out)
	if out.flag("noindex") || !shows && sub != "show" {
		return
	}
	if sub == "bundle" {
		c.readsRepository()
		return
	}
	compares := strings.HasPrefix(sub, "diff")
	maybe, paths := out.around()
	tree, commits := true, 1 // a path may be a directory; so many of HEAD:file make a whole
	switch {
	case sub == "blame", sub == "annotate":
		if tree = false; len(paths) == 0 {
			maybe, paths = nil, maybe // a commit may be behind the file
		}
	case sub == "cat-file": // -- ends its options, and what comes before the last operand is a type
		maybe, paths = out.operands[max(0, len(out.operands)-1):], nil
	case compares:
		commits = 2 // one is compared with everything
	}
	everything := shows && out.flag("follow") // under the names that the file had
	files := 0
	for _, w := range maybe {
		file, isFile := c.fileOfCommit(w)
		switch {
		case isFile:
			files++
			c.readsStored(file, sub != "show" && sub != "cat-file") // those only list a directory
		case (sub == "show" || sub == "archive" || compares) && mayBeHash(w):
			everything = true // no path keeps that from being shown, nor does --stat of show
		case shows && mayBePath(w):
			c.readsStored(w, true)
		}
	}
	if !shows {
		paths = nil
	} else if len(paths) == 0 && (files < len(maybe) || files < commits) {
		everything = true
	}
	for _, w := range paths {
		if w.known() && strings.ContainsAny(w.text, "*?[:\\") && !c.leaves(w) {
			everything = true // a pattern of its own kind
			continue
		}
		c.readsStored(w, tree)
	}
	if everything {
		c.readsRepository()
	}
}

// readsStored tells that what the repository keeps of a file is read.
func (c *invocation) readsStored(w word, tree bool) {
	from := len(c.a.effects)
	c.reads(w, tree)
	for i := range c.a.effects[from:] {
		c.a.effects[from+i].Stored = true
	}
}

// readsRepository tells that any file of the workspace's repository is read, in
// any commit.
func (c *invocation) readsRepository() { c.readsStored(c.repository(), true) }

// repository is the top of the workspace's repository.
func (c *invocation) repository() word { return lit(cmp.Or(c.a.place.Workspace, ".")) }

// gitShows reports whether a subcommand shows what is in files, and not only
// which there are.
func gitShows(sub string, words []word, out parsed) bool {
	switch sub {
	case "blame", "annotate", "range-diff", "archive", "format-patch":
		return true
	case "bundle":
		return len(out.operands) > 0 && !out.operands[0].is("verify") && !out.operands[0].is("list-heads")
	case "show", "diff", "cat-file":
		return !out.flag("only") || out.flag("patch")
	case "stash":
		// list takes the options of log, which are not looked at here.
		return len(out.operands) > 0 && (out.operands[0].is("show") || out.operands[0].is("list") && len(words) > 1)
	}
	return out.flag("patch")
}

// fileOfCommit returns the file that a word like HEAD:file names, which begins at
// the top of the repository unless it says otherwise. A word that names two
// commits, or is a pattern of files, is none.
func (c *invocation) fileOfCommit(w word) (word, bool) {
	isPattern := func(prefix string) bool { return strings.HasPrefix(w.text, prefix) }
	_, name := cutCommit(w.text)
	if name == "" || slices.ContainsFunc([]string{":/", ":(", ":!", ":^"}, isPattern) || strings.Contains(strings.ReplaceAll(w.text, "../", ""), "..") {
		return word{}, false
	}
	file := word{text: name, unknown: w.unknown, glob: w.glob}
	if !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") && !strings.HasPrefix(name, "/") {
		file.text = c.repository().text + "/" + name
	}
	return file, true
}

// cutCommit takes a word like HEAD:file apart as git does: a colon in braces is part of
// the commit, and :1:file is a file of the index.
func cutCommit(text string) (commit, file string) {
	if len(text) > 2 && text[0] == ':' && text[2] == ':' && '0' <= text[1] && text[1] <= '3' {
		return text[:2], text[3:]
	}
	depth := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == ':' && depth == 0:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// mayBePath reports whether a word that may name a commit may be a path as well.
func mayBePath(w word) bool {
	return w.known() && strings.ContainsAny(w.text, "./") && !strings.Contains(w.text, "..") && !strings.ContainsAny(w.text, "~^@")
}

// mayBeCommit reports whether a word that may be a path may name a commit as well. Where
// there is a file of that name, git takes the word for nothing else.
func mayBeCommit(w word) bool {
	switch text := w.text; {
	case w.unknown, strings.ContainsAny(text, ":^@~{"):
		return true
	case w.glob:
		return false
	default:
		return text != "." && !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") && !strings.HasPrefix(text, "/") && !strings.HasSuffix(text, "/")
	}
}

// mayBeHash reports whether a word may name something by its hash: a file or a directory
// of some commit, of which nobody knows the path.
func mayBeHash(w word) bool {
	if !w.known() {
		return true
	}
	for name := range strings.SplitSeq(w.text, "..") {
		name, _, _ = strings.Cut(strings.Trim(name, "^."), "^")
		name = name[strings.LastIndex("-g"+name, "-g"):] // git describe prints v1.0-3-g0123abc
		if len(name) >= 4 && strings.Trim(name, "0123456789abcdefABCDEF") == "" {
			return true
		}
	}
	return false
}
