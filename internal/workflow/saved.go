// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// named is how workflows may be called.
func named(name string) error {
	if !stepID.MatchString(strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(name))) {
		return tools.Failf("invalid_name", "%.64q is no name of a workflow: want 1 to 64 of a-z, 0-9, . _ and -, beginning with a letter.", name)
	}
	return nil
}

// definitionsOf returns what finds the texts of an owner's workflows.
func (k *buckets) definitionsOf(owner string) func(name string) (text string, there bool) {
	return func(name string) (string, bool) {
		s, _, there := k.texts.Get(definitionKey(owner, name))
		if !there {
			return "", false
		}
		return s.Text, true
	}
}

// Validate returns what a definition is, or everything that is wrong with it.
func (w *Workflows) Validate(ctx context.Context, env tools.Env, text string) (workflow.About, error) {
	k, err := w.open(ctx)
	if err != nil {
		return workflow.About{}, err
	}
	about, _, err := w.read(ctx, k, env, "", text)
	return about, err
}

// read parses a definition, and those that it runs.
func (w *Workflows) read(ctx context.Context, k *buckets, env tools.Env, name, text string) (workflow.About, map[string]string, error) {
	world := w.world(k, env)
	parsed, err := Parse(text, world)
	if err != nil {
		return workflow.About{}, nil, &tools.Failure{Code: "invalid_workflow", Message: err.Error()}
	}
	g := &gathering{world, make(map[string]string), make(map[string]int)}
	if _, err := g.below(ctx, parsed, []string{name}); err != nil {
		return workflow.About{}, nil, &tools.Failure{Code: "invalid_workflow", Message: err.Error()}
	}
	return workflow.About{Name: name, Description: parsed.Description, Text: text, Steps: len(parsed.steps), Outline: parsed.Outline()}, g.others, nil
}

const maxBelow = 5 // workflows that run each other

// gathering collects the workflows that one runs, and those that they run, each once.
type gathering struct {
	world  World
	others map[string]string
	depth  map[string]int // of those that are known whole: how many run each other there
}

// below collects what parsed runs, and returns how many of them run each other.
func (g *gathering) below(ctx context.Context, parsed *Workflow, path []string) (depth int, err error) {
	for _, s := range parsed.steps {
		name := s.Workflow
		if name == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, context.Cause(ctx)
		}
		if slices.Contains(path, name) {
			return 0, fmt.Errorf("the workflows run each other: %s", strings.Join(append(path[slices.Index(path, name):], name), " runs "))
		}
		if len(path) > maxBelow {
			return 0, g.tooDeep(append(path, name))
		}
		under, known := g.depth[name]
		if !known {
			text, _ := g.world.Workflow(name)
			other, err := Parse(text, g.world)
			if err != nil {
				return 0, fmt.Errorf("%s, which it runs: %w", name, err)
			}
			g.others[name] = text
			if under, err = g.below(ctx, other, append(path[:len(path):len(path)], name)); err != nil {
				return 0, err
			}
			g.depth[name] = under
		}
		if len(path)+under > maxBelow {
			return 0, g.tooDeep(append(path, name))
		}
		depth = max(depth, under+1)
	}
	return depth, nil
}

func (g *gathering) tooDeep(path []string) error {
	return fmt.Errorf("more than %d workflows run each other: %s", maxBelow, strings.Join(path, " runs "))
}

// CheckSave returns why a definition would not be kept.
func (w *Workflows) CheckSave(env tools.Env, name, text string, replace bool) error {
	ctx, done := context.WithTimeout(w.base, foresight)
	defer done()
	_, _, _, _, err := w.toSave(ctx, env, name, text, replace)
	return err
}

