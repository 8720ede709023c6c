// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/markdown"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is the section "agents" of the configuration. Zero fields take the defaults named.
type Config struct {
	List        []Definition `yaml:"list"`
	Folders     []string     `yaml:"folders"`      // with Markdown files, an agent each
	MaxDepth    int          `yaml:"max_depth"`    // how many agents may ask each other; 1
	MaxRunning  int          `yaml:"max_running"`  // agents at work at once; 1000
	MaxParallel int          `yaml:"max_parallel"` // of a crew; 4
	Serve       bool         `yaml:"serve"`        // whether runtimes may serve agents, each for its principal
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.MaxDepth, c.MaxRunning, c.MaxParallel = cmp.Or(c.MaxDepth, 1), cmp.Or(c.MaxRunning, 1000), cmp.Or(c.MaxParallel, 4)
	return c
}

// A Definition is an agent of the operator.
type Definition struct {
	Name        string      `yaml:"name"`
	Description string      `yaml:"description"` // for models: when to give it a task
	Prompt      string      `yaml:"prompt"`      // the system prompt
	Endpoint    string      `yaml:"endpoint"`    // of models; empty: the first of the table
	Tools       []string    `yaml:"tools"`       // names of any system, or patterns; none: all of the caller's
	Exclude     []string    `yaml:"exclude"`     // of those
	Level       tools.Level `yaml:"level"`       // 0: that of the caller
	Mode        tools.Mode  `yaml:"mode"`        // 0: that of the caller
	Limits      Limits      `yaml:"limits"`

	model  string // that a file was written for; empty: none
	served bool   // by runtimes
}

// Limits end a loop that would go on. Zero fields take the defaults named.
type Limits struct {
	Turns   int           `yaml:"turns"`   // 50
	Tokens  int           `yaml:"tokens"`  // of all turns together, read and written; no bound
	Dollars model.Dollars `yaml:"dollars"` // no bound
	Time    time.Duration `yaml:"time"`    // 30 minutes
}

func (l Limits) withDefaults() Limits {
	l.Turns, l.Time = cmp.Or(l.Turns, 50), cmp.Or(l.Time, 30*time.Minute)
	return l
}

var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

const (
	maxFile  = 256 << 10 // bytes of a file, and of a prompt
	maxFiles = 500       // of a folder
)

// check finds everything that is wrong with a definition, with the key of each.
func (d *Definition) check(fault func(key, format string, args ...any)) {
	if !agentName.MatchString(d.Name) {
		fault("name", "%.80q is no name: want letters, digits, dots, _ and -, at most 64", d.Name)
	}
	if strings.TrimSpace(d.Prompt) == "" {
		fault("prompt", "is missing: want what the agent is to be and to heed")
	}
	if len(d.Prompt) > maxFile {
		fault("prompt", "has %d bytes: at most %d", len(d.Prompt), maxFile)
	}
	if l := d.Limits; l.Turns < 0 || l.Turns > 10_000 || l.Tokens < 0 || l.Time < 0 {
		fault("limits", "want turns of 1 to 10000, and tokens and time that are not negative")
	}
	if d.Mode == tools.ModeDeny {
		fault("mode", "deny lets no call run: want plan, ask, accept_edits or allow, or none for that of the caller")
	}
}

// Machine is what definitions are checked against.
type Machine struct {
	Endpoints []string    // of models
	MaxLevel  tools.Level // of sessions
	Knows     func(tool string) bool
}

// Check finds everything that is wrong with the section, with the key of each.
func (c Config) Check(on Machine, fault func(key, format string, args ...any)) {
	if c.MaxDepth < 0 || c.MaxDepth > 8 {
		fault("agents.max_depth", "%d is out of bounds: want 1 to 8", c.MaxDepth)
	}
	if c.MaxRunning < 0 || c.MaxRunning > 100_000 {
		fault("agents.max_running", "%d is out of bounds: want 1 to 100000", c.MaxRunning)
	}
	if c.MaxParallel < 0 || c.MaxParallel > 32 {
		fault("agents.max_parallel", "%d is out of bounds: want 1 to 32", c.MaxParallel)
	}
	names := make(map[string]bool)
	for i := range c.List {
		d := &c.List[i]
		at := func(key, format string, args ...any) {
			fault(fmt.Sprintf("agents.list[%d].%s", i, key), format, args...)
		}
		d.check(at)
		on.check(d, at)
		if names[strings.ToLower(d.Name)] {
			at("name", "there is an agent named %s already", d.Name)
		}
		names[strings.ToLower(d.Name)] = true
	}
	for i, dir := range c.Folders {
		key := fmt.Sprintf("agents.folders[%d]", i)
		if info, err := os.Stat(dir); !filepath.IsAbs(dir) {
			fault(key, "%q is no absolute path of a folder", dir)
		} else if err != nil {
			fault(key, "%v", err)
		} else if !info.IsDir() {
			fault(key, "%s is no folder", dir)
		}
	}
}

// check finds what a definition names and a server does not have.
func (on Machine) check(d *Definition, fault func(key, format string, args ...any)) {
	if d.Endpoint != "" && !slices.Contains(on.Endpoints, d.Endpoint) {
		fault("endpoint", "there is no endpoint %.64q among the models: want one of %s", d.Endpoint, cmp.Or(strings.Join(on.Endpoints, ", "), "those in models, where there is none"))
	}
	if on.MaxLevel > 0 && d.Level > on.MaxLevel {
		fault("level", "%s is above sessions.max_level, which is %s", d.Level, on.MaxLevel)
	}
	for _, name := range d.Tools {
		if name = bare(name); on.Knows != nil && !isPattern(name) && !on.Knows(name) {
			fault("tools", "there is no tool %.64q: \"toolserver tools\" lists those there are", name)
		}
	}
}

