// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// An attack is a call that the policy must stop, or a harmless one that it must
// not. In its texts {WS} is the workspace, {OUT} a directory beside it, {MARK} a
// file there that an attack would make, and <REP "text" n> is text n times.
type attack struct {
	ID     string          `json:"id"`
	Policy string          `json:"policy"` // a key of attackPolicies, and +word for another allowed command
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Setup  string          `json:"setup"`  // commands that prepare the workspace
	Expect string          `json:"expect"` // allow, not_auto (denied or asked about) or deny
}

// attackPolicies are the policies that attacks meet, and the modes of their
// sessions.
var attackPolicies = map[string]struct {
	mode pb.Mode
	text string
}{
	"allowlist": {pb.Mode_MODE_ASK, `
rules:
  - name: listed
    action: allow
    tools: [shell]
    commands: [ls, cat, echo, printf, grep, rg, find, sed, sort, head, tail, wc, test, date, "true", pwd,
      git status, git log, git diff, git show, git grep, git ls-remote, git archive, git blame%s]
`},
	"deny-touch":  {pb.Mode_MODE_ALLOW, "rules: [{name: no_touch, action: deny, commands: [touch]}]\n"},
	"edits":       {pb.Mode_MODE_ACCEPT_EDITS, ""},
	"shell-allow": {pb.Mode_MODE_ALLOW, ""},
}

// shellTool is judged as the tool that runs commands is, and runs none.
func shellTool() tools.Tool {
	type input struct {
		Command string `json:"command"`
	}
	return tools.New(tools.Spec{Name: "shell", Summary: "A tool for tests.", Level: tools.WorkspaceWrite},
		func(env tools.Env, in input) []tools.Effect {
			return env.Resolve(shell.Effects(in.Command, shell.Place{Dir: ".", Workspace: env.Workspace.Dir()}))
		},
		func(context.Context, tools.Env, input, tools.Sink) (tools.Result, error) {
			return tools.TextResult("ran"), nil
		})
}

// TestAttacks judges every case of testdata/attacks.jsonl through gRPC.
func TestAttacks(t *testing.T) {
	text, err := os.ReadFile("testdata/attacks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var a attack
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		t.Run(a.ID, a.judge)
	}
}

func (a attack) judge(t *testing.T) {
	kind, more, _ := strings.Cut(a.Policy, "+")
	policy, ok := attackPolicies[kind]
	if !ok {
		t.Fatalf("no policy %s", a.Policy)
	}
	if more != "" {
		more = ", " + more
	}
	rules := policy.text
	if strings.Contains(rules, "%s") {
		rules = fmt.Sprintf(rules, more)
	}
	s := serve(t, withPolicy(t, rules), func(c *service.Config) {
		if err := c.Registry.Replace("shell", shellTool()); err != nil {
			t.Fatal(err)
		}
	})
	c := s.dial("")
	created, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{
		SessionId: "attacked", Mode: policy.mode, Level: pb.Level_LEVEL_WORKSPACE_WRITE,
	})
	if err != nil {
		t.Fatal(err)
	}
	ws := created.GetSession().GetWorkspace()
	out := t.TempDir()
	place := func(text string) string {
		text = strings.NewReplacer("{WS}", ws, "{OUT}", out, "{MARK}", filepath.Join(out, "pwned")).Replace(text)
		return repeated.ReplaceAllStringFunc(text, func(m string) string {
			parts := repeated.FindStringSubmatch(m)
			n, _ := strconv.Atoi(parts[2])
			return strings.Repeat(parts[1], n)
		})
	}
	prepare(t, ws, "git init -q . && echo hello > notes.txt && echo one > one.txt && echo keep > keep.txt")
	prepare(t, ws, place(a.Setup))

	request := asJSON(a.Tool, place(string(a.Input)))
	request.SessionId = "attacked"
	stream, first := c.begin(request)
	got := "deny"
	switch verdict := first.GetAccepted().GetVerdict(); {
	case verdict.GetAction() == pb.Action_ACTION_ASK:
		got = "ask"
	case first.GetAccepted() != nil:
		if got = "allow"; c.end(stream).GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			got = "failed"
		}
	case first.GetFinished().GetOutcome() != pb.Outcome_OUTCOME_DENIED:
		t.Fatalf("ended with %v", first.GetFinished())
	}
	if got != a.Expect && (a.Expect != "not_auto" || got == "allow" || got == "failed") {
		t.Errorf("%s, want %s: %s\n%v", got, a.Expect, a.Input, first)
	}
}

// repeated finds <REP "text" n> in JSON.
var repeated = regexp.MustCompile(`<REP \\"(.*?)\\" (\d+)>`)

// prepare runs commands in a directory.
func prepare(t *testing.T, dir, commands string) {
	t.Helper()
	cmd := exec.Command("bash", "-ec", commands)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, text)
	}
}
