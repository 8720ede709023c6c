// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed create.md
var createDoc string

//go:embed help.md
var help string

//go:embed run.md
var runDoc string

const category = "workflows"

// effectName is what running a workflow is called in policies.
func effectName(name string) string { return "workflow/" + name }

// Tools returns the family.
func Tools(w Workflows) []tools.Tool {
	return []tools.Tool{create(w), update(w), get(w), list(w), remove(w), validate(w), run(w)}
}

// spec is what all of the family have in common. Nothing but run has effects: a workflow that
// is written down does nothing, and each step is judged when it is made. Those that change what
// is kept need leave besides: a schedule may run it with more rights than theirs.
func spec(name, label, summary, description string, examples ...tools.Example) tools.Spec {
	return tools.Spec{
		Name: name, Label: label, Summary: summary, Description: description, Category: category,
		Level: tools.ReadOnly, ConcurrencySafe: true, Examples: examples,
	}
}

func example(summary, input string) tools.Example {
	return tools.Example{Summary: summary, Input: json.RawMessage(input)}
}

type savedInput struct {
	Name       string `json:"name" check:"min=1,max=64"`
	Definition string `json:"definition" check:"min=1,max=131072" jsonschema:"YAML, or a >> (b | c) >> d"`
}

type nameInput struct {
	Name string `json:"name" check:"min=1,max=64"`
}

func create(w Workflows) tools.Tool {
	s := spec("workflow_create", "Create a workflow", "Write down steps that can be run again and again.", createDoc,
		example("Short", `{"name":"check","definition":"bash{\"command\":\"make lint\"} >> (bash{\"command\":\"make test\"} | bash{\"command\":\"make docs\"})"}`),
		example("Long", `{"name":"greet","definition":"parameters: {type: object, properties: {who: {type: string}}, required: [who]}\nsteps:\n- {id: say, tool: bash, input: {command: 'echo \"hello $WHO\"', env: {WHO: \"${params.who}\"}}, retry: {times: 2}}\nresult: ${steps.say.output}\n"}`))
	s.Help = help
	s.Level = tools.WorkspaceWrite
	s.Aliases = []string{"WorkflowCreate"}
	return saving(w, s, false)
}

// saving is a tool that keeps a definition. Nobody is asked about one that would not be kept.
func saving(w Workflows, s tools.Spec, replace bool) tools.Tool {
	tool := tools.New(s, nil, func(ctx context.Context, env tools.Env, in savedInput, _ tools.Sink) (tools.Result, error) {
		return saved(w)(w.Save(ctx, env, in.Name, in.Definition, replace))
	})
	return tools.WithForesight(tool, func(env tools.Env, in savedInput) error { return w.CheckSave(env, in.Name, in.Definition, replace) })
}

func update(w Workflows) tools.Tool {
	s := spec("workflow_update", "Change a workflow", "Replace the definition of a workflow.", "Replaces a definition. Runs that began before keep theirs.",
		example("Another command", `{"name":"check","definition":"bash{\"command\":\"make all\"}"}`))
	s.Level = tools.WorkspaceWrite
	s.Aliases = []string{"WorkflowUpdate"}
	return saving(w, s, true)
}

// saved tells that a workflow is kept, and for how long.
func saved(w Workflows) func(About, error) (tools.Result, error) {
	return func(a About, err error) (tools.Result, error) {
		if err != nil {
			return tools.Result{}, err
		}
		text := fmt.Sprintf("The workflow %s is kept, version %d, with %d steps:\n%s", a.Name, a.Version, a.Steps, a.Outline)
		return tools.TextResult(text + lasts(w)), nil
	}
}

// lasts tells whether what is kept outlives the server.
func lasts(w Workflows) string {
	if w.Lasting() {
		return ""
	}
	return "(This server keeps its state in memory: it is lost when the server ends.)\n"
}

