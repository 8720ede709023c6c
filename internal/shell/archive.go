// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// tar packs and unpacks. Its first word may be options without a dash, whose values
// follow in order.
func tar(c *invocation, p *programs.Program) {
	words := c.words[1:]
	if len(words) > 0 && words[0].known() && words[0].text != "" && words[0].text[0] != '-' {
		words = oldStyle(p, words)
	}
	out := c.parse(p, words)
	archive, hasArchive := out.has("archive")
	remote := hasArchive && strings.Contains(archive.text, ":") && !strings.HasPrefix(archive.text, "/") && !strings.HasPrefix(archive.text, ".")
	if remote {
		c.doubt("an archive with a colon in its name is on another machine")
	}
	dirs := directories(out)
	switch file := archive; {
	case !hasArchive, file.is("-"), remote:
	case out.flag("create"):
		c.writes(file, false)
	default:
		c.reads(file, false)
	}
	switch {
	case out.flag("extract"):
		if out.flag("absolute") || out.flag("transform") {
			c.doubt("the archive says where its files go")
		}
		for i, dir := range dirs {
			if i == 0 || dir != dirs[i-1] {
				c.extracts(dir)
			}
		}
	case out.flag("create"):
		for i, w := range out.operands {
			w = from(dirs[i], w)
			c.reads(w, true)
			if out.flag("remove") {
				c.writes(w, true)
			}
		}
	case out.flag("compare"):
		for i, w := range out.operands {
			c.reads(from(dirs[i], w), true)
		}
		c.doubt("the archive names the files it reads")
	case out.flag("list"):
		c.readOnly = onlyLists(out)
	}
}

// directories are where the operands of tar are, and what would be behind them: -C is about
// what follows it, seen from the one before.
func directories(out parsed) []word {
	dirs := make([]word, len(out.operands)+1)
	dir, options := here, out.given
	for i := range dirs {
		for ; len(options) > 0 && options[0].behind <= i; options = options[1:] {
			if options[0].Does == "directory" {
				dir = from(dir, options[0].value)
			}
		}
		if len(dir.text) > maxPath {
			dir = word{unknown: true}
		}
		dirs[i] = dir
	}
	return dirs
}

// from is a name as a program sees it that is in a directory.
func from(dir, name word) word {
	if dir == here || strings.HasPrefix(name.text, "/") {
		return name
	}
	return within(dir, name)
}

// onlyLists reports whether the options of tar just show an archive.
func onlyLists(out parsed) bool {
	for _, o := range out.given {
		switch o.Does {
		case "", "list", "archive", "filter", "directory":
		default:
			return false
		}
	}
	return true
}

// oldStyle turns `tar xzf a.tar b` into `tar -x -z -f a.tar b`.
func oldStyle(p *programs.Program, words []word) []word {
	var out []word
	rest := words[1:]
	for _, letter := range words[0].text {
		out = append(out, lit("-"+string(letter)))
		if o := p.Options[string(letter)]; o != nil && o.Value == programs.NeedsValue && len(rest) > 0 {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(out, rest...)
}

// zip writes its first operand and reads the others.
func zip(c *invocation, _ *programs.Program) {
	first := true
	for _, w := range c.words[1:] {
		if w.hidesOption() {
			c.doubt("a word that is not known may be an option")
		}
		if w.known() && strings.HasPrefix(w.text, "-") && w.text != "-" {
			if !plainZip[w.text] {
				c.doubt("what the option " + clip(w.text) + " does is not known")
			}
			continue
		}
		if first {
			c.writes(w, false)
			first = false
			continue
		}
		c.input(w, true)
	}
}

// plainZip are options of zip that only say how to pack.
var plainZip = map[string]bool{
	"-r": true, "-q": true, "-j": true, "-9": true, "-1": true, "-0": true, "-v": true, "-X": true, "-y": true, "-u": true,
	"-qr": true, "-rq": true, "-ry": true, "-r9": true, "-9r": true, "-D": true, "-g": true, "-x": true, "-i": true,
}

// unzipShows are the options of unzip with which it writes nothing.
var unzipShows = []string{"-l", "-v", "-lv", "-Z", "-Z1", "-t", "-tq", "-p", "-lq", "-ql", "-qql", "-z"}

// unzip writes the files that an archive names, unless it only shows them.
func unzip(c *invocation, _ *programs.Program) {
	dir, shows, other := here, false, false
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		switch {
		case w.hidesOption():
			c.doubt("a word that is not known may be an option")
		case w.is("-d") && i+1 < len(c.words):
			i++
			dir, other = c.words[i], true
		case w.known() && slices.Contains(unzipShows, w.text):
			shows = true
		case w.known() && strings.HasPrefix(w.text, "-"):
			other = true
		default:
			c.reads(w, false)
		}
	}
	if shows && !other {
		c.readOnly = true
		return
	}
	c.extracts(dir)
}

// extracts writes files that something else names, all of them below a directory.
func (c *invocation) extracts(dir word) {
	top := func(at string) bool { return at == "." || at == "" }
	if at := c.dirs(dir); at == nil || slices.ContainsFunc(at, top) || dir.is("..") || strings.HasPrefix(dir.text, "../") {
		c.doubt("the archive names the files it writes, anywhere in the workspace")
	}
	c.writes(beneath(dir), false)
}

// rsync copies trees, here or to and from other machines.
func rsync(c *invocation, p *programs.Program) {
	out := c.parse(p, c.words[1:])
	for i, w := range out.operands {
		if host, ok := remoteHost(w); ok {
			c.a.reaches(host, 0)
			continue
		}
		if i < len(out.operands)-1 {
			c.reads(w, true)
			if out.flag("move") {
				c.writes(w, true)
			}
			if to := out.operands[len(out.operands)-1]; w.many || strings.HasSuffix(w.text, "/") {
				if _, remote := remoteHost(to); !remote {
					c.writes(beneath(to), false)
				}
			} else if _, remote := remoteHost(to); !remote {
				c.arrives(w, to, true, false, false, false)
			}
			continue
		}
		c.writes(w, false)
	}
}

// remoteHost returns the host of a name such as user@host:path or rsync://host/.
func remoteHost(w word) (string, bool) {
	if _, rest, ok := strings.Cut(w.text, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		return hostOnly(host), true
	}
	before, _, ok := strings.Cut(w.text, ":")
	if !ok || strings.Contains(before, "/") {
		return "", false
	}
	return hostOnly(before), true
}

// hostOnly drops a user before and a port after the name of a host.
func hostOnly(text string) string {
	text = text[strings.LastIndexByte(text, '@')+1:]
	if host, _, ok := strings.Cut(text, ":"); ok && !strings.Contains(text, "[") {
		return host
	}
	return strings.Trim(text, "[]")
}
