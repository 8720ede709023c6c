// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed crew.md
var crewDoc string

//go:embed crew_help.md
var crewHelp string

type crewInput struct {
	Stages      []stageInput `json:"stages,omitempty" check:"max=32" jsonschema:"or map"`
	Map         *mapInput    `json:"map,omitempty"`
	Task        string       `json:"task,omitempty" check:"max=200000" jsonschema:"{{task}} in prompts"`
	MaxParallel int          `json:"max_parallel,omitempty" check:"min=1,max=32"`
	Mode        string       `json:"mode,omitempty" check:"enum=blocking"`
}

type stageInput struct {
	Name      string   `json:"name" check:"min=1,max=64"`
	Agent     string   `json:"agent,omitempty" check:"max=64"`
	Prompt    string   `json:"prompt" check:"min=1,max=200000"`
	DependsOn []string `json:"depends_on,omitempty" check:"max=32"`
}

type mapInput struct {
	Items  []string `json:"items" check:"min=2,max=32"`
	Prompt string   `json:"prompt" check:"min=1,max=200000" jsonschema:"has {{item}}"`
	Agent  string   `json:"agent,omitempty" check:"max=64"`
}

// crew returns what the input asks for.
func (in crewInput) crew() *Crew {
	c := &Crew{Task: in.Task, Parallel: in.MaxParallel}
	for _, s := range in.Stages {
		c.Stages = append(c.Stages, Stage{Name: s.Name, Agent: s.Agent, Prompt: s.Prompt, DependsOn: s.DependsOn})
	}
	if in.Map != nil {
		for i, item := range in.Map.Items {
			c.Stages = append(c.Stages, Stage{Name: strconv.Itoa(i + 1), Agent: in.Map.Agent, Prompt: in.Map.Prompt, Item: item})
		}
	}
	return c
}

// Check finds what the schema cannot tell.
func (in crewInput) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	switch {
	case in.Map != nil && len(in.Stages) > 0:
		wrong("/map", "cannot be together with stages: want one of them")
		return problems
	case in.Map == nil && len(in.Stages) == 0:
		wrong("/stages", fmt.Sprintf("is required, with 1 to %d stages; or map, with 2 to %d items", maxStages, maxStages))
		return problems
	case in.Map != nil:
		return in.Map.problems(in.Task)
	}
	for i, s := range in.Stages {
		if strings.TrimSpace(s.Prompt) == "" {
			wrong(fmt.Sprintf("/stages/%d/prompt", i), "is empty: want what the agent is to do, with all that it has to know")
		}
	}
	return append(problems, in.crew().problems()...)
}

// problems finds what is wrong with a prompt for some items.
func (in *mapInput) problems(task string) (problems []tools.Problem) {
	wrong := func(pointer, format string, args ...any) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	for i, item := range in.Items {
		if strings.TrimSpace(item) == "" {
			wrong(fmt.Sprintf("/map/items/%d", i), "is empty")
		} else if len(item) > maxResult {
			wrong(fmt.Sprintf("/map/items/%d", i), "has %d bytes: at most %d", len(item), maxResult)
		}
	}
	found := false
	names := (&Stage{Prompt: in.Prompt}).takes()
	for _, name := range names {
		switch {
		case name == itemName:
			found = true
		case name != taskName:
			wrong("/map/prompt", "has {{%.80s}}: want {{item}} or {{task}}. To write braces as they are, put a space between them", name)
		case task == "":
			wrong("/map/prompt", "has {{task}}, but the crew has no task: want it beside map")
		}
	}
	if !found {
		wrong("/map/prompt", "has no {{item}}, so that all items would be the same task")
	}
	if len(names) > maxTaken {
		wrong("/map/prompt", "has more than %d places for items", maxTaken)
	}
	return problems
}

