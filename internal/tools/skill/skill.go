// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package skill has the tool that gives models the skills of an operator: folders with
// instructions in a SKILL.md, and documents beside it. They are read when they are asked
// for, so that a change counts at once; nothing is read outside of a skill's folder.
package skill

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolserver/toolserver/internal/markdown"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/tools"
)

// Capability is what the machine of a server offers that has folders of skills.
const Capability = "skills"

//go:embed skill.md
var skillDoc string

//go:embed skill_help.md
var skillHelp string

type input struct {
	Name      string          `json:"name,omitempty" check:"max=64"`
	Arguments json.RawMessage `json:"arguments,omitempty" jsonschema:"a text, or an object of named ones"`
	File      string          `json:"file,omitempty" check:"max=500" jsonschema:"a document of the skill, by its path there"`
}

// Check finds what the schema cannot tell.
func (in input) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	if in.Name == "" && (in.File != "" || len(in.Arguments) > 0) {
		wrong("/name", "is required: which skill")
	}
	if in.File != "" && len(in.Arguments) > 0 {
		wrong("/arguments", "are for the skill, not for a document of it")
	}
	if in.File != "" && !filepath.IsLocal(in.File) {
		wrong("/file", "want a path below the folder of the skill, such as reference/forms.md")
	}
	if _, err := argumentsOf(in.Arguments); err != nil {
		wrong("/arguments", err.Error())
	}
	return problems
}

// Tools returns the family.
func (s *Set) Tools() []tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:                 "skill",
			Aliases:              []string{"Skill"},
			Keys:                 []tools.Key{{Other: "skill", Name: "name"}, {Other: "args", Name: "arguments"}},
			Label:                "Skills",
			Summary:              "List the skills of the operator, or load one.",
			Description:          skillDoc,
			Help:                 skillHelp,
			Category:             "skills",
			Level:                tools.ReadOnly,
			ConcurrencySafe:      true,
			RequiredCapabilities: []string{Capability},
			Examples: []tools.Example{
				{Summary: "What there is", Input: json.RawMessage(`{}`)},
				{Summary: "One with arguments", Input: json.RawMessage(`{"name":"fix-issue","arguments":"123 high"}`)},
				{Summary: "A document of it", Input: json.RawMessage(`{"name":"fix-issue","file":"reference/labels.md"}`)},
			},
		},
		nil,
		func(_ context.Context, env tools.Env, in input, _ tools.Sink) (tools.Result, error) {
			if in.Name == "" {
				return s.list(env)
			}
			found, err := s.named(env, in.Name)
			if err != nil {
				return tools.Result{}, err
			}
			if in.File != "" {
				return found.document(env, in.File)
			}
			return found.load(env, in.Arguments)
		})
	if len(s.Dirs()) == 0 {
		tool = tools.WithUnavailable(tool, "has no skills: the operator names folders of them in the configuration, such as skills: [/etc/toolserver/skills]")
	}
	return []tools.Tool{tool}
}

// list tells which skills there are.
func (s *Set) list(env tools.Env) (tools.Result, error) {
	var b strings.Builder
	names := []string{}
	all, _ := s.All()
	for _, one := range all {
		names = append(names, one.Name)
		fmt.Fprintf(&b, "%s%s: %s\n", one.Name, one.usage(), cmp.Or(one.Description, "(no description)"))
	}
	if len(all) == 0 {
		b.WriteString("There are no skills.\n")
	}
	details, err := json.Marshal(map[string]any{"skills": names})
	return tools.Result{Content: env.Begin(b.String(), "skills.txt"), Details: details}, err
}

// named returns the skill of a name, or the failure that tells which was meant.
func (s *Set) named(env tools.Env, name string) (*Skill, error) {
	all, _ := s.All()
	name = strings.TrimPrefix(strings.TrimSpace(name), "/")
	var names []string
	for _, one := range all {
		if strings.EqualFold(one.Name, name) {
			return one, nil
		}
		names = append(names, one.Name)
	}
	return nil, tools.Failf("no_such_skill", "There is no skill %.64q%s %s lists them.", name, hint(name, names), env.Words.GoOn("skill", struct{}{}))
}

// load returns the instructions of a skill, with arguments filled in.
func (s *Skill) load(env tools.Env, arguments json.RawMessage) (tools.Result, error) {
	folder, err := s.open()
	if err != nil {
		return tools.Result{}, s.unreadable(fileName, err)
	}
	defer folder.Close()
	text, err := markdown.Read(folder, fileName, maxSkill)
	if err != nil {
		return tools.Result{}, s.unreadable(fileName, err)
	}
	now, body, err := parse(s.folder, text) // as it is by now
	if err != nil {
		return tools.Result{}, s.unreadable(fileName, err)
	}
	given, err := argumentsOf(arguments)
	if err != nil {
		return tools.Result{}, err
	}
	if body, err = now.fillIn(body, given); err != nil {
		return tools.Result{}, err
	}
	files, more := documentsOf(folder)
	var b strings.Builder
	fmt.Fprintf(&b, "# Skill %s\n\n%s\n", now.Name, strings.TrimSpace(body))
	if len(now.Tools) > 0 {
		fmt.Fprintf(&b, "\n(It was written for these tools: %s.)\n", strings.Join(now.Tools, ", "))
	}
	if len(files) > 0 {
		fmt.Fprintf(&b, "\n(Documents of it: %s", strings.Join(files, ", "))
		if more {
			b.WriteString(" and more")
		}
		fmt.Fprintf(&b, ". See one with %s.%s)\n", env.Words.GoOn("skill", input{Name: now.Name, File: files[0]}), s.place(env))
	}
	details, err := json.Marshal(map[string]any{"skill": now.Name, "documents": append([]string{}, files...), "allowed_tools": append([]string{}, now.Tools...)})
	return tools.Result{Content: env.Begin(b.String(), now.Name+".md"), Details: details}, err
}

// place tells where commands find the folder of a skill; empty where they cannot.
func (s *Skill) place(env tools.Env) string {
	for _, tree := range env.Readable {
		if within, err := filepath.Rel(tree, s.path); err == nil && filepath.IsLocal(within) {
			return " Commands find them in " + s.path + "."
		}
	}
	return ""
}

// document returns a document of a skill.
func (s *Skill) document(env tools.Env, name string) (tools.Result, error) {
	folder, err := s.open()
	if err != nil {
		return tools.Result{}, s.unreadable(name, err)
	}
	defer folder.Close()
	text, err := markdown.Read(folder, filepath.Clean(name), maxDocument)
	if err != nil {
		files, _ := documentsOf(folder)
		return tools.Result{}, tools.Failf("no_such_document", "The skill %s has no document %.200q to show: %s%s", s.Name, name, markdown.PlainError(err), hint(name, files))
	}
	details, err := json.Marshal(map[string]any{"skill": s.Name, "document": name})
	return tools.Result{Content: env.Begin(string(text), filepath.Base(name)), Details: details}, err
}

// hint ends a sentence with what a name was meant to be.
func hint(name string, known []string) string {
	return cmp.Or(nearest.Hint(nearest.Names(name, known)), ".")
}

func (s *Skill) unreadable(name string, err error) error {
	return tools.Failf("skill_unreadable", "%s of the skill %s cannot be read: %s.", name, s.Name, markdown.PlainError(err))
}
