// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// parse feeds text in random pieces and returns what came out, with texts joined.
func parse(t testing.TB, dialect string, tools []toolcall.Tool, text []byte, size func() int) (pieces []toolcall.Piece) {
	t.Helper()
	p, err := toolcall.NewParser(dialect, tools)
	if err != nil {
		t.Fatal(err)
	}
	take := func(more []toolcall.Piece) {
		for _, piece := range more {
			if n := len(pieces); n > 0 {
				before, was := pieces[n-1].(toolcall.Text)
				now, is := piece.(toolcall.Text)
				if was && is {
					pieces[n-1] = before + now
					continue
				}
			}
			pieces = append(pieces, piece)
		}
	}
	for len(text) > 0 {
		n := min(len(text), size())
		take(p.Write(text[:n]))
		text = text[n:]
	}
	take(p.Close())
	return pieces
}

func whole() int { return 1 << 30 }

// calls returns the calls among pieces, and fails for broken ones.
func calls(t testing.TB, pieces []toolcall.Piece) (calls []toolcall.Call) {
	t.Helper()
	for _, piece := range pieces {
		switch piece := piece.(type) {
		case toolcall.Call:
			calls = append(calls, piece)
		case toolcall.Broken:
			t.Fatalf("broken: %+v", piece)
		}
	}
	return calls
}

// nasty are texts that mean something in some dialect.
var nasty = []string{
	"", " ", "\n", "\na\n", "null", "5", "true", `"x"`, `{"a":1}`, `["</parameter>"]`, "'", `"`, "\\", "é日本🙂", "a\tb\r\nc", "```", "> q",
	"</parameter>", "</arg_value>", "<tool_call>", "</tool_call>", "<function=", "</function>", `<invoke name="`, "</invoke>", "</｜DSML｜parameter>", "[TOOL_CALLS]",
	"<parameter=a>", "Action: x", "Action Input: {", "<think>", "</think>", `"\u003c/parameter>"`, `"</arg_value>"`, "<", "</", "]}", "\u2028", "<arg_value>", "</name>", "</arguments>",
}

type random struct{ *rand.Rand }

func (r random) text() string {
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(nasty[r.IntN(len(nasty))])
		if r.IntN(2) == 0 {
			b.WriteString(fmt.Sprintf("word%d ", r.IntN(100)))
		}
	}
	return b.String()
}

func (r random) value(kind string, depth int) any {
	switch kind {
	case "string":
		return r.text()
	case "integer":
		return json.Number(fmt.Sprint(r.Int64() - r.Int64()))
	case "number":
		return json.Number(fmt.Sprintf("%d.5e%d", r.IntN(100), r.IntN(5)))
	case "boolean":
		return r.IntN(2) == 0
	case "array":
		list := []any{}
		for range r.IntN(3) {
			list = append(list, r.value(r.kind(), depth+1))
		}
		return list
	case "object":
		o := map[string]any{}
		for range r.IntN(3) {
			o["k"+r.text()] = r.value(r.kind(), depth+1)
		}
		return o
	}
	if depth > 3 {
		return nil
	}
	return r.value(r.kind(), depth+1)
}

func (r random) kind() string {
	return []string{"string", "string", "integer", "number", "boolean", "array", "object", "any"}[r.IntN(8)]
}

// tool returns a tool and a function that makes calls of it.
func (r random) tool(name string) (toolcall.Tool, func() toolcall.Call) {
	properties := map[string]any{}
	kinds := map[string]string{}
	var required []string
	for i := range r.IntN(5) {
		key := fmt.Sprintf("arg_%d", i)
		kinds[key] = r.kind()
		properties[key] = map[string]any{"type": kinds[key], "description": r.text()}
		if kinds[key] == "any" {
			properties[key] = map[string]any{}
		}
		if r.IntN(2) == 0 {
			required = append(required, key)
		}
	}
	schema, _ := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
	return toolcall.Tool{Name: name, Description: r.text(), Schema: schema}, func() toolcall.Call {
		input := map[string]any{}
		for key, kind := range kinds {
			if r.IntN(3) > 0 {
				input[key] = r.value(kind, 0)
			}
		}
		text, _ := json.Marshal(input)
		return toolcall.Call{Tool: name, Input: text}
	}
}

