// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// An attack is a call that must be stopped, or a harmless one that must not. In
// its texts {WS} is the workspace, {OUT} the directory out beside it, which has
// a secret, {HOME} the home of the server, {MARK} a file in {OUT} that an attack
// would make, and <REP "text" n> is text n times.
type attack struct {
	ID     string          `json:"id"`
	Policy string          `json:"policy"` // a key of attackPolicies, and +word for another allowed command
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Setup  string          `json:"setup"` // commands that prepare the workspace
	First  []attackStep    `json:"first"` // what happens before
	While  string          `json:"while"` // what happens meanwhile: a key of meanwhiles
	Tries  int             `json:"tries"` // how often it is tried, with the same answer unless something happens; 0 is once
	Asked  string          `json:"asked"` // commands that run while a person is asked, who allows it then

	// Expect is how it ends: allow, not_auto (denied or asked about), deny,
	// invalid (as an input), failed (by the tool) or any. Whatever it is, nothing
	// outside the workspace is read or changed, nor anything in .git; and unless
	// it is allow or any, nothing in the workspace is changed.
	Expect string `json:"expect"`
	Answer string `json:"answer"` // how the text of the result begins
	Left   string `json:"left"`   // commands that succeed afterwards
	Twin   string `json:"twin"`   // another path that gives the same answer, but for its last name
	Memory uint64 `json:"memory"` // MiB that may be allocated
}

// An attackStep is a call, or commands where no tool is named.
type attackStep struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Shell  string          `json:"shell"`
	Answer string          `json:"answer"` // how the text of the result begins
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
	"deny-touch":   {pb.Mode_MODE_ALLOW, "rules: [{name: no_touch, action: deny, commands: [touch]}]\n"},
	"ask":          {pb.Mode_MODE_ASK, ""},
	"secrets":      {pb.Mode_MODE_ASK, "rules: [{name: secrets, action: ask, reads: [.env, .env.*]}]\n"},
	"edits":        {pb.Mode_MODE_ACCEPT_EDITS, ""},
	"builtin":      {pb.Mode_MODE_ALLOW, ""}, // the rules that are built in
	"shell-allow":  {pb.Mode_MODE_ALLOW, ""},
	"deny-secrets": {pb.Mode_MODE_ALLOW, "rules: [{name: secrets, action: deny, paths: [secrets/]}]\n"},
	"withheld": {pb.Mode_MODE_ALLOW, `
rules:
  - {name: fine, action: allow, reads: [ok.key]}
  - {name: keys, action: deny, reads: [secrets/, "*.key"]}
  - {name: certs, action: ask, reads: ["*.pem", certs/]}
  - {name: not_by_grep, action: deny, tools: [grep], reads: [logs/]}
  - {name: by_condition, action: deny, tools: [grep, glob], when: 'effect.kind == "reads" && effect.path.endsWith(".cel")'}
`},
	"by-condition": {pb.Mode_MODE_ALLOW, `
rules:
  - {name: keys, action: deny, when: 'effect.kind == "reads" && effect.path.endsWith(".key")'}
  - {name: pem, action: ask, reads: [src/], when: 'effect.path.endsWith(".pem")'}
  - {name: other, action: deny, when: 'input.command.contains("forbidden")'}
`},
	"net":      {pb.Mode_MODE_ASK, "rules: [{name: public, action: allow, hosts: [public.example]}, {name: own, action: deny, hosts: [127.0.0.0/8, localhost]}]\n"},
	"deny-env": {pb.Mode_MODE_ALLOW, "rules: [{name: env, action: deny, reads: [.env]}]\n"},
}

// shellTool is judged as the tool that runs commands is, and runs none.
func shellTool() tools.Tool {
	type input struct {
		Command string `json:"command"`
	}
	return tools.New(tools.Spec{Name: "shell", Summary: "A tool for tests.", Level: tools.WorkspaceWrite},
		func(env tools.Env, in input) []tools.Effect {
			return effects.Resolve(env, shell.Effects(in.Command, shell.PlaceOf(env, "")))
		},
		func(context.Context, tools.Env, input, tools.Sink) (tools.Result, error) {
			return tools.TextResult("ran"), nil
		})
}

