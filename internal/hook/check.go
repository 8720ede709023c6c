// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// Machine is what a configuration is checked against.
type Machine struct {
	Path       []string // where programs are looked for
	Writable   []string // directories that sessions write, with links resolved
	MaxNetwork tools.Network
}

// Check finds everything that is wrong, with the key of each.
func (c Config) Check(m Machine, fault func(key, format string, args ...any)) {
	if len(c) > maxHooks {
		fault("hooks", "%d hooks: at most %d", len(c), maxHooks)
	}
	names := make(map[string]bool)
	for i, spec := range c {
		spec.check(m, func(key, format string, args ...any) {
			fault(fmt.Sprintf("hooks[%d]%s", i, key), "hook "+spec.withDefaults().Name+": "+format, args...)
		})
		if spec.Name != "" && names[spec.Name] {
			fault(fmt.Sprintf("hooks[%d].name", i), "there is a hook %s already", spec.Name)
		}
		names[spec.Name] = true
	}
}

func (s *Spec) check(m Machine, fault func(key, format string, args ...any)) {
	if len(s.Name) > 64 || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		fault(".name", "%.80q is no name: want letters, digits, _, - and dots, at most 64", s.Name)
	}
	if len(s.On) == 0 {
		fault(".on", "is missing: want when the hook is called, such as before_call")
	}
	seen := make(map[Point]bool)
	for _, point := range s.On {
		if seen[point] {
			fault(".on", "%s is there twice", point)
		}
		seen[point] = true
	}
	if err := (tools.Selection{Include: s.Tools}).Check(); err != nil {
		fault(".tools", "%v", err)
	}
	for i, e := range s.Effects {
		if _, err := Effect(e).compile(); err != nil {
			fault(fmt.Sprintf(".effects[%d]", i), "%v", err)
		}
	}
	switch {
	case len(s.Run) == 0 && s.URL == "":
		fault("", "has neither run nor url: want a command or an endpoint")
	case len(s.Run) > 0 && s.URL != "":
		fault(".url", "is beside run: want a command or an endpoint")
	case s.URL != "":
		s.checkEndpoint(m, fault)
	default:
		if err := s.Run.check(m); err != nil {
			fault(".run", "%v", err)
		}
		if s.SecretFile != "" {
			fault(".secret_file", "is for an endpoint: a command has no key")
		}
	}
	if s.Timeout < 0 || s.Timeout > time.Hour {
		fault(".timeout", "%s is out of bounds: want up to 1h", s.Timeout)
	}
	if s.MaxOutput > 16<<20 {
		fault(".max_output", "%s is out of bounds: want up to 16 MiB", s.MaxOutput)
	}
	if s.Concurrency < 0 || s.Concurrency > 1000 {
		fault(".concurrency", "%d is out of bounds: want 1 to 1000", s.Concurrency)
	}
	if m.MaxNetwork != 0 && s.Network > m.MaxNetwork {
		fault(".network", "%s is more than sandbox.max_network, %s", s.Network, m.MaxNetwork)
	}
}

func (s *Spec) checkEndpoint(m Machine, fault func(key, format string, args ...any)) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		fault(".url", "%.80q is no address: want one such as https://checks.example.com/toolserver", s.URL)
	} else if u.Scheme == "http" && !egress.IsHere(u.Hostname()) {
		fault(".url", "http to %s sends inputs and results in the clear, and anybody on the way can answer: want https, or an endpoint on this machine", u.Hostname())
	} else if _, err := egress.Named(u); err != nil {
		fault(".url", "%v", err)
	}
	if s.Network != 0 {
		fault(".network", "is for a command")
	}
	if s.SecretFile == "" {
		fault(".secret_file", "is missing: want a file with the key that bodies are signed with, at least %d bytes", minSecret)
	} else if _, err := s.secret(); err != nil {
		fault(".secret_file", "%v", err)
	} else if dir := m.holds(s.SecretFile); dir != "" && !isTemp(dir) {
		fault(".secret_file", "%s lies in %s, where calls can read and write: put it where only the operator can", s.SecretFile, dir)
	}
}

// isTemp reports whether a directory is one of which each session has its own.
func isTemp(dir string) bool { return dir == "/tmp" || dir == "/var/tmp" }