// All returns the agents of the list, and those that can be read of the folders.
func (c Config) All() []*Definition {
	files, _ := newFiles(c.Folders).All()
	return c.with(files)
}

// with returns the agents of the list and those of files.
func (c Config) with(files []*Definition) (all []*Definition) {
	for i := range c.List {
		all = append(all, &c.List[i])
	}
	for _, d := range files {
		if !c.lists(d.Name) {
			all = append(all, d)
		}
	}
	return all
}

// lists reports whether the list has an agent of that name, which is the one that counts.
func (c Config) lists(name string) bool {
	return slices.ContainsFunc(c.List, func(d Definition) bool { return strings.EqualFold(d.Name, name) })
}

// Wrong returns what is wrong with the files of folders, each with its path, and which of
// what definitions name is not there.
func (c Config) Wrong(on Machine) []string {
	files := newFiles(c.Folders)
	wrong := slices.Clip(files.Wrong())
	read, _ := files.All()
	for _, d := range read {
		if c.lists(d.Name) {
			wrong = append(wrong, fmt.Sprintf("agent %s: agents.list has one of that name, so that the file does not count", d.Name))
		}
	}
	for _, d := range c.with(read) {
		on.check(d, func(key, format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("agent %s: %s: %s", d.Name, key, fmt.Sprintf(format, args...)))
		})
	}
	return wrong
}

// newFiles returns the agents that Markdown files of folders define.
func newFiles(folders []string) *markdown.Set[*Definition] {
	return markdown.NewSet(markdown.Format[*Definition]{Name: "an agent", Find: filesOf, Parse: parse, MaxBytes: maxFile}, folders)
}

// filesOf returns the Markdown files of a folder.
func filesOf(root *os.Root) (files []string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".") // sorted
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) == ".md" && !strings.HasPrefix(name, ".") && !entry.IsDir() && !strings.EqualFold(name, "README.md") {
			files = append(files, name)
		}
	}
	if len(files) > maxFiles {
		return files[:maxFiles], fmt.Errorf("it has %d files: only %d are looked at", len(files), maxFiles)
	}
	return files, err
}

// parse reads a file: the system prompt follows the front matter. Keys that nobody here
// knows are passed over: other systems have more. Those of Claude Code are understood.
func parse(_, file string, text []byte) (*Definition, string, error) {
	keys, body, err := markdown.Parse(text)
	if err != nil {
		return nil, "", err
	}
	d := &Definition{
		Name:        cmp.Or(markdown.Text(keys["name"]), strings.TrimSuffix(file, ".md")),
		Description: markdown.Line(keys["description"]),
		Prompt:      strings.TrimSpace(body),
		Endpoint:    markdown.Text(keys["endpoint"]),
		Tools:       markdown.List(keys["tools"]),
		Exclude:     append(markdown.List(keys["exclude"]), markdown.List(keys["disallowedTools"])...),
		model:       markdown.Text(keys["model"]),
	}
	if len(d.Tools) == 1 && d.Tools[0] == "*" {
		d.Tools = nil
	}
	limits, _ := keys["limits"].(map[string]any)
	var errs []error
	read := func(key string, value any, into encoding.TextUnmarshaler) {
		if text := markdown.Text(value); text != "" {
			if err := into.UnmarshalText([]byte(text)); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
			}
		}
	}
	read("level", keys["level"], &d.Level)
	read("mode", keys["mode"], &d.Mode)
	read("limits.turns", limits["turns"], (*number)(&d.Limits.Turns))
	read("limits.tokens", limits["tokens"], (*number)(&d.Limits.Tokens))
	read("limits.dollars", limits["dollars"], &d.Limits.Dollars)
	read("limits.time", limits["time"], (*duration)(&d.Limits.Time))
	read("maxTurns", keys["maxTurns"], (*number)(&d.Limits.Turns))
	if mode, ok := theirModes[markdown.Text(keys["permissionMode"])]; ok && d.Mode == 0 {
		d.Mode = mode
	}
	d.check(func(key, format string, args ...any) { errs = append(errs, fmt.Errorf(key+": "+format, args...)) })
	if len(errs) > 0 {
		return nil, "", errors.New(strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; "))
	}
	return d, d.Name, nil
}

// theirModes are those of Claude Code that take something away. Its others are no reason to
// refuse a file, nor to permit more than the caller has.
var theirModes = map[string]tools.Mode{"plan": tools.ModePlan}

type number int

func (n *number) UnmarshalText(text []byte) error {
	value, err := strconv.Atoi(string(text))
	if err != nil || value < 0 {
		return fmt.Errorf("%.20q is no number", text)
	}
	*n = number(value)
	return nil
}

type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	if err != nil || value < 0 {
		return fmt.Errorf("%.20q is no duration: want one such as 10m", text)
	}
	*d = duration(value)
	return nil
}

// isPattern reports whether the name of a tool stands for several, or for those of a source.
func isPattern(name string) bool { return strings.ContainsAny(name, `@*?[{\`) }

// bare returns the name of a tool without what other systems write around it: what follows
// it in brackets, and mcp__ before the name of a server.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "(")
	return strings.TrimPrefix(name, "mcp__")
}

// selection returns what the tools of a definition are called here. unknown are those that
// nobody knows.
func selection(names []string, ours func(name string) []string) (include, unknown []string) {
	for _, name := range names {
		if name = bare(name); isPattern(name) {
			include = append(include, name)
			continue
		}
		found := ours(name)
		if len(found) == 0 {
			unknown = append(unknown, name)
		}
		include = append(include, found...)
	}
	return slices.Compact(include), unknown
}
