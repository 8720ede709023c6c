// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package python_test runs the example in Python against a real server.
package python_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/programtest"
)

const golden = "testdata/agent_turn.golden"

// TestAgentTurn runs agent_turn.py and compares what it prints with a golden
// file, which UPDATE_GOLDEN=1 writes: with tokens for the agent and the person
// who approves, and on a server as it is without any configuration.
func TestAgentTurn(t *testing.T) {
	python, stubs := generate(t)
	server := build(t)
	for _, test := range []struct {
		name          string
		environment   []string
		options       []string
		agent, person string // their names
	}{
		{"tokens", []string{"TOOLSERVER_CONFIG=testdata/tokens.yaml"}, []string{"--token", "the-token-of-agent", "--person-token", "the-token-of-person"}, "agent", "person"},
		{"local", nil, nil, "local", "local"},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := t.TempDir()
			address := serve(t, server, append(test.environment, "XDG_STATE_HOME="+state))
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			script := exec.CommandContext(ctx, python, append([]string{"agent_turn.py", address}, test.options...)...)
			script.Env = append(os.Environ(), "PYTHONPATH="+stubs, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
			var complaints strings.Builder
			script.Stderr = &complaints
			out, err := script.Output()
			got := normalise(string(out), state, test.agent, test.person)
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, complaints.String(), got)
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the transcript is another (UPDATE_GOLDEN=1 writes it):\n%s", difference(t, got))
			}
		})
	}
}

// normalise gives a name to what is another in each run: the same one to the same
// value.
func normalise(transcript, state, agent, person string) string {
	for _, r := range []struct{ name, pattern string }{
		{"WORKSPACE", `(` + regexp.QuoteMeta(state) + `/\S*/session-\d+)`},
		{"SESSION", `session ([a-z0-9]{16}) in`},
		{"EXECUTION", `execution ([a-z2-7]{26})`},
		{"GRANT", `grant ([a-z0-9]{26})`},
		{"ARTIFACT", `artifact:([a-z0-9]{26})`},
		{"PORT", `127\.0\.0\.1:(\d+)`},
		{"OFFSET", `Next offset: (\d+)`}, // behind a port of four or five digits
		{"TERMINAL", `/dev/pts/(\d+)`},
		{"TIME", `(\d{10}\.\d{9})`},
		{"PERSON", `(` + person + `) denied`},
		{"AGENT", `cancelled by (` + agent + `)`},
	} {
		pattern, numbers := regexp.MustCompile(r.pattern), make(map[string]int)
		transcript = pattern.ReplaceAllStringFunc(transcript, func(match string) string {
			value := pattern.FindStringSubmatch(match)[1]
			if numbers[value] == 0 {
				numbers[value] = len(numbers) + 1
			}
			return strings.Replace(match, value, fmt.Sprintf("%s-%d", r.name, numbers[value]), 1)
		})
	}
	for _, r := range []struct{ pattern, with string }{
		{`tests in \d+\.\d+s`, "tests in SECONDS"},
		{`(FAIL: test_\w+) .*`, "$1"}, // where it is defined, in ways of its own in each Python
		{`(?m)^  \|\s+[~^]+\n`, ""},   // newer ones mark the place in the line
	} {
		transcript = regexp.MustCompile(r.pattern).ReplaceAllString(transcript, r.with)
	}
	return transcript
}

// generate makes the Python code of the contract, as README.md tells, and returns
// where it is and the Python that has gRPC. The test is skipped where that is not
// installed.
func generate(t *testing.T) (python, stubs string) {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} { // Debian's packages are for the second
		if exec.Command(name, "-c", "import grpc, google.protobuf").Run() == nil {
			python = name
		}
	}
	plugin, err := exec.LookPath("grpc_python_plugin")
	if python == "" || err != nil {
		t.Skip("Python has no gRPC here: make python installs it, where Debian's packages can be")
	}
	files, err := filepath.Glob("../../proto/toolserver/v1/*.proto")
	if err != nil {
		t.Fatal(err)
	}
	stubs = t.TempDir()
	protoc := exec.Command("protoc", append([]string{
		"-I", "../../proto", "--python_out", stubs, "--grpc_out", stubs, "--plugin=protoc-gen-grpc=" + plugin,
	}, files...)...)
	if out, err := protoc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", protoc, err, out)
	}
	return python, stubs
}

// build builds the server.
func build(t *testing.T) string {
	t.Helper()
	program, err := programtest.Build(t.TempDir(), "cmd/toolserver")
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// serve starts the server on a port of its own and returns its address.
func serve(t *testing.T, program string, environment []string) string {
	t.Helper()
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--admin", "off")
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TOOLSERVER_") && !strings.HasPrefix(pair, "OTEL_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, environment...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
			go func() {
				for lines.Scan() { // so that the server never waits for us
				}
			}()
			return entry.Address
		}
		t.Log(lines.Text())
	}
	t.Fatal("the server does not serve")
	return ""
}

// difference tells where a transcript differs from the golden one.
func difference(t *testing.T, got string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "transcript")
	if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command("diff", "-u", golden, name).CombinedOutput()
	return string(out)
}
