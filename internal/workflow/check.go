// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/strictyaml"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// checker finds everything that is wrong with a definition.
type checker struct {
	reader     *strictyaml.Reader
	definition *definition
	world      World
	byID       map[string]*ready
	ids        []string
	parameters []string // names; nil where any may be
}

// stepID is how steps are named, so that expressions can speak of steps.name.
var stepID = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,63}$`)

func (c *checker) wrong(at, message string) { c.reader.Fault(at, "%s", message) }

// check returns the workflow, which is right where the reader has no fault.
func (c *checker) check() *Workflow {
	d := c.definition
	w := &Workflow{Description: d.Description}
	if len(d.Steps) == 0 || len(d.Steps) > maxSteps {
		c.wrong("steps", fmt.Sprintf("there are %d: want 1 to %d, such as steps: [{id: build, tool: bash, input: {command: make}}]", len(d.Steps), maxSteps))
		return w
	}
	w.parameters = c.schema("parameters", d.Parameters, schemaOfParameters)
	w.fits = c.schema("result_schema", d.ResultSchema, schema.Any)
	c.named()
	list := make([]*ready, len(d.Steps))
	c.byID = make(map[string]*ready)
	for i := range d.Steps {
		list[i] = &ready{step: d.Steps[i]}
		at := fmt.Sprintf("steps[%d]", i)
		if id := d.Steps[i].ID; !stepID.MatchString(id) {
			c.wrong(at+".id", fmt.Sprintf("%.64q is no id of a step: want 1 to 64 of a-z, 0-9 and _, not beginning with a digit", id))
		} else if c.byID[id] != nil {
			c.wrong(at+".id", id+" is there twice")
		} else {
			c.byID[id] = list[i]
			c.ids = append(c.ids, id)
		}
	}
	c.order(list)
	w.steps = c.sorted(list)
	for i, s := range list {
		c.step(s, fmt.Sprintf("steps[%d]", i))
	}
	if d.Result != nil {
		w.result = newTemplate(d.Result, "result", c.wrong)
		c.references("result", w.result, nil, c.byID, false)
	}
	return w
}

func schemaOfParameters(text json.RawMessage) (*schema.Schema, error) {
	return schema.Object(text, true)
}

// schema compiles a JSON Schema of a definition; nil where there is none.
func (c *checker) schema(at string, value map[string]any, compile func(json.RawMessage) (*schema.Schema, error)) *schema.Schema {
	if value == nil && at != "parameters" {
		return nil
	}
	var text json.RawMessage
	if value != nil {
		text, _ = encode(value) // it was read of YAML
	}
	compiled, err := compile(text)
	if err != nil {
		c.wrong(at, err.Error())
		return nil
	}
	return compiled
}

// named notes which parameters there are.
func (c *checker) named() {
	if c.definition.Parameters == nil {
		c.parameters = []string{}
		return
	}
	if properties, ok := c.definition.Parameters["properties"].(map[string]any); ok {
		for name := range properties {
			c.parameters = append(c.parameters, name)
		}
	}
}

// order finds what each step comes after: as the flow says, as it says itself, or else the
// one before it.
func (c *checker) order(list []*ready) {
	if c.definition.Flow != "" {
		c.flow(list)
		return
	}
	long := c.reader.Has("steps")
	for i, s := range list {
		at := fmt.Sprintf("steps[%d].after", i)
		if long && !c.reader.Has(at) {
			if i > 0 {
				s.after = []*ready{list[i-1]}
			}
			continue
		}
		for _, id := range s.After {
			c.join(s, id, at)
		}
	}
}

// join has a step come after another.
func (c *checker) join(s *ready, id, at string) {
	before := c.byID[id]
	if before == nil {
		c.wrong(at, fmt.Sprintf("there is no step %.64q%s", id, nearest.Hint(nearest.Names(id, c.ids))))
		return
	}
	if !slices.Contains(s.after, before) {
		s.after = append(s.after, before)
	}
}

func (c *checker) flow(list []*ready) {
	f, err := readFlow(c.definition.Flow, false)
	if err != nil {
		c.wrong("flow", err.Error())
		return
	}
	there := make(map[string]bool)
	for _, p := range f.names {
		s := c.byID[p.id]
		if s == nil {
			c.wrong("flow", fmt.Sprintf("there is no step %.64q%s", p.id, nearest.Hint(nearest.Names(p.id, c.ids))))
			continue
		}
		there[p.id] = true
		for _, id := range f.after[p.id] {
			c.join(s, id, "flow")
		}
	}
	for i, s := range list {
		if len(s.After) > 0 {
			c.wrong(fmt.Sprintf("steps[%d].after", i), "the flow says what comes after what: leave out one of them")
		}
		if !there[s.ID] && s.ID != "" {
			c.wrong("flow", "the step "+s.ID+" is not in it")
		}
	}
}

// sorted returns the steps, each after those that it depends on. A cycle is told.
func (c *checker) sorted(list []*ready) (order []*ready) {
	const visiting, visited = 1, 2
	state := make(map[*ready]int)
	var path []string
	var visit func(s *ready) bool
	visit = func(s *ready) bool {
		switch state[s] {
		case visited:
			return true
		case visiting:
			begin := slices.Index(path, s.ID)
			c.wrong("steps", "the steps wait for each other: "+strings.Join(append(path[begin:], s.ID), " after ")+": one of them has to come first")
			return false
		}
		state[s] = visiting
		path = append(path, s.ID)
		for _, before := range s.after {
			if !visit(before) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[s] = visited
		order = append(order, s)
		return true
	}
	for _, s := range list {
		if !visit(s) {
			return order
		}
	}
	return order
}

// earlier returns the steps that have ended when a step begins.
func earlier(s *ready) map[string]*ready {
	all := make(map[string]*ready)
	var visit func(*ready)
	visit = func(s *ready) {
		for _, before := range s.after {
			if all[before.ID] == nil {
				all[before.ID] = before
				visit(before)
			}
		}
	}
	visit(s)
	return all
}

// step checks one step, and makes it ready.
func (c *checker) step(s *ready, at string) {
	kind := s.kind()
	if kind == "" {
		c.wrong(at, "want exactly one of tool, agent, workflow, approval, wait and condition")
		return
	}
	c.bounds(s, kind, at)
	c.exists(s, at)
	if s.Input != nil {
		s.input = newTemplate(s.Input, at+".input", c.wrong)
	}
	if workflow.IsRun(s.Tool) { // what the workflow runs would not be known before
		c.wrong(at+".tool", "want the step workflow: NAME, which has an input of its own, in place of the tool "+s.Tool)
	}
	if kind == "tool" && c.world.Tool != nil {
		c.fits(s, at+".input")
	}
	if text := s.Prompt + s.Approval + s.Wait; text != "" {
		s.text = newTemplate(text, at+"."+cmp.Or(map[string]string{"agent": "prompt"}[kind], kind), c.wrong)
		if kind == "wait" && s.text.text == nil {
			if _, err := waitUntil(s.Wait, time.Now()); err != nil {
				c.wrong(at+".wait", err.Error())
			}
		}
	}
	if s.Map != "" {
		s.over = newTemplate(s.Map, at+".map", c.wrong)
		if s.over.text == nil {
			c.wrong(at+".map", "want an expression that gives a list, such as ${steps.list.output}")
		}
	}
	s.when = c.condition(s.When, at+".when")
	s.condition = c.condition(s.Condition, at+".condition")
	s.output = c.schema(at+".output", s.Output, schema.Any)
	before := earlier(s)
	c.references(at+".input", s.input, nil, before, s.Map != "")
	c.references(at, s.text, nil, before, s.Map != "")
	c.references(at+".map", s.over, nil, before, false)
	c.references(at+".when", nil, s.when, before, false)
	c.references(at+".condition", nil, s.condition, before, false)
}

// condition compiles an expression; "${…}" may be around it.
func (c *checker) condition(text, at string) *policy.Expression {
	if text == "" {
		return nil
	}
	if inner, ok := strings.CutPrefix(strings.TrimSpace(text), "${"); ok && strings.HasSuffix(inner, "}") {
		text = strings.TrimSuffix(inner, "}")
	}
	e, err := compile(text)
	if err != nil {
		c.wrong(at, err.Error())
	}
	return e
}

// references finds steps and parameters that expressions speak of and that are not there.
func (c *checker) references(at string, t *template, alone *policy.Expression, before map[string]*ready, mapped bool) {
	var list []string
	wrong := func(format string, args ...any) {
		if message := fmt.Sprintf(format, args...); !slices.Contains(list, message) {
			list = append(list, message)
		}
	}
	visit := func(e *policy.Expression) {
		for _, id := range e.Selected("steps") {
			switch {
			case c.byID[id] == nil:
				wrong("there is no step %.64q%s", id, nearest.Hint(nearest.Names(id, c.ids)))
			case before[id] == nil:
				wrong("steps.%s is not known here: it comes later, or beside: add it to after", id)
			}
		}
		for _, name := range e.Selected("params") {
			if c.parameters != nil && !slices.Contains(c.parameters, name) {
				wrong("there is no parameter %.64q%s: parameters is their JSON Schema", name, nearest.Hint(nearest.Names(name, c.parameters)))
			}
		}
		if !mapped && e.Speaks("item", "index") {
			wrong("item and index are known in a step with map alone")
		}
	}
	t.each(visit)
	if alone != nil {
		visit(alone)
	}
	if len(list) > 0 {
		c.wrong(at, strings.Join(list, "; "))
	}
}

// bounds checks what a step of a kind may have.
func (c *checker) bounds(s *ready, kind, at string) {
	calls := kind == "tool" || kind == "agent" || kind == "workflow"
	if s.Input != nil && kind != "tool" && kind != "workflow" {
		c.wrong(at+".input", "is for steps with tool or workflow")
	}
	if (s.Prompt != "") != (kind == "agent") {
		c.wrong(at+".prompt", "is for steps with agent, which need one")
	}
	if s.Map != "" && !calls {
		c.wrong(at+".map", "is for steps with tool, agent or workflow")
	}
	if s.Parallel < 0 || s.Parallel > maxParallel || s.Parallel > 0 && s.Map == "" {
		c.wrong(at+".parallel", fmt.Sprintf("is for steps with map: 1 to %d", maxParallel))
	}
	if s.Retry.Times < 0 || s.Retry.Times > maxRetries || s.Retry.Wait < 0 || s.Retry.Wait > time.Hour {
		c.wrong(at+".retry", fmt.Sprintf("want times from 0 to %d, and wait from 0s to 1h", maxRetries))
	}
	if s.Timeout < 0 || s.Timeout > maxWait {
		c.wrong(at+".timeout", fmt.Sprintf("want more than 0s, and at most %s", maxWait))
	}
	if s.Output != nil && !calls {
		c.wrong(at+".output", "is for steps with tool, agent or workflow")
	}
}

// incomplete is a field that no tool has: an input with it is read field by field, and what its
// fields mean together is not looked at.
const incomplete = "expressions follow"

// fits checks the input of a tool, but for fields with expressions: what they give is known later.
func (c *checker) fits(s *ready, at string) {
	tool := c.world.Tool(s.Tool)
	plain, later := make(map[string]any), []string{"", incomplete}
	for name, value := range s.Input {
		if s.input.fields[name].fixed() {
			plain[name] = value
		} else {
			later, plain[incomplete] = append(later, name), true
		}
	}
	text, err := encode(plain)
	if tool == nil || err != nil {
		return
	}
	_, err = tool.Decode(&c.world.Env, text)
	wrong, ok := errors.AsType[*tools.InputError](err)
	if !ok {
		return
	}
	for _, p := range wrong.Problems {
		field, _, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
		if plain[incomplete] == nil || !slices.Contains(later, field) {
			c.wrong(at, fmt.Sprintf("%s: %v", s.Tool, p))
		}
	}
}

// exists checks what a step names.
func (c *checker) exists(s *ready, at string) {
	if s.Tool != "" && c.world.Tool != nil && c.world.Tool(s.Tool) == nil {
		c.wrong(at+".tool", fmt.Sprintf("there is no tool %.64q in this session", s.Tool))
	}
	if s.Workflow != "" && c.world.Workflow != nil {
		if _, there := c.world.Workflow(s.Workflow); !there {
			c.wrong(at+".workflow", fmt.Sprintf("there is no workflow %.64q: create it first", s.Workflow))
		}
	}
}

// waitUntil returns when a wait ends that begins now: a duration, or a time.
func waitUntil(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 && d <= maxWait {
		return now.Add(d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.Sub(now) <= maxWait {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%.64q is no time to wait: want a duration such as 90s or 2h, or a time such as 2030-01-31T08:00:00Z, at most %s ahead", text, maxWait)
}
