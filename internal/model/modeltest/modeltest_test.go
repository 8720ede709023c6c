// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package modeltest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// said is what a client of a provider got.
type said struct {
	Client, Stop, Text    string
	Input, Cached, Output int
	Calls                 []struct {
		ID, Name string
		Input    struct{ Path string }
	}
	Failed, Message, Retry string
	Status                 int
}

// TestClients: the official clients of Anthropic and OpenAI take the scripted model for one
// of theirs, in pieces of all sizes, and get its failures as those of their providers.
func TestClients(t *testing.T) {
	packages, err := filepath.Abs("../../../.bin/providers/node_modules")
	if err == nil {
		_, err = os.Stat(filepath.Join(packages, "openai"))
	}
	if err != nil {
		t.Fatal("the clients of providers are missing: make providers installs them, with npm")
	}
	directory := t.TempDir()
	script, err := os.ReadFile("testdata/clients.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, "clients.mjs"), script, 0o644)
	}
	if err == nil {
		err = os.Symlink(packages, filepath.Join(directory, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	const text = "Ich sehe nach: 日本語 🦀."
	turns := modeltest.Turns(
		modeltest.Turn{Text: text, Calls: []toolcall.Call{modeltest.Call("read_file", map[string]string{"path": "ü"}), modeltest.Call("read_file", map[string]string{"path": "b"})},
			Usage: model.Usage{Input: 50, Cached: 20, Output: 7}},
		modeltest.Turn{Text: "Done."})
	for _, pieces := range []int{0, 1} {
		server := modeltest.Start(func(r *modeltest.Request) modeltest.Turn {
			switch r.Messages[0].Text {
			case "limited":
				return modeltest.Turn{Status: 429, RetryAfter: "7"}
			case "overloaded":
				return modeltest.Turn{Status: 529}
			case "broken":
				return modeltest.Turn{Text: "I", Error: "overloaded_error"}
			}
			return turns(r)
		})
		defer server.Close()
		server.Key, server.Models, server.Pieces = "sk-secret", []string{"m-1"}, pieces
		cmd := exec.Command("node", "clients.mjs", server.URL("anthropic"), "sk-secret")
		cmd.Dir = directory
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, &complaints)
		}
		got := make(map[string][]said)
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			var s said
			if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
				t.Fatal(err)
			}
			got[s.Client] = append(got[s.Client], s)
		}
		for client, want := range map[string]struct {
			calling, ended, overloaded string
			input                      int // Anthropic counts what is cached apart
		}{"anthropic": {"tool_use", "end_turn", "OverloadedError", 30}, "openai": {"tool_calls", "stop", "InternalServerError", 50}} {
			list := got[client]
			if len(list) != 9 {
				t.Fatalf("%s got %d answers\n%s", client, len(list), out)
			}
			for _, i := range []int{0, 3} { // streamed, and at once
				first := list[i]
				if first.Text != text || first.Stop != want.calling || first.Input != want.input || first.Cached != 20 || first.Output != 7 ||
					len(first.Calls) != 2 || first.Calls[0].Input.Path != "ü" || first.Calls[1].Name != "read_file" || first.Calls[0].ID == first.Calls[1].ID {
					t.Errorf("%s got %+v", client, first)
				}
			}
			if last := list[2]; last.Text != "Done." || last.Stop != want.ended {
				t.Errorf("%s got %+v", client, last)
			}
			for i, failed := range map[int]said{
				1: {Failed: "BadRequestError", Status: 400}, 4: {Failed: "RateLimitError", Status: 429, Retry: "7"},
				5: {Failed: want.overloaded, Status: 529}, 7: {Failed: "NotFoundError", Status: 404}, 8: {Failed: "AuthenticationError", Status: 401},
			} {
				if g := list[i]; g.Failed != failed.Failed || g.Status != failed.Status || g.Retry != failed.Retry || g.Message == "" {
					t.Errorf("%s got %+v, want %+v", client, g, failed)
				}
			}
			if broken := list[6]; broken.Failed == "nothing" || !strings.Contains(broken.Message, "ends here") {
				t.Errorf("%s got %+v", client, broken)
			}
		}
	}
}

