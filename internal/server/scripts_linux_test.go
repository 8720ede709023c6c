// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// manifests are the files of a folder of tools.
var manifests = map[string]string{
	"find.yaml": `
name: find_text
description: Finds a text in the files of the workspace.
schema:
  type: object
  properties:
    q: {type: string}
    in: {type: array, items: {type: string}}
  required: [q]
command: [grep, -rnF, --, "{{q}}", "{{in}}"]
reads: ["{{in}}"]
read_only: true
timeout: 20s
`,
	"note.yaml": `
name: note
description: |
  Adds a line to a note.
  The note is made if it is not there.
schema:
  type: object
  properties:
    to: {type: string}
    line: {type: string}
  required: [to, line]
result:
  type: object
  properties: {lines: {type: integer}}
  required: [lines]
command: [./note.sh, "--to={{to}}"]
writes: ["{{to}}"]
complete: true
environment: {GREETING: hello}
`,
	"note.sh": `#!/bin/bash
to=${1#--to=}
echo '{"progress": 1, "total": 1, "message": "writing"}' >&2
input=$(cat)
echo "$GREETING ${input#*\"line\":}" >>"$to" || exit 3
touch beside.txt 2>/dev/null
echo "{\"lines\": $(wc -l <"$to")}"
`,
	"net.yaml": `
name: reach
description: Tells of a host.
schema: {type: object, properties: {host: {type: string}}, required: [host]}
command: [./reach.sh, --, "{{host}}"]
reaches: ["{{host}}"]
complete: true
network: none
`,
	"ship.yaml": `
name: ship
description: Sends what there is.
schema: {type: object, properties: {to: {type: string}}, required: [to]}
command: [echo, shipped]
runs: ["git push {{to}}"]
complete: true
`,
	"reach.sh": "#!/bin/sh\necho \"$2\"\n",
	"any.yaml": `
name: anything
description: Does what nobody told.
command: [./any.sh]
`,
	"any.sh": "#!/bin/sh\necho x >any.txt && echo wrote\npython3 -c 'import os; print(os.environ[\"HOME\"])'\n",
	"mail.yaml": `
name: mail
description: Tells the address that commits have.
command: [git, config, user.email]
read_only: true
`,
}

// scriptServer is a server with those tools.
func scriptServer(t *testing.T, more string) (s *wholeServer, dir string) {
	t.Helper()
	dir = programDir(t)
	for name, text := range manifests {
		writeTool(t, dir, name, text)
	}
	return serveAllowing(t, "scripts: [{name: ops, dir: "+dir+"}]\n"+more), dir
}

