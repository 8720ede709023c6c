// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package internal_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/toolserver/toolserver/"

// floors is the floor plan of ARCHITECTURE.md: the highest floor first. A
// package may import only packages on lower floors.
var floors = [][]string{
	{"build/cluster", "cmd/toolserver", "cmd/toolserver-exec", "bench", "bench/bare", "examples/go", "examples/go/agents", "examples/modelserver"},
	{"internal/operator"},
	{"internal/cli", "internal/server", "sdk/sdktest"},
	{"client", "internal/config"},
	{"bench/work", "internal/agent", "internal/console", "internal/edge", "internal/rest", "internal/schedule", "internal/service", "internal/workflow"},
	{"internal/errand", "internal/recording", "internal/rest/gateway/toolserver/v1"},
	{"internal/admission"},
	{"internal/executor"},
	{"internal/approval"},
	{"internal/hook", "internal/policy", "internal/session", "internal/tools/agent", "internal/tools/browser", "internal/tools/catalog", "internal/tools/files", "internal/tools/git", "internal/tools/mcp", "internal/tools/openapi", "internal/tools/search", "internal/tools/shell", "internal/tools/turn", "internal/tools/web", "internal/tools/toolstest", "internal/pdf/pdftest", "internal/syntax/syntaxtest", "internal/tools/code", "internal/tools/memory", "internal/pdf/pdftest/child", "internal/tools/dynamic", "internal/tools/script", "internal/tools/skill", "internal/tools/schedule", "internal/tools/workflow"},
	{"internal/browser", "internal/companion", "internal/lsp", "internal/markdown", "internal/persona", "internal/quota", "internal/source", "internal/syntax"},
	{"internal/auth", "internal/command", "internal/limit", "internal/search", "internal/shell", "internal/strictyaml", "internal/sandbox/sandboxtest"},
	{"internal/effects", "internal/schema", "internal/integrity", "internal/memory", "internal/model/modeltest", "internal/pdf", "internal/search/index", "internal/shell/programs"},
	{"internal/model", "internal/sandbox", "internal/search/ignore", "internal/tools"},
	{"internal/artifact", "internal/history", "internal/replica", "internal/state/statetest", "internal/toolcall", "internal/workspace/workspacetest"},
	{"internal/audit", "internal/egress", "internal/nearest", "internal/output", "internal/sandbox/helper", "internal/span", "internal/state", "internal/trace", "internal/workspace"},
	{"internal/egress/egresstest", "internal/endpoint", "internal/glob", "internal/lease", "internal/picture", "internal/programtest", "internal/search/plain", "internal/search/workers", "internal/site", "internal/size", "internal/soaktest", "internal/version", "internal/wholefile", "proto/toolserver/v1"},
}

