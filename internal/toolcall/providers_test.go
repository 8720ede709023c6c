// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/toolcall"
)

// providerPackages returns a directory in which the official clients of Anthropic and
// OpenAI can be imported. The test fails where they are not installed.
func providerPackages(t *testing.T) string {
	t.Helper()
	packages, err := filepath.Abs("../../.bin/providers/node_modules")
	if err == nil {
		_, err = os.Stat(filepath.Join(packages, ".bin/tsc"))
	}
	if err != nil {
		t.Fatal("the clients of providers are missing: make providers installs them, with npm")
	}
	directory := t.TempDir()
	if err := os.Symlink(packages, filepath.Join(directory, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return directory
}

func inDirectory(t *testing.T, directory, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = directory
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd, err, out, &complaints)
	}
	return out
}

// TestProvidersTypes: what is rendered is of the types that the official clients take.
func TestProvidersTypes(t *testing.T) {
	directory := providerPackages(t)
	source := "import Anthropic from \"@anthropic-ai/sdk\";\nimport OpenAI from \"openai\";\n"
	for i, value := range []struct {
		kind, dialect string
		tools, strict bool
	}{
		{"Anthropic.Messages.Tool[]", "anthropic", true, false},
		{"Anthropic.Messages.MessageParam", "anthropic", false, false},
		{"OpenAI.Chat.Completions.ChatCompletionTool[]", "openai", true, false},
		{"OpenAI.Chat.Completions.ChatCompletionTool[]", "openai", true, true},
		{"OpenAI.Chat.Completions.ChatCompletionMessageParam[]", "openai", false, false},
		{"OpenAI.Responses.FunctionTool[]", "openai-responses", true, false},
		{"OpenAI.Responses.FunctionTool[]", "openai-responses", true, true},
		{"OpenAI.Responses.ResponseInputItem[]", "openai-responses", false, false},
	} {
		d, err := toolcall.Named(value.dialect)
		if err != nil {
			t.Fatal(err)
		}
		text := d.Results(goldenResults)
		if value.tools {
			text = d.Tools(goldenTools, toolcall.Options{Strict: value.strict})
		}
		source += fmt.Sprintf("export const v%d: %s = %s;\n", i, value.kind, text)
	}
	check := []string{"--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "check.mts"}
	if err := os.WriteFile(filepath.Join(directory, "check.mts"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	inDirectory(t, directory, "node_modules/.bin/tsc", check...)

	// The types do say something.
	wrong := "import OpenAI from \"openai\";\nexport const w: OpenAI.Responses.FunctionTool[] = [{\"type\":\"function\",\"nme\":\"x\"}];\n"
	if err := os.WriteFile(filepath.Join(directory, "check.mts"), []byte(wrong), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node_modules/.bin/tsc", check...)
	cmd.Dir = directory
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("a wrong name is accepted\n%s", out)
	}
}

// TestProvidersStreams: the official clients send what is rendered as it is, and read the
// same calls from the streams of the tests as we do.
func TestProvidersStreams(t *testing.T) {
	directory := providerPackages(t)
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/providers/streams.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, "streams.mjs"), script, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string][]toolcall.Call{}
	for lines := bufio.NewScanner(bytes.NewReader(inDirectory(t, directory, "node", "streams.mjs", testdata))); lines.Scan(); {
		var call struct {
			Provider, ID, Name string
			Input              json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		theirs[call.Provider] = append(theirs[call.Provider], toolcall.Call{ID: call.ID, Tool: call.Name, Input: call.Input})
	}
	for dialect, file := range map[string]string{"anthropic": "anthropic_complete.in", "openai": "openai_stream.in", "openai-responses": "openai-responses_stream.in"} {
		text, err := os.ReadFile(filepath.Join("testdata/streams", file))
		if err != nil {
			t.Fatal(err)
		}
		ours := calls(t, parse(t, dialect, nil, text, whole))
		if len(ours) != len(theirs[dialect]) || len(ours) == 0 {
			t.Fatalf("%s: we read %v, they %v", dialect, ours, theirs[dialect])
		}
		for i, call := range ours {
			if other := theirs[dialect][i]; call.ID != other.ID || call.Tool != other.Tool || !sameJSON(t, call.Input, other.Input) {
				t.Errorf("%s: we read %s %s %s, they %s %s %s", dialect, call.ID, call.Tool, call.Input, other.ID, other.Tool, other.Input)
			}
		}
	}
}