// foreignTools are tools as servers of others bring them: one that says what it
// writes, one that says nothing, and one that fetches what site serves as any
// host.
func foreignTools(site string) []tools.Tool {
	type file struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	type page struct {
		URL string `json:"url"`
	}
	spec := func(name string, kind tools.Kind) tools.Spec {
		return tools.Spec{Name: name, Summary: "A tool for tests.", Kind: kind, Server: "foreign", Level: tools.WorkspaceWrite}
	}
	write := func(_ context.Context, env tools.Env, in file, _ tools.Sink) (tools.Result, error) {
		return tools.TextResult("written"), os.WriteFile(filepath.Join(env.Workspace.Dir(), in.Path), []byte(in.Content), 0o644)
	}
	fetch := func(ctx context.Context, _ tools.Env, in page, _ tools.Sink) (tools.Result, error) {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, site)
		}}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL, nil)
		if err != nil {
			return tools.Result{}, err
		}
		response, err := client.Do(request)
		if err != nil {
			return tools.Result{}, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return tools.TextResult(string(body)), err
	}
	return []tools.Tool{
		tools.New(spec("foreign_write_file", tools.MCP), func(env tools.Env, in file) []tools.Effect { return env.Writes(in.Path) }, write),
		tools.New(spec("foreign_write_unsaid", tools.MCP), func(tools.Env, file) []tools.Effect { return nil }, write),
		tools.New(spec("foreign_fetch", tools.OpenAPI), func(_ tools.Env, in page) []tools.Effect {
			address, err := url.Parse(in.URL)
			if err != nil {
				return []tools.Effect{{Kind: tools.ReachesHost, Unclear: err.Error()}}
			}
			return []tools.Effect{{Kind: tools.ReachesHost, Host: address.Hostname(), Port: 80}}
		}, fetch),
	}
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
	x := newArena(t, a)
	for _, step := range a.First {
		if step.Tool == "" {
			prepare(t, x.ws, x.place(step.Shell))
		} else if _, got, _ := x.call(step.Tool, step.Input); !strings.HasPrefix(got, step.Answer) {
			t.Fatalf("%s answers %q", step.Tool, got)
		}
	}
	outside, inside := shape(t, x.out), shape(t, x.ws)
	if a.While != "" {
		x.meanwhile(a.While)
	}
	if a.Asked != "" {
		x.asked = func() {
			prepare(t, x.ws, x.place(a.Asked))
			outside, inside = shape(t, x.out), shape(t, x.ws)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	end, got, event := x.call(a.Tool, a.Input)
	runtime.ReadMemStats(&after)
	for try := 1; try < a.Tries; try++ {
		_, again, _ := x.call(a.Tool, a.Input)
		if a.While == "" && again != got {
			t.Errorf("it answers %q, and then %q", got, again)
		}
		if strings.Contains(again, canary) {
			got = again
		}
	}
	x.stop()

	if end != a.Expect && a.Expect != "any" && (a.Expect != "not_auto" || end != "deny" && end != "ask") {
		t.Errorf("%s, want %s: %s\n%v", end, a.Expect, a.Input, event)
	}
	if !strings.HasPrefix(got, x.place(a.Answer)) {
		t.Errorf("it answers %q, want %q", got, x.place(a.Answer))
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; a.Memory > 0 && used > a.Memory {
		t.Errorf("%d MiB were allocated", used)
	}
	if strings.Contains(got, canary) || strings.Contains(fmt.Sprint(x.server.logs.All()), canary) {
		t.Errorf("the secret is out: %q", got)
	}
	if now := shape(t, x.out); !maps.Equal(now, outside) {
		t.Errorf("outside is %v, was %v", now, outside)
	}
	now := shape(t, x.ws)
	if a.Expect == "allow" || a.Expect == "any" {
		inRepository := func(path, _ string) bool { return path != ".git" && !strings.HasPrefix(path, ".git/") }
		maps.DeleteFunc(now, inRepository)
		maps.DeleteFunc(inside, inRepository)
	}
	if a.While == "" && !maps.Equal(now, inside) {
		t.Errorf("the workspace is %v, was %v", now, inside)
	}
	if a.Twin != "" {
		path := regexp.MustCompile(`"path": *"([^"]*)"`).FindSubmatch(a.Input)[1]
		_, twin, _ := x.call(a.Tool, bytes.ReplaceAll(a.Input, path, []byte(a.Twin)))
		if strings.ReplaceAll(twin, filepath.Base(a.Twin), filepath.Base(string(path))) != got {
			t.Errorf("%q for %s, %q for %s", got, path, twin, a.Twin)
		}
	}
	if a.Left != "" {
		prepare(t, x.ws, x.place(a.Left))
	}
}