// reserved names imports that only some packages may have: what speaks gRPC and
// the contract stays on the upper floors.
var reserved = map[string][]string{
	"google.golang.org/grpc":           {"build/cluster", "client", "examples/go", "sdk/sdktest", "internal/rest", "internal/rest/gateway/toolserver/v1", "internal/cli", "internal/edge", "internal/operator", "internal/server", "internal/service", "internal/trace", "proto/toolserver/v1", "bench", "bench/bare", "bench/work", "internal/agent", "examples/go/agents", "internal/errand"},
	"google.golang.org/protobuf":       {"internal/recording", "client", "examples/go", "sdk/sdktest", "internal/rest", "internal/rest/gateway/toolserver/v1", "internal/cli", "internal/edge", "internal/operator", "internal/service", "proto/toolserver/v1", "bench", "bench/bare", "bench/work", "internal/agent", "examples/go/agents", "internal/errand"},
	module + "proto/toolserver/v1":     {"build/cluster", "internal/recording", "client", "examples/go", "sdk/sdktest", "internal/rest", "internal/rest/gateway/toolserver/v1", "internal/cli", "internal/edge", "internal/operator", "internal/service", "bench", "bench/bare", "bench/work", "internal/agent", "examples/go/agents", "internal/errand"},
	"github.com/prometheus":            {"internal/operator", "internal/server", "internal/service"},
	"go.opentelemetry.io":              {"internal/server", "internal/service", "internal/span", "internal/trace"},
	"go.opentelemetry.io/otel/sdk":     {"internal/server", "internal/trace"},
	"github.com/coreos/go-oidc":        {"internal/auth"},
	"github.com/grpc-ecosystem":        {"internal/rest", "internal/rest/gateway/toolserver/v1", "internal/service"},
	"github.com/spf13/cobra":           {"cmd/toolserver", "internal/cli", "internal/operator"},
	"github.com/goccy/go-yaml":         {"internal/persona", "internal/strictyaml"},
	"cel.dev":                          {"internal/persona", "internal/policy"},
	module + "internal/config":         {"cmd/toolserver", "internal/operator", "internal/server"},
	module + "internal/executor":       {"internal/admission", "internal/config", "internal/server", "internal/service"},
	module + "internal/service":        {"internal/config", "internal/server"},
	module + "internal/tools/agent":    {"internal/agent", "internal/server"},
	module + "internal/tools/browser":  {"internal/server"},
	module + "internal/tools/catalog":  {"internal/server", "bench"},
	module + "internal/tools/code":     {"internal/server"},
	module + "internal/tools/dynamic":  {"internal/config", "internal/server"},
	module + "internal/tools/files":    {"internal/server"},
	module + "internal/tools/git":      {"internal/server"},
	module + "internal/tools/memory":   {"internal/server"},
	module + "internal/tools/mcp":      {"internal/config", "internal/server"},
	module + "internal/tools/openapi":  {"internal/config", "internal/server"},
	module + "internal/tools/script":   {"internal/config", "internal/server"},
	module + "internal/tools/search":   {"internal/server"},
	module + "internal/tools/shell":    {"internal/server"},
	module + "internal/tools/skill":    {"internal/config", "internal/server"},
	module + "internal/tools/turn":     {"internal/server"},
	module + "internal/tools/web":      {"internal/config", "internal/server"},
	module + "internal/model":          {"bench", "examples/modelserver", "internal/agent", "internal/config", "internal/model/modeltest", "internal/operator", "internal/server", "internal/tools/agent"},
	"github.com/chromedp/cdproto":      {"bench", "internal/browser"},
	"github.com/chromedp/chromedp":     {"bench"},
	"github.com/gobwas/ws":             {"internal/browser"},
	"github.com/getkin/kin-openapi":    {"internal/tools/openapi"},
	"github.com/oasdiff":               {"internal/tools/openapi"},
	"github.com/modelcontextprotocol":  {"bench", "bench/bare", "internal/edge", "internal/tools/mcp"},
	"github.com/tmaxmax/go-sse":        {"internal/model"},
	"github.com/santhosh-tekuri":       {"internal/persona", "internal/schema", "internal/tools/toolstest", "bench", "bench/work"},
	"os/exec":                          {"build/cluster", "bench", "bench/bare", "internal/programtest", "internal/sandbox/sandboxtest", "internal/workspace/workspacetest", "sdk/sdktest"},
	"mvdan.cc/sh":                      {"internal/shell"},
	"github.com/nats-io":               {"build/cluster", "internal/state", "internal/state/statetest"},
	"go.lsp.dev":                       {"internal/lsp"},
	module + "internal/tools/schedule": {"internal/schedule", "internal/server"},
	module + "internal/tools/workflow": {"internal/schedule", "internal/server", "internal/workflow"},
	"github.com/netresearch/go-cron":   {"internal/schedule"},
}

// TestFloors proves that imports point downwards, and that nobody imports what
// is reserved for others.
func TestFloors(t *testing.T) {
	floorOf := make(map[string]int)
	for i, floor := range floors {
		for _, name := range floor {
			floorOf[name] = len(floors) - i
		}
	}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if len(p.GoFiles) == 0 {
			continue
		}
		floor, ok := floorOf[name]
		if !ok {
			t.Errorf("%s is on no floor: give it a place in this plan and in ARCHITECTURE.md", name)
			continue
		}
		for _, imported := range p.Imports {
			if other, ours := strings.CutPrefix(imported, module); ours && floorOf[other] >= floor {
				t.Errorf("%s imports %s, which is not on a lower floor", name, other)
			}
			for what, who := range reserved {
				under := imported == what || strings.HasPrefix(imported, what+"/")
				if under && !slices.Contains(who, name) {
					t.Errorf("%s imports %s, which is reserved for %v", name, imported, who)
				}
			}
		}
	}
}

type goPackage struct {
	ImportPath string
	Imports    []string
	GoFiles    []string // empty for a folder of tests
}

// packages lists the packages of the module with what they import.
func packages(t *testing.T) []goPackage {
	t.Helper()
	// Go keeps the result of a test until a file changes that the test itself has looked at.
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) == ".go":
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}
