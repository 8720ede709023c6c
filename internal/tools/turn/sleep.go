// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed sleep.md
var sleepDoc string

type sleepInput struct {
	DurationMS int64 `json:"duration_ms" check:"min=0,max=600000" jsonschema:"at most ten minutes"`
}

// Sleep returns the tool that waits.
func Sleep() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "sleep",
			Aliases:         []string{"Sleep", "wait"},
			Label:           "Sleep",
			Summary:         "Wait for a while.",
			Description:     sleepDoc,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			DefaultTimeout:  11 * time.Minute,
			Examples: []tools.Example{
				{Summary: "Wait three seconds", Input: json.RawMessage(`{"duration_ms":3000}`)},
			},
		},
		nil,
		func(ctx context.Context, _ tools.Env, in sleepInput, out tools.Sink) (tools.Result, error) {
			return sleep(ctx, time.Duration(in.DurationMS)*time.Millisecond, out)
		})
}

func sleep(ctx context.Context, total time.Duration, out tools.Sink) (tools.Result, error) {
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	// About a hundred reports: enough for a bar that moves, cheap for long waits.
	step := min(max(total/100, 100*time.Millisecond), 5*time.Second)
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			waited := time.Since(begin).Round(time.Millisecond)
			return tools.TextResult(fmt.Sprintf("Waited %s of %s.", waited, total)), context.Cause(ctx)
		case said := <-out.Messages():
			waited := time.Since(begin).Round(time.Millisecond)
			return tools.TextResult(fmt.Sprintf("Waited %s of %s, until this message came: %s", waited, total, said)), nil
		}
		waited := time.Since(begin)
		if waited >= total {
			return tools.TextResult(fmt.Sprintf("Waited %s.", total)), nil
		}
		out.Emit(tools.Progress{
			Message: "waiting", Unit: "ms",
			Done: float64(waited.Milliseconds()), Total: float64(total.Milliseconds()),
		})
		timer.Reset(min(step, total-waited))
	}
}
