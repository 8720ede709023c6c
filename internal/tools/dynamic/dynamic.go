// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynamic has the tools that make tools, and what they made: programs that an
// agent wrote, each with a schema, which run in the sandbox with the rights of the session
// that calls them. A tool belongs to its session, or to its principal, for whom it is kept
// on disk. Every version of one that is there is kept.
package dynamic

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	category = "tools"

	// source is the source of all of them in the registry.
	source = "dynamic"
)

// Config bounds what agents make.
type Config struct {
	// Dir is where tools of principals are kept; empty: nowhere, and there are none.
	Dir string `yaml:"dir"`

	// PerSession and PerPrincipal are how many tools each may have, Versions how many
	// versions there are of one.
	PerSession   int `yaml:"per_session"`
	PerPrincipal int `yaml:"per_principal"`
	Versions     int `yaml:"versions"`
}

// WithDefaults returns the config with what it leaves out.
func (c Config) WithDefaults() Config {
	return Config{c.Dir, cmp.Or(c.PerSession, 20), cmp.Or(c.PerPrincipal, 50), cmp.Or(c.Versions, 20)}
}

// Bounds of one tool, and of all versions of those that one owner has, in bytes.
const (
	maxName        = 48
	maxDescription = 1000
	maxSchema      = 16 << 10
	maxSource      = 64 << 10
	maxOfSession   = 1 << 20
	maxOfPrincipal = 4 << 20
)

const timeout = 2 * time.Minute

// interpreters are the programs that run what an agent wrote, with the option that is
// followed by it.
var interpreters = map[string]string{"bash": "-c", "python3": "-c", "node": "-e"}

// A Set has the tools that were made. Its methods are safe for concurrent use.
type Set struct {
	config   Config
	registry *tools.Registry
	runners  *command.Runners

	mu     sync.Mutex
	made   []*made                // in the order they were made
	awaits map[tools.Session]bool // sessions whose end removes their tools
}

// made is a tool that an agent made.
type made struct {
	Name     string        `json:"name"`
	Private  tools.Private `json:"private"`
	Versions []version     `json:"versions"` // the last is in force

	session tools.Session // whose it is; nil: the principal's
	tool    tools.Tool    // of the last version
}

// A version is one of those that a tool has had.
type version struct {
	Number      int             `json:"number"`
	Digest      string          `json:"digest"` // SHA-256 of what follows, and of the name
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Interpreter string          `json:"interpreter"`
	Source      string          `json:"source"`

	Made       time.Time `json:"made"`
	Session    string    `json:"session"`
	OnBehalfOf string    `json:"on_behalf_of,omitempty"`
}

