// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed process_output.md
var processOutputDoc string

//go:embed process_output_help.md
var processOutputHelp string

type processOutputInput struct {
	ID       string `json:"id" check:"min=1,max=100" jsonschema:"such as p1"`
	Offset   *int64 `json:"offset,omitempty" jsonschema:"in bytes; negative: from the end; default: behind the last call"`
	Until    string `json:"until,omitempty" check:"max=10000" jsonschema:"wait for a line that matches this regular expression"`
	UntilEnd bool   `json:"until_end,omitempty" jsonschema:"wait for the end"`
	WaitMS   int64  `json:"wait_ms,omitempty" check:"min=1,max=1800000" jsonschema:"default 30000 with until or until_end, else 0"`
	MaxBytes int    `json:"max_bytes,omitempty" check:"min=1,max=1048576"`
}

const (
	defaultWait = 30 * time.Second

	// leeway is what a call has beyond its wait, to say what came of it.
	leeway = 5 * time.Second
)

// Timeout is how long the call may run.
func (in processOutputInput) Timeout() time.Duration { return in.wait() + leeway }

// wait returns how long to wait.
func (in processOutputInput) wait() time.Duration {
	if in.WaitMS == 0 && (in.Until != "" || in.UntilEnd) {
		return defaultWait
	}
	return milliseconds(in.WaitMS)
}

// Check finds what the schema cannot tell.
func (in processOutputInput) Check() []tools.Problem {
	if in.Until != "" && in.UntilEnd {
		return []tools.Problem{{Pointer: "/until_end", Message: "does not go with until: give one of them"}}
	}
	if _, err := in.pattern(); err != nil {
		reason := strings.Join(strings.Fields(err.Error()), " ")
		return []tools.Problem{{Pointer: "/until", Message: "is no regular expression that Go knows: " + reason + `; write \ before characters that are meant as they are`}}
	}
	return nil
}

// pattern returns what to wait for; nil for nothing but the end.
func (in processOutputInput) pattern() (*regexp.Regexp, error) {
	if in.Until == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(in.Until); err != nil {
		return nil, err
	}
	return regexp.Compile("(?m:" + in.Until + ")")
}

// ProcessOutput returns the tool that reads what a background process wrote.
func ProcessOutput(companions *companion.Set) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:    "process_output",
			Aliases: []string{"BashOutput", "bash_output", "TaskOutput", "Monitor"},
			Keys: []tools.Key{
				{Other: "process_id", Name: "id"}, {Other: "task_id", Name: "id"}, {Other: "bash_id", Name: "id"},
				{Other: "shell_id", Name: "id"},
			},
			Label:   "Read a background process",
			Summary: "Read what a background process wrote, and wait for text or its end.",

			Description:          processOutputDoc,
			Help:                 processOutputHelp,
			Category:             category,
			Level:                tools.ReadOnly,
			ConcurrencySafe:      true,
			RequiredCapabilities: []string{command.Capability},
			Examples: []tools.Example{
				{Summary: "What is new", Input: json.RawMessage(`{"id":"p1"}`)},
				{Summary: "Wait until a server is ready", Input: json.RawMessage(`{"id":"p1","until":"[Ll]istening on","wait_ms":60000}`)},
				{Summary: "The last 2000 bytes", Input: json.RawMessage(`{"id":"p1","offset":-2000}`)},
			},
		},
		nil,
		func(ctx context.Context, env tools.Env, in processOutputInput, _ tools.Sink) (tools.Result, error) {
			return processOutput(ctx, companions, env, in)
		})
}

func processOutput(ctx context.Context, companions *companion.Set, env tools.Env, in processOutputInput) (tools.Result, error) {
	b, err := companions.Process(env, in.ID)
	if err != nil {
		return tools.Result{}, err
	}
	pattern, err := in.pattern()
	if err != nil {
		return tools.Result{}, err
	}
	found, waited := false, in.wait() > 0
	if waited {
		found, err = waitFor(ctx, b, in, pattern)
	}
	limit := env.Shown()
	if in.MaxBytes > 0 {
		limit = min(limit, in.MaxBytes)
	}
	b.Examine()
	state := b.State() // before the output: of what has ended, all is there
	o := b.Output(in.Offset, limit)
	d := detailsOf(b)
	d.Offset, d.NextOffset, d.Dropped = &o.Offset, &o.Next, o.Dropped
	if pattern != nil {
		d.Found = &found
	}

	status := fmt.Sprintf("[%s %s. Next offset: %d.", b.ID, state, o.Next)
	switch {
	case pattern != nil && !found && !state.Running:
		status += " What was waited for was not written."
	case pattern != nil && !found && waited:
		status += " What was waited for is not written yet."
	}
	if o.More > 0 {
		again := processOutputInput{ID: in.ID, MaxBytes: in.MaxBytes}
		if in.Offset != nil {
			again.Offset = new(int64(o.Next))
		}
		status += fmt.Sprintf(" There are %d bytes more: go on with %s.", o.More, env.Words.GoOn("process_output", again))
	}
	if o.Dropped > 0 {
		status += fmt.Sprintf(" %d bytes before offset %d are no longer kept.", o.Dropped, o.Offset)
	}
	text := output.Clean(o.Data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return b.Warn(withDetails(d, text+status+"]")), err
}

// waitFor waits as the input says, and ends before the call has to. An error is
// that of a call that is cancelled.
func waitFor(ctx context.Context, b *companion.Process, in processOutputInput, pattern *regexp.Regexp) (found bool, err error) {
	until := time.Now().Add(in.wait())
	if deadline, ok := ctx.Deadline(); ok {
		if latest := deadline.Add(-min(leeway, time.Until(deadline)) / 5); latest.Before(until) {
			until = latest
		}
	}
	waiting, cancel := context.WithDeadlineCause(ctx, until, errWaited)
	defer cancel()
	if found, err = b.WaitFor(waiting, in.Offset, pattern); errors.Is(err, errWaited) {
		err = nil
	}
	return found, err
}

// errWaited is the cause of a wait that took its time.
var errWaited = errors.New("waited long enough")
