// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package dynamic

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed create.md
var createDoc string

//go:embed help.md
var createHelp string

// Whose a tool is.
const (
	ofSession   = "session"
	ofPrincipal = "principal"
)

// definition is what a tool is made of.
type definition struct {
	name, description, interpreter, source string
	schema                                 json.RawMessage
}

type createInput struct {
	Name        string       `json:"name" check:"min=1,max=48" jsonschema:"letters, digits, _ and -"`
	Description string       `json:"description" check:"min=1,max=1000" jsonschema:"what models are told of it"`
	Schema      tools.Object `json:"schema" jsonschema:"JSON Schema of its input"`
	Interpreter string       `json:"interpreter" check:"enum=bash|python3|node" jsonschema:"what runs the source"`
	Source      string       `json:"source" check:"min=1,max=65536" jsonschema:"the program: input as JSON on stdin, answer on stdout"`
	Scope       string       `json:"scope,omitempty" check:"enum=session|principal" jsonschema:"default session; principal: all your sessions have it"`
}

type updateInput struct {
	Name        string       `json:"name" check:"min=1,max=64" jsonschema:"the tool"`
	Description string       `json:"description,omitempty" check:"max=1000"`
	Schema      tools.Object `json:"schema,omitempty"`
	Interpreter string       `json:"interpreter,omitempty" check:"enum=bash|python3|node"`
	Source      string       `json:"source,omitempty" check:"max=65536"`
}

type deleteInput struct {
	Name string `json:"name" check:"min=1,max=64" jsonschema:"the tool"`
}

type getInput struct {
	Name    string `json:"name" check:"min=1,max=64" jsonschema:"the tool"`
	Version int    `json:"version,omitempty" check:"min=1" jsonschema:"default: the last"`
}

type listInput struct {
	Query string `json:"query,omitempty" check:"max=200" jsonschema:"a part of names or descriptions"`
}

// Check finds what the schema cannot tell.
func (in createInput) Check() []tools.Problem {
	return problems(in.Name, in.Description, in.Source, in.Schema)
}

// Check finds what the schema cannot tell.
func (in updateInput) Check() []tools.Problem {
	if in.Description == "" && in.Schema == nil && in.Interpreter == "" && in.Source == "" {
		return []tools.Problem{{Message: "changes nothing: give description, schema, interpreter or source"}}
	}
	return problems("", in.Description, in.Source, in.Schema)
}

