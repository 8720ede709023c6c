// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed plan.md
var planDoc string

//go:embed plan_help.md
var planHelp string

const planDocument = "plan"

// plan is the document.
type plan struct {
	Goal  string     `json:"goal,omitempty"`
	Text  string     `json:"text,omitempty"`
	Steps []planStep `json:"steps"`

	// Approved is what a person approved; empty: nothing.
	Approved string `json:"approved,omitempty"`
}

type planStep struct {
	Step   string `json:"step" check:"min=1,max=1000" jsonschema:"what is done"`
	Status string `json:"status,omitempty" check:"enum=pending|in_progress|completed|cancelled" jsonschema:"default pending"`
	Note   string `json:"note,omitempty" check:"max=2000" jsonschema:"what came of it"`
}

type planUpdate struct {
	Number int    `json:"number" check:"min=1,max=100" jsonschema:"of the step, from 1"`
	Status string `json:"status,omitempty" check:"enum=pending|in_progress|completed|cancelled"`
	Step   string `json:"step,omitempty" check:"max=1000" jsonschema:"other words"`
	Note   string `json:"note,omitempty" check:"max=2000"`
}

type planInput struct {
	Goal   string       `json:"goal,omitempty" check:"max=500" jsonschema:"begins a new plan"`
	Text   string       `json:"text,omitempty" check:"max=16384" jsonschema:"Markdown: the approach, and how the result is checked"`
	Steps  []planStep   `json:"steps,omitempty" check:"max=100" jsonschema:"all steps, in order"`
	Update []planUpdate `json:"update,omitempty" check:"max=100" jsonschema:"changes of single steps"`
}

// Check finds what the schema cannot tell.
func (in planInput) Check() (problems []tools.Problem) {
	if len(in.Update) > 0 && (len(in.Steps) > 0 || in.Goal != "") {
		problems = append(problems, tools.Problem{Pointer: "/update", Message: "changes steps that are there: leave out goal and steps, which replace them"})
	}
	return problems
}

func (in planInput) shows() bool {
	return in.Goal == "" && in.Text == "" && len(in.Steps) == 0 && len(in.Update) == 0
}

// Plan returns the tool that keeps the plan of the session.
func Plan() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:        "plan",
			Aliases:     []string{"update_plan"},
			Label:       "Plan",
			Summary:     "Keep a plan with steps, have it approved, and track it.",
			Description: planDoc,
			Help:        planHelp,
			Category:    category,
			Level:       tools.ReadOnly,
			Examples: []tools.Example{
				{Summary: "A plan", Input: json.RawMessage(`{"goal":"Errors have lines","steps":[{"step":"Write a test that shows what is missing"},{"step":"Carry positions through the parser"}]}`)},
				{Summary: "How far it is", Input: json.RawMessage(`{"update":[{"number":1,"status":"completed"},{"number":2,"status":"in_progress"}]}`)},
			},
		},
		nil,
		func(_ context.Context, env tools.Env, in planInput, out tools.Sink) (tools.Result, error) {
			if in.shows() {
				p, err := load[plan](env, planDocument)
				if err != nil {
					return tools.Result{}, err
				}
				return tools.Detailed(p.text(), p.details())
			}
			p, err := change(env, planDocument, func(p *plan) error { return p.write(in) })
			if err != nil {
				return tools.Result{}, err
			}
			out.Emit(p.tally().progress("steps"))
			return tools.Detailed(p.text(), p.details())
		})
}

func (p plan) empty() bool { return p.Goal == "" && p.Text == "" && len(p.Steps) == 0 }

// write does what an input asks for, or fails.
func (p *plan) write(in planInput) error {
	if in.Goal != "" {
		*p = plan{Goal: line(in.Goal)}
	}
	if in.Text != "" {
		p.Text = strings.TrimSpace(in.Text)
	}
	if len(in.Steps) > 0 {
		p.Steps = in.Steps
	}
	steps := append([]planStep{}, p.Steps...)
	for _, u := range in.Update {
		if u.Number > len(steps) {
			return tools.Failf("no_such_step", "Nothing was changed: there is no step %d, for the plan has %d steps.", u.Number, len(steps))
		}
		s := &steps[u.Number-1]
		*s = planStep{cmp.Or(u.Step, s.Step), cmp.Or(u.Status, s.Status), cmp.Or(u.Note, s.Note)}
	}
	for i := range steps {
		steps[i].Step, steps[i].Status = line(steps[i].Step), cmp.Or(steps[i].Status, pending)
	}
	p.Steps = steps
	return nil
}

// proposal is what a person approves of the plan, as Markdown; empty where there is none.
func (p *plan) proposal() string {
	var parts []string
	if p.Goal != "" {
		parts = append(parts, "# "+p.Goal)
	}
	if p.Text != "" {
		parts = append(parts, p.Text)
	}
	var steps []string
	for i, s := range p.Steps {
		steps = append(steps, fmt.Sprintf("%d. %s", i+1, s.Step))
	}
	if len(steps) > 0 && !p.inText() {
		parts = append(parts, strings.Join(steps, "\n"))
	}
	return strings.Join(parts, "\n\n")
}

// inText reports whether the steps are those of the text.
func (p *plan) inText() bool {
	return slices.EqualFunc(stepsOf(p.Text), p.Steps, func(a, b planStep) bool { return a.Step == b.Step })
}

// numbered matches a line of a numbered list that is in no other.
var numbered = regexp.MustCompile(`(?m)^\d{1,3}[.)][ \t]+(\S.*)$`)

// stepsOf returns the steps that a text numbers.
func stepsOf(text string) (steps []planStep) {
	for _, found := range numbered.FindAllStringSubmatch(text, 100) {
		steps = append(steps, planStep{Step: line(found[1]), Status: pending})
	}
	return steps
}

// approve notes what a person approved: the plan itself, or a text that was given instead.
// A text without steps does not take the place of a plan that has some.
func (p *plan) approve(shown string) {
	if shown != p.proposal() {
		steps := stepsOf(shown)
		if len(steps) == 0 && len(p.Steps) > 0 {
			return
		}
		*p = plan{Text: strings.TrimSpace(shown), Steps: steps}
	}
	p.Approved = p.proposal()
}

func (p *plan) tally() *tally {
	t := new(tally)
	for _, s := range p.Steps {
		t.add(s.Status, s.Step)
	}
	return t
}

func (p *plan) state() string {
	switch p.Approved {
	case "":
		return "not approved"
	case p.proposal():
		return "approved"
	}
	return "changed since it was approved"
}

// details is what a runtime is told.
func (p *plan) details() any {
	return struct {
		Goal  string     `json:"goal"`
		Text  string     `json:"text"`
		State string     `json:"state"`
		Steps []planStep `json:"steps"`
		*tally
	}{p.Goal, p.Text, p.state(), append([]planStep{}, p.Steps...), p.tally()}
}

// text returns the plan for a model.
func (p *plan) text() string {
	if p.empty() {
		return "There is no plan.\n"
	}
	tally := p.tally()
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, %s)\n", cmp.Or(p.Goal, "Plan"), p.state(), tally)
	if p.Text != "" && !p.inText() {
		b.WriteString(p.Text + "\n")
	}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%d %s %s\n%s", i+1, marks[s.Status], s.Step, indented(s.Note))
	}
	return b.String() + tally.advice()
}
