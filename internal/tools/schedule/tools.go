// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed create.md
var createDoc string

//go:embed help.md
var help string

const category = "schedules"

// Tools returns the family.
func Tools(s Schedules) []tools.Tool {
	return []tools.Tool{create(s), list(s), pause(s), resume(s), remove(s), runNow(s)}
}

func spec(name, label, summary, description string, level tools.Level, examples ...string) tools.Spec {
	sp := tools.Spec{Name: name, Label: label, Summary: summary, Description: description, Category: category, Level: level, ConcurrencySafe: level == tools.ReadOnly}
	for _, input := range examples {
		sp.Examples = append(sp.Examples, tools.Example{Summary: summary, Input: json.RawMessage(input)})
	}
	return sp
}

type createInput struct {
	Name       string       `json:"name" check:"min=1,max=64"`
	Tool       string       `json:"tool,omitempty" check:"max=200" jsonschema:"that is called"`
	Input      tools.Object `json:"input,omitempty"`
	Workflow   string       `json:"workflow,omitempty" check:"max=64" jsonschema:"that is run, instead of tool"`
	Parameters tools.Object `json:"parameters,omitempty"`
	Cron       string       `json:"cron,omitempty" check:"max=100" jsonschema:"minute hour day month weekday"`
	TimeZone   string       `json:"time_zone,omitempty" check:"max=64" jsonschema:"of cron; default UTC"`
	Every      string       `json:"every,omitempty" check:"max=32" jsonschema:"an interval, such as 15m"`
	At         string       `json:"at,omitempty" check:"max=40" jsonschema:"once, such as 2030-01-31T08:00:00Z"`
	Missed     string       `json:"missed,omitempty" check:"enum=skip|once|all" jsonschema:"times at which no server ran; default once"`
	Overlap    string       `json:"overlap,omitempty" check:"enum=allow|skip|queue|replace" jsonschema:"when the firing before still runs; default skip"`
}

// Check finds what the schema cannot tell.
func (in createInput) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	if (in.Tool == "") == (in.Workflow == "") {
		wrong("", "want either tool, with its input, or workflow, with its parameters")
	}
	if in.Parameters != nil && in.Workflow == "" {
		wrong("/parameters", "are for workflow: the input of a tool is input")
	}
	if in.Input != nil && in.Tool == "" {
		wrong("/input", "is for tool: what a workflow is given is parameters")
	}
	if in.TimeZone != "" && in.Cron == "" {
		wrong("/time_zone", "is for cron: an interval has none, and at has its own")
	}
	times := 0
	for _, given := range []string{in.Cron, in.Every, in.At} {
		if given != "" {
			times++
		}
	}
	if times != 1 {
		wrong("", "want exactly one of cron, every and at")
	}
	if strings.TrimSpace(in.Name) != in.Name || strings.ContainsAny(in.Name, "\n\r\t") {
		wrong("/name", "want a name in one line, without space around it")
	}
	return problems
}

// call returns the tool that is called, and its input.
func (in createInput) call() (tool string, input json.RawMessage, err error) {
	if in.Workflow == "" {
		return in.Tool, in.Input.JSON(), nil
	}
	of := map[string]any{"name": in.Workflow}
	if in.Parameters != nil {
		of["parameters"] = in.Parameters.JSON()
	}
	input, err = json.Marshal(of)
	return runTool, input, err
}

// schedule returns what is to be kept.
func (in createInput) schedule() (New, error) {
	tool, input, err := in.call()
	return New{
		Name: in.Name, Tool: tool, Input: input, When: When{Cron: in.Cron, Zone: in.TimeZone, Every: in.Every, At: in.At}, Missed: in.Missed, Overlap: in.Overlap,
	}, err
}

// create needs leave as every change does: what it keeps acts when nobody looks.
func create(s Schedules) tools.Tool {
	sp := spec("schedule_create", "Create a schedule", "Have a tool called or a workflow run at times.", createDoc, tools.WorkspaceWrite,
		`{"name":"nightly","workflow":"check","cron":"30 2 * * 1-5","time_zone":"Europe/Berlin"}`, `{"name":"pull","tool":"bash","input":{"command":"git pull"},"every":"15m"}`)
	sp.Help = help
	sp.Aliases = []string{"ScheduleCreate"}
	tool := tools.New(sp, nil, func(ctx context.Context, env tools.Env, in createInput, _ tools.Sink) (tools.Result, error) {
		wanted, err := in.schedule()
		if err != nil {
			return tools.Result{}, err
		}
		made, note, err := s.Create(ctx, env, wanted)
		if err != nil {
			return tools.Result{}, err
		}
		if !s.Lasting() {
			note += "This server keeps its state in memory: the schedule is lost when the server ends."
		}
		return tools.Detailed(strings.TrimSpace("The schedule is kept. "+line(&made)+"\n"+note), made)
	})
	return tools.WithForesight(tool, func(env tools.Env, in createInput) error {
		wanted, err := in.schedule()
		if err != nil {
			return err
		}
		return s.Check(env, wanted)
	})
}

