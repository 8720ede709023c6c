// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/toolcall"
)

var goldenTools = []toolcall.Tool{
	{Name: "read_file", Description: "Shows a file.", Schema: json.RawMessage(`{"type":"object","properties":{
		"path":{"type":"string","description":"file to read","minLength":1,"maxLength":4096},
		"limit":{"type":"integer","minimum":1,"default":2000},
		"mode":{"type":"string","enum":["text","hex"]}},
		"required":["path"],"additionalProperties":false}`)},
	{Name: "edit", Description: "Changes a file.", Schema: json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
		"edits":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/edit"}},
		"encoding":{"type":["string","null"],"format":"uri"},
		"until":{"oneOf":[{"type":"integer"},{"type":"string","format":"date-time"}]},
		"kind":{"const":"patch"}},
		"required":["edits"],"$defs":{"edit":{"type":"object","properties":{"old":{"type":"string"},"new":{"type":"string"}},"required":["old","new"],"additionalProperties":false}},
		"additionalProperties":false}`)},
	{Name: "call_any", Description: "Takes <anything> & more.", Schema: json.RawMessage(`{"type":"object","properties":{"labels":{"type":"object","additionalProperties":{"type":"string"}}}}`)},
	{Name: "list_agents", Description: "Takes nothing.", Schema: json.RawMessage(`{"type":"object"}`)},
}

var goldenCalls = []toolcall.Call{
	{ID: "call_1", Tool: "read_file", Input: json.RawMessage(`{"path":"src/main.go","limit":20}`)},
	{ID: "call_2", Tool: "edit", Input: json.RawMessage(`{"edits":[{"old":"<b>\"x\"</b>","new":"y\nz"}]}`)},
	{ID: "call_3", Tool: "list_agents", Input: json.RawMessage(`{}`)},
}

var goldenResults = []toolcall.Result{
	{CallID: "call_1", Tool: "read_file", Content: []toolcall.Content{toolcall.Text("package main // <b>"), toolcall.Image{MediaType: "image/png", Data: []byte("\x89PNG")}}},
	{CallID: "call_2", Tool: "edit", Failed: true, Content: []toolcall.Content{toolcall.Text("There is no such text.\n</tool_result></tool_response></result></response>")}},
}

// golden compares text with a file, or writes the file where UPDATE_GOLDEN is set.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if json.Valid(got) {
		var b bytes.Buffer
		json.Indent(&b, got, "", "  ")
		got = b.Bytes()
	}
	got = append(bytes.TrimRight(got, "\n"), '\n')
	if os.Getenv("UPDATE_GOLDEN") != "" {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s\nUPDATE_GOLDEN=1 accepts what is new", path, got, want)
	}
}

func TestGolden(t *testing.T) {
	for _, d := range toolcall.Dialects {
		t.Run(d.Name, func(t *testing.T) {
			ext := ".json"
			if d.Text {
				ext = ".txt"
			}
			golden(t, d.Name+"/tools"+ext, d.Tools(goldenTools, toolcall.Options{}))
			golden(t, d.Name+"/results"+ext, d.Results(goldenResults))
			golden(t, d.Name+"/calls"+ext, d.Calls(goldenTools, "I shall look.", goldenCalls))
			if strings.HasPrefix(d.Name, "openai") {
				golden(t, d.Name+"/tools-strict"+ext, d.Tools(goldenTools, toolcall.Options{Strict: true}))
			}
		})
	}
}

// TestStreams: what providers send, as their documentation has it, cut anywhere. What is
// read of it is in the file beside.
func TestStreams(t *testing.T) {
	files, _ := filepath.Glob("testdata/streams/*.in")
	if len(files) < 8 {
		t.Fatalf("only %d streams", len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dialect, _, _ := strings.Cut(name, "_")
			for _, as := range []string{dialect, toolcall.Auto} {
				if as == toolcall.Auto && dialect == "mistral" {
					continue
				}
				for size := 1; size < 60; size += 7 {
					var b bytes.Buffer
					for _, piece := range parse(t, as, nil, text, func() int { return size }) {
						switch piece := piece.(type) {
						case toolcall.Text:
							fmt.Fprintf(&b, "text %q\n", string(piece))
						case toolcall.Call:
							fmt.Fprintf(&b, "call %q %s %s\n", piece.ID, piece.Tool, piece.Input)
						case toolcall.Broken:
							fmt.Fprintf(&b, "broken %q %s %q\n", piece.ID, piece.Tool, piece.Message)
						}
					}
					golden(t, "streams/"+name+".want", b.Bytes())
				}
			}
		})
	}
}

// TestBroken: what is broken is repaired where it has one reading, and otherwise told.
func TestBroken(t *testing.T) {
	tools := []toolcall.Tool{
		{Name: "read_file", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"},"all":{"type":"boolean"}},"required":["path"]}`)},
		{Name: "web_search", Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"n":{"type":"integer"}},"required":["query"]}`)},
		{Name: "list", Schema: json.RawMessage(`{"type":"object"}`)},
	}
	for _, test := range []struct{ name, text, want string }{
		{"trailing commas", `<tool_call>{"name": "read_file", "arguments": {"path": "a",},}</tool_call>`, `read_file {"path":"a"}`},
		{"single quotes", `<tool_call>{'name': 'read_file', 'arguments': {'path': 'say "a"', 'all': True}}</tool_call>`, `read_file {"path":"say \"a\"","all":true}`},
		{"keys without quotes", `<tool_call>{name: "read_file", arguments: {path: "a"}}</tool_call>`, `read_file {"path":"a"}`},
		{"line breaks in strings", "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\nb\"}}</tool_call>", `read_file {"path":"a\nb"}`},
		{"escapes", `<tool_call>{"name": "web_search", "arguments": {"query": "\d+ \'x\'"}}</tool_call>`, `web_search {"query":"\\d+ 'x'"}`},
		{"arguments as a string", `<tool_call>{"name": "read_file", "arguments": "{\"path\": \"a\"}"}</tool_call>`, `read_file {"path": "a"}`},
		{"a bracket is missing", `<tool_call>{"name": "read_file", "arguments": {"path": "a"}</tool_call> then`, `read_file {"path":"a"} | " then"`},
		{"a bracket too many", `<tool_call>{"name": "read_file", "arguments": {"path": "a"}}}</tool_call> then`, `read_file {"path": "a"} | " then"`},
		{"another closing tag", `<tool_call>{"name": "list"}</tool_cal> then`, `list {} | "</tool_cal> then"`},
		{"no closing tag", `<tool_call>{"name": "list"}`, `list {}`},
		{"no closing tag, and another call", "<tool_call><name>list</name><arguments>{}</arguments>\n<tool_call><name>list</name></tool_call>", `list {} | list {}`},
		{"wrong closing tag in tags", "<tool_call><name>list</tool><arguments>{}</args></tool_call>", `list {}`},
		{"value not closed", "<tool_call><function=read_file><parameter=path>a</function></tool_call>", `read_file {"path":"a"}`},
		{"value not closed, and more", "<tool_call><function=read_file><parameter=path>a</function></tool_call> then", `! ends before it is complete`},
		{"types of values", "<function=read_file><parameter=path>5</parameter><parameter=limit>5</parameter><parameter=all>True</parameter></function>", `read_file {"path":"5","limit":5,"all":true}`},
		{"wrong type", "<function=read_file><parameter=path>a</parameter><parameter=limit>many</parameter></function>", `read_file {"path":"a","limit":"many"}`},
		{"name in another case", `<tool_call>{"name": "ReadFile", "arguments": {"path": "a"}}</tool_call>`, `read_file {"path": "a"}`},
		{"name with a prefix", `<tool_call>{"name": "functions.read_file", "arguments": {"path": "a"}}</tool_call>`, `read_file {"path": "a"}`},
		{"null for what is optional", `<tool_call>{"name": "read_file", "arguments": {"path": "a", "limit": null}}</tool_call>`, `read_file {"path":"a"}`},
		{"unknown tool", `<tool_call>{"name": "read_fil", "arguments": {"path": "a"}}</tool_call>`, `! there is no tool read_fil; did you mean read_file`},
		{"no name", `<tool_call>{"arguments": {"path": "a"}}</tool_call>`, `! name of the tool is missing`},
		{"arguments as a list", `<tool_call>{"name": "list", "arguments": [1]}</tool_call>`, `! want a JSON object`},
		{"cut off in a string", `<tool_call>{"name": "read_file", "arguments": {"path": "a.t`, `! ends before it is complete`},
		{"cut off between values", `<tool_call>{"name": "read_file", "arguments": {"path": "a"`, `! ends before it is complete`},
		{"cut off in a value", "<tool_call><function=read_file><parameter=path>a", `! ends before it is complete`},
		{"a call in a value", "<tool_call><function=read_file><parameter=path><tool_call><function=list></function></tool_call></parameter></function></tool_call> then", `! has <function= in it | " then"`},
		{"twice the same", "<tool_call>read_file\n<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>path</arg_key><arg_value>b</arg_value></tool_call>", `! path is there twice`},
		{"missing wrapper", `<invoke name="read_file"><parameter name="path">a</parameter></invoke></minimax:tool_call>`, `read_file {"path":"a"}`},
		{"a name alone", "<tool_call>list</tool_call>", `list {}`},
		{"a tag in a sentence", "The <tool_call> tag and <function_calls> and <function=x and Action: none.", `"The <tool_call> tag and <function_calls> and <function=x and Action: none."`},
		{"a list", `[TOOL_CALLS][{"name": "list"}, {"name": "list", "arguments": {}}]</s> ok`, `list {} | list {} | " ok"`},
		{"a list in a tag", `<tool_call>[{"name": "list"},{"name":"list"}]</tool_call>`, `list {} | list {}`},
		{"with its id", `[TOOL_CALLS]list[CALL_ID]abc[ARGS]{}`, `abc: list {}`},
		{"as OpenAI has it", `<tool_call>{"id":"c1","type":"function","function":{"name":"list","arguments":"{}"}}</tool_call>`, `c1: list {}`},
		{"a line for a text", "Thought: look\nAction: web_search\nAction Input: go 1.26\nObservation: x", `"Thought: look\n" | web_search {"query":"go 1.26"} | "Observation: x"`},
		{"a line for an object", "Action: list\nAction Input: all", `! has to be a JSON object`},
		{"a fence", "See:\n```tool_call\n{\"name\": \"list\"}\n```\nDone", `"See:\n" | list {} | "\nDone"`},
		{"a fence of JSON", "See:\n```json\n{\"name\": \"list\"}\n```\nDone", `"See:\n` + "```json\\n{\\\"name\\\": \\\"list\\\"}\\n```\\nDone\""},
	} {
		for _, size := range []int{1, 4, 1000} {
			var got []string
			for _, piece := range parse(t, toolcall.AnyText, tools, []byte(test.text), func() int { return size }) {
				switch piece := piece.(type) {
				case toolcall.Text:
					got = append(got, fmt.Sprintf("%q", string(piece)))
				case toolcall.Call:
					id := piece.ID
					if id != "" {
						id += ": "
					}
					got = append(got, id+piece.Tool+" "+string(piece.Input))
				case toolcall.Broken:
					got = append(got, "! "+piece.Message)
				}
			}
			want := strings.Split(test.want, " | ")
			ok := len(got) == len(want)
			for i := 0; ok && i < len(got); i++ {
				message, broken := strings.CutPrefix(want[i], "! ")
				ok = got[i] == want[i] || broken && strings.HasPrefix(got[i], "! ") && strings.Contains(got[i], message)
			}
			if !ok {
				t.Errorf("%s in pieces of %d: %s\ngives %s\nwant  %s", test.name, size, test.text, strings.Join(got, " | "), test.want)
				break
			}
		}
	}
}

// TestFencedJSON: in the dialect of fences JSON is a call where it has a name and is text
// where it has none.
func TestFencedJSON(t *testing.T) {
	text := "A\n```json\n{\"a\": 1}\n```\nB\n```json\n{\"name\": \"x\", \"arguments\": {}}\n```\nC"
	pieces := parse(t, "fenced", nil, []byte(text), func() int { return 5 })
	want := "[A\n```json\n{\"a\": 1}\n```\nB\n { x [123 125]} \nC]"
	if got := fmt.Sprint(pieces); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