func (r random) turn() (tools []toolcall.Tool, calls []toolcall.Call) {
	for i := range 1 + r.IntN(3) {
		tool, call := r.tool(fmt.Sprintf("tool_%d", i))
		tools = append(tools, tool)
		for range r.IntN(3) {
			c := call()
			c.ID = fmt.Sprintf("call_%d", len(calls))
			calls = append(calls, c)
		}
	}
	return tools, calls
}

// TestRoundTrip: in every dialect the calls that were written are the calls that are
// read, however the text is cut.
func TestRoundTrip(t *testing.T) {
	for _, d := range toolcall.Dialects {
		t.Run(d.Name, func(t *testing.T) {
			for seed := range uint64(soaktest.Times(50, 5000)) {
				r := random{rand.New(rand.NewPCG(seed, 1))}
				tools, want := r.turn()
				before := []string{"", "I shall look.", "It's 5\" wide, \"as\" they say.\n\n```\ncode\n```\n"}[r.IntN(3)]
				text := d.Calls(tools, before, want)
				sizes := []func() int{whole, func() int { return 1 }, func() int { return 1 + r.IntN(30) }}
				for _, as := range []string{d.Name, toolcall.Auto} {
					if d.Name == "mistral" && as == toolcall.Auto || len(want) == 0 && as == toolcall.Auto {
						continue // which is that of OpenAI; and nothing tells what it is
					}
					pieces := parse(t, as, tools, text, sizes[r.IntN(3)])
					got := calls(t, pieces)
					if len(got) != len(want) {
						t.Fatalf("seed %d as %s: %d calls, want %d\n%s\n%v", seed, as, len(got), len(want), text, pieces)
					}
					for i := range want {
						if got[i].Tool != want[i].Tool || !sameJSON(t, got[i].Input, want[i].Input) {
							t.Fatalf("seed %d as %s: got\n%s %s, want\n%s %s\n%s", seed, as, got[i].Tool, got[i].Input, want[i].Tool, want[i].Input, text)
						}
						if got[i].ID != want[i].ID && !d.Text && d.Name != "ollama" {
							t.Errorf("id %q, want %q", got[i].ID, want[i].ID)
						}
					}
					if said, _ := append(pieces, nil)[0].(toolcall.Text); d.Name != "mcp" && strings.TrimSpace(string(said)) != strings.TrimSpace(before) {
						t.Fatalf("seed %d: text %q, want %q", seed, said, before)
					}
				}
			}
		})
	}
}

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	decode := func(text []byte) (v any) {
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return v
	}
	return reflect.DeepEqual(decode(a), decode(b))
}

// TestCompletedByItsPiece: a call is handed over with the byte that completes it, or
// before.
func TestCompletedByItsPiece(t *testing.T) {
	r := random{rand.New(rand.NewPCG(7, 7))}
	tool, call := r.tool("tool_0")
	for _, d := range toolcall.Dialects {
		if d.Name == "mcp" {
			continue
		}
		for range 20 {
			c := call()
			c.ID = "call_1"
			text := d.Calls([]toolcall.Tool{tool}, "", []toolcall.Call{c})
			p, _ := toolcall.NewParser(d.Name, []toolcall.Tool{tool})
			got := 0
			for i := range text {
				got += len(calls(t, p.Write(text[i:i+1])))
			}
			if got != 1 {
				t.Errorf("%s: %d calls before the end of\n%s", d.Name, got, text)
			}
		}
	}
}

// TestPiecesAreUTF8: a character that is cut comes whole.
func TestPiecesAreUTF8(t *testing.T) {
	text := "日本🙂é <tool_call>{\"name\":\"a\",\"arguments\":{\"x\":\"日本\"}}</tool_call> é\xff日"
	p, _ := toolcall.NewParser(toolcall.AnyText, nil)
	var said strings.Builder
	take := func(pieces []toolcall.Piece) {
		for _, piece := range pieces {
			if text, ok := piece.(toolcall.Text); ok {
				if !utf8.ValidString(string(text)) {
					t.Errorf("%q", text)
				}
				said.WriteString(string(text))
			}
		}
	}
	for i := range len(text) {
		take(p.Write([]byte(text[i : i+1])))
	}
	take(p.Close())
	if want := "日本🙂é  é\uFFFD日"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}