func writeTool(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestScripts calls the tools of a folder.
func TestScripts(t *testing.T) {
	t.Parallel()
	s, _ := scriptServer(t, "")
	s.file("a.txt", "one\nx; touch MARK\n-v\n")
	wants(t, "find", s.run("find_text", `{"q":"one","in":["a.txt"]}`), "SUCCEEDED", "1:one")
	wants(t, "the full name", s.run("ops__find_text", `{"q":"one"}`), "SUCCEEDED", "a.txt:1:one")
	wants(t, "nothing found", s.run("find_text", `{"q":"nowhere"}`), "FAILED exit_status", "status 1")
	wants(t, "a missing key", s.run("find_text", `{}`), "INVALID_INPUT", "/q: is required")
	events, end := s.call(&pb.ExecuteToolRequest{Tool: "note", InputJson: []byte(`{"to":"n.txt","line":"first"}`)}, nil)
	wants(t, "note", end, "SUCCEEDED", `{"lines": 1}`)
	if !slices.ContainsFunc(events, func(e *pb.Event) bool { return e.GetProgress().GetMessage() == "writing" }) {
		t.Errorf("no progress in %v", events)
	}
	if text := s.read("n.txt"); !strings.Contains(text, `hello "first"`) {
		t.Errorf("the note is %q", text)
	}
	wants(t, "in a directory", s.run("note", `{"to":"none/n.txt","line":"x"}`), "FAILED exit_status")
	wants(t, "anything", s.run("anything", `{}`), "SUCCEEDED", "wrote", "/tmp")

	// P-184: whatever a value is, it is one word, and no option.
	wants(t, "P-184", s.run("find_text", `{"q":"x; touch MARK"}`), "SUCCEEDED", "a.txt:2:x; touch MARK")
	wants(t, "P-184", s.run("find_text", `{"q":"$(touch MARK)"}`), "FAILED exit_status")
	wants(t, "after --", s.run("find_text", `{"q":"-v"}`), "SUCCEEDED", "a.txt:3:-v")
	wants(t, "no path", s.run("note", `{"to":"","line":"x"}`), "INVALID_INPUT", "/to: is empty")
	wants(t, "NUL", s.run("find_text", `{"q":"a\u0000b"}`), "INVALID_INPUT", "NUL")
	// P-181: what a repository says is printed, and not run.
	wants(t, "a repository", s.run("bash", `{"command":"git init -q . && git config user.email '$(touch MARK)'"}`), "SUCCEEDED")
	wants(t, "P-181", s.run("mail", `{}`), "SUCCEEDED", "$(touch MARK)")
	if _, err := os.Stat(filepath.Join(s.workspace, "MARK")); err == nil {
		t.Error("MARK was made")
	}
	s.waitForRecord(`"tool":"ops__note","version":"`)
}

// TestScriptsAreJudged proves that manifests are held to what they say: by the policy, and
// by the sandbox.
func TestScriptsAreJudged(t *testing.T) {
	t.Setenv("TMPDIR", programDir(t)) // a workspace below /tmp can be written with it
	file := filepath.Join(t.TempDir(), "policy.yaml")
	rules := "version: 1\nrules:\n  - {name: no_env, action: deny, paths: [.env]}\n  - {name: no_push, action: deny, commands: [git push origin]}\n" +
		"  - {name: friend, action: allow, hosts: [good.example]}\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := scriptServer(t, "policy: {file: "+file+"}\n")
	s.file(".env", "CANARY")
	ask := s.session("ask", pb.Mode_MODE_ASK, 0)
	plan := s.session("plan", pb.Mode_MODE_PLAN, 0)
	edits := s.session("edits", pb.Mode_MODE_ACCEPT_EDITS, 0)
	no := func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_DENY_ONCE }
	wants(t, "reading is not asked about", s.in(ask, "find_text", `{"q":"x","in":["."]}`, no), "exit_status")
	wants(t, "a denied file", s.run("find_text", `{"q":"x","in":[".env"]}`), "DENIED", "no_env")
	if end := s.run("find_text", `{"q":"CANARY"}`); strings.Contains(said(end), "1:CANARY") {
		t.Errorf("what is denied was found: %s", said(end))
	}
	if err := os.Symlink(".env", filepath.Join(s.workspace, "link")); err != nil {
		t.Fatal(err)
	}
	wants(t, "a link to it", s.run("note", `{"to":"link","line":"x"}`), "DENIED", "no_env")
	wants(t, "outside", s.run("note", `{"to":"/etc/evil","line":"x"}`), "DENIED", "outside the workspace")
	wants(t, "in mode ask", s.in(ask, "note", `{"to":"n.txt","line":"x"}`, no), "DENIED")
	wants(t, "in mode plan", s.in(plan, "note", `{"to":"n.txt","line":"x"}`, nil), "DENIED", "mode plan")
	wants(t, "in mode accept_edits", s.in(edits, "note", `{"to":"n.txt","line":"x"}`, no), "SUCCEEDED")
	wants(t, "anything in mode accept_edits", s.in(edits, "anything", `{}`, no), "DENIED")
	end := s.in(plan, "anything", `{}`, nil)
	if wants(t, "anything in mode plan", end, "SUCCEEDED"); strings.Contains(said(end), "wrote") {
		t.Errorf("it wrote in mode plan: %s", said(end))
	}
	wants(t, "a command that it stands for", s.run("ship", `{"to":"origin"}`), "DENIED", "no_push")
	wants(t, "one that nobody denies", s.run("ship", `{"to":"elsewhere"}`), "SUCCEEDED", "shipped")
	wants(t, "a host", s.in(ask, "reach", `{"host":"other.example"}`, no), "DENIED")
	wants(t, "an option", s.run("reach", `{"host":"-o"}`), "DENIED") // it is no host

	// What is written is what the manifest says.
	os.Remove(filepath.Join(s.workspace, "beside.txt")) // which is beside n.txt
	wants(t, "a directory", s.run("make_dir", `{"path":"sub"}`), "SUCCEEDED")
	wants(t, "what is named", s.run("note", `{"to":"sub/n.txt","line":"x"}`), "SUCCEEDED")
	if _, err := os.Stat(filepath.Join(s.workspace, "beside.txt")); err == nil {
		t.Error("what the manifest does not name was written")
	}
}

