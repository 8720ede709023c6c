// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package workflow runs workflows: steps that are written down once, each a call through the
// same door as any other, by whom and in whose session the run was started. Nothing is decided
// here: a step is judged when it is made.
//
// The parts:
//
//	definition.go  what a workflow is, as it is written
//	flow.go        the short form, a >> (b | c) >> d
//	check.go       everything that is wrong with a definition, at once
//	template.go    values with expressions in them
//	record.go      what is stored of a run and of its steps
//	runs.go        which definitions and runs there are, and who carries a run on
//	run.go         one run: paused, cancelled, ended
//	steps.go       its steps, each after those it depends on
//	call.go        a step that is a call: tried again, and what a restart left of it
//
// Locks: Workflows.opening is held while the engine opens what is stored, and no other with it.
// Workflows.mu guards which runs are carried on here, that of a run what is
// known of it: neither is held while the other is taken, or while something is waited for.
//
// Goroutines: one looks for runs that nobody carries on. A run has one, one that keeps its
// lease, and one for each step that is under way; a step over a list has one for each item. Mirrors have their
// own. Close ends all, and waits.
package workflow

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/strictyaml"
	"github.com/toolserver/toolserver/internal/tools"
)

// Bounds of a definition.
const (
	MaxText     = 128 << 10 // bytes
	maxSteps    = 500
	maxRetries  = 10
	maxParallel = 16
	maxWait     = 30 * 24 * time.Hour
)

// definition is a workflow as its file has it.
type definition struct {
	Description  string         `yaml:"description"`
	Parameters   map[string]any `yaml:"parameters"` // a JSON Schema
	Flow         string         `yaml:"flow"`
	Steps        []step         `yaml:"steps"`
	Result       any            `yaml:"result"`
	ResultSchema map[string]any `yaml:"result_schema"`
}

// step is one of them. It is exactly one of tool, agent, workflow, approval, wait and
// condition; with map, it is that for each item of a list.
type step struct {
	ID         string         `yaml:"id"`
	Tool       string         `yaml:"tool"`
	Agent      string         `yaml:"agent"`
	Workflow   string         `yaml:"workflow"`
	Approval   string         `yaml:"approval"`
	Wait       string         `yaml:"wait"`
	Condition  string         `yaml:"condition"`
	Map        string         `yaml:"map"`
	Input      map[string]any `yaml:"input"` // of a tool or a workflow
	Prompt     string         `yaml:"prompt"`
	When       string         `yaml:"when"`
	After      names          `yaml:"after"`
	Retry      retry          `yaml:"retry"`
	Timeout    time.Duration  `yaml:"timeout"`
	Idempotent bool           `yaml:"idempotent"`
	Parallel   int            `yaml:"parallel"`
	Output     map[string]any `yaml:"output"` // a JSON Schema
}

// retry says how often a step that failed is tried again.
type retry struct {
	Times int           `yaml:"times"`
	Wait  time.Duration `yaml:"wait"` // before the first; twice as long before each further one
}

// names is a list of steps; one may stand alone.
type names []string

// One implements [strictyaml.OneAlone].
func (n *names) One(text string) error {
	*n = names{text}
	return nil
}

// A Workflow is a definition that was found to be right.
type Workflow struct {
	Description string

	parameters *schema.Schema
	steps      []*ready // each after those that it depends on
	result     *template
	fits       *schema.Schema // the result
}

// ready is a step that can be run.
type ready struct {
	step
	after     []*ready
	when      *policy.Expression // nil: always
	condition *policy.Expression
	over      *template // what a map goes through
	input     *template
	text      *template // of a prompt, a question or a time
	output    *schema.Schema
}

// kind returns what a step is; empty where it is nothing, or several things.
func (s *step) kind() string {
	var kinds []string
	for _, k := range []struct{ name, value string }{
		{"tool", s.Tool}, {"agent", s.Agent}, {"workflow", s.Workflow}, {"approval", s.Approval}, {"wait", s.Wait}, {"condition", s.Condition},
	} {
		if k.value != "" {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

// A World is what a definition may speak of.
type World struct {
	// Tool returns a tool, or nil where there is none; Workflow returns the text of a
	// workflow. Either may be nil, and is not asked then.
	Tool     func(name string) tools.Tool
	Workflow func(name string) (text string, there bool)

	Env tools.Env // of whom it is for
}

// isYAML tells the long form from the short one.
var isYAML = regexp.MustCompile(`^(\s*(#[^\n]*)?\n)*(---\s*\n)?\s*[a-z_]+\s*:(\s|$)`)

// Parse reads a definition, in YAML or in the short form, and finds everything that is wrong.
func Parse(text string, world World) (*Workflow, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the workflow has %d bytes: at most %d", len(text), MaxText)
	}
	r := strictyaml.NewReader("definition", "workflow")
	var d definition
	if isYAML.MatchString(text) {
		if r.Read([]byte(text), &d); !r.Has("steps") && r.Err() != nil {
			return nil, r.Err() // what it means is not known
		}
	} else if err := d.short(text, world); err != nil {
		return nil, fmt.Errorf("the workflow is not valid: %w", err)
	}
	c := &checker{reader: r, definition: &d, world: world}
	w := c.check()
	return w, r.Err()
}

// Outline returns the steps in a few words each, one a line.
func (w *Workflow) Outline() string {
	var b strings.Builder
	for _, s := range w.steps {
		what := s.kind()
		switch what {
		case "tool":
			what = s.Tool
		case "agent", "workflow":
			what += " " + s.Agent + s.Workflow
		}
		if s.Map != "" {
			what = "map " + what
		}
		fmt.Fprintf(&b, "- %s: %s", s.ID, what)
		var before []string
		for _, a := range s.after {
			before = append(before, a.ID)
		}
		if len(before) > 0 {
			b.WriteString(", after " + strings.Join(before, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}
