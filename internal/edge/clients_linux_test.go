// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// modules returns where the packages of npm are that "make mcp" installs.
func modules(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../.bin/mcp/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "@modelcontextprotocol/sdk")); err != nil {
		t.Fatalf("%v: make mcp installs it", err)
	}
	return dir
}

// node runs a program of Node and returns what it wrote.
func node(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.Dir = t.TempDir() // the conformance tests leave their results where they run
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("node %v: %v\n%s", args[1:], err, out)
	}
	return string(out)
}

// TestTypeScriptClient proves that the client of the official SDK for TypeScript can do
// what the one for Go can.
func TestTypeScriptClient(t *testing.T) {
	script, err := filepath.Abs("testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, "")
	s.write(t, "a.txt", "hello")
	if out := node(t, script, modules(t), "http", s.url); !strings.HasPrefix(out, "ok:") {
		t.Error(out)
	}
}

// conformance are the scenarios that the maintainers of the protocol publish for servers
// and that are about any server. The others need a server with tools, prompts and
// resources made for them (tools-call-*, json-schema-*, elicitation-*, resources-read-*,
// resources-templates-read, resources-subscribe, prompts-get-*), or ask for what this
// one has not: completion-complete; server-sse-polling and server-sse-multiple-streams
// speak version 2025-03-26 of the protocol.
var conformance = []string{
	"server-initialize", "logging-set-level", "ping", "tools-list", "tools-call-error", "resources-list", "prompts-list", "dns-rebinding-protection",
}

// TestConformance runs them.
func TestConformance(t *testing.T) {
	program := filepath.Join(modules(t), "@modelcontextprotocol/conformance/dist/index.js")
	s := start(t, "")
	for _, scenario := range conformance {
		t.Run(scenario, func(t *testing.T) {
			out := node(t, program, "server", "--url", s.url, "--scenario", scenario)
			if !strings.Contains(out, ", 0 failed, 0 warnings") || strings.Contains(out, "Passed: 0/") {
				t.Error(out)
			}
		})
	}
}
