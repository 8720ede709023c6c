// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package examples_test runs the same turn of an agent in three languages against a real
// server, and a runtime that serves an agent: all print the same.
package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.Remove(m.Run()) }

// TestTurn compares what the examples print with a golden file, which UPDATE_GOLDEN=1
// writes.
func TestTurn(t *testing.T) { compare(t, "turn", "go", "model.json") }

// TestAgents does so for the examples that serve an agent and use it.
func TestAgents(t *testing.T) { compare(t, "agents", "go/agents", "agents.json") }

// compare runs an example in three languages.
func compare(t *testing.T, example, folder, script string) {
	program, golden := sdktest.Build(t), "testdata/"+example+".golden"
	for name, start := range map[string]func(t *testing.T, address string) *exec.Cmd{
		"Go": func(t *testing.T, address string) *exec.Cmd {
			cmd := exec.Command("go", "run", "./"+folder, address, script)
			cmd.Env = []string{"CGO_ENABLED=0"} // as the server was compiled
			return cmd
		},
		"Python": func(t *testing.T, address string) *exec.Cmd {
			python, path := sdktest.Python(t)
			cmd := exec.Command(python, "python/"+example+".py", address, script)
			cmd.Env = []string{"PYTHONPATH=" + path, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1"}
			return cmd
		},
		"TypeScript": func(t *testing.T, address string) *exec.Cmd {
			return exec.Command("node", filepath.Join(typescript(t), "dist/"+example+".js"), address, script)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := sdktest.Start(t, program, "TOOLSERVER_CONFIG=testdata/tokens.yaml")
			made := start(t, server.Address)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, made.Path, made.Args[1:]...)
			cmd.Env = append(append(os.Environ(), made.Env...), "AGENT_TOKEN=the-token-of-agent", "PERSON_TOKEN=the-token-of-person")
			var complaints strings.Builder
			cmd.Stderr = &complaints
			printed, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, complaints.String(), printed)
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, printed, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(printed) != string(want) {
				t.Errorf("printed:\n%s\nwant:\n%s", printed, want)
			}
		})
	}
}

// TestTurnPage holds the code in docs/turn.md against the examples.
func TestTurnPage(t *testing.T) {
	page := read(t, "../docs/turn.md")
	for language, path := range map[string]string{"go": "go/main.go", "python": "python/turn.py", "ts": "typescript/turn.ts"} {
		_, code, ok := strings.Cut(page, "```"+language+"\n")
		code, _, _ = strings.Cut(code, "```")
		if !ok || !strings.Contains(read(t, path), code) {
			t.Errorf("%s has not what the page shows:\n%s", path, code)
		}
	}
}

// TestClientReadme builds the program in client/README.md as a module of its own, by the
// lines for go.mod that are there.
func TestClientReadme(t *testing.T) {
	_, program, _ := strings.Cut(read(t, "../client/README.md"), "```go\n")
	program, rest, _ := strings.Cut(program, "```")
	_, lines, _ := strings.Cut(rest, "\n\n```\n")
	lines, _, _ = strings.Cut(lines, "```")
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	lines = strings.Replace(lines, "=> ../toolserver", "=> "+top, 1)
	for name, text := range map[string]string{
		"main.go": program, "go.mod": "module agent\n\ngo 1.26.0\n\n" + lines, "go.sum": read(t, "../go.sum"),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "vet", "-mod=mod", ".")
	cmd.Dir, cmd.Env = directory, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, lines)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// typescript builds the examples in TypeScript beside their client.
func typescript(t *testing.T) string {
	t.Helper()
	client, directory := sdktest.TypeScript(t), t.TempDir()
	for _, name := range []string{"turn.ts", "agents.ts", "package.json", "tsconfig.json"} {
		text, err := os.ReadFile(filepath.Join("typescript", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	packages := filepath.Join(directory, "node_modules")
	if err := os.Mkdir(packages, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"toolserver": client, "@types": filepath.Join(client, "node_modules/@types")} {
		if err := os.Symlink(target, filepath.Join(packages, link)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(client, "node_modules/.bin/tsc"))
	cmd.Dir = directory
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return directory
}