// TestStrictness: what no provider takes is refused, and says why.
func TestStrictness(t *testing.T) {
	server := modeltest.Start(modeltest.Turns(modeltest.Turn{Text: "x"}))
	defer server.Close()
	use := `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"now","input":{}}]}`
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"now","arguments":"{}"}}]}`
	refused := 0
	for _, test := range []struct{ format, body, want string }{
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, ""},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"foo":1}`, "foo"},
		{"anthropic", `{`, "JSON"},
		{"anthropic", `{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, "model"},
		{"anthropic", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "max_tokens"},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[]}`, "at least one message"},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":"x"}]}`, "alternate"},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"user","content":"x"}]}`, "alternate"},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":" "}]}`, "non-whitespace"},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},` + use + `]}`, "without `tool_result`"},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},` + use + `,{"role":"user","content":"y"}]}`, "without `tool_result`"},
		{"anthropic", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"y"}]}]}`, "unexpected `tool_use_id`"},
		{"anthropic", `{"model":"m","max_tokens":1,"tools":[{"name":"a b","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"x"}]}`, "pattern"},
		{"anthropic", `{"model":"m","max_tokens":1,"tools":[{"name":"a","input_schema":{}}],"messages":[{"role":"user","content":"x"}]}`, "input_schema"},
		{"openai", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, ""},
		{"openai", `{"model":"m","messages":[{"role":"user","content":"x"}],"foo":1}`, "foo"},
		{"openai", `{"messages":[{"role":"user","content":"x"}]}`, "model"},
		{"openai", `{"model":"m","messages":[]}`, "messages"},
		{"openai", `{"model":"m","messages":[{"role":"user"}]}`, "content"},
		{"openai", `{"model":"m","messages":[{"role":"robot","content":"x"}]}`, "robot"},
		{"openai", `{"model":"m","stream_options":{},"messages":[{"role":"user","content":"x"}]}`, "stream_options"},
		{"openai", `{"model":"m","messages":[{"role":"assistant","content":"x","tool_calls":[]}]}`, "tool_calls"},
		{"openai", `{"model":"m","messages":[` + call + `]}`, "t1"},
		{"openai", `{"model":"m","messages":[` + call + `,{"role":"user","content":"x"}]}`, "t1"},
		{"openai", `{"model":"m","messages":[{"role":"tool","tool_call_id":"t1","content":"x"}]}`, "role 'tool'"},
		{"openai", `{"model":"m","tools":[{"type":"function","function":{"name":"` + strings.Repeat("x", 65) + `"}}],"messages":[{"role":"user","content":"x"}]}`, "tools[0]"},
	} {
		path := map[string]string{"anthropic": "/v1/messages", "openai": "/chat/completions"}[test.format]
		request, err := http.NewRequest("POST", server.URL(test.format)+path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}, "Authorization": {"Bearer k"}, "Content-Type": {"application/json"}}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if want := map[bool]int{true: 200, false: 400}[test.want == ""]; response.StatusCode != want || !strings.Contains(string(text), test.want) {
			t.Errorf("%s: %d %s, want %d with %q", test.body, response.StatusCode, text, want, test.want)
		}
		if test.want != "" {
			refused++
		}
	}
	if got := server.Refused(); len(got) != refused || len(server.Requests()) != 2 {
		t.Errorf("%d were refused, want %d; %d were asked", len(got), refused, len(server.Requests()))
	}
}

// TestTurns: each conversation has its own turns, and a request that is sent again gets the
// same.
func TestTurns(t *testing.T) {
	first, second := modeltest.Turn{Text: "1"}, modeltest.Turn{Text: "2"}
	script := modeltest.Turns(first, second)
	begun := &modeltest.Request{Number: 5, Messages: []model.Message{{Text: "a"}}}
	answered := &modeltest.Request{Number: 0, Messages: []model.Message{{Text: "a"}, {FromModel: true, Text: "1"}, {Text: "b"}}}
	for _, test := range []struct {
		script modeltest.Script
		of     *modeltest.Request
		want   modeltest.Turn
	}{{script, begun, first}, {script, begun, first}, {script, answered, second}, {modeltest.Sequence(first, second), answered, first}} {
		if got := test.script(test.of); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%+v, want %+v", got, test.want)
		}
	}
	if over := modeltest.Sequence(first)(begun); !strings.Contains(over.Text, "no more") {
		t.Errorf("%+v", over)
	}
}
