// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestContext proves what an agent is told of the conversation of its caller: what that
// sends or, of one that is an agent itself, what was said to it.
func TestContext(t *testing.T) {
	w := newWorld(t, agent.Config{List: []agent.Definition{reviewer, {Name: "helper", Prompt: "You help."}}, MaxDepth: 2}, tools.ModeAsk, func(turn int, r *model.Request) answer {
		prompt := r.Messages[0].Text
		switch {
		case strings.HasPrefix(r.System, "You summarise"):
			return answer{text: "A summary of " + prompt[strings.Index(prompt, "---"):]}
		case r.System == "You help." || !strings.Contains(prompt, "delegate"):
			return answer{text: prompt}
		case turn == 1:
			return answer{text: "I read first.", calls: []toolcall.Call{call("r", "read_file", `{"path":"a.txt"}`)}, stop: model.Calling}
		case turn == 2:
			strategy := "full"
			if strings.Contains(prompt, "filtered") {
				strategy = "filtered"
			}
			return answer{calls: []toolcall.Call{call("c", "agent", `{"agent":"helper","prompt":"Help.","context_strategy":"`+strategy+`"}`)}, stop: model.Calling}
		}
		return answer{text: string(r.Messages[len(r.Messages)-1].Results[0].Content[0].(toolcall.Text))}
	})
	w.file("a.txt", "hello\n")
	said := `,"context":[{"role":"user","text":"Mend it."},{"role":"assistant","text":"Where?"}]`
	for input, want := range map[string][]string{
		`{"agent":"reviewer","prompt":"P.","context_strategy":"full"` + said + `}`:    {"user: Mend it.\n\nassistant: Where?\n\n(The task:)\n\nP."},
		`{"agent":"reviewer","prompt":"P.","context_strategy":"summary"` + said + `}`: {"A summary of ---\n\nuser: Mend it.", "(The task:)\n\nP."},
		`{"agent":"reviewer","prompt":"P.","context_strategy":"none"}`:                {"P."},
		`{"agent":"reviewer","prompt":"P.","context_strategy":"full"}`:                {"The server does not know what was said"},
		`{"agent":"reviewer","prompt":"P."` + said + `}`:                              {"/context: needs context_strategy"},
		`{"agent":"reviewer","prompt":"delegate"}`:                                    {"user: delegate\n\nassistant: I read first.", `(calls read_file {"path":"a.txt"})`, "(result of read_file: 1\thello", "Help."},
		`{"agent":"reviewer","prompt":"delegate filtered"}`:                           {"user: delegate filtered\n\nassistant: I read first.\n\n(The task:)\n\nHelp."},
	} {
		_, end := w.run("agent", input)
		for _, part := range want {
			if !strings.Contains(text(end), part) {
				t.Errorf("%s: there is no %q in %s", input, part, text(end))
			}
		}
	}
}