// problems returns what is wrong with what is given of a definition.
func problems(name, description, source string, input tools.Object) (list []tools.Problem) {
	wrong := func(pointer, format string, args ...any) {
		list = append(list, tools.Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && c != '-' && (c < '0' || c > '9')) {
			wrong("/name", "want letters of English, digits, _ and -, beginning with a letter")
			break
		}
	}
	if strings.Contains(name, tools.NamespaceMark) {
		wrong("/name", "has two underscores in a row, which would make the name unclear")
	}
	if description != "" && strings.TrimSpace(description) == "" {
		wrong("/description", "is blank")
	}
	for _, c := range description {
		if c != '\n' && c != '\t' && !unicode.IsPrint(c) {
			wrong("/description", "has the character %U in it, which nobody sees", c)
			break
		}
	}
	if strings.ContainsRune(source, 0) {
		wrong("/source", "contains a NUL character, which no program can")
	}
	if len(source) > maxSource {
		wrong("/source", "has %d bytes: at most %d", len(source), maxSource)
	}
	if text := input.JSON(); len(text) > maxSchema {
		wrong("/schema", "has %d bytes: at most %d", len(text), maxSchema)
	} else if input != nil {
		if _, err := schema.Object(text, true); err != nil {
			wrong("/schema", "%s", strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	return list
}

// spec returns what all specs of the family share.
func spec(name, label, summary, description string, level tools.Level) tools.Spec {
	return tools.Spec{
		Name: name, Label: label, Summary: summary, Description: description, Category: category, Level: level,
		ConcurrencySafe: level == tools.ReadOnly,
	}
}

func (s *Set) create() tools.Tool {
	sp := spec("tool_create", "Make a tool", "Make a tool of your own.", createDoc, tools.WorkspaceWrite)
	sp.Help, sp.Dangerous = createHelp, true
	sp.Keys = []tools.Key{{Other: "parameters", Name: "schema"}, {Other: "input_schema", Name: "schema"}, {Other: "code", Name: "source"}}
	sp.Examples = []tools.Example{{Summary: "Count the words of a text", Input: json.RawMessage(
		`{"name":"count_words","description":"Counts the words of a text.","schema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"interpreter":"python3","source":"import json, sys\nprint(len(json.load(sys.stdin)['text'].split()))"}`)}}
	tool := tools.New(sp,
		func(env tools.Env, in createInput) []tools.Effect { return uses(in.Name, in.Scope == ofPrincipal) },
		func(_ context.Context, env tools.Env, in createInput, _ tools.Sink) (tools.Result, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			m := in.made(env)
			if err := s.taken(env, in.Name, m.Private); err != nil {
				return tools.Result{}, err
			}
			return s.add(env, m, definition{in.Name, in.Description, in.Interpreter, in.Source, in.Schema.JSON()})
		})
	tool = tools.WithForesight(tool, func(env tools.Env, in createInput) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return cmp.Or(s.taken(env, in.Name, in.made(env).Private), s.runs(in.Interpreter))
	})
	return tools.WithPreview(tool, func(_ context.Context, env tools.Env, in createInput) tools.Preview {
		whose := "this session"
		if in.Scope == ofPrincipal {
			whose = "all sessions of " + env.Principal + ", whomever they are for, until it is deleted"
		}
		return preview("Make", whose, definition{in.Name, in.Description, in.Interpreter, in.Source, in.Schema.JSON()})
	})
}

// made returns the tool that the input asks for, without a version.
func (in *createInput) made(env tools.Env) *made {
	m := &made{Name: in.Name, Private: tools.Private{Tenant: env.Tenant, Principal: env.Principal}}
	if in.Scope != ofPrincipal {
		m.Private.Session, m.session = env.SessionID, env.Session
	}
	return m
}

func (s *Set) update() tools.Tool {
	sp := spec("tool_update", "Change a tool", "Change a tool that was made with tool_create.", "Makes a new version of a tool; what is left out stays. Earlier versions are kept.", tools.WorkspaceWrite)
	sp.Dangerous = true
	sp.Keys = []tools.Key{{Other: "parameters", Name: "schema"}, {Other: "input_schema", Name: "schema"}, {Other: "code", Name: "source"}}
	sp.Examples = []tools.Example{{Summary: "Say more of it", Input: json.RawMessage(`{"name":"count_words","description":"Counts the words of a text, by blanks."}`)}}
	tool := tools.New(sp,
		func(env tools.Env, in updateInput) []tools.Effect { return s.touches(env, in.Name) },
		func(_ context.Context, env tools.Env, in updateInput, _ tools.Sink) (tools.Result, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			m, err := s.judged(env, in.Name)
			if err != nil {
				return tools.Result{}, err
			}
			if err := s.full(env, m); err != nil {
				return tools.Result{}, err
			}
			return s.add(env, m, in.of(m))
		})
	tool = tools.WithForesight(tool, func(env tools.Env, in updateInput) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		m, err := s.known(env, in.Name)
		if err != nil {
			return err
		}
		return cmp.Or(s.full(env, m), s.runs(in.of(m).interpreter))
	})
	return tools.WithPreview(tool, func(_ context.Context, env tools.Env, in updateInput) tools.Preview {
		s.mu.Lock()
		defer s.mu.Unlock()
		m := s.find(env, in.Name)
		if m == nil {
			return tools.Preview{Kind: tools.PreviewText, Text: "There is no tool " + in.Name + "."}
		}
		whose := "this session"
		if m.session == nil {
			whose = "all sessions of " + env.Principal
		}
		return preview(fmt.Sprintf("Change version %s of", m.last().id()), whose, in.of(m))
	})
}

// full returns why a tool can have no other version, or nil.
func (s *Set) full(env tools.Env, m *made) error {
	if len(m.Versions) < s.config.Versions {
		return nil
	}
	return tools.Failf("too_many_versions", "%s is version %d of at most %d. Delete it with %s, and make it anew.", m.Name, len(m.Versions), s.config.Versions, env.Words.Tool("tool_delete"))
}

// runs returns why an interpreter cannot be used, or nil.
func (s *Set) runs(interpreter string) error {
	if _, ok := s.runners.Find(interpreter); !ok {
		return tools.Failf("program_not_found", "There is no %s on this machine: use another interpreter.", interpreter)
	}
	return nil
}

// of returns the definition of a tool with what the input changes.
func (in *updateInput) of(m *made) definition {
	last := m.last()
	d := definition{m.Name, in.Description, in.Interpreter, in.Source, last.Schema}
	d.description, d.interpreter, d.source = cmp.Or(d.description, last.Description), cmp.Or(d.interpreter, last.Interpreter), cmp.Or(d.source, last.Source)
	if in.Schema != nil {
		d.schema = in.Schema.JSON()
	}
	return d
}

func (s *Set) remove() tools.Tool {
	sp := spec("tool_delete", "Delete a tool", "Delete a tool that was made with tool_create.", "Deletes a tool, with all its versions.", tools.WorkspaceWrite)
	sp.Examples = []tools.Example{{Summary: "Delete one", Input: json.RawMessage(`{"name":"count_words"}`)}}
	tool := tools.New(sp,
		func(env tools.Env, in deleteInput) []tools.Effect { return s.touches(env, in.Name) },
		func(_ context.Context, env tools.Env, in deleteInput, _ tools.Sink) (tools.Result, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			m, err := s.judged(env, in.Name)
			if err != nil {
				return tools.Result{}, err
			}
			if m.session == nil {
				if err := s.forget(m); err != nil {
					return tools.Result{}, err
				}
			}
			s.made = slices.DeleteFunc(s.made, func(other *made) bool { return other == m })
			s.publish(nil)
			return tools.TextResult(fmt.Sprintf("Deleted %s, version %s.", m.fullName(), m.last().id())), nil
		})
	return tools.WithForesight(tool, func(env tools.Env, in deleteInput) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, err := s.known(env, in.Name)
		return err
	})
}

