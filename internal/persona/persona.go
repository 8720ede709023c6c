// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package persona knows the tools of other agent systems: their names, descriptions
// and schemas, which tools of this server they mean, and in which form their models
// expect results. All of it is data, one file for each system below systems/; there is
// no Go code for a single tool.
//
// A call of such a tool becomes a call of ours before anybody judges it, so that
// policy, approvals, grants and audit know one name and one input for one thing. A
// system can only say in other words what a caller could have asked for itself.
package persona

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/common/ast"
	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A System is an agent system whose tools are known here.
type System struct {
	Name  string  `yaml:"system"` // what a session chooses it by
	Title string  `yaml:"title"`
	Tools []*Tool `yaml:"tools"`

	// Purpose is a key of every input that says what a call is for; empty: there is none.
	Purpose string `yaml:"purpose"`

	// Later names tools that this server has nothing for yet, by what they need.
	Later map[string][]string `yaml:"later"`
}

// A Tool is a tool of another system.
type Tool struct {
	Name        string   `yaml:"name"`
	Aliases     []string `yaml:"aliases"`
	Description string   `yaml:"description"`

	// Properties and Required are those of the JSON Schema of its input. Open says that
	// it may have other keys, too.
	Properties ordered  `yaml:"properties"`
	Required   []string `yaml:"required"`
	Open       bool     `yaml:"open"`

	// Freeform is the key that an input has which is a text, and no object; empty: it must
	// be an object.
	Freeform string `yaml:"freeform"`

	// Means are the calls of our tools that an input may stand for. The first one whose
	// condition is true counts.
	Means []*Meaning `yaml:"means"`

	System *System `yaml:"-"`

	compiled func() error    // prepares what follows, once: a server needs few of all tools
	text     json.RawMessage // of the schema
	schema   *jsonschema.Schema
	shape    map[string]any // the schema as values
}

// A Meaning is one call of ours that a call of theirs may stand for.
type Meaning struct {
	When   string `yaml:"when"`   // a condition about input; empty: always
	Tool   string `yaml:"tool"`   // ours
	Input  string `yaml:"input"`  // an expression that makes our input of theirs; empty: it is the same
	Result string `yaml:"result"` // an expression that makes their result of ours; empty: it is the same

	when, input, result program

	keys                map[string]string // of ours, and what they are made of
	constants, chosenBy map[string]any    // of our input, and of theirs
}

// ordered is a YAML mapping as JSON text, in its order.
type ordered json.RawMessage

func (o *ordered) UnmarshalYAML(text []byte) error {
	converted, err := yaml.YAMLToJSON(text)
	*o = converted
	return err
}

//go:embed systems/*.yaml
var files embed.FS

// Systems returns all systems, by name.
var Systems = sync.OnceValue(func() []*System {
	entries, err := files.ReadDir("systems")
	if err != nil {
		panic(err) // it is part of the program
	}
	var list []*System
	for _, entry := range entries {
		system, err := load("systems/" + entry.Name())
		if err != nil {
			panic(fmt.Errorf("persona: %s: %w", entry.Name(), err)) // a test reads them all
		}
		list = append(list, system)
	}
	slices.SortFunc(list, func(a, b *System) int { return cmp.Compare(a.Name, b.Name) })
	return list
})

func load(file string) (*System, error) {
	text, err := files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := new(System)
	if err := yaml.UnmarshalWithOptions(text, s, yaml.Strict()); err != nil {
		return nil, err
	}
	for _, t := range s.Tools {
		t.System, t.compiled = s, sync.OnceValue(t.compile)
	}
	return s, nil
}

// Names returns the names of all systems.
func Names() []string {
	var names []string
	for _, s := range Systems() {
		names = append(names, s.Name)
	}
	return names
}

// Named returns the system with a name. Most sessions have none, and the first call of a
// server need not read all systems to learn that, which leaves 38 MiB of garbage.
func Named(name string) (*System, bool) {
	if name == "" {
		return nil, false
	}
	i := slices.IndexFunc(Systems(), func(s *System) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return Systems()[i], true
}

// Tool returns the tool that a system knows by a name or an alias; nil: none.
func (s *System) Tool(name string) *Tool {
	for _, t := range s.Tools {
		if t.Name == name || slices.Contains(t.Aliases, name) {
			return t
		}
	}
	return nil
}

// Lookup returns the tools that systems know by a name.
func Lookup(name string) []*Tool { return byName()[name] }

var byName = sync.OnceValue(func() map[string][]*Tool {
	all := make(map[string][]*Tool)
	for _, s := range Systems() {
		for _, t := range s.Tools {
			for _, name := range append([]string{t.Name}, t.Aliases...) {
				all[name] = append(all[name], t)
			}
		}
	}
	return all
})

// Missing tells of a name that systems know and this server has nothing for: which
// systems, and what is missing; empty where no system knows it.
func Missing(name string) (systems, needs string) {
	var titles []string
	for _, s := range Systems() {
		for what, names := range s.Later {
			if slices.Contains(names, name) {
				titles, needs = append(titles, s.Title), what
			}
		}
	}
	return strings.Join(titles, ", "), needs
}

// Schema returns the JSON Schema of the tool's input.
func (t *Tool) Schema() json.RawMessage {
	t.mustCompile()
	return t.text
}

// mustCompile has the tool ready for use.
func (t *Tool) mustCompile() {
	if err := t.compiled(); err != nil {
		panic(fmt.Errorf("persona: %s of %s: %w", t.Name, t.System.Name, err)) // a test compiles them all
	}
}

// compile prepares what the data of a tool says.
func (t *Tool) compile() error {
	properties := cmp.Or(strings.TrimSpace(string(t.Properties)), "{}")
	if purpose := t.System.Purpose; purpose != "" {
		inner := strings.TrimSpace(properties[1 : len(properties)-1])
		if inner != "" {
			inner += ", "
		}
		properties = fmt.Sprintf(`{%s%q: {"type": "string", "description": "Why this tool is used, in a sentence."}}`, inner, purpose)
	}
	required, err := json.Marshal(append([]string{}, t.Required...))
	if err != nil {
		return err
	}
	t.text = fmt.Appendf(nil, `{"type": "object", "properties": %s, "required": %s, "additionalProperties": %t}`, properties, required, t.Open)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(t.text)))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("input", value); err != nil {
		return err
	}
	if t.schema, err = compiler.Compile("input"); err != nil {
		return err
	}
	t.shape = value.(map[string]any)
	for _, m := range t.Means {
		var read [3]*ast.AST
		for i, part := range []struct {
			source string
			to     *program
		}{{m.When, &m.when}, {m.Input, &m.input}, {m.Result, &m.result}} {
			if *part.to, read[i], err = newProgram(part.source); err != nil {
				return err
			}
		}
		known, _ := t.shape["properties"].(map[string]any)
		m.read(read[0], read[1], known)
	}
	return nil
}
