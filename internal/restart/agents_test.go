// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestAgentKilled kills a server whose agent has had an effect and still works: who makes the same call again is told
// that it is lost, and no second agent begins.
func TestAgentKilled(t *testing.T) {
	t.Setenv("TEST_MODEL_KEY", "secret")
	for _, test := range []struct{ tool, input string }{
		{"agent", `{"agent": "worker", "prompt": "Do it."}`},
		{"crew", `{"task": "Do it.", "stages": [{"name": "a", "agent": "worker", "prompt": "{{task}}"}]}`},
	} {
		t.Run(test.tool, func(t *testing.T) {
			asked, held := make(chan struct{}, 1), make(chan struct{})
			provider := httptest.NewServer(modeltest.New(func(r *modeltest.Request) modeltest.Turn {
				if r.Said() == 0 {
					return modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("bash", map[string]any{"command": "echo once >> effects"})}}
				}
				select {
				case asked <- struct{}{}: // once
					<-held
				default:
				}
				return modeltest.Turn{Text: "Done."}
			}))
			defer provider.Close()
			defer close(held)
			w := startWith(t, fmt.Sprintf("dir: %s\nmodels: [{name: main, format: anthropic, model: scripted, url: %q, key_env: TEST_MODEL_KEY}]\nagents: {list: [{name: worker, prompt: You work., tools: [bash]}]}\n",
				filepath.Join(t.TempDir(), "state"), provider.URL))
			session := w.as("agent").session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
			go w.as("agent").call("s", "work", test.tool, test.input) // it ends with the server
			for len(asked) == 0 {
				time.Sleep(time.Millisecond)
			}
			w.again()
			_, end := w.as("agent").end("s", "work", test.tool, test.input)
			if end.GetOutcome() != pb.Outcome_OUTCOME_LOST || end.GetFailure().GetCode() != "lost_effects_unknown" {
				t.Errorf("%v, want that it is lost", end)
			}
			if got := lines(t, filepath.Join(session.GetWorkspace(), "effects")); got["once"] != 1 {
				t.Errorf("the agent worked %d times", got["once"])
			}
		})
	}
}
