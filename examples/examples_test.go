// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package examples_test runs the same turn of an agent in three languages against a real
// server: all print the same.
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

const golden = "testdata/turn.golden"

// TestTurn compares what the examples print with a golden file, which UPDATE_GOLDEN=1
// writes.
func TestTurn(t *testing.T) {
	program := sdktest.Build(t)
	for name, example := range map[string]func(t *testing.T, address string) *exec.Cmd{
		"Go": func(t *testing.T, address string) *exec.Cmd {
			return exec.Command("go", "run", "./go", address, "model.json")
		},
		"Python": func(t *testing.T, address string) *exec.Cmd {
			python, path := sdktest.Python(t)
			cmd := exec.Command(python, "python/turn.py", address, "model.json")
			cmd.Env = []string{"PYTHONPATH=" + path, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1"}
			return cmd
		},
		"TypeScript": func(t *testing.T, address string) *exec.Cmd {
			return exec.Command("node", filepath.Join(typescript(t), "dist/turn.js"), address, "model.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := sdktest.Start(t, program, "TOOLSERVER_CONFIG=testdata/tokens.yaml")
			made := example(t, server.Address)
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

// typescript builds the example in TypeScript beside its client.
func typescript(t *testing.T) string {
	t.Helper()
	client, directory := sdktest.TypeScript(t), t.TempDir()
	for _, name := range []string{"turn.ts", "package.json", "tsconfig.json"} {
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
