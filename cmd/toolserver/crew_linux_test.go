// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// crewStages are six, of which tests fails.
const crewStages = `{"task": "Release 2.0", "stages": [
  {"name": "survey", "agent": "reviewer", "prompt": "Survey all for {{task}}."},
  {"name": "code", "agent": "reviewer", "prompt": "Code: {{survey}}", "depends_on": ["survey"]},
  {"name": "tests", "agent": "tester", "prompt": "Tests: {{survey}}", "depends_on": ["survey"]},
  {"name": "mend", "agent": "writer", "prompt": "Mend: {{tests}}", "depends_on": ["tests"]},
  {"name": "docs", "agent": "writer", "prompt": "Docs: {{survey}}", "depends_on": ["survey"]},
  {"name": "report", "agent": "writer", "prompt": "Report: {{code}} {{docs}}", "depends_on": ["code", "docs"]}]}`

// startCrew serves agents whose model says what the stages above need. It waits in survey and
// then in code and docs until it is told to go on.
func startCrew(t *testing.T, survey, rest <-chan struct{}) (server *running, input string) {
	t.Helper()
	until := func(gate <-chan struct{}) func(context.Context) {
		return func(ctx context.Context) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
	}
	listing := []toolcall.Call{modeltest.Call("list_dir", map[string]string{"path": "."})}
	provider := modeltest.New(func(r *modeltest.Request) modeltest.Turn {
		used := model.Usage{Input: 1000, Output: 50}
		stage, _, _ := strings.Cut(r.Messages[0].Text, " ")
		switch {
		case stage == "Survey":
			return modeltest.Turn{Text: "Three packages.", Usage: used, First: until(survey)}
		case stage == "Tests:", stage == "Code:" && r.Said() == 0:
			return modeltest.Turn{Text: "I look.", Calls: listing, Usage: used}
		case stage == "Code:":
			return modeltest.Turn{Text: "The code is fine.", Usage: used, First: until(rest)}
		case stage == "Docs:":
			return modeltest.Turn{Text: "I write the docs.\n", Usage: used, Then: until(rest)}
		}
		return modeltest.Turn{Text: "All is well but the tests.", Usage: used}
	}).Start()
	t.Cleanup(provider.Close)
	key := writeFile(t, "key", "scripted")
	return startServer(t, "--config", writeFile(t, "c.yaml", fmt.Sprintf(`
models: [{name: main, format: anthropic, model: scripted, url: %q, key_file: %q}]
agents:
  list:
  - {name: reviewer, prompt: You review.}
  - {name: tester, prompt: You test., limits: {turns: 2}}
  - {name: writer, prompt: You write.}
`, provider.URL("anthropic"), key))), writeFile(t, "crew.json", crewStages)
}

// TestScreensOfACrew has a crew of six stages at work, of which one fails in the middle: a live
// tree shows how they are, also to those who watch, with little room.
func TestScreensOfACrew(t *testing.T) {
	t.Parallel()
	survey, rest := make(chan struct{}), make(chan struct{})
	server, input := startCrew(t, survey, rest)
	p := openPane(t, 100, 34, server.address)
	p.line("clear; toolserver call --call-id c crew - <" + input)
	p.is("crew-1-begun", `survey .*asks its model`)
	close(survey)
	p.is("crew-2-failed", `(?s)2 at work.*1 waiting.*code .*2 turns.*asks its model.*mend .*skipped.*docs .*says: I write the docs`)

	small := openPane(t, 60, 8, server.address)
	small.line("clear; toolserver watch --call-id c")
	small.is("crew-3-small", `(?s)crew of 6.*code .*docs .*more that`)
	close(rest)
	p.until(`(?s)^failed: 2 of 6.*^\$`)
	p.line("echo code $?")
	p.is("crew-4-ended", `(?s)crew of 6.*^code 1\n+\$`)
}

// TestCrewAsLines: where there is no terminal, a line tells what happened, and to which stage.
func TestCrewAsLines(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	close(open)
	server, input := startCrew(t, open, open)
	cmd := exec.Command("toolserver", "call", "--address", server.address, "crew", "@"+filepath.Base(input))
	cmd.Dir = filepath.Dir(input)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code := wait(t, cmd); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"[report] waits for code, docs\n", "[survey] reviewer begins: Survey all for {{task}}.\n", "[survey]   | Three packages.\n",
		"[tests] tester ends: turn limit, after 2 turns, 2 calls, 2000 tokens read and 100 written\n",
		"[tests] failed: The agent tester was not done after 2 turns", "[mend] skipped: it depends on tests, which failed\n", "[report] writer ends: done",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("there is no %q in\n%s", want, stderr.String())
		}
	}
	if got := stdout.String(); !strings.HasPrefix(got, "## survey\nThree packages.\n\n## code\nThe code is fine.\n\n## tests\n(failed: ") || strings.Contains(stderr.String(), "\x1b") {
		t.Errorf("the result is\n%s", got)
	}
}
