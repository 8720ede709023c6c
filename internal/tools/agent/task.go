// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed agent.md
var agentDoc string

//go:embed agent_help.md
var agentHelp string

const category = "agents"

// effectName is what the use of an agent is called in policies.
func effectName(agent string) string { return "agent/" + agent }

// Tools returns the family. With a reason, the agents cannot work.
func Tools(agents Agents, unavailable string) []tools.Tool {
	list := []tools.Tool{delegate(agents), crew(agents), send(agents), status(agents), stop(agents), summary(agents)}
	if unavailable != "" {
		for i, tool := range list {
			list[i] = tools.WithUnavailable(tool, unavailable)
		}
	}
	return list
}

type input struct {
	Agent           string          `json:"agent,omitempty" check:"max=64" jsonschema:"which one is to do it"`
	Prompt          string          `json:"prompt,omitempty" check:"max=200000" jsonschema:"all that it has to know: it sees nothing of this conversation"`
	Description     string          `json:"description,omitempty" check:"max=1000" jsonschema:"the task in three to five words, for people"`
	RunInBackground bool            `json:"run_in_background,omitempty" jsonschema:"go on at once; agent_status has the report later"`
	ReadOnly        bool            `json:"read_only,omitempty" jsonschema:"it is to look and change nothing"`
	Isolation       Isolation       `json:"isolation,omitempty" check:"enum=worktree" jsonschema:"worktree: it works on a copy, on a branch of its own"`
	ContextStrategy Strategy        `json:"context_strategy,omitempty" check:"enum=none|summary|filtered|full" jsonschema:"how much of context it is told"`
	Context         []Message       `json:"context,omitempty" check:"max=500" jsonschema:"what was said before, for context_strategy"`
	ResultSchema    json.RawMessage `json:"result_schema,omitempty" jsonschema:"a JSON Schema: the report is a JSON value that fits it"`
}

// Check finds what the schema cannot tell.
func (in input) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	if strings.TrimSpace(in.Prompt) == "" && in.asks() {
		wrong("/prompt", "is required: what the agent is to do, with all that it has to know")
	}
	if len(in.ResultSchema) > 0 {
		if _, err := schema.Any(in.ResultSchema); err != nil {
			wrong("/result_schema", err.Error())
		}
	}
	if len(in.Context) > 0 && (in.ContextStrategy == "" || in.ContextStrategy == None) {
		wrong("/context", "needs context_strategy: summary, filtered or full")
	}
	return problems
}

// asks reports whether a task is given; nothing at all asks which agents there are.
func (in input) asks() bool {
	return in.Prompt != "" || in.Agent != "" || in.Description != "" || in.RunInBackground || in.ReadOnly || in.Isolation != "" || len(in.ResultSchema) > 0 || len(in.Context) > 0
}

// delegate returns the tool that gives a task to an agent.
func delegate(agents Agents) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:    "agent",
			Aliases: []string{"Agent", "Task"},
			Keys: []tools.Key{
				{Other: "subagent_type", Name: "agent"}, {Other: "agent_name", Name: "agent"}, {Other: "task", Name: "prompt"}, {Other: "background", Name: "run_in_background"},
			},
			Label:           "Agent",
			Summary:         "Give a task to an agent, which works on it by itself and reports.",
			Description:     agentDoc + listed(agents),
			Help:            agentHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Waits:           true,
			Delegates:       true,
			DefaultTimeout:  time.Hour,
			Examples: []tools.Example{
				{Summary: "Which agents there are", Input: json.RawMessage(`{}`)},
				{Summary: "A task", Input: json.RawMessage(`{"agent":"reviewer","description":"Review the parser","prompt":"Read internal/parser and list what is wrong with its error handling, each with file and line."}`)},
				{Summary: "In the background", Input: json.RawMessage(`{"agent":"tester","prompt":"Run all tests and report those that fail.","run_in_background":true}`)},
			},
		},
		func(env tools.Env, in input) []tools.Effect {
			if !in.asks() {
				return nil
			}
			return []tools.Effect{{Kind: tools.UsesTool, Tool: effectName(nameOf(agents, env, in.Agent)), Configured: true}}
		},
		func(ctx context.Context, env tools.Env, in input, out tools.Sink) (tools.Result, error) {
			if !in.asks() {
				return list(agents, env)
			}
			loop, err := agents.Begin(ctx, env, Task{
				Agent: in.Agent, Description: cmp.Or(in.Description, firstWords(in.Prompt)), Prompt: in.Prompt, Background: in.RunInBackground,
				ReadOnly: in.ReadOnly, Isolation: in.Isolation, Context: Context{in.ContextStrategy, in.Context}, ResultSchema: in.ResultSchema,
			}, out)
			if err != nil {
				return tools.Result{}, err
			}
			if in.RunInBackground {
				return begun(env, loop.Status())
			}
			report, err := loop.Wait(ctx, out)
			return reported(env, loop.Status(), report, err)
		})
}

