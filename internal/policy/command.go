// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// A command is the first words of a command, the program before all. Without
// words it is every command.
type command struct {
	words []string
	name  string // of the program, folded
}

// programName returns the name of a program wherever it is, folded.
func programName(word string) string {
	if i := strings.LastIndexByte(word, '/'); i >= 0 && i+1 < len(word) {
		word = word[i+1:]
	}
	return fold(word)
}

// compileCommand compiles a pattern for commands: words, quoted where a shell
// would need it. A * at the end stands for whatever follows, and may be left
// out.
func compileCommand(text string) (command, error) {
	words, err := splitCommand(text)
	if err != nil || len(words) == 0 {
		return command{}, err
	}
	return command{words, programName(words[0])}, nil
}

// splitCommand returns the words of a pattern for commands.
func splitCommand(text string) ([]string, error) {
	var words []string
	for rest := strings.TrimSpace(text); rest != ""; {
		word, after, err := cutWord(rest)
		if err != nil {
			return nil, err
		}
		if word == "*" && rest[0] == '*' {
			if after != "" {
				return nil, errors.New("has a * before its end: words are compared as they are")
			}
			return words, nil
		}
		words, rest = append(words, word), after
	}
	if len(words) == 0 {
		return nil, errors.New(`is empty: write "*" for every command`)
	}
	return words, nil
}

// cutWord cuts the first word off a text and takes its quotes away.
func cutWord(text string) (word, rest string, err error) {
	if end := strings.IndexAny(text, " \t"); plainWord(text[:max(end, 0)]) || end < 0 && plainWord(text) {
		if end < 0 {
			return text, "", nil
		}
		return text[:end], strings.TrimLeft(text[end:], " \t"), nil
	}
	if star, after, _ := strings.Cut(text, " "); star == "*" {
		return star, strings.TrimLeft(after, " \t"), nil
	}
	var b strings.Builder
	quote := byte(0)
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote && quote != 0:
			quote = 0
		case quote == '\'':
			b.WriteByte(c)
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && (c == ' ' || c == '\t'):
			return b.String(), strings.TrimLeft(text[i:], " \t"), nil
		case c == '$' || c == '`' || c == '\\' || quote == 0 && strings.IndexByte("*?[]{}|&;<>()\n", c) >= 0,
			i == 0 && (c == '~' || c == '#'):
			return "", "", fmt.Errorf("has a %q that is not quoted: words are compared as they are", c)
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", "", errors.New("has a quote that does not end")
	}
	return b.String(), "", nil
}

// plainWord reports whether a word needs no quotes.
func plainWord(word string) bool {
	for i := range len(word) {
		c := word[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("-_./:=,+@%", c) < 0 {
			return false
		}
	}
	return word != ""
}

// argv returns the words of a command, the program first.
func argv(e *tools.Effect) []string {
	if len(e.Argv) > 0 {
		return e.Argv
	}
	return []string{e.Program}
}

// covers reports whether a command that is allowed is this one: the same words,
// the program by its name or from where the system keeps programs.
func (c *command) covers(words []string) bool {
	n := len(c.words)
	return n == 0 || len(words) >= n && sameProgram(c.words[0], words[0]) && slices.Equal(c.words[1:], words[1:n])
}

var systemPrograms = []string{"/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"}

func sameProgram(want, word string) bool {
	if want == word {
		return true
	}
	dir, name := path.Split(word)
	return name == want && slices.Contains(systemPrograms, dir)
}

// catches reports whether a command that is forbidden is this one, with that name
// for its program: wherever the program comes from, and with whatever options
// between the words.
func (c *command) catches(words []string, name string) bool {
	if len(c.words) == 0 {
		return true
	}
	if c.name != name {
		return false
	}
	words = words[1:]
	for _, want := range c.words[1:] {
		i := 0
		for i < len(words) && words[i] != want {
			// An option may be between, and what may be the option's value.
			option := strings.HasPrefix(words[i], "-")
			value := i > 0 && strings.HasPrefix(words[i-1], "-") && !option
			if !option && !value {
				return false
			}
			i++
		}
		if i == len(words) {
			return false
		}
		words = words[i+1:]
	}
	return true
}