// TestScriptsChange has a folder change under a server. What is wrong takes nothing from
// the rest.
func TestScriptsChange(t *testing.T) {
	t.Parallel()
	s, dir := scriptServer(t, "")
	wait := func(what string, is func(names []string) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(s.names("")); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %q", what, s.names(""))
			}
		}
	}
	has := func(name string) func([]string) bool {
		return func(names []string) bool { return slices.Contains(names, name) }
	}
	wait("at first", has("ops__mail"))
	writeTool(t, dir, "new.yaml", "name: new_one\ndescription: New.\ncommand: [echo, new]\nread_only: true\n")
	wait("a new one", has("ops__new_one"))
	wants(t, "it", s.run("new_one", `{}`), "SUCCEEDED", "new")
	writeTool(t, dir, "new.yaml", "name: new_one\ndescription: New.\ncommand: [echo, '{{no}}']\n")
	wait("a broken one", func(names []string) bool { return !has("ops__new_one")(names) })
	wants(t, "the others", s.run("mail", `{}`), "FAILED") // there is no repository
	writeTool(t, dir, "new.yaml", "name: new_one\ndescription: New.\ncommand: [echo, newer]\nread_only: true\n")
	wait("a good one", has("ops__new_one"))
	wants(t, "it", s.run("new_one", `{}`), "SUCCEEDED", "newer")
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir + "-away") })
	for deadline := time.Now().Add(time.Minute); !strings.Contains(said(s.run("new_one", `{}`)), "not available"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its folder is gone, and it runs")
		}
	}
}

// TestScriptWithoutProgram: a tool whose program is not there is listed with the reason, nobody is
// asked about it, and it can be called once the program is there.
func TestScriptWithoutProgram(t *testing.T) {
	bin := programDir(t)
	dir := programDir(t)
	writeTool(t, dir, "late.yaml", "name: late\ndescription: Comes later.\ncommand: [late-program]\n")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := serveAllowing(t, "scripts: [{name: ops, dir: "+dir+"}]\n")
	if why := s.waitForTool("ops__late", false).GetUnavailableReason(); !strings.Contains(why, "no program late-program") || !strings.Contains(why, "sandbox.path") {
		t.Errorf("it is unavailable: %s", why)
	}
	end := s.in("", "ops__late", `{}`, func(*pb.Approval) pb.AnswerKind {
		t.Error("somebody was asked")
		return pb.AnswerKind_ANSWER_KIND_DENY_ONCE
	})
	if !strings.Contains(said(end), "no program late-program") {
		t.Errorf("called: %v", end)
	}
	for _, one := range s.listSources() {
		if one.GetName() == "ops" && one.GetLocation() != dir {
			t.Errorf("the source is at %q: want %s", one.GetLocation(), dir)
		}
	}
	writeTool(t, bin, "late-program", "#!/bin/sh\necho here\n")
	s.waitForTool("ops__late", true)
	wants(t, "with its program", s.run("ops__late", `{}`), "SUCCEEDED", "here")
}

// TestScriptSecrets: a manifest gets what the configuration has in a file, by its name. No call
// shows it, and no session reads the file.
func TestScriptSecrets(t *testing.T) {
	t.Parallel()
	dir := programDir(t)
	for name, text := range map[string]string{
		"tell.yaml": "name: tell\ndescription: Tells.\ncommand: [bash, -c, 'echo ${#TOKEN} $TOKEN']\nread_only: true\nsecrets: [TOKEN]\n",
		"none.yaml": "name: none\ndescription: Tells.\ncommand: [bash, -c, 'echo ${#TOKEN}']\nread_only: true\n",
	} {
		writeTool(t, dir, name, text)
	}
	secret := secretFile(t, "a-secret-of-the-operator")
	s := serveAllowing(t, fmt.Sprintf("scripts: [{name: ops, dir: %s, secret_files: {TOKEN: %s}}]\n", dir, secret))
	s.waitForTool("ops__tell", true)
	if got := contentText(s.run("tell", `{}`)); !strings.HasPrefix(got, "24 ") || strings.Contains(got, "a-secret") {
		t.Errorf("the program says %q", got)
	}
	if got := contentText(s.run("none", `{}`)); got != "0\n" {
		t.Errorf("another says %q", got)
	}
	input, _ := json.Marshal(map[string]string{"path": secret})
	if end := s.run("read_file", string(input)); end.GetFailure() == nil {
		t.Errorf("the file is read: %s", contentText(end))
	}
}