// nameOf returns the name of an agent as its definition writes it; without one, that of
// the only agent there is.
func nameOf(agents Agents, env tools.Env, name string) string {
	all := known(agents, env)
	if name == "" && len(all) == 1 {
		return all[0].Name
	}
	for _, a := range all {
		if strings.EqualFold(a.Name, name) {
			return a.Name
		}
	}
	return name
}

// known returns the agents there are for the caller of env.
func known(agents Agents, env tools.Env) []About {
	all, _ := agents.All()
	return slices.Concat(all, agents.Served(env))
}

// listed tells models which agents the operator has.
func listed(agents Agents) string {
	all, _ := agents.All()
	if len(all) == 0 {
		return ""
	}
	return "\nAgents:\n" + lines(all)
}

func lines(all []About) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "- %s: %s\n", a.Name, cmp.Or(a.Description, "(no description)"))
	}
	return b.String()
}

// list tells which agents there are.
func list(agents Agents, env tools.Env) (tools.Result, error) {
	all := known(agents, env)
	names := []string{}
	for _, a := range all {
		names = append(names, a.Name)
	}
	details, err := json.Marshal(map[string]any{"agents": names})
	result := tools.TextResult(cmp.Or(lines(all), "There are no agents.\n"))
	result.Details = details
	return result, err
}

// firstWords is a description of a task that has none.
func firstWords(prompt string) string {
	return output.Short(strings.Join(strings.Fields(prompt), " "), 60)
}

// begun is the result of a call that does not wait.
func begun(env tools.Env, s Status) (tools.Result, error) {
	result := tools.TextResult(fmt.Sprintf("The agent %s has begun, as %s. %s tells how it is; with wait_ms, it waits for the report.",
		s.Agent, s.ID, env.Words.GoOn("agent_status", statusInput{ID: s.ID})))
	var err error
	result.Details, err = json.Marshal(detailsOf(s))
	return result, err
}

// details is what programs are told of a loop.
type details struct {
	ID      string          `json:"child_loop_id"`
	Agent   string          `json:"agent"`
	State   string          `json:"state"` // running, done, or the code of a failure
	Turns   int             `json:"turns"`
	Calls   int             `json:"calls"`
	Input   int64           `json:"input_tokens"`
	Output  int64           `json:"output_tokens"`
	Dollars float64         `json:"dollars"`
	Branch  string          `json:"branch,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

func detailsOf(s Status) details {
	r := s.Report
	return details{ID: s.ID, Agent: s.Agent, State: state(s), Turns: r.Turns, Calls: r.Calls, Input: r.Usage.Input, Output: r.Usage.Output, Dollars: r.Usage.Dollars, Branch: r.Branch, Result: r.Result}
}

// reported is the result of a loop that has ended, or could not be waited for.
func reported(env tools.Env, s Status, r Report, failed error) (tools.Result, error) {
	text := r.Text
	if failed != nil && text != "" {
		text = "The last that the agent said: " + text
	}
	if r.Branch != "" {
		text += "\n\n(What it changed is on the branch " + r.Branch + ".)"
	}
	var result tools.Result
	if len(r.Result) > 0 && failed == nil {
		result.Content = append(result.Content, tools.JSON(r.Result))
	} else if strings.TrimSpace(text) != "" {
		result.Content = env.Begin(strings.TrimSpace(text)+"\n", "report.md")
	} else if failed == nil {
		result = tools.TextResult("The agent has ended, and said nothing.")
	}
	s.Report = r
	encoded, err := json.Marshal(detailsOf(s))
	if err != nil {
		return result, err
	}
	result.Details = encoded
	return result, failed
}
