// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	maxGuesses    = 2000 // different commands that are guessed of one text
	maxGuessWords = 16   // words kept of each
	maxGuessWord  = 200  // bytes kept of a word
)

// keywords come before a command.
var keywords = []string{"exec", "command", "builtin", "eval", "if", "then", "else", "elif", "do", "while", "until", "time", "coproc", "function", "!", "in", "fi", "done", "esac"}

// guess lists the words of a text that look like commands, for a text that
// cannot be parsed. Nothing of it is certain, so all of it is unclear; but a
// rule that denies a program still sees its name.
func guess(text, reason string) []tools.Effect {
	effects := []tools.Effect{unknownProgram(reason)}
	seen := make(map[string]bool)
	add := func(words []string) {
		if len(seen) >= maxGuesses || len(words) == 0 {
			return
		}
		words = slices.Clone(words[:min(len(words), maxGuessWords)])
		key := strings.Join(words, "\x00")
		if seen[key] {
			return
		}
		seen[key] = true
		effects = append(effects, tools.Effect{Kind: tools.RunsProgram, Program: words[0], Argv: words, Unclear: reason})
	}
	table := programs.All()
	var words []string
	flush := func() {
		words = skipWords(words, func(w string) bool { return slices.Contains(keywords, w) || isAssignment(w) })
		add(words)
		if len(words) > 0 && startsOthers(table[base(words[0])]) {
			for i, w := range words[1:] {
				if !strings.HasPrefix(w, "-") && !isAssignment(w) && !isNumber(w) {
					add(words[1+i:])
				}
			}
		}
		words = words[:0]
	}
	var word []byte
	end := func() {
		if len(word) > 0 && len(words) < 64 {
			words = append(words, string(word))
		}
		word = word[:0]
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\r':
			end()
		case '\n', ';', '|', '&', '(', ')', '{', '}', '`':
			end()
			flush()
		case '\\':
			if i+1 < len(text) && text[i+1] == '\n' {
				i++
			}
		case '\'', '"', '<', '>', 0, '$':
		default:
			if len(word) < maxGuessWord {
				word = append(word, c)
			}
		}
	}
	end()
	flush()
	return effects
}

// startsOthers reports whether a program starts another one.
func startsOthers(p *programs.Program) bool {
	if p == nil {
		return false
	}
	switch p.Operands {
	case runsCommand, "env", "sudo", "xargs", "starter", "watch", "flock", "applet", "shell", "su", "script":
		return true
	}
	return false
}

// skipWords drops the first words for which skip holds.
func skipWords(words []string, skip func(string) bool) []string {
	for len(words) > 0 && skip(words[0]) {
		words = words[1:]
	}
	return words
}

// isAssignment reports whether a word has the form NAME=value.
func isAssignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && isName(strings.TrimSuffix(name, "+"))
}

// isName reports whether s can be the name of a variable.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// isNumber reports whether s is a plain decimal number.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// base returns the last element of a program's name.
func base(name string) string {
	return name[strings.LastIndexByte(name, '/')+1:]
}

// unknownProgram is the effect of something unclear that is not a program by
// name.
func unknownProgram(reason string) tools.Effect {
	return tools.Effect{
		Kind: tools.RunsProgram, Program: tools.UnknownWord, Argv: []string{tools.UnknownWord}, Unclear: reason,
	}
}
