// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"math"
	"testing"
)

type named string

type everything struct {
	Text    string  `json:"text" jsonschema:"a \"text\" with <b> & more" check:"min=1,max=8"`
	Word    named   `json:"word,omitempty" check:"enum=a|b & c"`
	Flag    bool    `json:"flag,omitempty"`
	Int     int     `json:"int,omitempty" check:"min=-5,max=100"`
	Int8    int8    `json:"int8,omitempty"`
	Int64   int64   `json:"int64,omitempty"`
	Uint    uint    `json:"uint,omitempty"`
	Uint16  uint16  `json:"uint16,omitempty" check:"min=2"`
	Float   float64 `json:"float,omitempty" check:"min=-0.5,max=1e3"`
	Float32 float32 `json:"float32,omitempty"`
	Page
	hidden
	Names   []named                    `json:"names,omitempty" jsonschema:"a list" check:"min=1,max=3,enum=x|y"`
	Env     map[named]int              `json:"env,omitempty" check:"max=2"`
	Edits   []edit                     `json:"edits,omitempty"`
	Raw     json.RawMessage            `json:"raw,omitempty" jsonschema:"anything"`
	Free    map[string]json.RawMessage `json:"free,omitempty"`
	Maybe   *int                       `json:"maybe" check:"min=1"`
	Choice  *string                    `json:"choice" check:"enum=a|b"`
	Pointer *edit                      `json:"pointer,omitempty"`
	Holes   []*bool                    `json:"holes,omitzero"`
	Omitted string                     `json:"-"`
}

type hidden struct {
	Deep string `json:"~/deep,omitempty"`
}

type edit struct {
	Old string `json:"old"`
	New string `json:"new,omitempty"`
}

const everythingSchema = `{"type":"object","properties":{` +
	`"text":{"type":"string","description":"a \"text\" with <b> & more","minLength":1,"maxLength":8},` +
	`"word":{"type":"string","enum":["a","b & c"]},` +
	`"flag":{"type":"boolean"},` +
	`"int":{"type":"integer","minimum":-5,"maximum":100},` +
	`"int8":{"type":"integer","minimum":-128,"maximum":127},` +
	`"int64":{"type":"integer"},` +
	`"uint":{"type":"integer","minimum":0},` +
	`"uint16":{"type":"integer","minimum":2,"maximum":65535},` +
	`"float":{"type":"number","minimum":-0.5,"maximum":1000},` +
	`"float32":{"type":"number"},` +
	`"limit":{"type":"integer","minimum":1},` +
	`"~/deep":{"type":"string"},` +
	`"names":{"type":"array","description":"a list","minItems":1,"maxItems":3,"items":{"type":"string","enum":["x","y"]}},` +
	`"env":{"type":"object","maxProperties":2,"additionalProperties":{"type":"integer"}},` +
	`"edits":{"type":"array","items":{"type":"object","properties":{"old":{"type":"string"},"new":{"type":"string"}},` +
	`"required":["old"],"additionalProperties":false}},` +
	`"raw":{"description":"anything"},` +
	`"free":{"type":"object"},` +
	`"maybe":{"type":["integer","null"],"minimum":1},` +
	`"choice":{"type":["string","null"],"enum":["a","b",null]},` +
	`"pointer":{"type":"object","properties":{"old":{"type":"string"},"new":{"type":"string"}},` +
	`"required":["old"],"additionalProperties":false},` +
	`"holes":{"type":"array","items":{"type":["boolean","null"]}}},` +
	`"required":["text","maybe","choice"],"additionalProperties":false}`

func TestSchema(t *testing.T) {
	tests := []struct {
		name string
		got  *shape
		want string
	}{
		{"every kind of field", shapeOf[everything](), everythingSchema},
		{"fields without a json tag", shapeOf[struct{ A, B string }](), `{"type":"object","properties":{},"additionalProperties":false}`},
		{"no fields", shapeOf[struct{}](), `{"type":"object","properties":{},"additionalProperties":false}`},
		{"free form", shapeOf[map[string]json.RawMessage](), `{"type":"object"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(test.got.schema); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			compileSchema(t, test.got)
		})
	}
}

func TestSchemaOfTool(t *testing.T) {
	tool := New[edit](Spec{Name: "edit"}, nil, nil)
	want := `{"type":"object","properties":{"old":{"type":"string"},"new":{"type":"string"}},"required":["old"],"additionalProperties":false}`
	if got := string(tool.InputSchema()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSchemaBoundsAreExact(t *testing.T) {
	type input struct {
		X int64 `json:"x" check:"min=-9007199254740991,max=9007199254740991"`
	}
	s := shapeOf[input]()
	for x, ok := range map[int64]bool{
		1<<53 - 1: true, 1 << 53: false, 1<<53 + 1: false, math.MaxInt64: false,
		-1<<53 + 1: true, -1 << 53: false, math.MinInt64: false,
	} {
		text, err := json.Marshal(input{X: x})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.decode(text, new(input)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
