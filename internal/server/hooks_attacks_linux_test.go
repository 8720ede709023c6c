// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestHookIsApart: nothing that a call can write in the home of its session changes how a
// hook runs that decides.
func TestHookIsApart(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal(err, "(make python installs it)")
	}
	s := serveAllowing(t, `hooks:
  - on: before_call
    tools: [write_file]
    run: python3 -c 'import sys, json; sys.exit("forbidden" in sys.stdin.read() and 2)'; s=$?; [ "$HOME" = "$TMPDIR" ] && [ -z "$GOMODCACHE$CARGO_HOME$npm_config_prefix" ] || exit 3; exit $s
`)
	const plant = `cd; v=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])'); mkdir -p .local/lib/$v/site-packages .local/bin; echo 'import os; os._exit(0)' > .local/lib/$v/site-packages/usercustomize.py; python3 -c 'import sys; sys.exit(7)'; echo status $?; cd - >/dev/null; echo 'import os; os._exit(0)' > json.py`
	if end := s.run("bash", fmt.Sprintf(`{"command":%q}`, plant)); !strings.Contains(contentText(end), "status 0") {
		t.Fatalf("nothing was planted: %v", end)
	}
	if end := s.run("write_file", `{"path":"a.txt","content":"forbidden"}`); end.GetVerdict().GetRule() != "hook python3" || end.GetFailure().GetCode() == "hook_failed" {
		t.Error(end)
	}
	if end := s.run("write_file", `{"path":"a.txt","content":"fine"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(end)
	}
}

// TestHookReadsNoMore: a hook that runs what the model wrote reads nothing that rules deny
// to any tool or that a person would be asked about, and in mode accept_edits writes the
// workspace alone.
func TestHookReadsNoMore(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(`version: 1
rules:
  - {name: notes, action: deny, tools: [bash, read_file], reads: [notes.txt]}
  - {name: secrets, action: ask, reads: [.env]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveAllowing(t, "policy: {file: "+policy+"}\nhooks:\n  - {name: lint, on: file_changed, run: 'set -- lint; . ./$1; gofmt -l -w . && go vet ./...'}\n")
	for name, text := range map[string]string{
		"notes.txt": "hush one", ".env": "hush two", "open.txt": "loud", "go.mod": "module example.com/m\n\ngo 1.21\n",
		"m.go": "package m\nfunc F(x int) int{x=x;return x}\n",
	} {
		if err := os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	created, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Workspace: s.workspace, Mode: pb.Mode_MODE_ACCEPT_EDITS})
	if err != nil {
		t.Fatal(err)
	}
	_, end := s.call(&pb.ExecuteToolRequest{SessionId: created.GetSession().GetSessionId(), Tool: "write_file", InputJson: []byte(`{"path":"lint","content":"cat open.txt notes.txt .env\n"}`)}, nil)
	got := contentText(end)
	if strings.Contains(got, "hush") || !strings.Contains(got, "loud") {
		t.Errorf("the model reads %s", got)
	}
	if !strings.Contains(got, "self-assignment") || !strings.Contains(s.read("m.go"), "func F(x int) int { x = x; return x }") {
		t.Errorf("not formatted and linted: %s", got)
	}
}

// TestHookFailureTellsNoAddress: what went wrong in detail is the operator's to know.
func TestHookFailureTellsNoAddress(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key of more than sixteen bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveAllowing(t, fmt.Sprintf(`hooks:
  - {name: remote, on: before_call, tools: [write_file], url: "http://127.0.0.1:1/x", secret_file: %s}
  - {name: local, on: before_call, tools: [list_dir], run: 'echo cannot reach 10.1.2.3 >&2; exit 1'}
`, key))
	for tool, input := range map[string]string{"write_file": `{"path":"a","content":"x"}`, "list_dir": `{"path":"."}`} {
		end := s.run(tool, input)
		if text := end.String(); end.GetFailure().GetCode() != "hook_failed" || strings.Contains(text, "127.0.0.1") || strings.Contains(text, "10.1.2.3") {
			t.Errorf("%s: %s", tool, text)
		}
	}
}

// TestHookInWorkspace: a hook whose program, script or key calls could change is refused
// when the configuration is read, and what only looks like that is not.
func TestHookInWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"ws/hooks/check.py", "ws/key"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("# more than sixteen bytes\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("# more than sixteen bytes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{
		"run: [/bin/sh, hooks/check.py]":                                    "in the workspace",
		"run: [/bin/sh, -eu, hooks/other.sh]":                               "in the workspace",
		"run: [cat, hooks/check.py]":                                        "hooks/check.py is a file in",
		"run: [cat, " + dir + "/ws/hooks/check.py]":                         "where calls can write",
		"run: sh ./hooks/check.sh":                                          "in the workspace",
		"run: cd sub && ./check":                                            "in the workspace",
		"run: . ./env":                                                      "in the workspace",
		"run: 'bash -c \"sh hooks/x\"'":                                     "in the workspace",
		"run: python3 check.py":                                             "in the workspace",
		"run: 'if then'":                                                    "no script",
		"url: 'https://x.example.com', secret_file: " + dir + "/ws/key":     "where calls can read",
		"url: 'http://x.example.com', secret_file: " + key:                  "want https",
		"url: 'http://10.0.0.1', secret_file: " + key:                       "want https",
		"url: 'https://x.example.com', secret_file: " + key:                 "",
		"url: 'http://localhost:8080', secret_file: " + key:                 "",
		"url: 'http://[::1]:8080', secret_file: " + key:                     "",
		"run: gofmt -l -w . && go vet ./...":                                "",
		"run: 'cat >/dev/null; python3 -c \"print(1)\"'":                    "",
		"run: 'if grep -q a/b; then echo \"no\" >&2; exit 2; fi'":           "",
		"run: [/bin/sh, -c, 'sed -e s/a/b/ \"$1\"; npx eslint -- src/', x]": "",
	} {
		_, err := load(t, allowing(dir, "hooks:\n  - {on: before_call, "+text+"}\n"))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
