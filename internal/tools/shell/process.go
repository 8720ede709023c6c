// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/tools"
)

// startBackground starts a script as a background process and says which one it
// is.
func startBackground(ctx context.Context, companions *companion.Set, env tools.Env, script command.Script, limit time.Duration) (tools.Result, error) {
	b, err := companions.Start(ctx, env, script, limit)
	if err != nil {
		return tools.Result{}, err
	}
	result := tools.TextResult(fmt.Sprintf("Started in the background as %s. Read what it writes with %s.", b.ID, env.Words.Tool("process_output")))
	result.Details, _ = json.Marshal(processDetails{ID: b.ID, State: "running"})
	return result, nil
}

// runFor runs a script. Once it has run for that long it goes on as a background
// process, and the call tells which one it is. A call that is cancelled ends it.
func runFor(ctx context.Context, companions *companion.Set, env tools.Env, script command.Script, long, limit time.Duration, out tools.Sink) (tools.Result, error) {
	transcript := command.NewTranscript(env, env.Shown())
	p, err := companions.Follow(ctx, env, script, limit, func(stream tools.Stream, data []byte) {
		transcript.Write(stream, data)
		out.Emit(tools.Output{Stream: stream, Data: data})
	})
	if err != nil {
		return tools.Result{}, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, long, errWaited)
	defer cancel()
	_, err = p.WaitFor(waiting, nil, nil)
	if err != nil && !errors.Is(err, errWaited) {
		p.Stop(err)
	}
	p.Unfollow() // nothing is written to the transcript any more
	if !errors.Is(err, errWaited) {
		return companions.Ended(ctx, env, p, &transcript)
	}
	text, artifact := transcript.Content()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	p.Examine()
	result := withDetails(detailsOf(p), text, fmt.Sprintf("[It goes on in the background as %s. Read what it writes with %s.]", p.ID, env.Words.Tool("process_output")))
	result.Content = append(result.Content, artifact...)
	return p.Warn(result), nil
}

// processDetails is what a runtime is told of a background process.
type processDetails struct {
	ID         string  `json:"id"`
	State      string  `json:"state"` // running or ended
	Reason     string  `json:"reason,omitempty"`
	ExitCode   *int    `json:"exit_code,omitempty"`
	Signal     string  `json:"signal,omitempty"`
	DurationMS int64   `json:"duration_ms"`
	Output     uint64  `json:"output_bytes"`
	Command    string  `json:"command,omitempty"`
	Offset     *uint64 `json:"offset,omitempty"` // of what process_output returned
	NextOffset *uint64 `json:"next_offset,omitempty"`
	Dropped    uint64  `json:"dropped_bytes,omitempty"`
	Found      *bool   `json:"found,omitempty"` // whether what was waited for was written
	Input      *uint64 `json:"input_bytes,omitempty"`

	TakenBack []string `json:"taken_back,omitempty"` // of what it, or something beside it, did
}

func detailsOf(b *companion.Process) processDetails {
	state := b.State()
	d := processDetails{ID: b.ID, State: "running", DurationMS: b.Ran().Milliseconds(), Output: state.Output, TakenBack: state.TakenBack}
	if !state.Running {
		exit := state.Outcome.Exit
		d.State, d.Reason, d.Signal = "ended", exit.Reason.String(), exit.Signal
		if exit.Reason == tools.Exited {
			d.ExitCode = &exit.Code
		}
	}
	return d
}

// withDetails returns a result of texts.
func withDetails(d any, texts ...string) tools.Result {
	var result tools.Result
	for _, text := range texts {
		if text != "" {
			result.Content = append(result.Content, tools.Text(text))
		}
	}
	result.Details, _ = json.Marshal(d)
	return result
}
