// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// waits is a call that looks for two seconds at a process that has run for an hour.
type waits struct{ tools.Call }

func (waits) Input() json.RawMessage { return json.RawMessage(`{"id":"p3"}`) }

func (waits) Run(context.Context, tools.Rights, tools.Sink) (tools.Result, error) {
	time.Sleep(2 * time.Second)
	return tools.Result{
		Content: []tools.Content{tools.Text("new\n[p3 is running.]")},
		Details: json.RawMessage(`{"id":"p3","state":"running","duration_ms":3600000}`),
	}, nil
}

// TestWallTime: the time that write_stdin of Codex tells is that of its own wait.
func TestWallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for meaning, want := range map[int]string{
			1: "Wall time: 2 seconds\nProcess running with session ID 3\nOutput:\nnew\n",
			2: "Wall time: 2 seconds\nProcess running with session ID 3\nOutput:\nnew\n",
		} {
			call := Form{System: "codex", Tool: "write_stdin", Meaning: meaning}.Around(waits{})
			result, err := call.Run(t.Context(), tools.Rights{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, c := range result.Content {
				text, _ := c.(tools.Text)
				got.WriteString(string(text))
			}
			if got.String() != want {
				t.Errorf("meaning %d: got %q, want %q", meaning, got.String(), want)
			}
		}
	})
}
