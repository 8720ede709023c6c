// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/strictyaml"
	"github.com/toolserver/toolserver/internal/tools"
)

// A manifest is the file of a tool.
type manifest struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`

	// Schema is the JSON Schema of the input, Result that of the answer, which is JSON
	// where there is one.
	Schema any `yaml:"schema"`
	Result any `yaml:"result"`

	// Command is what is run: a program in PATH, an absolute path, or one that begins
	// with ./ and lies beside the manifest; then its words. No shell is between.
	Command []string `yaml:"command"`

	// What a call touches: paths, hosts, and other commands that it stands for, each
	// with at most one {{key}} of the input. Complete says that this is all, ReadOnly
	// that it writes nothing; the sandbox holds it to that.
	Reads    []string `yaml:"reads"`
	Writes   []string `yaml:"writes"`
	Reaches  []string `yaml:"reaches"`
	Runs     []string `yaml:"runs"`
	ReadOnly bool     `yaml:"read_only"`
	Complete bool     `yaml:"complete"`

	Timeout     time.Duration     `yaml:"timeout"`
	Environment map[string]string `yaml:"environment"`

	// Secrets are variables of the folder, whose values the configuration has in files.
	Secrets []string `yaml:"secrets"`

	// Network is the most that the program reaches, whatever the session may.
	Network tools.Network `yaml:"network"`
}

const (
	maxManifest    = 256 << 10
	defaultTimeout = 2 * time.Minute
	maxTimeout     = 24 * time.Hour
)

// A program is a tool of a manifest.
type program struct {
	manifest
	dir      string // of the manifest
	secrets  map[string]string
	version  string
	input    *schema.Schema
	result   json.RawMessage
	command  []template
	effects  map[tools.EffectKind][]template
	commands [][]template // that it stands for
}

// parse reads the manifest of a file, and returns everything that is wrong with it.
func parse(path string, text []byte, secrets map[string]string) (*program, error) {
	r := strictyaml.NewReader(path, "manifest")
	p := &program{dir: filepath.Dir(path), secrets: secrets, effects: make(map[tools.EffectKind][]template)}
	r.Read(text, &p.manifest)
	if err := r.Err(); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	p.version = hex.EncodeToString(digest[:16]) // grants are for it: nobody finds two texts with the same one
	if name, err := source.OwnName(p.Name); err != nil || name != p.Name {
		r.Fault("name", "%.60q is no name: want letters of English, digits, _ and -", p.Name)
	}
	if strings.TrimSpace(p.Description) == "" || len(p.Description) > 10_000 {
		r.Fault("description", "is missing, or has more than 10000 bytes: want what models are told of the tool")
	}
	for _, c := range p.Description {
		if c != '\n' && c != '\t' && !unicode.IsPrint(c) {
			r.Fault("description", "has the character %U in it, which nobody sees", c)
		}
	}
	var err error
	if p.input, err = objectOf(p.Schema, true); err != nil {
		r.Fault("schema", "%v", err)
		return nil, r.Err()
	}
	if p.Result != nil {
		result, err := objectOf(p.Result, false)
		if err != nil {
			r.Fault("result", "%v", err)
		} else {
			p.result = result.Text
		}
	}
	p.parseTemplates(r.Fault)
	if p.ReadOnly && len(p.Writes) > 0 {
		r.Fault("writes", "is beside read_only: what writes nothing names nothing that it writes")
	}
	if p.Timeout < 0 || p.Timeout > maxTimeout {
		r.Fault("timeout", "%s is out of bounds: want up to %s", p.Timeout, maxTimeout)
	}
	for name, value := range p.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			r.Fault("environment", "%.60q is no name of a variable, or its value has a NUL in it", name)
		}
	}
	for _, name := range p.Secrets {
		if secrets[name] == "" {
			r.Fault("secrets", "%.60q is none of this folder: secret_files of the configuration names a file for each", name)
		}
	}
	return p, r.Err()
}

// objectOf returns the schema that was written as YAML.
func objectOf(value any, strict bool) (*schema.Schema, error) {
	var text json.RawMessage
	if value != nil {
		var err error
		if text, err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return schema.Object(text, strict)
}

// parseTemplates reads the words that have keys of the input in them.
func (p *program) parseTemplates(fault func(key, format string, args ...any)) {
	var object struct{ Properties map[string]json.RawMessage }
	json.Unmarshal(p.input.Text, &object)
	read := func(key string, texts []string) (list []template) {
		for _, text := range texts {
			t, err := parseTemplate(text)
			if err != nil {
				fault(key, "%v", err)
			} else if name, _, _ := strings.Cut(t.key, "."); t.key != "" && object.Properties[name] == nil {
				fault(key, "%q names %s, which is no property of the schema", text, name)
			}
			list = append(list, t)
		}
		return list
	}
	p.command = read("command", p.Command)
	p.effects[tools.ReadsPath] = read("reads", p.Reads)
	p.effects[tools.WritesPath] = read("writes", p.Writes)
	p.effects[tools.ReachesHost] = read("reaches", p.Reaches)
	for _, line := range p.Runs {
		p.commands = append(p.commands, read("runs", strings.Fields(line)))
	}
	if len(p.Command) == 0 || p.Command[0] == "" || p.command[0].key != "" {
		fault("command", "want a program, which is no value of the input, and its words")
		return
	}
	for i, t := range p.command[1:] {
		if before := p.Command[i]; t.key != "" && takesCode(p.Command[:i+1]) {
			fault("command", "%s after %s would be code of the caller: give it as a word behind the script, where it is $1, or have the script read it from standard input", p.Command[i+1], before)
		}
	}
	switch at := p.Command[0]; {
	case strings.HasPrefix(at, "./"):
		if err := executable(filepath.Join(p.dir, at)); err != "" {
			fault("command", "%s %s", at, err)
		}
	case filepath.IsAbs(at):
		if err := executable(at); err != "" {
			fault("command", "%s %s", at, err)
		}
	case strings.Contains(at, "/"):
		fault("command", "%s would be looked for in the workspace: want a name in PATH, an absolute path, or one that begins with ./ for a file beside the manifest", at)
	}
}

func executable(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "is not there"
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return "is not executable"
	}
	return ""
}

// tool returns the tool, which may be unavailable for now.
func (p *program) tool(runners *command.Runners, unavailable string) tools.Tool {
	summary, _, _ := strings.Cut(strings.TrimSpace(p.Description), "\n")
	spec := tools.Spec{
		Name: p.Name, Label: p.Name, Summary: summary, Description: p.Description, ResultSchema: p.result,
		Category: "script", Kind: tools.Script, Version: p.version, Level: tools.WorkspaceWrite, LeastLevel: tools.ReadOnly,
		ConcurrencySafe: p.ReadOnly, RequiredCapabilities: []string{command.Capability}, DefaultTimeout: cmp.Or(p.Timeout, defaultTimeout),
	}
	if p.ReadOnly {
		spec.Level = tools.ReadOnly
	}
	return tools.NewForeign(tools.Foreign{
		Spec: spec, Schema: p.input.Text, Unavailable: unavailable,
		Check: func(input json.RawMessage) (json.RawMessage, error) {
			input, err := p.input.Check(input)
			if err != nil {
				return nil, err
			}
			return input, p.checkWords(input)
		},
		Effects: func(env tools.Env, input json.RawMessage) []tools.Effect { return p.touches(env, input) },
		Run: func(ctx context.Context, env tools.Env, input json.RawMessage, out tools.Sink) (tools.Result, error) {
			runner, err := runners.Of(env)
			if err != nil {
				return tools.Result{}, err
			}
			words, err := p.words(input)
			if err != nil {
				return tools.Result{}, err
			}
			c := command.Command{Path: words[0], Args: words[1:], Dir: ".", Rights: p.narrowed(env.Rights), Restrictions: env.Restrictions, Apart: true}
			for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
				c.Env = append(c.Env, name+"="+p.Environment[name])
			}
			for _, name := range p.Secrets {
				value, err := source.Secret(p.secrets[name]) // each time: it may have been replaced
				if err != nil {
					return tools.Result{}, fmt.Errorf("%s of %s: %w", name, p.Name, err)
				}
				c.Env = append(c.Env, name+"="+value)
			}
			return runner.RunTool(ctx, env, c, input, p.result != nil, out)
		},
	})
}

// narrowed returns what the program may touch: what the verdict gave, as far as the
// manifest says, and the files beside it.
func (p *program) narrowed(r tools.Rights) tools.Rights {
	r.Read = append(slices.Clip(r.Read), p.dir)
	if p.Network != 0 {
		r.Network = min(r.Network, p.Network)
	}
	if p.Network != 0 && p.Network < tools.NetworkHosts {
		r.Hosts = nil
	}
	return r
}

// words returns the words of the command, the program first. The error is an
// [*tools.InputError].
func (p *program) words(input json.RawMessage) ([]string, error) {
	value := valueOf(input)
	words := []string{p.Command[0]}
	if strings.HasPrefix(words[0], "./") {
		words[0] = filepath.Join(p.dir, words[0])
	}
	ended := false // of the options
	for i, t := range p.command[1:] {
		for _, word := range t.expand(value) {
			switch {
			case strings.ContainsRune(word, 0):
				return nil, wrong(t.key, "contains a NUL character, which no word of a command can")
			case t.key != "" && t.before == "" && strings.HasPrefix(word, "-") && !ended:
				return nil, wrong(t.key, "begins with -, and would be taken for an option")
			}
			words = append(words, word)
		}
		ended = ended || p.Command[i+1] == "--"
	}
	return words, nil
}

// checkWords returns what is wrong with the values that become words or paths.
func (p *program) checkWords(input json.RawMessage) error {
	value := valueOf(input)
	for _, list := range p.effects {
		for _, t := range list {
			if slices.Contains(t.expand(value), "") {
				return wrong(t.key, "is empty, where a path or an address is wanted")
			}
		}
	}
	_, err := p.words(input)
	return err
}

func wrong(key, message string) error {
	return &tools.InputError{Problems: []tools.Problem{{Pointer: "/" + strings.ReplaceAll(key, ".", "/"), Message: message}}}
}

// touches returns what a call would touch: the program that it runs, and what the
// manifest says of it.
func (p *program) touches(env tools.Env, input json.RawMessage) []tools.Effect {
	words, err := p.words(input)
	if err != nil {
		words = []string{p.Command[0], tools.UnknownWord} // it was checked before
	}
	value := valueOf(input)
	list := []tools.Effect{{Kind: tools.RunsProgram, Program: words[0], Argv: words, ReadOnly: p.ReadOnly, Complete: p.Complete}}
	for _, kind := range []tools.EffectKind{tools.ReadsPath, tools.WritesPath, tools.ReachesHost} {
		for _, t := range p.effects[kind] {
			for _, text := range t.expand(value) {
				if kind == tools.ReachesHost {
					list = append(list, source.Reaches(t.text, text))
				} else {
					effect := tools.Effect{Kind: kind, Path: filepath.Clean(text)}
					if effect.Path != text {
						effect.Named = text
					}
					list = append(list, effect)
				}
			}
		}
	}
	for _, line := range p.commands {
		var argv []string
		for _, t := range line {
			argv = append(argv, t.expand(value)...)
		}
		if len(argv) > 0 {
			list = append(list, tools.Effect{Kind: tools.RunsProgram, Program: argv[0], Argv: argv, ReadOnly: p.ReadOnly, Complete: p.Complete})
		}
	}
	return effects.Resolve(env, list)
}