// crew returns the tool that has several agents work on a task.
func crew(agents Agents) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:    "crew",
			Aliases: []string{"agent_crew", "use_subagent"},
			Keys: []tools.Key{
				{Other: "role", Name: "agent", In: "stages"}, {Other: "agent_name", Name: "agent", In: "stages"}, {Other: "prompt_template", Name: "prompt", In: "stages"},
				{Other: "agent_name", Name: "agent", In: "map"}, {Other: "prompt_template", Name: "prompt", In: "map"},
			},
			Label:           "Crew",
			Summary:         "Have several agents work on the stages of a task, or on many items.",
			Description:     crewDoc + listed(agents),
			Help:            crewHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Waits:           true,
			Delegates:       true,
			DefaultTimeout:  time.Hour,
			Examples: []tools.Example{
				{Summary: "Two stages beside each other, and one after both", Input: json.RawMessage(`{"task":"Release 2.0","stages":[{"name":"code","agent":"reviewer","prompt":"Review internal/parser for {{task}}."},{"name":"tests","agent":"tester","prompt":"Run all tests and list those that fail."},{"name":"report","agent":"writer","prompt":"Write a report.\n{{code}}\n{{tests}}","depends_on":["code","tests"]}]}`)},
				{Summary: "One prompt for many items", Input: json.RawMessage(`{"map":{"items":["internal/a","internal/b"],"prompt":"Review {{item}}.","agent":"reviewer"},"max_parallel":2}`)},
			},
		},
		func(env tools.Env, in crewInput) (effects []tools.Effect) {
			used := make(map[string]bool)
			for _, s := range in.crew().Stages {
				if name := nameOf(agents, env, s.Agent); !used[name] {
					used[name] = true
					effects = append(effects, tools.Effect{Kind: tools.UsesTool, Tool: effectName(name), Configured: true})
				}
			}
			return effects
		},
		func(ctx context.Context, env tools.Env, in crewInput, out tools.Sink) (tools.Result, error) {
			c := in.crew()
			c.sort()
			endings, err := agents.Crew(ctx, env, c, out)
			if endings == nil {
				return tools.Result{}, err
			}
			result, failed := ended(env, endings)
			if err == nil {
				err = failed
			}
			return result, err
		})
}

// An Ending is what came of a stage.
type Ending struct {
	Stage   *Stage
	Status  Status // of its agent; with its failure alone where that did not begin
	Skipped bool   // it did not begin, for nothing that is wrong with it
}

// Outcome is how the stage ended, in a word.
func (e *Ending) Outcome() string {
	switch {
	case e.Skipped:
		return "skipped"
	case e.Status.Err != nil:
		return "failed"
	}
	return "done"
}

// section is what the caller is told of a stage.
func (e *Ending) section() string {
	title, text, err := e.Stage.Name, strings.TrimSpace(e.Status.Report.Text), e.Status.Err
	if e.Stage.Item != "" {
		title += ": " + e.Stage.Description()
	}
	switch {
	case err != nil && text != "":
		text = fmt.Sprintf("(%s: %v)\nThe last that the agent said: %s", e.Outcome(), err, text)
	case err != nil:
		text = fmt.Sprintf("(%s: %v)", e.Outcome(), err)
	case text == "":
		text = "(The agent has ended, and said nothing.)"
	}
	return "## " + title + "\n" + text + "\n"
}

// stageDetails is what programs are told of a stage.
type stageDetails struct {
	Stage   string `json:"stage"`
	Outcome string `json:"outcome"` // done, failed or skipped
	Reason  string `json:"reason,omitempty"`
	details
}

// ended is the result of a crew.
func ended(env tools.Env, endings []Ending) (tools.Result, error) {
	var sections, unlike []string
	list := []stageDetails{}
	for i := range endings {
		e := &endings[i]
		sections = append(sections, e.section())
		d := stageDetails{Stage: e.Stage.Name, Outcome: e.Outcome(), details: detailsOf(e.Status)}
		if err := e.Status.Err; err != nil {
			d.Reason = err.Error()
			unlike = append(unlike, e.Stage.Name+" ("+d.State+")")
		}
		list = append(list, d)
	}
	var result tools.Result
	if all := strings.Join(sections, "\n"); env.Measure.Of(all) <= env.Shown() {
		result.Content = []tools.Content{tools.Text(all)}
	} else {
		for i, section := range sections { // so that no stage hides those after it
			result.Content = append(result.Content, env.Share(len(sections)).Begin(section, endings[i].Stage.Name+".md")...)
		}
	}
	var err error
	if result.Details, err = json.Marshal(map[string]any{"stages": list}); err == nil && len(unlike) > 0 {
		err = tools.Failf("crew_incomplete", "%d of %d stages did not succeed: %s. What came of all is above.", len(unlike), len(endings), strings.Join(unlike, ", "))
	}
	return result, err
}
