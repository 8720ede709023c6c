// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/edge"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
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

// TestTasks calls tools as tasks, with the same client.
func TestTasks(t *testing.T) {
	script, err := filepath.Abs("testdata/tasks.mjs")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, "")
	s.write(t, "a.txt", "hello")
	if out := node(t, script, modules(t), "http", s.url); !strings.HasPrefix(out, "ok:") {
		t.Error(out)
	}
}

// inapplicable are the scenarios of the conformance tests that are about what this server
// has not, and why it has not.
var inapplicable = map[string]string{
	"completion-complete":           "nothing is completed: there are neither prompts nor templates of resources",
	"tools-call-audio":              "audio is an artifact, to which a result links",
	"tools-call-embedded-resource":  "texts of resources are texts, other resources are artifacts",
	"tools-call-mixed-content":      "as above",
	"tools-call-sampling":           "tools of servers may not ask the model of a client",
	"elicitation-sep1034-defaults":  "what a server asks is put to people as questions, which have no defaults",
	"elicitation-sep1330-enums":     "as above: the fields of forms are ours",
	"server-sse-polling":            "wants the server to hang up on a call that runs",
	"resources-read-text":           "resources are artifacts, whose addresses the server chooses",
	"resources-read-binary":         "as above",
	"resources-templates-read":      "as above",
	"resources-subscribe":           "artifacts do not change",
	"resources-unsubscribe":         "as above",
	"prompts-get-simple":            "there are no prompts",
	"prompts-get-with-args":         "as above",
	"prompts-get-embedded-resource": "as above",
	"prompts-get-with-image":        "as above",
}

// withBuiltins are those that want tools which no source can offer: such that write to
// the log of the client, such whose names have no prefix, and such whose progress is
// never joined, however slow the machine.
var withBuiltins = []string{"tools-call-with-logging", "json-schema-2020-12", "tools-call-with-progress"}

// TestConformance runs the scenarios that the maintainers of the protocol publish for
// servers. The tools that they want are those of the server that comes with the SDK for
// them, which is a source here.
func TestConformance(t *testing.T) {
	program := filepath.Join(modules(t), "@modelcontextprotocol/conformance/dist/index.js")
	everything := filepath.Join(t.TempDir(), "everything")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", everything, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as the programs that build/test compiled
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := start(t, "mcp:\n- name: everything\n  command: ["+everything+"]\n  read: ["+everything+"]\n  says: [{tools: [\"*\"], read_only: true}]\n")
	if err := s.SettleSources(t.Context()); err != nil {
		t.Fatal(err)
	}
	builtins := startBuiltins(t)
	known := 0
	for line := range strings.Lines(node(t, program, "list", "--server")) {
		scenario, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			continue
		}
		known++
		if inapplicable[scenario] != "" {
			continue
		}
		url := s.asNegotiated(t)
		if slices.Contains(withBuiltins, scenario) {
			url = builtins.asNegotiated(t)
		}
		t.Run(scenario, func(t *testing.T) {
			out := node(t, program, "server", "--url", url, "--scenario", scenario)
			if !strings.Contains(out, ", 0 failed, 0 warnings") || strings.Contains(out, "Passed: 0/") {
				t.Error(out)
			}
		})
	}
	if known <= len(inapplicable) {
		t.Errorf("%d scenarios are known", known)
	}
}

// asNegotiated returns the address of the server for clients that negotiate a version of
// the protocol and then send the header of an older one, as some scenarios do.
func (s *testServer) asNegotiated(t *testing.T) string {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == "2025-03-26" {
			r.Header.Set("Mcp-Protocol-Version", edge.Protocols[0])
		}
		s.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL + edge.Path
}

// startBuiltins starts a server whose own tools are those of withBuiltins.
func startBuiltins(t *testing.T) *testServer {
	t.Helper()
	spec := func(name string) tools.Spec {
		return tools.Spec{Name: name, Label: name, Summary: "For a scenario.", Category: "test", Level: tools.ReadOnly}
	}
	registry := new(tools.Registry)
	if err := registry.Replace("builtin",
		tools.New(spec("test_tool_with_logging"), nil, func(_ context.Context, _ tools.Env, _ struct{}, out tools.Sink) (tools.Result, error) {
			for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
				out.Emit(tools.UserMessage{Message: text})
			}
			return tools.TextResult("done"), nil
		}),
		tools.New(spec("test_tool_with_progress"), nil, func(_ context.Context, _ tools.Env, _ struct{}, out tools.Sink) (tools.Result, error) {
			for _, done := range []float64{0, 50, 100} {
				out.Emit(tools.Progress{Done: done, Total: 100})
			}
			return tools.TextResult("done"), nil
		}),
		tools.NewForeign(tools.Foreign{
			Spec: spec("json_schema_2020_12_tool"),
			Schema: json.RawMessage(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
				"$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
				"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}}, "additionalProperties": false}`),
			Check: func(input json.RawMessage) (json.RawMessage, error) { return input, nil },
			Run: func(context.Context, tools.Env, json.RawMessage, tools.Sink) (tools.Result, error) {
				return tools.TextResult("done"), nil
			},
		}),
	); err != nil {
		t.Fatal(err)
	}
	s := new(testServer)
	var err error
	s.Server, err = service.New(service.Config{
		Logger: zap.NewNop(), Registry: registry, Policy: policy.Builtin(), Authenticator: auth.None{}, Metrics: prometheus.NewRegistry(),
		Executor: executor.Config{Limits: executor.Limits{ProgressInterval: 1}},
		Sessions: session.NewStore(session.Config{WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly, Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.handler = edge.New(edge.Config{Forward: s.Forward, Authenticator: auth.None{}, Version: "1"})
	t.Cleanup(func() {
		s.handler.Close()
		server.ShutDown(s.Server, 0)
	})
	return s
}
