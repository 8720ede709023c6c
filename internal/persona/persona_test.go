// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

// TestSystems compiles everything that the files say.
func TestSystems(t *testing.T) {
	for _, s := range Systems() {
		names := make(map[string]bool)
		for _, tool := range s.Tools {
			if err := tool.compiled(); err != nil {
				t.Errorf("%s of %s: %v", tool.Name, s.Name, err)
			}
			if tool.Description == "" || len(tool.Means) == 0 {
				t.Errorf("%s of %s has no description, or no meaning", tool.Name, s.Name)
			}
			for _, name := range append([]string{tool.Name}, tool.Aliases...) {
				if names[name] {
					t.Errorf("%s has two tools named %s", s.Name, name)
				}
				names[name] = true
			}
			for _, key := range tool.Required {
				if !strings.Contains(string(tool.Properties), `"`+key+`"`) {
					t.Errorf("%s of %s requires %s, which it does not have", tool.Name, s.Name, key)
				}
			}
		}
		for what, list := range s.Later {
			for _, name := range list {
				if names[name] {
					t.Errorf("%s of %s is there, and not later with %s", name, s.Name, what)
				}
			}
		}
	}
}

func TestTranslate(t *testing.T) {
	tests := []struct{ system, tool, input, want string }{
		{"kiro", "read", `{"operations":[{"mode":"Line","path":"/a","offset":0,"limit":"10"},{"mode":"Image","image_paths":["x","y"]}]}`,
			`read_file {"operations":[{"limit":10,"mode":"auto","offset":1,"path":"/a"},{"mode":"image","path":"x"},{"mode":"image","path":"y"}]}`},
		{"kiro", "fs_read", `{"operations":"[{\"mode\":\"Directory\",\"path\":\".\",\"depth\":0}]"}`,
			`read_file {"operations":[{"depth":1,"mode":"directory","path":"."}]}`},
		{"kiro", "read", `{"operations":{"mode":"Line","path":"a"}}`, `read_file {"operations":[{"mode":"auto","path":"a"}]}`},
		{"kiro", "write", `{"command":"insert","path":"a","content":"x","insertLine":1}`, `edit_file {"insert_line":1,"new_string":"x","path":"a"}`},
		{"kiro", "write", `{"command":"insert","path":"a","content":"x"}`, `edit_file {"append":true,"new_string":"x","path":"a"}`},
		{"kiro", "write", `{"command":"create","path":"n"}`, `/content: is required for this`},
		{"kiro", "write", `{"command":"destroy","path":"n"}`, `/command: value must be one of 'create', 'strReplace', 'insert'`},
		{"kiro", "write", `{"path":"n","size":1}`, "/command: is required\n/size: unknown key"},
		{"kiro", "write", `{"command":"create","path":"n"` + unknownKeys(5000) + `}`, ", and 4990 more: unknown key"},
		{"kiro", "write", `{"path":"n","path":"m"}`, `/path: key appears twice`},
		{"kiro", "write", `[`, `want a JSON value, got the end`},
		{"kiro", "write", `"x"`, `want object, got string`},
		{"kiro", "shell", ``, `/command: is required`},
		{"codex", "shell", `{"command":["bash","-lc","echo hi"]}`, `bash {"command":"echo hi"}`},
		{"codex", "shell", `{"command":["rm","a b","$HOME"]}`, `bash {"command":"rm 'a b' '$HOME'"}`},
		{"codex", "shell", `{"command":"ls -la","timeout_ms":"5"}`, `bash {"command":"ls -la","timeout_ms":5}`},
		{"codex", "write_stdin", `{"session_id":3,"chars":"y"}`, `process_input {"id":"p3","text":"y","wait_ms":250}`},
		{"codex", "write_stdin", `{"session_id":"p3"}`, `process_output {"id":"p3","wait_ms":5000}`},
		{"codex", "exec_command", `{"cmd":"ls","yield_time_ms":1,"tty":true}`, `bash {"background_after_ms":250,"command":"ls","interactive":true}`},
		{"codex", "exec_command", `{"cmd":"apply_patch <<EOF\nx\nEOF","workdir":"a"}`, `apply_patch {"dir":"a","patch":"x\n"}`},
		{"codex", "shell", `{"command":["apply_patch","it's\n$x"]}`, `apply_patch {"patch":"it's\n$x"}`},
		{"codex", "shell", `{"command":["bash","-lc","cd b && apply_patch <<'E'\nx\nE"],"workdir":"a"}`, `apply_patch {"dir":"a/b","patch":"x\n"}`},
		{"codex", "shell", `{"command":["bash","-lc","cd /b && apply_patch <<'E'\nx\nE"],"workdir":"a"}`, `apply_patch {"dir":"/b","patch":"x\n"}`},
		{"codex", "shell", `{"command":"apply_patch <<'E'\nx\nE\nrm a"}`, `bash {"command":"apply_patch`},
		{"codex", "apply_patch", `{"patch":"x"}`, `apply_patch {"patch":"x"}`},
		{"codex", "apply_patch", `"*** x"`, `apply_patch {"patch":"*** x"}`},
		{"codex", "apply_patch", `"{\"input\":\"x\"}"`, `apply_patch {"patch":"x"}`},
		{"codex", "apply_patch", "*** Begin\n", `apply_patch {"patch":"*** Begin\n"}`},
		{"codex", "apply_patch", `{"input":`, `want a JSON value`},
		{"codex", "apply_patch", ``, `/input: is required for this`},
		{"gemini-cli", "read_many_files", `{"paths":["a.go","b/c.go"]}`, `read_file {"operations":[{"path":"a.go"},{"path":"b/c.go"}]}`},
		{"gemini-cli", "read_many_files", `{"paths":["src/","Makefile","**/*.go"],"exclude":["x"]}`, `"globs":["src/**","Makefile","Makefile/**","**/*.go","!x"]`},
		{"gemini-cli", "run_shell_command", `{"command":"ls","is_background":false}`, `bash {"command":"ls"}`},
		{"claude-code", "KillShell", `{"shell_id":"p1"}`, `process_signal {"id":"p1","kill_after_ms":2000}`},
		{"kiro", "use_subagent", `{"task":"t","mode":"blocking","stages":[{"name":"a","role":"r","prompt_template":"p","model":"m"},{"name":"b","role":"r","prompt_template":"{{a}}","depends_on":["a"]}]}`,
			`crew {"stages":[{"agent":"r","name":"a","prompt":"p"},{"agent":"r","depends_on":["a"],"name":"b","prompt":"{{a}}"}],"task":"t"}`},
		{"y-agent", "AgentSwarm", `{"description":"d","agent_name":"r","prompt_template":"{{item}}","items":["a","b"]}`, `crew {"map":{"agent":"r","items":["a","b"],"prompt":"{{item}}"},"task":"d"}`},
		{"y-agent", "ShellExec", `{"command":"ls"}`, `bash {"command":"ls","timeout_ms":30000}`},
		{"y-agent", "ShellExec", `{"action":"poll"}`, `/process_id: is required for this`},
		{"y-agent", "ShellExec", `{"action":"poll","session_id":"p1","yield_time_ms":0}`, `process_output {"id":"p1"}`},
		{"claw-code", "PowerShell", `{"command":"ls","run_in_background":true}`, `no form of PowerShell has these keys together`},
		{"claw-code", "GitShow", `{"commit":"HEAD","stat":true}`, `git_log {"limit":1,"revision":"HEAD","stat":true}`},
		{"anthropic", "str_replace_based_edit_tool", `{"command":"view","path":"a","view_range":[2,4]}`, `read_file {"limit":3,"offset":2,"path":"a"}`},
		{"anthropic", "str_replace_based_edit_tool", `{"command":"view","path":"a","view_range":[2,-1]}`, `read_file {"offset":2,"path":"a"}`},
		{"gemini-cli", "read_file", `{}`, `/file_path: is required for this`},
	}
	for _, test := range tests {
		system, _ := Named(test.system)
		call, err := system.Tool(test.tool).Translate([]byte(test.input))
		got := call.Tool + " " + string(tools.Canonical(call.Input))
		if err != nil {
			got = err.Error()
		}
		if len(got) > 2000 {
			t.Errorf("%s %s: %d bytes tell what is wrong", test.system, test.tool, len(got))
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s %s %s:\ngot  %s\nwant %s", test.system, test.tool, test.input, got, test.want)
		}
	}
}

