// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// commandInput is what a typical tool takes.
type commandInput struct {
	Command   string            `json:"command" jsonschema:"what to run" check:"min=1,max=65536"`
	Cwd       string            `json:"cwd,omitempty"`
	TimeoutMS int               `json:"timeout_ms,omitempty" check:"min=1,max=600000"`
	Env       map[string]string `json:"env,omitempty"`
	Args      []string          `json:"args,omitempty" check:"max=64"`
	Mode      string            `json:"mode,omitempty" check:"enum=fg|bg|pty"`
	Limits    struct {
		CPU int `json:"cpu_ms,omitempty"`
		Mem int `json:"mem_mb,omitempty"`
	} `json:"limits,omitzero"`
}

// commandJSON returns an input of 1 KiB.
func commandJSON() []byte {
	text := `{"command":"` + strings.Repeat("grep -rn needle src | sort | uniq -c; ", 12) + `",` +
		`"cwd":"/workspace/project/src","timeout_ms":120000,` +
		`"env":{"PATH":"/usr/bin:/bin","HOME":"/root","LANG":"C.UTF-8","FOO":"` + strings.Repeat("b", 100) + `"},` +
		`"args":["-n","--color=never","--glob=*.go","a b c d e f"],` +
		`"mode":"fg","limits":{"cpu_ms":60000,"mem_mb":1024}}`
	for len(text) < 1024 {
		text = strings.Replace(text, `"args":[`, `"args":["padpadpadpadpad",`, 1)
	}
	return []byte(text)
}

func BenchmarkDecode(b *testing.B) {
	s := shapeOf[commandInput]()
	input := commandJSON()
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.decode(input, new(commandInput)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGenericLibrary checks the same input against the same schema, and
// leaves it as maps.
func BenchmarkGenericLibrary(b *testing.B) {
	schema := compileSchema(b, shapeOf[commandInput]())
	input := commandJSON()
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
		if err != nil {
			b.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeFile decodes 1 MiB of text with an escape in each line.
func BenchmarkDecodeFile(b *testing.B) {
	type fileInput struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	s := shapeOf[fileInput]()
	line := `\tif err := run(ctx, \"needle\"); err != nil { return err }\n`
	input := []byte(`{"path":"a.go","content":"` + strings.Repeat(line, (1<<20)/len(line)) + `"}`)
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.decode(input, new(fileInput)); err != nil {
			b.Fatal(err)
		}
	}
}

// denyLoader refuses to load schemas from elsewhere.
type denyLoader struct{}

func (denyLoader) Load(url string) (any, error) { return nil, errors.New("not allowed: " + url) }

func compileSchema(tb testing.TB, s *shape) *jsonschema.Schema {
	tb.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.schema))
	if err != nil {
		tb.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(denyLoader{})
	if err := compiler.AddResource("input.json", schema); err != nil {
		tb.Fatal(err)
	}
	compiled, err := compiler.Compile("input.json")
	if err != nil {
		tb.Fatal(err)
	}
	return compiled
}

// BenchmarkCanonical writes the form of an input that everybody judges.
func BenchmarkCanonical(b *testing.B) {
	s := shapeOf[commandInput]()
	input := new(commandInput)
	if err := s.decode(commandJSON(), input); err != nil {
		b.Fatal(err)
	}
	value := reflect.ValueOf(input).Elem()
	b.ReportAllocs()
	for b.Loop() {
		s.appendCanonical(nil, value)
	}
}