func get(w Workflows) tools.Tool {
	s := spec("workflow_get", "Show a workflow", "Show a workflow and its runs.", "Shows the definition of a workflow, what is wrong with it by now, and its runs.", example("One", `{"name":"check"}`))
	s.Aliases = []string{"WorkflowGet"}
	return tools.New(s, nil, func(ctx context.Context, env tools.Env, in nameInput, _ tools.Sink) (tools.Result, error) {
		a, err := w.Get(ctx, env, in.Name)
		if err != nil {
			return tools.Result{}, err
		}
		runs, err := w.Runs(ctx, env, in.Name)
		if err != nil {
			return tools.Result{}, err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s, version %d, changed %s\n%s\n\n%s", a.Name, a.Version, a.Changed.Format(time.RFC3339), strings.TrimRight(a.Text, "\n"), a.Outline)
		for _, warning := range a.Warnings {
			b.WriteString("\nIt can not be run by now: " + warning + "\n")
		}
		if len(runs) > 0 {
			b.WriteString("\nRuns:\n")
		}
		for _, r := range runs[:min(len(runs), maxShown)] {
			b.WriteString("- " + line(r) + "\n")
		}
		return tools.Detailed(b.String(), map[string]any{"name": a.Name, "version": a.Version, "steps": a.Steps, "runs": runs})
	})
}

const maxShown = 20 // runs

func list(w Workflows) tools.Tool {
	s := spec("workflow_list", "List workflows", "List the workflows there are.", "Lists your workflows.", example("All", `{}`))
	s.Aliases = []string{"WorkflowList"}
	return tools.New(s, nil, func(ctx context.Context, env tools.Env, _ struct{}, _ tools.Sink) (tools.Result, error) {
		all, err := w.List(ctx, env)
		if err != nil {
			return tools.Result{}, err
		}
		var b strings.Builder
		names := []string{}
		for _, a := range all {
			fmt.Fprintf(&b, "- %s, version %d, %d steps: %s\n", a.Name, a.Version, a.Steps, cmp.Or(a.Description, "(no description)"))
			names = append(names, a.Name)
		}
		return tools.Detailed(cmp.Or(b.String(), "There are no workflows.\n"), map[string]any{"workflows": names})
	})
}

func remove(w Workflows) tools.Tool {
	s := spec("workflow_delete", "Delete a workflow", "Forget a workflow.", "Forgets a workflow. Runs that began before go on.", example("One", `{"name":"check"}`))
	s.Level = tools.WorkspaceWrite
	s.Aliases = []string{"WorkflowDelete"}
	tool := tools.New(s, nil, func(ctx context.Context, env tools.Env, in nameInput, _ tools.Sink) (tools.Result, error) {
		if err := w.Delete(ctx, env, in.Name); err != nil {
			return tools.Result{}, err
		}
		return tools.TextResult("The workflow " + in.Name + " is gone."), nil
	})
	return tools.WithForesight(tool, func(env tools.Env, in nameInput) error { return w.Check(env, in.Name, nil) })
}

type validateInput struct {
	Definition string `json:"definition" check:"min=1,max=131072"`
}

func validate(w Workflows) tools.Tool {
	s := spec("workflow_validate", "Check a workflow", "Find everything that is wrong with a definition.", "Checks a definition and keeps nothing.", example("Short", `{"definition":"bash{\"command\":\"make\"} >> git_status"}`))
	s.Aliases = []string{"WorkflowValidate"}
	return tools.New(s, nil, func(ctx context.Context, env tools.Env, in validateInput, _ tools.Sink) (tools.Result, error) {
		a, err := w.Validate(ctx, env, in.Definition)
		if err != nil {
			return tools.Result{}, err
		}
		return tools.TextResult(fmt.Sprintf("It is right, with %d steps:\n%s", a.Steps, a.Outline)), nil
	})
}

type runInput struct {
	Name       string       `json:"name,omitempty" check:"max=64" jsonschema:"of the workflow, to start one"`
	Parameters tools.Object `json:"parameters,omitempty" jsonschema:"as its parameters say"`
	Background bool         `json:"background,omitempty" jsonschema:"go on at once"`
	Run        string       `json:"run,omitempty" check:"max=64" jsonschema:"of a run that is there, instead of name"`
	Operation  string       `json:"operation,omitempty" check:"enum=wait|status|pause|resume|cancel" jsonschema:"what to do with run; default wait"`
	Done       bool         `json:"done,omitempty" jsonschema:"with resume: what the failed step was to do is done"`
	Digest     string       `json:"digest,omitempty" check:"max=64" jsonschema:"of the one meant"`
}

// Check finds what the schema cannot tell.
func (in runInput) Check() (problems []tools.Problem) {
	wrong := func(pointer, message string) {
		problems = append(problems, tools.Problem{Pointer: pointer, Message: message})
	}
	if (in.Name == "") == (in.Run == "") {
		wrong("", "want either name, to start a workflow, or run, for a run that is there")
	}
	if in.Operation != "" && in.Run == "" {
		wrong("/operation", "needs run: a workflow is started by its name alone")
	}
	if in.Done && in.Operation != "resume" {
		wrong("/done", "is for operation resume")
	}
	if in.Parameters != nil && in.Run != "" {
		wrong("/parameters", "are for name: a run has its own")
	}
	if in.Digest != "" && in.Run != "" {
		wrong("/digest", "is for name: a run keeps the definition it began with")
	}
	return problems
}

// What runs a workflow is called.
const (
	RunName  = "workflow_run"
	runAlias = "WorkflowRun"
)

// Codes of the failures of a run that callers tell apart.
const (
	ChangedCode = "workflow_changed" // it has not the digest that was given
	GoesOnCode  = "run_goes_on"      // the call ended, and the run did not
)

// IsRun reports whether a tool is the one that runs workflows.
func IsRun(tool string) bool { return tool == RunName || tool == runAlias }

func run(w Workflows) tools.Tool {
	s := spec(RunName, "Run a workflow", "Run a workflow, or look after a run.", runDoc,
		example("Start", `{"name":"greet","parameters":{"who":"Ada"}}`), example("After a failure", `{"run":"run-1f0c","operation":"resume"}`))
	s.Aliases = []string{runAlias}
	s.Waits, s.DefaultTimeout = true, time.Hour
	tool := tools.New(s,
		func(_ tools.Env, in runInput) []tools.Effect {
			if in.Name == "" {
				return nil
			}
			return []tools.Effect{{Kind: tools.UsesTool, Tool: effectName(in.Name), Configured: true}}
		},
		func(ctx context.Context, env tools.Env, in runInput, out tools.Sink) (tools.Result, error) {
			if in.Name != "" {
				return start(ctx, w, env, in, out)
			}
			r, err := w.Find(ctx, env, in.Run)
			if err != nil {
				return tools.Result{}, err
			}
			switch in.Operation {
			case "pause":
				err = r.Pause(ctx)
			case "cancel":
				err = r.Cancel(ctx, "as its owner asked")
			case "resume":
				err = r.Resume(ctx, env, in.Done)
			case "status":
				s, err := r.Status(ctx)
				return reported(w, s, err)
			}
			if err != nil {
				return tools.Result{}, err
			}
			if in.Background || in.Operation == "pause" { // steps that run may take long to end
				s, err := r.Status(ctx)
				return reported(w, s, err)
			}
			s, err := r.Wait(ctx, out)
			if in.Operation == "cancel" { // which is what was asked for
				return reported(w, s, err)
			}
			return over(w, s, err)
		})
	return tools.WithForesight(tool, func(env tools.Env, in runInput) error {
		if in.Name == "" {
			return w.CheckRun(env, in.Run)
		}
		return w.Check(env, in.Name, in.Parameters.JSON())
	})
}

// start begins a run. One that its call waits for ends with the call, unless it is the server
// that ends.
func start(ctx context.Context, w Workflows, env tools.Env, in runInput, out tools.Sink) (tools.Result, error) {
	r, err := w.Start(ctx, env, in.Name, in.Parameters.JSON(), in.Digest)
	if err != nil {
		return tools.Result{}, err
	}
	if in.Background {
		s, err := r.Status(ctx)
		return reported(w, s, err)
	}
	out.Emit(tools.Progress{Message: "The run " + r.ID() + " has begun"}) // by which it is found if this call is lost
	s, err := r.Wait(ctx, out)
	if err != nil && ctx.Err() != nil {
		cancelling, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer done()
		r.Abandon(cancelling, "its call ended: "+context.Cause(ctx).Error())
	}
	return over(w, s, err)
}

const cancelTime = 5 * time.Second

// line is a run in a line.
func line(s Status) string {
	text := s.ID + " (began " + s.Began.Format(time.RFC3339) + "): " + string(s.State)
	switch {
	case s.Step != "":
		text += " at step " + s.Step
	case s.Pausing:
		text += ", to be paused when the steps that run have ended"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// reported tells how a run is.
func reported(w Workflows, s Status, err error) (tools.Result, error) {
	if s.ID == "" {
		return tools.Result{}, err
	}
	text := "The run " + line(s) + "\n" + steps(s)
	if s.State == Running {
		text += "workflow_run with its run waits for it, and can pause, resume and cancel it.\n"
	}
	result := tools.TextResult(text + lasts(w))
	result.Details, _ = json.Marshal(s)
	return result, err
}

// steps tells how the steps of a run are, but for why the one failed that the run failed at. Of very
// many the last ones are told, and those that have not ended.
func steps(s Status) string {
	var b strings.Builder
	left := len(s.Steps) - 2*maxShown
	if left > 0 {
		fmt.Fprintf(&b, "- %d steps that are not shown\n", left)
	}
	for _, step := range s.Steps[max(left, 0):] {
		fmt.Fprintf(&b, "- %s: %s", step.Step, step.State)
		if step.Reason != "" && step.Step != s.Step {
			b.WriteString(": " + step.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// over is the result of a run that was waited for.
func over(w Workflows, s Status, err error) (tools.Result, error) {
	switch {
	case err != nil:
		result, _ := reported(w, s, nil)
		if _, ok := errors.AsType[*tools.Failure](err); s.State == Running && !ok {
			err = &tools.Failure{Code: GoesOnCode, Message: "The run " + s.ID + " is not waited for any more: " + err.Error() + ". Ask for it by workflow_run with its run.", Retryable: true}
		}
		return result, err
	case s.State == Succeeded:
		if len(s.Result) == 0 {
			s.Result = json.RawMessage("null")
		}
		result := tools.JSONResult(s.Result)
		s.Steps = nil
		result.Details, err = json.Marshal(s)
		return result, err
	}
	result := tools.TextResult(steps(s)) // the failure tells the rest
	result.Details, _ = json.Marshal(s)
	hint := ""
	if s.State == Failed || s.State == Paused {
		hint = " Resume it by workflow_run with its run and operation resume, when what was wrong is right; it keeps its definition: one that was changed needs a new run."
	}
	return result, tools.Failf(cmp.Or(s.Code, string(s.State)), "The run %s.%s", line(s), hint)
}