func (v *version) digest(name string) string {
	h := sha256.New()
	for _, part := range []string{name, v.Description, string(v.Schema), v.Interpreter, v.Source} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// id names the version: its number, and enough of its digest that nobody finds two that have
// the same.
func (v *version) id() string { return fmt.Sprintf("%d-%.32s", v.Number, v.Digest) }

func (v *version) size() int { return len(v.Description) + len(v.Schema) + len(v.Source) }

func (m *made) last() *version { return &m.Versions[len(m.Versions)-1] }

func (m *made) fullName() string { return source + tools.NamespaceMark + m.Name }

// scope tells whose the tool is, in the words of tool_create.
func (m *made) scope() string {
	if m.Private.Session == "" {
		return ofPrincipal
	}
	return ofSession
}

// New returns the set of a server, whose tools are offered in registry, with those of
// principals that were kept. The error tells of those that could not be read; the set has
// the others.
func New(config Config, registry *tools.Registry, runners *command.Runners) (*Set, error) {
	s := &Set{config: config.WithDefaults(), registry: registry, runners: runners, awaits: make(map[tools.Session]bool)}
	if s.config.Dir == "" {
		return s, nil
	}
	return s, s.load()
}

// Tools returns the tools that make tools.
func (s *Set) Tools() []tools.Tool {
	return []tools.Tool{s.create(), s.update(), s.remove(), s.get(), s.list()}
}

// find returns the tool that a session knows by a name; nil: none.
func (s *Set) find(env tools.Env, name string) *made {
	name = strings.TrimPrefix(name, source+tools.NamespaceMark)
	for _, m := range s.made {
		if m.Name == name && m.Private.To(env.Tenant, env.Principal, env.SessionID) && (m.session == nil || m.session == env.Session) {
			return m
		}
	}
	return nil
}

// known is find, or the failure that tells which there are.
func (s *Set) known(env tools.Env, name string) (*made, error) {
	if m := s.find(env, name); m != nil {
		return m, nil
	}
	var names []string
	for _, m := range s.made {
		if s.find(env, m.Name) == m {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return nil, tools.Failf("no_such_tool", "There is no tool %.60q that was made here: none was made yet.", name)
	}
	return nil, tools.Failf("no_such_tool", "There is no tool %.60q that was made here. There are: %s.", name, strings.Join(names, ", "))
}

// taken returns why a tool may not have a name, or nil.
func (s *Set) taken(env tools.Env, name string, private tools.Private) error {
	refuse := func(format string, args ...any) error { return tools.Failf("name_taken", format, args...) }
	if other, ok := s.registry.Resembles(name); ok {
		return refuse("%s looks like the tool %s. Choose another name.", name, other)
	}
	for _, system := range persona.Systems() {
		if system.Tool(name) != nil {
			return refuse("%s is a tool of %s, whose calls are understood here. Choose another name.", name, system.Title)
		}
	}
	for _, m := range s.made {
		same := m.Private.Tenant == private.Tenant && m.Private.Principal == private.Principal
		// What all sessions of a principal have must not be hidden in one of them.
		if same && looksLike(m.Name, name) && (m.Private.Session == "" || private.Session == "" || m.Private.Session == private.Session) {
			if m.Private.Session != "" && private.Session == "" {
				return refuse("A session of yours has a tool %s. Choose another name, or delete it there.", m.Name)
			}
			return refuse("There is a tool %s. Change it with %s, or choose another name.", m.Name, env.Words.Tool("tool_update"))
		}
	}
	return nil
}

func looksLike(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "-", "_"), strings.ReplaceAll(b, "-", "_"))
}

// room returns why an owner may not have one more version of this size, or nil. More is
// how many tools it adds.
func (s *Set) room(env tools.Env, private tools.Private, size, more int) error {
	count, bytes := more, size
	for _, m := range s.made {
		if m.Private == private {
			count++
			for i := range m.Versions {
				bytes += m.Versions[i].size()
			}
		}
	}
	whose, most, room := "This session", s.config.PerSession, maxOfSession
	if private.Session == "" {
		whose, most, room = "The principal", s.config.PerPrincipal, maxOfPrincipal
	}
	switch {
	case count > most:
		return tools.Failf("too_many_tools", "%s has %d tools that were made, which is all it may have. Delete one with %s, or change one with %s.", whose, most, env.Words.Tool("tool_delete"), env.Words.Tool("tool_update"))
	case bytes > room:
		return tools.Failf("too_many_tools", "All versions of the tools of one owner together have %d bytes at most, and this would be %d. Delete a tool that is no longer needed.", room, bytes)
	}
	return nil
}

// put makes a version the last of a tool, which is a new one unless it has versions, and
// keeps it. Whatever fails, nothing has changed.
func (s *Set) put(m *made, v version, session tools.Session) error {
	next := &made{Name: m.Name, Private: m.Private, session: m.session, Versions: append(slices.Clip(m.Versions), v)}
	var err error
	if next.tool, err = s.tool(next); err != nil {
		return err
	}
	if next.session != nil && !s.awaits[session] {
		if !session.AfterClose(func() { s.ended(session) }) {
			return tools.Failf("session_closed", "The session is closed.")
		}
		s.awaits[session] = true
	}
	before := slices.Clone(s.made)
	if i := slices.Index(s.made, m); i >= 0 {
		s.made[i] = next
	} else {
		s.made = append(s.made, next)
	}
	if err = s.publish(next); err == nil && next.session == nil {
		err = s.save(next)
	}
	if err != nil {
		s.made = before
		s.publish(nil)
	}
	return err
}

