// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

type sendInput struct {
	ID      string `json:"id" check:"min=1,max=64" jsonschema:"of the agent, as agent told it"`
	Message string `json:"message" check:"min=1,max=64000"`
}

// send returns the tool that says something to an agent at work.
func send(agents Agents) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "agent_send",
			Aliases:         []string{"SendMessage", "send_input"},
			Keys:            []tools.Key{{Other: "to", Name: "id"}, {Other: "content", Name: "message"}},
			Label:           "Send to an agent",
			Summary:         "Say something to an agent at work.",
			Description:     "Says something to an agent that `agent` began in the background: it hears it before its next turn.",
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples:        []tools.Example{{Summary: "A hint", Input: json.RawMessage(`{"id":"agent-abc","message":"Leave the tests alone."}`)}},
		},
		nil,
		func(_ context.Context, env tools.Env, in sendInput, _ tools.Sink) (tools.Result, error) {
			loop, err := agents.Find(env, in.ID)
			if err != nil {
				return tools.Result{}, err
			}
			if err := loop.Send(in.Message); err != nil {
				return tools.Result{}, err
			}
			return tools.TextResult("The agent hears it before its next turn.\n"), nil
		})
}

type statusInput struct {
	ID     string `json:"id,omitempty" check:"max=64" jsonschema:"of an agent; none: all that this session began"`
	WaitMS int64  `json:"wait_ms,omitempty" check:"min=0,max=3600000" jsonschema:"how long to wait for its end"`
}

// Timeout returns how long the call may take.
func (in statusInput) Timeout() time.Duration {
	if in.WaitMS == 0 {
		return 0
	}
	return time.Duration(in.WaitMS)*time.Millisecond + 10*time.Second
}

// status returns the tool that tells how agents are, and waits for their reports.
func status(agents Agents) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "agent_status",
			Keys:            []tools.Key{{Other: "agent_id", Name: "id"}, {Other: "timeout_ms", Name: "wait_ms"}},
			Label:           "Status of agents",
			Summary:         "Tell how agents in the background are, and fetch their reports.",
			Description:     "Tells how an agent is that `agent` began in the background, and its report once it has ended; with `wait_ms`, waits for that. Without `id` it lists all that this session began.",
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Waits:           true,
			Examples: []tools.Example{
				{Summary: "All", Input: json.RawMessage(`{}`)},
				{Summary: "Wait for a report", Input: json.RawMessage(`{"id":"agent-abc","wait_ms":60000}`)},
			},
		},
		nil,
		func(ctx context.Context, env tools.Env, in statusInput, out tools.Sink) (tools.Result, error) {
			if in.ID == "" {
				return all(agents.Loops(env))
			}
			loop, err := agents.Find(env, in.ID)
			if err != nil {
				return tools.Result{}, err
			}
			if in.WaitMS > 0 && loop.Status().Running {
				defer loop.Follow(out)()
				waiting, cancel := context.WithTimeout(ctx, time.Duration(in.WaitMS)*time.Millisecond)
				defer cancel()
				if _, err := loop.Wait(waiting, out); err != nil && ctx.Err() != nil {
					return tools.Result{}, context.Cause(ctx)
				}
			}
			s := loop.Status()
			if !s.Running {
				return reported(env, s, s.Report, s.Err)
			}
			return all([]Status{s})
		})
}

// all tells how agents are.
func all(loops []Status) (tools.Result, error) {
	var b strings.Builder
	list := []details{}
	for _, s := range loops {
		list = append(list, detailsOf(s))
		fmt.Fprintf(&b, "%s  %s  %s", s.ID, s.Agent, state(s))
		if s.Running {
			fmt.Fprintf(&b, " for %s: %s", time.Since(s.Began).Round(time.Second), cmp.Or(s.Doing, "begins"))
		}
		fmt.Fprintf(&b, "; %s, %s  (%s)\n", tools.Count(s.Report.Turns, "turn", "turns"), tools.Count(s.Report.Calls, "call", "calls"), s.Description)
	}
	if len(loops) == 0 {
		b.WriteString("This session has begun no agent that is still known.\n")
	}
	result := tools.TextResult(b.String())
	var err error
	result.Details, err = json.Marshal(map[string]any{"agents": list})
	return result, err
}

// state is how a loop is, in a word.
func state(s Status) string {
	if s.Running {
		return "running"
	}
	return Outcome(s.Err)
}

// Outcome returns the word for how a loop ended: done, or the code of what ended it.
func Outcome(err error) string {
	switch failure, ok := errors.AsType[*tools.Failure](err); {
	case err == nil:
		return "done"
	case ok:
		return failure.Code
	case errors.Is(err, context.DeadlineExceeded):
		return tools.TimedOutCode
	}
	return "cancelled"
}

type stopInput struct {
	ID     string `json:"id" check:"min=1,max=64" jsonschema:"of the agent"`
	Reason string `json:"reason,omitempty" check:"max=1000"`
}

// stop returns the tool that ends an agent.
func stop(agents Agents) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "agent_stop",
			Aliases:         []string{"close_agent"},
			Keys:            []tools.Key{{Other: "agent_id", Name: "id"}},
			Label:           "Stop an agent",
			Summary:         "End an agent at work, with all that it runs.",
			Description:     "Ends an agent that `agent` began in the background, with all calls that it runs and all agents that it began. What it has said so far stays in `agent_status`.",
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Waits:           true,
			Examples:        []tools.Example{{Summary: "It is no longer needed", Input: json.RawMessage(`{"id":"agent-abc","reason":"the user changed their mind"}`)}},
		},
		nil,
		func(ctx context.Context, env tools.Env, in stopInput, _ tools.Sink) (tools.Result, error) {
			loop, err := agents.Find(env, in.ID)
			if err != nil {
				return tools.Result{}, err
			}
			if err := loop.Stop(ctx, cmp.Or(in.Reason, "agent_stop was called")); err != nil {
				return tools.Result{}, err
			}
			return all([]Status{loop.Status()})
		})
}

type summaryInput struct {
	Report string          `json:"report,omitempty" check:"max=200000" jsonschema:"what came of the task, for who gave it: whole, for nothing else of this conversation is seen"`
	Result json.RawMessage `json:"result,omitempty" jsonschema:"the result as JSON, where the task asks for that"`
}

// Check finds what the schema cannot tell.
func (in summaryInput) Check() []tools.Problem {
	if strings.TrimSpace(in.Report) == "" && len(in.Result) == 0 {
		return []tools.Problem{{Pointer: "/report", Message: "is required: what came of the task"}}
	}
	return nil
}

// summary returns the tool by which an agent ends its task.
func summary(agents Agents) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            SummaryName,
			Label:           "Summary",
			Summary:         "Hand over the report of a task, which ends it.",
			Description:     "Hands over what came of your task to who gave it to you, and ends it. Call it last and alone, when the task is done or cannot be done.",
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples:        []tools.Example{{Summary: "A report", Input: json.RawMessage(`{"report":"The parser drops errors in two places: parse.go:41 and parse.go:97."}`)}},
		},
		nil,
		func(_ context.Context, env tools.Env, in summaryInput, _ tools.Sink) (tools.Result, error) {
			if err := agents.Summarize(env, Summary{Text: in.Report, Result: in.Result}); err != nil {
				return tools.Result{}, err
			}
			return tools.TextResult("The report was handed over.\n"), nil
		})
}