func (s *Set) get() tools.Tool {
	sp := spec("tool_get", "Show a tool", "Show a tool that was made with tool_create, and its versions.", "Shows the source and the schema of a tool, and which versions there are.", tools.ReadOnly)
	sp.Examples = []tools.Example{{Summary: "The first version", Input: json.RawMessage(`{"name":"count_words","version":1}`)}}
	return tools.New(sp, nil, func(_ context.Context, env tools.Env, in getInput, _ tools.Sink) (tools.Result, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		m, err := s.known(env, in.Name)
		if err != nil {
			return tools.Result{}, err
		}
		number := cmp.Or(in.Version, m.last().Number)
		i := slices.IndexFunc(m.Versions, func(v version) bool { return v.Number == number })
		if i < 0 {
			if len(m.Versions) == 1 {
				return tools.Result{}, tools.Failf("no_such_version", "%s has version 1 alone.", m.Name)
			}
			return tools.Result{}, tools.Failf("no_such_version", "%s has versions 1 to %d.", m.Name, m.last().Number)
		}
		v := &m.Versions[i]
		var b strings.Builder
		fmt.Fprintf(&b, "%s, version %s, of the %s: %s\n\n%s\n\n%s\n\nVersions:\n", m.fullName(), v.id(), m.scope(), v.Description, tools.Fenced(v.Interpreter, v.Source), tools.Fenced("json", string(v.Schema)))
		for _, v := range m.Versions {
			fmt.Fprintf(&b, "%d %.16s %s in session %s\n", v.Number, v.Digest, v.Made.UTC().Format(time.RFC3339), v.Session)
		}
		result := tools.TextResult(b.String())
		result.Details = details(m, v)
		return result, nil
	})
}