// holds returns the directory that sessions write and that a file lies in; "" where none is.
func (m *Machine) holds(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	for _, dir := range m.Writable {
		for _, at := range []string{real, path} {
			if at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/") {
				return dir
			}
		}
	}
	return ""
}

// check returns why the command would not run, or would run what calls can change.
func (c Command) check(m Machine) error {
	program := c[0]
	switch {
	case program == "":
		return errors.New("names no program")
	case !strings.Contains(program, "/"):
		for _, dir := range m.Path {
			if path := filepath.Join(dir, program); checkProgram(path, m) == nil {
				return checkWords(c, m)
			}
		}
		return fmt.Errorf("there is no program %s in %s", program, strings.Join(m.Path, ":"))
	case !filepath.IsAbs(program):
		return fmt.Errorf("%s would be looked for in the workspace: want an absolute path, or a name that is in PATH", program)
	}
	if err := checkProgram(program, m); err != nil {
		return err
	}
	return checkWords(c, m)
}

// interpreters run the file that is their first word, and text after some options.
var interpreters = regexp.MustCompile(`^(sh|bash|dash|zsh|ksh|busybox|source|\.|exec|env|python[0-9.]*|node|nodejs|deno|bun|perl|ruby|php|lua[0-9.]*|Rscript)$`)

// checkWords returns why the words of a command, its program the first, would have it run
// or obey a file that calls can change. Other words may be patterns, as in go vet ./...:
// they are refused only where they name a file.
func checkWords(words []string, m Machine) error {
	program := filepath.Base(words[0])
	runs := interpreters.MatchString(program) // its next word that is no option is a program
	for i, word := range words[1:] {
		switch {
		case word == "", strings.Contains(word, tools.UnknownWord):
			runs = false
		case runs && strings.Contains(strings.SplitN(word, "/", 2)[0], "="): // a variable
		case strings.HasPrefix(word, "-") && runs:
			isShell, long := strings.HasSuffix(program, "sh"), strings.HasPrefix(word, "--")
			switch last := word[len(word)-1]; {
			case isShell && !long && last == 'c' && i+2 < len(words):
				return checkScript(words[i+2], m)
			case word == "-", word == "--eval", word == "--print", !isShell && !long && strings.IndexByte("cemp", last) >= 0:
				runs = false // a text, a module, or what comes by the input
			}
		default:
			if err := checkWord(word, runs && (strings.Contains(word, "/") || scriptFile(word)), m); err != nil {
				return err
			}
			runs = runs && interpreters.MatchString(filepath.Base(word)) // as in env python3 x.py
		}
	}
	return nil
}

// scriptFile reports whether a name without a directory is that of a script.
func scriptFile(name string) bool {
	switch filepath.Ext(name) {
	case ".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".pl", ".rb", ".php", ".lua", ".R":
		return true
	}
	return false
}

func checkWord(word string, runs bool, m Machine) error {
	switch {
	case filepath.IsAbs(word):
		if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
			if dir := m.holds(word); dir != "" {
				return fmt.Errorf("%s lies in %s, where calls can write: put it where only the operator can", word, dir)
			}
		}
	case runs:
		return fmt.Errorf("%s would be looked for in the workspace, where calls can write: want an absolute path, where only the operator can", word)
	case strings.Contains(word, "/"):
		for _, dir := range m.Writable {
			if info, err := os.Stat(filepath.Join(dir, word)); err == nil && info.Mode().IsRegular() && !isTemp(dir) {
				return fmt.Errorf("%s is a file in %s, where calls can write: want an absolute path, where only the operator can", word, dir)
			}
		}
	}
	return nil
}

// checkScript returns why a script would run what calls can change.
func checkScript(text string, m Machine) error {
	if strings.Contains(text, tools.UnknownWord) {
		return nil
	}
	commands, err := shell.LiteralCommands(text, scriptName)
	if err != nil {
		return fmt.Errorf("is no script for %s: %w", shellPath, err)
	}
	for _, words := range commands {
		if err := checkWord(words[0], strings.Contains(words[0], "/"), m); err != nil {
			return err
		}
		if err := checkWords(words, m); err != nil {
			return err
		}
	}
	return nil
}

func checkProgram(path string, m Machine) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no program %s", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x it", path)
	}
	if dir := m.holds(path); dir != "" {
		return fmt.Errorf("%s lies in %s, where calls can write: put it where only the operator can", path, dir)
	}
	return nil
}