// ended removes the tools of a session.
func (s *Set) ended(session tools.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.awaits, session)
	s.made = slices.DeleteFunc(s.made, func(m *made) bool { return m.session == session })
	s.publish(nil)
}

// publish offers what was made. The error is about one of them, or about all where that
// is nil.
func (s *Set) publish(about *made) error {
	list := make([]tools.Tool, len(s.made))
	for i, m := range s.made {
		list[i] = m.tool
	}
	err := s.registry.Replace(source, list...)
	if err == nil || about == nil {
		return err
	}
	is := func(spec *tools.Spec) bool { return spec.Private == about.Private && spec.Version == about.last().id() }
	if _, ok := s.registry.Lookup(about.fullName(), is); ok {
		return nil
	}
	return tools.Failf("refused", "Nothing was changed: %v.", err)
}

// tool returns the tool that the last version of m is.
func (s *Set) tool(m *made) (tools.Tool, error) {
	v := m.last()
	input, err := schema.Object(v.Schema, true)
	if err != nil {
		return nil, tools.Failf("wrong_schema", "No tool was made: %v.", err)
	}
	summary, _, _ := strings.Cut(v.Description, "\n")
	spec := tools.Spec{
		Name: m.Name, Label: m.Name, Summary: summary, Description: v.Description, Category: "dynamic",
		Kind: tools.Dynamic, Private: m.Private, Version: v.id(),
		Level: tools.DangerFullAccess, LeastLevel: tools.ReadOnly, Dangerous: true, RunsCode: true,
		RequiredCapabilities: []string{command.Capability}, DefaultTimeout: timeout,
	}
	return tools.NewForeign(tools.Foreign{
		Spec: spec, Schema: input.Text, Check: input.Check,
		Effects: func(env tools.Env, _ json.RawMessage) []tools.Effect { return v.effects(env) },
		Run: func(ctx context.Context, env tools.Env, input json.RawMessage, out tools.Sink) (tools.Result, error) {
			runner, err := s.runners.Of(env)
			if err != nil {
				return tools.Result{}, err
			}
			return runner.RunTool(ctx, env, command.Command{
				Path: v.Interpreter, Args: []string{interpreters[v.Interpreter], v.Source}, Dir: ".", Rights: env.Rights, Restrictions: env.Restrictions,
				Env: []string{"TOOLSERVER_TOOL=" + m.fullName(), "TOOLSERVER_TOOL_VERSION=" + v.id()},
			}, input, false, out)
		},
		Preview: func(_ context.Context, _ tools.Env, input json.RawMessage) tools.Preview {
			return tools.Preview{Kind: tools.PreviewText, Text: fmt.Sprintf("Version %s of %s, with the input\n\n%s\n\nruns\n\n%s", v.id(), m.fullName(), tools.Fenced("json", string(input)), tools.Fenced(v.Interpreter, v.Source))}
		},
	}), nil
}

// effects tells that code runs of which nobody knows what it does. As far as it can be
// told, rules that deny see what it runs: a tool is no way around them.
func (v *version) effects(env tools.Env) []tools.Effect {
	list := []tools.Effect{{
		Kind: tools.RunsProgram, Program: v.Interpreter, Argv: []string{v.Interpreter, tools.UnknownWord},
		Unclear: "it runs code that was made at run time",
	}}
	if v.Interpreter == "bash" {
		list = append(list, effects.Resolve(env, shell.Effects(v.Source, shell.PlaceOf(env, "")))...)
	}
	return list
}