// unknownKeys are as many keys that no tool has.
func unknownKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"unknown_key_%d":1`, i)
	}
	return b.String()
}

// TestWords names tools, keys and calls of ours as systems do.
func TestWords(t *testing.T) {
	tests := []struct{ system, kind, ours, want string }{
		{"claude-code", "tool", "process_output", "BashOutput"},
		{"claude-code", "key", "bash timeout_ms", "timeout"},
		{"claude-code", "key", "edit_file old_string", "old_string"},
		{"claude-code", "key", "grep ignore_case", "-i"},
		{"claude-code", "key", "grep hidden", ""},
		{"claude-code", "call", `read_file {"path":"a","offset":3,"limit":2}`, `Read {"file_path":"a","limit":2,"offset":3}`},
		{"claude-code", "call", `glob {"pattern":"*","offset":2}`, ""},
		{"claude-code", "call", `process_output {"id":"p1"}`, `BashOutput {"bash_id":"p1"}`},
		{"gemini-cli", "call", `read_file {"path":"a","offset":3}`, `read_file {"absolute_path":"a","offset":2}`},
		{"gemini-cli", "key", "bash timeout_ms", ""},
		{"gemini-cli", "tool", "list_dir", "list_directory"},
		{"codex", "call", `list_dir {"path":".","offset":10}`, `list_dir {"dir_path":".","offset":11}`},
		{"codex", "call", `grep {"pattern":"x","output_mode":"files_with_matches","limit":5}`, `grep_files {"limit":5,"pattern":"x"}`},
		{"codex", "call", `grep {"pattern":"x","output_mode":"content"}`, ""},
		{"y-agent", "tool", "process_output", "ShellExec with action poll"},
		{"y-agent", "call", `process_output {"id":"p1"}`, `ShellExec {"action":"poll","session_id":"p1"}`},
		{"y-agent", "call", `bash {"command":"ls","timeout_ms":5000}`, `ShellExec {"action":"run","command":"ls","timeout_secs":5}`},
		{"kiro", "tool", "no_tool", ""},
	}
	for _, test := range tests {
		system, _ := Named(test.system)
		w := words{system}
		name, rest, _ := strings.Cut(test.ours, " ")
		var got string
		switch test.kind {
		case "tool":
			got, _ = w.Tool(name)
		case "key":
			got, _ = w.Key(name, rest)
		case "call":
			got, _ = w.Call(name, []byte(rest))
		}
		if got != test.want {
			t.Errorf("%s of %s, %s: got %q, want %q", test.kind, test.system, test.ours, got, test.want)
		}
	}
}

// BenchmarkTranslate is what a call of another system's tool costs more, beside what
// decoding its text costs alone.
func BenchmarkTranslate(b *testing.B) {
	for _, call := range []struct{ system, tool, input string }{
		{"agent-code", "FileRead", `{"file_path":"src/main.go"}`},
		{"agent-code", "FileWrite", `{"file_path":"src/main.go","content":"` + strings.Repeat(`\tif err != nil {\n`, 256) + `"}`},
		{"claude-code", "Grep", `{"pattern":"x","path":"src","-i":true}`},
		{"kiro", "write", `{"command":"strReplace","path":"a","oldStr":"x","newStr":"y"}`},
		{"y-agent", "ShellExec", `{"command":"ls"}`},
	} {
		system, _ := Named(call.system)
		tool, input := system.Tool(call.tool), []byte(call.input)
		b.Run(call.system+" "+call.tool, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tool.Translate(input); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(call.system+" "+call.tool+" decoded", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tools.DecodeJSON(input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzTranslate proves that whatever comes, a call is made or an error is given, and
// that an error about an input that fits the schema names one of its keys.
func FuzzTranslate(f *testing.F) {
	var all []*Tool
	for _, s := range Systems() {
		all = append(all, s.Tools...)
	}
	for seed := range uint64(4 * len(all)) {
		f.Add(seed, "")
	}
	f.Add(uint64(1), `{"operations":[{"mode":"Line","path":1e999}]}`)
	f.Add(uint64(159), "\v ") // space, but none of JSON
	f.Add(uint64(2), strings.Repeat(`{"a":`, 100))
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		random := rand.New(rand.NewPCG(seed, 1))
		tool := all[seed%uint64(len(all))]
		fits := text == ""
		if fits {
			tool.mustCompile()
			made, err := json.Marshal(randomValue(random, tool.shape))
			if err != nil {
				t.Fatal(err)
			}
			text = string(made)
		}
		call, err := tool.Translate([]byte(text))
		if err == nil {
			if !json.Valid(call.Input) || !slices.ContainsFunc(tool.Means, func(m *Meaning) bool { return m.Tool == call.Tool }) {
				t.Fatalf("%s %s became %s %s", tool.Name, text, call.Tool, call.Input)
			}
			return
		}
		wrong, ok := errors.AsType[*tools.InputError](err)
		if !ok {
			t.Fatalf("%s %s: %v is no problem of an input", tool.Name, text, err)
		}
		if fits && !namesKey(tool, wrong.Error()) {
			t.Errorf("%s of %s, %s: %v names no key", tool.Name, tool.System.Name, text, wrong)
		}
	})
}

// namesKey reports whether a message has a key of the schema in it.
func namesKey(tool *Tool, message string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" /:,;.?()!&|=", r) }),
		func(word string) bool { return strings.Contains(string(tool.text), `"`+word+`":`) })
}

// randomValue returns a value that a schema allows.
func randomValue(random *rand.Rand, schema map[string]any) any {
	if options, ok := schema["enum"].([]any); ok {
		return options[random.IntN(len(options))]
	}
	kind, _ := schema["type"].(string)
	if kinds, ok := schema["type"].([]any); ok {
		kind = kinds[random.IntN(len(kinds))].(string)
	}
	switch kind {
	case "object":
		required, _ := schema["required"].([]any)
		value := make(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		for key, inner := range properties {
			if random.IntN(2) == 0 || slices.Contains(required, any(key)) {
				value[key] = randomValue(random, inner.(map[string]any))
			}
		}
		return value
	case "array":
		items, _ := schema["items"].(map[string]any)
		least := 0
		if n, ok := schema["minItems"].(json.Number); ok {
			i, _ := n.Int64()
			least = int(i)
		}
		list := []any{}
		for range least + random.IntN(2) {
			list = append(list, randomValue(random, items))
		}
		if n, ok := schema["maxItems"].(json.Number); ok {
			i, _ := n.Int64()
			list = list[:min(len(list), int(i))]
		}
		return list
	case "integer":
		return 1 + random.IntN(100)
	case "boolean":
		return random.IntN(2) == 0
	}
	words := []string{"a.txt", "", "ls -la", "../x", "**/*.go", "\u00e9\u4e16", "0"}
	return words[random.IntN(len(words))]
}
