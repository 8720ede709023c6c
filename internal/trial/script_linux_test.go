// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A script is one file of testdata/commands: what agents do about one theme, in
// the order in which they do it. Its cases share a session and a workspace.
type script struct {
	name  string
	setup string // run by the test in the workspace, without a sandbox
	cases []*trialCase
}

// A trialCase is one call and what a user expects of it. testdata/commands/README.md
// tells how it is written.
type trialCase struct {
	name  string
	line  int
	class class

	chained bool // depends on the cases before it: tried in mode allow alone
	served  bool // means nothing without a server
	long    bool // takes seconds: the short form tries it in mode allow alone
	soak    bool // takes many seconds: the long form alone tries it

	needs     []string
	condition string // a command that succeeds where the case can be tried
	setup     string
	tool      string
	command   string
	input     map[string]any
	cancel    *regexp.Regexp // output after which the call is cancelled

	want expectation
	bare *expectation              // where no namespaces can be had; nil: as everywhere
	in   map[string]*regexp.Regexp // the outcome wanted in a setting
	skip string                    // why it is not tried where no namespaces can be had
}

// An expectation is what a user expects of a call that runs.
type expectation struct {
	outcome       *regexp.Regexp
	text          []*regexp.Regexp
	not           *regexp.Regexp
	files, absent []string
}

// testdata goes with the program of the tests, which is run in other places too.
//
//go:embed testdata
var testdata embed.FS

// readScripts reads all scripts of the trial.
func readScripts(t *testing.T) []*script {
	t.Helper()
	paths, err := fs.Glob(testdata, "testdata/commands/*.trial")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var scripts []*script
	for _, path := range paths {
		text, err := testdata.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseScript(strings.TrimSuffix(filepath.Base(path), ".trial"), string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		scripts = append(scripts, s)
	}
	return scripts
}

// sandboxTrouble is what no command of a user should meet.
var sandboxTrouble = regexp.MustCompile(`(?i)permission denied|operation not permitted|read-only file system|command not found`)

func parseScript(name, text string) (*script, error) {
	s := &script{name: name}
	var c *trialCase
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, rest, _ := strings.Cut(line, " ")
		var err error
		switch {
		case key == "case":
			c, err = parseCase(rest, i+1)
			s.cases = append(s.cases, c)
		case c != nil:
			err = c.parse(key, rest)
		case key == "setup":
			s.setup += rest + "\n"
		default:
			err = fmt.Errorf("%q before the first case", key)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return s, s.check()
}

// parseCase reads what follows the word case: NAME: CLASS FLAG...
func parseCase(rest string, line int) (*trialCase, error) {
	name, marks, ok := strings.Cut(rest, ": ")
	if !ok || strings.ContainsAny(name, " /") {
		return nil, fmt.Errorf("%q: want NAME: CLASS", rest)
	}
	c := &trialCase{name: name, line: line, tool: "bash", in: make(map[string]*regexp.Regexp), want: expectation{
		outcome: regexp.MustCompile("^SUCCEEDED$"), not: sandboxTrouble,
	}}
	for i, mark := range strings.Fields(marks) {
		switch {
		case i == 0 && slices.Contains(classes, class(mark)):
			c.class = class(mark)
		case i > 0 && mark == "chained":
			c.chained = true
		case i > 0 && mark == "served":
			c.served = true
		case i > 0 && mark == "long":
			c.long = true
		case i > 0 && mark == "soak":
			c.long, c.soak = true, true
		default:
			return nil, fmt.Errorf("%q is no class or mark", mark)
		}
	}
	return c, nil
}

// parse takes a line of a case.
func (c *trialCase) parse(key, rest string) error {
	switch key {
	case "$":
		c.command = rest
	case ">":
		c.command += "\n" + rest
	case "needs":
		c.needs = append(c.needs, strings.Fields(rest)...)
	case "if":
		c.condition = rest
	case "setup":
		c.setup += rest + "\n"
	case "tool":
		c.tool = rest
	case "input":
		return json.Unmarshal([]byte(rest), &c.input)
	case "cancel":
		pattern, err := regexp.Compile("(?m)" + rest)
		c.cancel = pattern
		return err
	case "in":
		name, outcome, _ := strings.Cut(rest, " ")
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.name == name }) {
			return fmt.Errorf("no setting %q", name)
		}
		pattern, err := regexp.Compile("^(" + outcome + ")$")
		c.in[name] = pattern
		return err
	case "bare":
		key, rest, _ := strings.Cut(rest, " ")
		if key == "skip" {
			c.skip = rest
			return nil
		}
		if c.bare == nil {
			c.bare = &expectation{outcome: c.want.outcome, not: c.want.not, files: c.want.files, absent: c.want.absent}
		}
		return c.bare.parse(key, rest)
	default:
		return c.want.parse(key, rest)
	}
	return nil
}

func (e *expectation) parse(key, rest string) (err error) {
	switch key {
	case "outcome":
		e.outcome, err = regexp.Compile("^(" + rest + ")$")
	case "text":
		var pattern *regexp.Regexp
		pattern, err = regexp.Compile("(?m)" + rest)
		e.text = append(e.text, pattern)
	case "not":
		e.not, err = regexp.Compile("(?m)" + rest)
	case "file":
		e.files = append(e.files, rest)
	case "nofile":
		e.absent = append(e.absent, rest)
	default:
		err = fmt.Errorf("no key %q", key)
	}
	return err
}

// check finds what makes a script worthless.
func (s *script) check() error {
	var errs []error
	seen := make(map[string]bool)
	for _, c := range s.cases {
		if seen[c.name] {
			errs = append(errs, fmt.Errorf("line %d: %s is there twice", c.line, c.name))
		}
		seen[c.name] = true
		if c.class == "" {
			errs = append(errs, fmt.Errorf("line %d: %s has no class", c.line, c.name))
		}
		if c.command == "" && c.tool == "bash" {
			errs = append(errs, fmt.Errorf("line %d: %s has no command", c.line, c.name))
		}
	}
	return errors.Join(errs...)
}

// TestScripts proves that the trial is as large as it should be.
func TestScripts(t *testing.T) {
	total, byClass := 0, make(map[class]int)
	for _, s := range readScripts(t) {
		for _, c := range s.cases {
			total++
			byClass[c.class]++
		}
	}
	t.Logf("%d cases: %v", total, byClass)
	if total < 150 {
		t.Errorf("%d cases, want 150 at least", total)
	}
}
