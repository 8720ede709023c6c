// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestPlanning has an agent plan, have it approved, track it, note what it does and hand
// over; nobody is asked but about the plan.
func TestPlanning(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	nobody := func(q *pb.Approval) pb.AnswerKind {
		t.Errorf("a person is asked: %v", q)
		return pb.AnswerKind_ANSWER_KIND_DENY_ONCE
	}
	run := func(session, tool, input string) *pb.Finished { t.Helper(); return s.in(session, tool, input, nobody) }
	for _, mode := range []pb.Mode{pb.Mode_MODE_ASK, pb.Mode_MODE_PLAN, pb.Mode_MODE_ALLOW} {
		id := s.session("in-"+strings.ToLower(mode.String()), mode, pb.Level_LEVEL_READ_ONLY)
		for tool, input := range map[string]string{
			"todo_write": `{"todos":[{"content":"a"}]}`, "todo_read": `{}`, "plan": `{"goal":"g","steps":[{"step":"s"}]}`, "brief": `{"title":"t","text":"x"}`, "config": `{}`,
		} {
			wants(t, tool+" in "+id, run(id, tool, input), "SUCCEEDED")
		}
	}

	here := s.session("here", pb.Mode_MODE_PLAN, 0)
	events, end := s.call(&pb.ExecuteToolRequest{SessionId: here, Tool: "TodoWrite", InputJson: []byte(`{"todos":[{"content":"Look","status":"completed","activeForm":"Looking"},{"content":"Plan","status":"in_progress","activeForm":"Planning"}]}`)}, nobody)
	wants(t, "todos of another system", end, "1 of 2 done\n1 [x] Look\n2 [>] Plan\n")
	reported := false
	for _, event := range events {
		p := event.GetProgress()
		reported = reported || p.GetDone() == 1 && p.GetTotal() == 2 && p.GetUnit() == "todos" && p.GetMessage() == "1 of 2 done: Planning"
	}
	if details := detailsOf(t, end); !reported || fmt.Sprint(details["done"], details["total"]) != "1 2" {
		t.Errorf("clients are told %v and %v", events, details)
	}

	wants(t, "no plan", run(here, "exit_plan_mode", `{}`), "FAILED no_plan", "with the tool plan first")
	run(here, "plan", `{"goal":"Errors have lines","steps":[{"step":"Write a test"},{"step":"Carry positions"}]}`)
	asked := 0
	meddle := true
	approve := func(q *pb.Approval) pb.AnswerKind {
		asked++
		if !strings.Contains(q.GetPreview().GetText(), "# Errors have lines\n\n1. Write a test\n2. Carry positions") {
			t.Errorf("shown is %q", q.GetPreview().GetText())
		}
		if meddle {
			run(here, "plan", `{"update":[{"number":2,"step":"Carry all"}]}`)
		}
		return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
	}
	wants(t, "changed meanwhile", s.in(here, "exit_plan_mode", `{}`, approve), "FAILED plan_changed")
	run(here, "plan", `{"update":[{"number":2,"step":"Carry positions"}]}`)
	meddle = false
	wants(t, "approved", s.in(here, "exit_plan_mode", `{}`, approve), "SUCCEEDED", "The plan was approved", "Mark its 2 steps with plan")
	if asked != 2 {
		t.Errorf("a person was asked %d times", asked)
	}
	wants(t, "track", run(here, "plan", `{"update":[{"number":1,"status":"completed"}]}`), "Errors have lines (approved, 1 of 2 done)\n1 [x] Write a test\n")
	wants(t, "change", run(here, "plan", `{"update":[{"number":2,"step":"Carry all"}]}`), "changed since it was approved")

	run(here, "brief", `{"title":"Next","text":"Open: names."}`)
	wants(t, "others", run(s.session("other", pb.Mode_MODE_ASK, 0), "todo_read", `{}`), "The list is empty.")
	if _, err := s.sessions.CloseSession(t.Context(), &pb.CloseSessionRequest{SessionId: here}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: here, Restore: true}); err != nil {
		t.Fatal(err)
	}
	wants(t, "restored todos", run(here, "todo_read", `{}`), "2 [>] Plan")
	wants(t, "restored plan", run(here, "plan", `{}`), "changed since it was approved", "1 [x] Write a test")
	wants(t, "restored notes", run(here, "brief", `{}`), `"Next", 12 characters: Open: names.`)
	// What is kept is out of reach of commands and tools for files.
	wants(t, "files", run(here, "glob", `{"pattern":"**/*"}`), "SUCCEEDED")
	if found := said(run(here, "glob", `{"pattern":"**/*"}`)); strings.Contains(found, "documents") {
		t.Errorf("documents are in the workspace: %s", found)
	}
}

