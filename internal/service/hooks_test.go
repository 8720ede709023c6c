// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

type anyCall struct{ tools.Call }

func (anyCall) Input() json.RawMessage { return json.RawMessage("{}") }

// TestHooksWithoutSession: where the session is gone in which hooks would be asked, nothing
// passes unasked, except by those that are advisory.
func TestHooksWithoutSession(t *testing.T) {
	for _, advisory := range []bool{false, true} {
		hooks, err := hook.New(hook.Config{{
			Name: "gate", On: hook.Points{hook.BeforeUpdate, hook.AfterCall}, Run: hook.Command{"true"}, Advisory: advisory,
		}}, hook.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer hooks.Close()
		var outcomes []hook.Outcome
		hooks.Watch(func(run hook.Run) { outcomes = append(outcomes, run.Outcome) })
		s := steps{&Server{executor: executor.New(executor.Config{}), config: Config{Hooks: hooks, Sessions: new(session.Store), Registry: new(tools.Registry)}, auditor: new(auditor)}}
		x := &executor.Execution{Order: executor.Order{Answer: tools.DefaultAnswer}}
		if got := s.Reports(x, tools.Progress{Message: "half"}); got != advisory {
			t.Errorf("advisory %t: the update passes: %t", advisory, got)
		}
		end := &executor.Finished{Outcome: executor.Succeeded, Result: tools.TextResult("hush")}
		s.Returned(t.Context(), x, anyCall{}, end)
		if passes := strings.Contains(textOf(end.Result.Content), "hush"); passes != advisory || !advisory && end.Failure.Code != "hook_failed" {
			t.Errorf("advisory %t: ended with %+v", advisory, end)
		}
		if !slices.Equal(outcomes, []hook.Outcome{hook.Failed, hook.Failed}) {
			t.Errorf("advisory %t: reported %v", advisory, outcomes)
		}
	}
}