// quotations are ways to speak of a call without making it.
var quotations = []string{
	"It says \"%s\" there.", "It says “%s” there.", "It says '%s' there.", "Er sagt „%s“ dort.", "Il dit « %s » ici.", "»%s«",
	"He wrote: \"I said \"hi\" and\n\n%s\n\nthen\".", "Use `%s` for that.", "Use ``a ` %s`` so.", "```\n%s\n```", "```xml\nfoo\n\n%s\n```\n", "~~~~\n%s\n~~~~",
	"````\n```\n%s\n```\n````", "- like this:\n\n  ```text\n  %s\n  ```", "<think>I could write\n%s\n</think>", "She said,\"%s\"", "\"%s", "他说\"%s\"", "「%s」",
}

// TestNothingSpokenOfIsRun: a file that has calls in it, in any dialect, starts nothing
// when a model repeats it in code or quotes.
func TestNothingSpokenOfIsRun(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 3))}
	tool := toolcall.Tool{Name: "shell", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}
	call := toolcall.Call{Tool: "shell", ID: "c1", Input: json.RawMessage(`{"command":"rm -rf \"$HOME\" # it's"}`)}
	for _, d := range toolcall.Dialects {
		if !d.Text {
			continue
		}
		file := string(d.Calls([]toolcall.Tool{tool}, "", []toolcall.Call{call, call}))
		cited := "> " + strings.ReplaceAll(file, "\n", "\n> ")
		indented := "    " + strings.ReplaceAll(file, "\n", "\n    ")
		texts := []string{cited, "As the file has it:\n\n" + indented}
		for _, q := range quotations {
			if strings.Contains(q, "```") && strings.Contains(file, "```") || d.Name == "react" && !strings.Contains(q, "\n") {
				continue // what a fence holds ends it, as Markdown has it
			}
			texts = append(texts, strings.Replace(q, "%s", file, 1))
		}
		for _, text := range texts {
			for _, as := range []string{d.Name, toolcall.AnyText, toolcall.Auto} {
				for _, size := range []func() int{whole, func() int { return 1 + r.IntN(9) }} {
					pieces := parse(t, as, []toolcall.Tool{tool}, []byte(text), size)
					if len(pieces) != 1 || pieces[0] != toolcall.Piece(toolcall.Text(text)) {
						t.Errorf("%s as %s:\n%s\ngives %v", d.Name, as, text, pieces)
					}
				}
			}
		}
		// The same file as the value of a call is a value.
		write := toolcall.Tool{Name: "write", Schema: json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"}}}`)}
		for _, other := range toolcall.Dialects {
			input, _ := json.Marshal(map[string]string{"content": file})
			text := other.Calls([]toolcall.Tool{write, tool}, "", []toolcall.Call{{ID: "1", Tool: "write", Input: input}})
			got := calls(t, parse(t, other.Name, []toolcall.Tool{write, tool}, text, func() int { return 1 + r.IntN(9) }))
			if len(got) != 1 || got[0].Tool != "write" || !sameJSON(t, got[0].Input, input) {
				t.Errorf("%s in %s: %v", d.Name, other.Name, got)
			}
		}
	}
}

