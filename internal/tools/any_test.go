// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzDecodeJSON: what is accepted has the value that encoding/json finds, and can be
// written as a text of the same value; what is no JSON is not accepted.
func FuzzDecodeJSON(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, `null`, `true`, ` {"a": [1, -2.5e3, "x\n\u00e9\ud83d\ude00", null, false, {"": {}}], "b": "</script>"} `,
		`{"a":1,"a":2}`, `{"a":1,}`, `[1 2]`, `"\ud800"`, `tru`, `01`, `1e999`, ``, ` `, `{"a":1} x`,
		strings.Repeat("[", 200), `{"a":` + strings.Repeat(`{"a":`, 50), "\"\xff\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := DecodeJSON(text)
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var want any
		if decoder.Decode(&want) != nil {
			if err == nil {
				t.Fatalf("%q is no JSON, and became %v", text, got)
			}
			return
		}
		if err != nil {
			return // more is wrong here than there
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %#v, want %#v", text, got, want)
		}
		again, err := DecodeJSON(AppendJSON(nil, got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%#v was written as %s: %v", got, AppendJSON(nil, got), err)
		}
	})
}

func TestDecodeJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":{"b":1,"b":2}}`:                "/a/b: key appears twice",
		`[{"a":1,"\u0061":2}]`:               "/0/a: key appears twice",
		`["\u0000"]`:                         "a NUL character",
		strings.Repeat("[", MaxDepth+1):      "nested too deeply",
		strings.Repeat(" ", MaxInputBytes+1): "the maximum is",
		`{} {}`:                              "nothing after the value",
		``:                                   "want a JSON value, got the end",
	} {
		if _, err := DecodeJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %s", text, err, want)
		}
	}
}

// TestObject: an object for another tool has one form, also when it comes as a string.
func TestObject(t *testing.T) {
	type input struct {
		Input Object `json:"input,omitempty"`
	}
	s := shapeOf[input]()
	for text, want := range map[string]string{
		`{"input":{"b":[1],"a":"x"}}`:                           `{"a":"x","b":[1]}`,
		`{"input":" {\"b\" : [1],\"a\":\"\\u0078\"}"}`:          `{"a":"x","b":[1]}`,
		`"{\"input\":\"{\\\"a\\\":\\\"x\\\",\\\"b\\\":[1]}\"}"`: `{"a":"x","b":[1]}`,
		`{}`:             `{}`,
		`{"input":null}`: `{}`,
	} {
		var value input
		if err := s.decode([]byte(text), &value); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := string(value.Input.JSON()); got != want {
			t.Errorf("%s has %s, want %s", text, got, want)
		}
		if got := string(s.appendCanonical(nil, reflect.ValueOf(value))); value.Input != nil && got != `{"input":`+want+`}` {
			t.Errorf("%s has the form %s", text, got)
		}
	}
	for _, wrong := range []string{`{"input":"x"}`, `{"input":[]}`, `{"input":{"a":1,"a":2}}`, `{"input":"{\"a\":1,\"a\":2}"}`} {
		if err := s.decode([]byte(wrong), new(input)); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
