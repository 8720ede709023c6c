// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const inputSchema = `{"type":"object","properties":{
	"path":{"type":"string"},"limit":{"type":"integer"},"rate":{"type":"number"},"all":{"type":"boolean"},
	"maybe":{"type":["integer","null"]},"either":{"type":["string","integer"]},
	"list":{"type":"array"},"map":{"type":"object"},"any":{"description":"anything"}}}`

func newInputReader(stdin string) *InputReader {
	return &InputReader{Stdin: strings.NewReader(stdin), Properties: func() (map[string]PropertySchema, error) {
		return propertiesOf(inputSchema)
	}}
}

func TestReadInput(t *testing.T) {
	text := inputFile(t, "text", "line 1\nline \"2\"\n")
	object := inputFile(t, "object", `{"path": "x"}`)
	bytes := inputFile(t, "bytes", "\xff\xfe")

	for _, test := range []struct {
		words []string
		want  string
	}{
		{nil, `{}`},
		{[]string{`{"path": "a b"}`}, `{"path": "a b"}`},
		{[]string{` {"big": 9007199254740993}`}, ` {"big": 9007199254740993}`},
		{[]string{`{not json`}, `{not json`}, // the server explains what is wrong
		{[]string{"@" + object}, `{"path": "x"}`},
		{[]string{"-"}, `{"from": "stdin"}`},
		{[]string{"path=README.md", "limit=20"}, `{"path":"README.md","limit":20}`},
		{[]string{"limit=9007199254740993"}, `{"limit":9007199254740993}`},
		{[]string{"limit=abc", "all=yes"}, `{"limit":"abc","all":"yes"}`},
		{[]string{"path=5", "path="}, `{"path":"5","path":""}`},
		{[]string{"rate=1.50", "all=true", "maybe=null", "either=5"}, `{"rate":1.50,"all":true,"maybe":null,"either":"5"}`},
		{[]string{`list=["a"]`, `map={"a":1}`, `any={"b":2}`, "any=words"}, `{"list":["a"],"map":{"a":1},"any":{"b":2},"any":"words"}`},
		{[]string{"other=5", "other:=5"}, `{"other":"5","other":5}`},
		{[]string{`path:={"a": [1, 2]}`, `path:="@x"`}, `{"path":{"a": [1, 2]},"path":"@x"}`},
		{[]string{"path=a=b", "a:b=c"}, `{"path":"a=b","a:b":"c"}`},
		{[]string{"path=@" + text}, `{"path":"line 1\nline \"2\"\n"}`},
		{[]string{"map=@" + object}, `{"map":{"path": "x"}}`},
		{[]string{"path=@-"}, `{"path":"{\"from\": \"stdin\"}"}`},
	} {
		got, err := newInputReader(`{"from": "stdin"}`).Read(test.words)
		if err != nil || string(got) != test.want {
			t.Errorf("%q: %s, %v, want %s", test.words, got, err, test.want)
		}
	}

	for _, test := range []struct {
		words []string
		want  string
		code  int
	}{
		{[]string{"README.md"}, "not KEY=VALUE", exitUsage},
		{[]string{"=x"}, "not KEY=VALUE", exitUsage},
		{[]string{":=x"}, "not KEY=VALUE", exitUsage},
		{[]string{"[1]"}, "not KEY=VALUE", exitUsage},
		{[]string{"{}", "a=b"}, "nothing can follow", exitUsage},
		{[]string{"-", "a=b"}, "nothing can follow", exitUsage},
		{[]string{"a=b", "{}"}, "not KEY=VALUE", exitUsage},
		{[]string{"@" + filepath.Join(t.TempDir(), "nix")}, "no such file", exitUsage},
		{[]string{"path=@" + filepath.Join(t.TempDir(), "nix")}, "path: open", exitUsage},
		{[]string{"path=@" + bytes}, "not valid UTF-8", exitUsage},
		{[]string{"limit:=abc"}, "wants JSON", exitInvalidInput},
	} {
		got, err := newInputReader("").Read(test.words)
		if err == nil || !strings.Contains(err.Error(), test.want) || ExitCodeOf(err) != test.code {
			t.Errorf("%q: %s, %v, want %q and code %d", test.words, got, err, test.want, test.code)
		}
	}
}

func TestReadInputAsksForTheSchemaOnlyIfNeeded(t *testing.T) {
	asked := errors.New("asked")
	r := &InputReader{Properties: func() (map[string]PropertySchema, error) { return nil, asked }}
	if _, err := r.Read([]string{"{}"}); err != nil {
		t.Error(err)
	}
	if _, err := r.Read([]string{"a=b"}); !errors.Is(err, asked) {
		t.Errorf("got %v, want the schema to be asked for", err)
	}
}

func FuzzParseInput(f *testing.F) {
	for _, seed := range []string{"path=a b", "limit=5 all=true", `map={"a":1}`, "any:=[1,2]", "a=b=c", "{}", "x:==", "maybe=null"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		for _, word := range words {
			if strings.Contains(word, "@") {
				t.Skip() // reads files
			}
		}
		got, err := newInputReader("").Read(words)
		if err != nil || strings.HasPrefix(strings.TrimSpace(words[0]), "{") || words[0] == "-" {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(string(got)))
		var keys []string
		for depth := 0; ; {
			token, err := decoder.Token()
			if err != nil {
				break
			}
			switch token := token.(type) {
			case json.Delim:
				if token == '{' || token == '[' {
					depth++
				} else {
					depth--
				}
			case string:
				if depth == 1 {
					keys = append(keys, token)
				}
			}
		}
		if !json.Valid(got) || len(keys) < len(words) {
			t.Errorf("%q became %s", words, got)
		}
	})
}

// inputFile writes a file of a test and returns its path.
func inputFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