func (s *Set) list() tools.Tool {
	sp := spec("tool_list", "List own tools", "List the tools that were made with tool_create.", "Lists the tools that were made here.", tools.ReadOnly)
	sp.Examples = []tools.Example{{Summary: "All", Input: json.RawMessage(`{}`)}, {Summary: "Some", Input: json.RawMessage(`{"query":"words"}`)}}
	return tools.New(sp, nil, func(_ context.Context, env tools.Env, in listInput, _ tools.Sink) (tools.Result, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var b strings.Builder
		for _, m := range s.made {
			about := m.fullName() + " " + m.last().Description
			if s.find(env, m.Name) == m && strings.Contains(strings.ToLower(about), strings.ToLower(in.Query)) {
				summary, _, _ := strings.Cut(m.last().Description, "\n")
				fmt.Fprintf(&b, "%s, version %d, of the %s, %s: %s\n", m.fullName(), m.last().Number, m.scope(), m.last().Interpreter, summary)
			}
		}
		return tools.TextResult(cmp.Or(b.String(), "(none)\n")), nil
	})
}

// uses returns the effect of making, changing or deleting a tool.
func uses(name string, lasting bool) []tools.Effect {
	return []tools.Effect{{Kind: tools.UsesTool, Tool: source + tools.NamespaceMark + name, Lasting: lasting}}
}

// touches is uses for a tool that is there, of which this version is judged.
func (s *Set) touches(env tools.Env, name string) []tools.Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(env, name)
	if m == nil {
		return uses(name, false)
	}
	env.Pin("version", m.last().id())
	return uses(m.Name, m.session == nil)
}

// judged returns the tool that was judged: of another version by now, it is another tool.
func (s *Set) judged(env tools.Env, name string) (*made, error) {
	m, err := s.known(env, name)
	if err != nil {
		return nil, err
	}
	if was, _ := env.Pinned("version"); was != m.last().id() {
		return nil, tools.Failf("changed", "Nothing was changed: %s was changed meanwhile, and is version %s by now. Look at it with %s, and call again.", m.Name, m.last().id(), env.Words.Tool("tool_get"))
	}
	return m, nil
}

// add makes a version of a tool.
func (s *Set) add(env tools.Env, m *made, d definition) (tools.Result, error) {
	if err := s.runs(d.interpreter); err != nil {
		return tools.Result{}, err
	}
	input, err := schema.Object(d.schema, true)
	if err != nil {
		return tools.Result{}, tools.Failf("wrong_schema", "No tool was made: %v.", err)
	}
	v := version{
		Number: len(m.Versions) + 1, Description: d.description, Schema: input.Text, Interpreter: d.interpreter, Source: d.source,
		Made: time.Now(), Session: env.SessionID, OnBehalfOf: env.OnBehalfOf,
	}
	v.Digest = v.digest(m.Name)
	more := 0
	if v.Number == 1 {
		more = 1
	}
	if err := s.room(env, m.Private, v.size(), more); err != nil {
		return tools.Result{}, err
	}
	if err := s.put(m, v, env.Session); err != nil {
		return tools.Result{}, err
	}
	verb := "Made"
	if v.Number > 1 {
		verb = "Changed"
	}
	result := tools.TextResult(fmt.Sprintf("%s %s, version %s. Call it by that name, or by %s.", verb, m.fullName(), v.id(), m.Name))
	result.Details = details(m, &v)
	return result, nil
}

// details is what a runtime is told of a version.
func details(m *made, v *version) json.RawMessage {
	text, _ := json.Marshal(map[string]any{"name": m.fullName(), "version": v.Number, "digest": v.Digest, "scope": m.scope(), "interpreter": v.Interpreter})
	return text
}

// preview shows a definition to the person who is asked.
func preview(verb, whose string, d definition) tools.Preview {
	return tools.Preview{Kind: tools.PreviewText, Text: fmt.Sprintf("%s the tool %s, for %s. It runs with %s in the sandbox, with what the session may, and is described so:\n\n%s\n\n%s\n\nIts input:\n\n%s",
		verb, source+tools.NamespaceMark+d.name, whose, d.interpreter, tools.Fenced("", d.description), tools.Fenced(d.interpreter, d.source), tools.Fenced("json", string(d.schema)))}
}