// line is a schedule in a line.
func line(s *Status) string {
	text := fmt.Sprintf("%s: %s, %s", s.Name, s.What(), s.When.Text())
	switch {
	case s.Paused:
		text += "; paused"
	case s.Next.IsZero():
		text += "; it does not fire any more"
	default:
		text += "; next " + s.Next.Format(time.RFC3339)
	}
	if s.Running > 0 {
		text += fmt.Sprintf("; %d running", s.Running)
	}
	return text
}

type listInput struct {
	Name string `json:"name,omitempty" check:"max=64" jsonschema:"of one, with its history"`
}

func list(s Schedules) tools.Tool {
	sp := spec("schedule_list", "List schedules", "List schedules, and what came of them.", "Lists your schedules; with a name, that one and what came of it.", tools.ReadOnly, `{}`, `{"name":"nightly"}`)
	sp.Aliases = []string{"ScheduleList"}
	return tools.New(sp, nil, func(ctx context.Context, env tools.Env, in listInput, _ tools.Sink) (tools.Result, error) {
		all, err := s.List(ctx, env, in.Name)
		if err != nil {
			return tools.Result{}, err
		}
		var b strings.Builder
		for i := range all {
			one := &all[i]
			b.WriteString("- " + line(one))
			past := one.History
			if in.Name == "" && len(past) > 0 {
				past = past[len(past)-1:]
				b.WriteString("; last " + past[0].Outcome)
			}
			b.WriteString("\n")
			for _, p := range past {
				if in.Name != "" {
					fmt.Fprintf(&b, "  %s: %s %s\n", p.At.Format(time.RFC3339), p.Outcome, cmp.Or(p.Reason, strings.TrimSpace(p.Output)))
				}
			}
			if in.Name == "" {
				one.History = past
			}
		}
		return tools.Detailed(cmp.Or(b.String(), "There are no schedules.\n"), map[string]any{"schedules": all})
	})
}

type nameInput struct {
	Name string `json:"name" check:"min=1,max=64"`
}

func pause(s Schedules) tools.Tool {
	sp := spec("schedule_pause", "Pause a schedule", "Have a schedule not fire for now.", "Has a schedule not fire until it is resumed. What runs goes on.", tools.ReadOnly, `{"name":"nightly"}`)
	sp.Aliases = []string{"SchedulePause"}
	return there(s, tools.New(sp, nil, pausing(s, true)))
}

func resume(s Schedules) tools.Tool {
	sp := spec("schedule_resume", "Resume a schedule", "Have a paused schedule fire again.", "Has a schedule fire again from now on.", tools.WorkspaceWrite, `{"name":"nightly"}`)
	sp.Aliases = []string{"ScheduleResume"}
	return there(s, tools.New(sp, nil, pausing(s, false)))
}

// there is a tool about a schedule: nobody is asked about one that is not there.
func there(s Schedules, tool tools.Tool) tools.Tool {
	return tools.WithForesight(tool, func(env tools.Env, in nameInput) error { return s.CheckName(env, in.Name) })
}

func pausing(s Schedules, paused bool) func(context.Context, tools.Env, nameInput, tools.Sink) (tools.Result, error) {
	return func(ctx context.Context, env tools.Env, in nameInput, _ tools.Sink) (tools.Result, error) {
		now, err := s.Pause(ctx, env, in.Name, paused)
		if err != nil {
			return tools.Result{}, err
		}
		return tools.TextResult(line(&now)), nil
	}
}

func remove(s Schedules) tools.Tool {
	sp := spec("schedule_delete", "Delete a schedule", "Forget a schedule.", "Forgets a schedule, and ends what it runs.", tools.WorkspaceWrite, `{"name":"nightly"}`)
	sp.Aliases = []string{"ScheduleDelete"}
	return there(s, tools.New(sp, nil, func(ctx context.Context, env tools.Env, in nameInput, _ tools.Sink) (tools.Result, error) {
		if err := s.Delete(ctx, env, in.Name); err != nil {
			return tools.Result{}, err
		}
		return tools.TextResult("The schedule " + in.Name + " is gone."), nil
	}))
}

// runNow has no effects of its own: what it has called is judged as at any other firing, by the
// rights of whoever made the schedule. So it needs leave to change something.
func runNow(s Schedules) tools.Tool {
	sp := spec("schedule_run_now", "Fire a schedule", "Have a schedule fire now, besides.", "Has a schedule fire now; schedule_list with its name tells what came of it.", tools.WorkspaceWrite, `{"name":"nightly"}`)
	return there(s, tools.New(sp, nil, func(ctx context.Context, env tools.Env, in nameInput, _ tools.Sink) (tools.Result, error) {
		queued, err := s.Fire(ctx, env, in.Name)
		if err != nil {
			return tools.Result{}, err
		}
		if queued {
			return tools.TextResult("The schedule " + in.Name + " fires when the firing before has ended: it is queued. schedule_list with its name tells what came of it."), nil
		}
		return tools.TextResult("The schedule " + in.Name + " fires. schedule_list with its name tells what came of it."), nil
	}))
}
