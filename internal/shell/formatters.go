// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

// formatted are the endings of the files that formatters change in the directories
// they are given; "" is any.
var formatted = map[string][]string{
	"gofmt": {".go"}, "goimports": {".go"}, "gofumpt": {".go"}, "go": {".go"},
	"black": {".py", ".pyi", ".ipynb"}, "ruff": {".py", ".pyi", ".ipynb"}, "isort": {".py", ".pyi", ".pyx"},
	"rustfmt": {".rs"}, "cargo": {".rs"},
}

// formatting are the subcommands of tools of projects that format, with the options that
// change nothing of that.
var formatting = map[string][]string{
	"go fmt": {"-n", "-x"}, "cargo fmt": {"--all", "-q", "--quiet", "-v", "--verbose", "--check"},
	"ruff format": {"--check", "--diff", "-q", "--quiet", "-v", "--verbose", "--no-cache", "-n", "--preview", "-s", "--silent"},
}

// formatsWhenAsked reports whether a formatter rewrites files only with an option.
func formatsWhenAsked(program string) bool {
	return program == "prettier" || program == "shfmt" || program == "clang-format"
}

// formats tells that a formatter rewrites what is at a path: a file, or of a
// directory the files of its kind.
func (c *invocation) formats(w word) {
	c.readOnly = false
	kinds := formatted[c.base()]
	named := func(kind string) bool { return strings.HasSuffix(w.text, kind) }
	last := w.text[strings.LastIndexByte(w.text, '/')+1:]
	switch {
	case w.is("-"):
	case !w.known() || slices.ContainsFunc(kinds, named):
		c.writes(w, false)
		if !w.known() { // which may be a directory
			c.writes(beneath(w), false)
		}
	case kinds == nil:
		if strings.Trim(last, ".") != "" {
			c.writes(w, false)
		}
		if !strings.Contains(strings.Trim(last, "."), ".") {
			c.writes(beneath(w), false)
		}
	default:
		for _, kind := range kinds {
			c.writes(within(w, word{text: "**/*" + kind, glob: true}), false)
		}
	}
}

// gofmt shows how files should be, or makes them so. Its options begin with one
// dash or two.
func gofmt(c *invocation, _ *programs.Program) {
	c.readOnly, c.complete = true, true
	writes := slices.ContainsFunc(c.words, func(w word) bool { return w.is("-w") || w.is("--w") || strings.HasPrefix(w.text, "-w=") })
	for i := 1; i < len(c.words); i++ {
		switch w := c.words[i]; {
		case w.hidesOption():
			c.doubt("a word that is not known may be an option")
		case w.is("-l"), w.is("-d"), w.is("-s"), w.is("-e"), w.is("-w"), w.is("-extra"), w.is("-v"), w.is("-format-only"):
		case w.is("-r"), w.is("-local"), w.is("-lang"), w.is("-modpath"), w.is("-srcdir"):
			i++
		case w.known() && strings.HasPrefix(w.text, "-"):
			c.doubt("what the option " + clip(w.text) + " does is not known")
		case !writes:
			c.reads(w, true)
		default:
			c.formats(w)
		}
	}
	c.readOnly = c.readOnly && !writes && c.base() == "gofmt"
}

// format rewrites the files and directories it is given, unless it only shows
// what it would do. Some formatters have to be told to.
func format(c *invocation, p *programs.Program) {
	words := c.begin(p)
	needsOption := formatsWhenAsked(c.base())
	if words.flag("shows") || needsOption && !words.flag("inplace") {
		for _, w := range words.operands {
			c.input(w, true)
		}
		return
	}
	if c.base() == "rustfmt" && len(words.operands) > 0 { // and the modules that these name
		c.formats(here)
	}
	for _, w := range words.operands {
		c.formats(w)
	}
}

// formatSubcommand follows the subcommands of tools of projects that format:
// go fmt, cargo fmt, ruff format. It reports whether it is one.
func (c *invocation) formatSubcommand() bool {
	if len(c.words) < 2 || !programs.Trusted(c.words[0].text) {
		return false
	}
	operands := make([]word, 0, len(c.words))
	known := formatting[c.base()+" "+c.words[1].arg()]
	if known == nil {
		return false
	}
	for _, w := range c.words[2:] {
		switch {
		case w.hidesOption() || w.known() && len(w.text) > 1 && w.text[0] == '-' && !slices.Contains(known, w.text):
			return false
		case !w.known() || !strings.HasPrefix(w.text, "-"):
			operands = append(operands, w)
		}
	}
	c.complete = true
	if len(operands) == 0 || c.base() == "cargo" {
		operands = []word{here}
	}
	for _, w := range operands {
		if w.known() && c.base() == "go" { // ./... is a directory and all below
			w.text = strings.TrimSuffix(strings.TrimSuffix(w.text, "..."), "/")
			if w.text == "" || w.text[0] != '.' && w.text[0] != '/' {
				w = here // a package, by its name
			}
		}
		c.formats(w)
	}
	if c.base() == "ruff" {
		c.writes(lit(".ruff_cache"), true)
	}
	return true
}
