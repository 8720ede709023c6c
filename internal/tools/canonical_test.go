// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"reflect"
	"strings"
	"testing"
)

func TestCanonicalInput(t *testing.T) {
	tests := []struct{ name, input, want string }{
		{"least", `{"path":"a"}`, `{"path":"a"}`},
		{"order and space", "{ \"path\" : \"a\",\n\"limit\" : 7 , \"deep\":true}", `{"deep":true,"limit":7,"path":"a"}`},
		{"what absence gives", `{"path":"a","deep":false,"offset":0,"mode":null,"ratio":-0.0}`, `{"path":"a"}`},
		{"empty is not absent", `{"path":"a","words":[],"env":{}}`, `{"env":{},"path":"a","words":[]}`},
		{"a pointer to nothing much", `{"path":"a","wait":0,"edit":{"old":"","new":""}}`, `{"edit":{"old":""},"path":"a","wait":0}`},
		{"forms of numbers", `{"path":"a","limit":1e1,"offset":-5.0,"ratio":1e2,"ratio32":0.10}`, `{"limit":10,"offset":-5,"path":"a","ratio":100,"ratio32":0.1}`},
		{"very small and large", `{"path":"a","ratio":1e-9,"ratio32":1e30}`, `{"path":"a","ratio":1e-09,"ratio32":1e+30}`},
		{"escapes", `{"path":"\u0061\/\n\u0001\"\\\u00e9<"}`, `{"path":"a/\n\u0001\"\\é<"}`},
		{"quoted", `"{\"path\":\"a\",\"edits\":\"[{\\\"old\\\":\\\"x\\\"}]\"}"`, `{"edits":[{"old":"x"}],"path":"a"}`},
		{"maps", `{"path":"a","env":"{\"b\":\"1\",\"a\":\"2\"}"}`, `{"env":{"a":"2","b":"1"},"path":"a"}`},
		{"what no shape knows", `{"path":"a","raw": {"y" : [1, 2.50, "\u0061"], "x":null} }`, `{"path":"a","raw":{"x":null,"y":[1,2.50,"a"]}}`},
		{"raw null", `{"path":"a","raw":null}`, `{"path":"a","raw":null}`},
	}
	s := shapeOf[readInput]()
	for _, test := range tests {
		var value readInput
		if err := s.decode([]byte(test.input), &value); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		got := s.appendCanonical(nil, reflect.ValueOf(value))
		if string(got) != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
		var again readInput
		if err := s.decode(got, &again); err != nil {
			t.Fatalf("%s: %s: %v", test.name, got, err)
		}
		if twice := s.appendCanonical(nil, reflect.ValueOf(again)); string(twice) != test.want {
			t.Errorf("%s: again it becomes %s", test.name, twice)
		}
	}
}

// TestRenameQuoted: other names of keys are known in an input that is a string, too.
func TestRenameQuoted(t *testing.T) {
	spec := Spec{Keys: []Key{{Other: "file_path", Name: "path"}}}
	for input, want := range map[string]string{
		`"{\"file_path\":\"a\"}"`:       `{"path":"a"}`,
		` "{ \"file_path\" : \"a\" }" `: `{ "path" : "a" }`,
		`"{\"path\":\"a\"}"`:            `"{\"path\":\"a\"}"`,
		`"file_path"`:                   `"file_path"`,
		`"{\"file_path\"`:               `"{\"file_path\"`,
		`"\"{\\\"file_path\\\":1}\""`:   `"\"{\\\"file_path\\\":1}\""`,
	} {
		if got := string(spec.Rename([]byte(input))); got != want {
			t.Errorf("%s becomes %s, want %s", input, got, want)
		}
	}
}

// TestWithMaximum: what the server allows is what the schema tells and the decoder
// takes.
func TestWithMaximum(t *testing.T) {
	tool := New(Spec{Name: "test"}, nil, func(context.Context, Env, readInput, Sink) (Result, error) { return Result{}, nil })
	for _, test := range []struct {
		field  string
		most   float64
		schema string
		takes  map[string]bool
	}{
		{"limit", 50, `"minimum":1,"maximum":50}`, map[string]bool{`{"path":"a","limit":50}`: true, `{"path":"a","limit":51}`: false}},
		{"limit", 5000, `"minimum":1,"maximum":100}`, map[string]bool{`{"path":"a","limit":100}`: true, `{"path":"a","limit":101}`: false}},
		{"offset", 7, `"offset":{"type":"integer","maximum":7}`, map[string]bool{`{"path":"a","offset":7}`: true, `{"path":"a","offset":8}`: false}},
		{"path", 3, `"path":{"type":"string","minLength":1,"maxLength":3}`, map[string]bool{`{"path":"abc"}`: true, `{"path":"abcd"}`: false}},
		{"nothing", 3, `"maxLength":10`, map[string]bool{`{"path":"abcd"}`: true}},
	} {
		bounded := WithMaximum(tool, test.field, test.most)
		if schema := string(bounded.InputSchema()); !strings.Contains(schema, test.schema) {
			t.Errorf("%s: %s has no %s", test.field, schema, test.schema)
		}
		for input, takes := range test.takes {
			if _, err := bounded.Decode(&Env{}, []byte(input)); (err == nil) != takes {
				t.Errorf("%s to %v: %s: %v", test.field, test.most, input, err)
			}
		}
	}
	if _, err := tool.Decode(&Env{}, []byte(`{"path":"abcdefghij","limit":100}`)); err != nil {
		t.Errorf("the tool itself: %v", err)
	}
}