// toSave returns what is to be kept in place of which revision, or why it is not.
func (w *Workflows) toSave(ctx context.Context, env tools.Env, name, text string, replace bool) (k *buckets, about workflow.About, s *saved, last state.Revision, err error) {
	if err = named(name); err != nil {
		return
	}
	if k, err = w.open(ctx); err != nil {
		return
	}
	old, last, there := k.texts.Get(definitionKey(ownerOf(env), name))
	s = &saved{Version: recordVersion, Text: text, Number: 1, Changed: time.Now().UTC()}
	switch {
	case replace && !there:
		err = w.none(k, env, name)
	case replace:
		s.Number = old.Number + 1
	case there:
		err = tools.Failf("workflow_exists", "There is a workflow %s already: change it with workflow_update, or choose another name.", name)
	case len(k.texts.Keys(definitions+state.Key(ownerOf(env))+"/")) >= w.options.MaxPerPrincipal:
		err = tools.Failf("too_many_workflows", "There are %d workflows, which is as many as you may have: delete some.", w.options.MaxPerPrincipal)
	}
	if err == nil {
		about, _, err = w.read(ctx, k, env, name, text)
	}
	s.Description, s.Steps = about.Description, about.Steps
	return k, about, s, last, err
}

// Save keeps a definition under a name.
func (w *Workflows) Save(ctx context.Context, env tools.Env, name, text string, replace bool) (workflow.About, error) {
	k, about, s, last, err := w.toSave(ctx, env, name, text, replace)
	if err != nil {
		return about, err
	}
	key := definitionKey(ownerOf(env), name)
	revision, err := k.definitions.Update(ctx, key, encodeRecord(s), last, 0)
	if errors.Is(err, state.ErrConflict) {
		return about, &tools.Failure{Code: "conflict", Message: "The workflow " + name + " was changed meanwhile: look at it, and try again.", Retryable: true}
	}
	if err != nil {
		return about, unavailable(err)
	}
	k.texts.Note(key, s, revision)
	about.Version, about.Changed = s.Number, s.Changed
	return about, nil
}

// none is the failure of a workflow that is not there, for this principal.
func (w *Workflows) none(k *buckets, env tools.Env, name string) error {
	return tools.Failf("no_such_workflow", "%s", nearest.Missing("workflow", name, k.texts.Names(definitions+state.Key(ownerOf(env))+"/")))
}

func about(name string, s *saved) workflow.About {
	return workflow.About{Name: name, Description: s.Description, Text: s.Text, Version: s.Number, Changed: s.Changed, Steps: s.Steps}
}

// Get returns a definition, and what became wrong with it since it was kept.
func (w *Workflows) Get(ctx context.Context, env tools.Env, name string) (workflow.About, error) {
	k, err := w.open(ctx)
	if err != nil {
		return workflow.About{}, err
	}
	s, _, there := k.texts.Get(definitionKey(ownerOf(env), name))
	if !there {
		return workflow.About{}, w.none(k, env, name)
	}
	found := about(name, s)
	if read, _, err := w.read(ctx, k, env, name, s.Text); err != nil {
		found.Warnings = []string{err.Error()}
	} else {
		found.Outline = read.Outline
	}
	return found, nil
}

// List returns all definitions, by name.
func (w *Workflows) List(ctx context.Context, env tools.Env) ([]workflow.About, error) {
	k, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	var list []workflow.About
	for _, key := range k.texts.Keys(definitions + state.Key(ownerOf(env)) + "/") {
		if s, _, there := k.texts.Get(key); there {
			list = append(list, about(state.LastPart(key), s))
		}
	}
	return list, nil
}

// Delete forgets a definition.
func (w *Workflows) Delete(ctx context.Context, env tools.Env, name string) error {
	k, err := w.open(ctx)
	if err != nil {
		return err
	}
	key := definitionKey(ownerOf(env), name)
	if _, _, there := k.texts.Get(key); !there {
		return w.none(k, env, name)
	}
	if err := k.definitions.Delete(ctx, key, 0); err != nil {
		return unavailable(err)
	}
	k.texts.Forget(key)
	return nil
}