// TestOrdinaryTextBeforeCalls: what people write before a call does not hide it.
func TestOrdinaryTextBeforeCalls(t *testing.T) {
	for _, text := range []string{
		"I'll do it. Don't worry, that's John's and the users' file.", "The board is 5\" by 3\".", "He said \"hello,\" and left.", "\"Quoted.\" Done:", "„Zitat“ und »noch eins« so.",
		"« un mot » fini.", "Run `ls -l` and ``a`b``.", "```go\nx := \"a\n```\n", "A list:\n\n- a\n- b\n\n> cited\n\nNow.", "rock 'n' roll", "a ~ b ~~ c", "“It’s fine,” she said.", "<think>Maybe <tool_call></think>", "x > y\n",
		"JSON: {\"a\": \"b\", \"c\": [\"d\",\"e\"], \"f\": \"\"} ok",
	} {
		got := calls(t, parse(t, toolcall.AnyText, nil, []byte(text+"\n<tool_call>{\"name\":\"a\"}</tool_call>"), func() int { return 3 }))
		if len(got) != 1 {
			t.Errorf("after %q there are %d calls", text, len(got))
		}
	}
}

// FuzzParse: nothing panics, and every call is of a name that the text has.
func FuzzParse(f *testing.F) {
	r := random{rand.New(rand.NewPCG(9, 9))}
	for i, d := range toolcall.Dialects {
		tools, calls := r.turn()
		f.Add(d.Calls(tools, "text", calls), uint8(i), uint8(3))
	}
	for _, seed := range brokenSeeds {
		f.Add([]byte(seed), uint8(200), uint8(1))
	}
	names := append(toolcall.Names(), toolcall.AnyText, toolcall.Auto)
	f.Fuzz(func(t *testing.T, text []byte, which, size uint8) {
		dialect := names[int(which)%len(names)]
		at := func() int { return 1 + int(size) }
		pieces := parse(t, dialect, nil, text, at)
		if got := parse(t, dialect, nil, text, whole); !reflect.DeepEqual(got, pieces) {
			t.Errorf("whole: %q\nin pieces of %d: %q", got, at(), pieces)
		}
		for _, piece := range pieces {
			switch piece := piece.(type) {
			case toolcall.Call:
				if !json.Valid(piece.Input) || piece.Input[0] != '{' {
					t.Errorf("input %s", piece.Input)
				}
				if inText := strings.Contains(string(text), piece.Tool); !inText && !strings.Contains(string(text), "\\") && utf8.Valid(text) {
					t.Errorf("%q is not in the text", piece.Tool)
				}
			case toolcall.Broken:
				if piece.Message == "" || !utf8.ValidString(piece.Raw+piece.Message) {
					t.Errorf("%+v", piece)
				}
			}
		}
	})
}

var brokenSeeds = []string{
	`<tool_call>{"name": "x", "arguments": {'a': 'b',},}</tool_call>`, "<tool_call><function=a><parameter=b>c</function></tool_call>", "[TOOL_CALLS][{\"name\":\"a\"},{\"name\":\"b\"}]</s>",
	"Action: a\nAction Input: b\nObservation", "<tool_call>a\n<arg_key>k</arg_key><arg_value>v", "```json\n{\"a\":1}\n```", "<tool_call>[{\"name\":\"a\"}", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}",
}

// BenchmarkParse finds 200 calls in 1 MiB of text that comes in pieces of 20 bytes.
func BenchmarkParse(b *testing.B) {
	var text []byte
	content := strings.Repeat("func main() {\\n\\tfmt.Println(\\\"it's\\\")\\n}\\n", 50)
	words := strings.Repeat("Now I look at the next file, which \"main.go\" names, and at `go.mod`; it's the 3rd.\n", 37)
	for i := range 200 {
		d, _ := toolcall.Named([]string{"xml", "hermes", "qwen", "deepseek", "minimax", "glm", "llama", "mistral-text", "react", "fenced"}[i%10])
		text = append(text, words...)
		text = append(text, d.Calls(nil, "", []toolcall.Call{{Tool: "write_file", Input: json.RawMessage(`{"path":"src/main.go","content":"` + content + `"}`)}})...)
		text = append(text, '\n')
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		p, _ := toolcall.NewParser(toolcall.AnyText, nil)
		found := 0
		for rest := text; len(rest) > 0; rest = rest[min(20, len(rest)):] {
			for _, piece := range p.Write(rest[:min(20, len(rest))]) {
				if _, ok := piece.(toolcall.Call); ok {
					found++
				}
			}
		}
		p.Close()
		if found != 200 {
			b.Fatalf("%d calls", found)
		}
	}
}