// TestSettingsOfCalls proves that settings only tighten, without a question.
func TestSettingsOfCalls(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	asked := 0
	count := func(*pb.Approval) pb.AnswerKind { asked++; return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE }
	here := s.session("here", pb.Mode_MODE_ACCEPT_EDITS, 0)
	wants(t, "list", s.in(here, "config", `{}`, count), "mode: accept_edits (", "level: workspace_write (how much the session is trusted; it can only be lowered; cannot be changed here)")
	wants(t, "down", s.in(here, "config", `{"setting":"mode","value":"ask"}`, count), "SUCCEEDED", "mode is ask now.")
	wants(t, "answer", s.in(here, "Config", `{"action":"set","key":"answer","value":2000}`, count), "SUCCEEDED", "answer is 2000 now.")
	for _, input := range []string{`{"setting":"mode","value":"allow"}`, `{"setting":"mode","value":"deny"}`, `{"setting":"level","value":"danger_full_access"}`, `{"setting":"answer","value":99000000}`} {
		wants(t, input, s.in(here, "config", input, count), "FAILED", "Nothing was changed")
	}
	if asked != 0 {
		t.Errorf("%d questions", asked)
	}
	now, err := s.sessions.GetSession(t.Context(), &pb.GetSessionRequest{SessionId: here})
	if err != nil || now.GetSession().GetMode() != pb.Mode_MODE_ASK || now.GetSession().GetAnswer().GetCharacters() != 2000 {
		t.Errorf("the session is %v, %v", now, err)
	}
}

func detailsOf(t *testing.T, end *pb.Finished) (details map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(end.GetDetailsJson()), &details); err != nil {
		t.Fatal(err)
	}
	return details
}

// TestSkillFolders has a session find, load and run a skill of the operator; without folders
// there is no such tool.
func TestSkillFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("greet/SKILL.md", "---\nname: greet\ndescription: How people are greeted here.\narguments: [who]\n---\nRun greet.sh for $who.\n", 0o644)
	write("greet/greet.sh", "#!/bin/sh\necho hello \"$1\"\n", 0o755)
	s := serveAllowing(t, "skills: ["+dir+"]\n")
	here := s.session("here", pb.Mode_MODE_ALLOW, 0)
	run := func(tool, input string) *pb.Finished { t.Helper(); return s.in(here, tool, input, nil) }
	wants(t, "search", run("tool_search", `{"query":"greet people"}`), "Skill greet: How people are greeted here.", `skill {"name":"greet"}`)
	wants(t, "load", run("Skill", `{"skill":"greet","args":"ann"}`), "Run greet.sh for ann.", "Commands find them in "+filepath.Join(dir, "greet"))
	wants(t, "run", run("bash", `{"command":"`+filepath.Join(dir, "greet/greet.sh")+` ann"}`), "SUCCEEDED", "hello ann")
	wants(t, "write", run("bash", `{"command":"echo x > `+filepath.Join(dir, "greet/SKILL.md")+`"}`), "greet/SKILL.md")
	wants(t, "unchanged", run("skill", `{"name":"greet"}`), "Run greet.sh for .")
	write("later/SKILL.md", "---\nname: later\n---\nx\n", 0o644)
	wants(t, "a new one", run("skill", `{}`), "greet ([who]): How people", "later: ")

	none := serveAgain(t, s, "")
	none.session("here", pb.Mode_MODE_ALLOW, 0)
	wants(t, "no folders", none.in("here", "skill", `{}`, nil), "cannot be used here")
}
