// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestCheck(t *testing.T) {
	s, err := schema.Object(json.RawMessage(`{"properties":{"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},"on":{"type":"boolean"}},"required":["n"]}`), true)
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"n": 1}`:                      `{"n": 1}`,
		`{"n":"7","tags":"a"}`:          `{"n":7,"tags":["a"]}`,
		`{"n":1,"on":"true"}`:           `{"n":1,"on":true}`,
		`{}`:                            "/n: is required",
		`{"n":"seven"}`:                 "/n: want integer, got string",
		`{"n":1,"m":2}`:                 `/m: unknown key: want one of "n", "on", "tags"`,
		`{"n":1,"tag":"a"}`:             `/tag: unknown key, did you mean "tags"?`,
		`{"n":1,"n":2}`:                 "twice",
		`[1]`:                           "want object, got array",
		`{"n":1`:                        "",
		`{"n":12345678901234567890123}`: `{"n":12345678901234567890123}`,
	} {
		got, err := s.Check(json.RawMessage(input))
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", input, text)
		}
	}
}

// TestBombs: what would never end is refused when it is read.
func TestBombs(t *testing.T) {
	wide := `{"$defs":{"a0":{"type":"string"}`
	for i := 1; i < 40; i++ {
		wide += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i-1, i-1)
	}
	wide += `},"properties":{"x":{"$ref":"#/$defs/a39"}}}`
	for name, text := range map[string]string{
		"endless":     `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}`,
		"itself":      `{"$ref":"#"}`,
		"exponential": wide,
		"deep":        strings.Repeat(`{"not":`, 100) + "{}" + strings.Repeat("}", 100),
		"huge":        `{"description":"` + strings.Repeat("x", schema.MaxBytes) + `"}`,
		"file":        `{"properties":{"x":{"$ref":"file:///etc/passwd"}}}`,
		"address":     `{"properties":{"x":{"$ref":"http://127.0.0.1:1/x"}}}`,
		"anchor":      `{"$defs":{"a":{"$anchor":"a","allOf":[{"$ref":"#a"}]}},"$ref":"#a"}`,
		"base":        `{"$defs":{"a":{"$id":"http://x/y","$ref":"#/$defs/b","$defs":{"b":{"$ref":"#/$defs/b"}}}},"$ref":"#/$defs/a"}`,
		"escaped":     `{"$defs":{"a b":{"$ref":"#/$defs/a%20b"}},"$ref":"#/$defs/a%20b"}`,
		"nameless":    `{"$defs":{"":{"$ref":"#/$defs/"}},"$ref":"#/$defs/"}`,
		"dynamic":     `{"$dynamicRef":"#"}`,
		"pattern":     `{"properties":{"x":{"pattern":"("}}}`,
		"list":        `[]`,
		"string":      `{"type":"string"}`,
		"broken":      `{`,
	} {
		if _, err := schema.Object(json.RawMessage(text), true); err == nil {
			t.Errorf("%s is taken", name)
		} else if len(err.Error()) > 2000 {
			t.Errorf("%s: %d bytes of error", name, len(err.Error()))
		}
	}
	tree := `{"$defs":{"node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/node"}}}}},"properties":{"root":{"$ref":"#/$defs/node"}}}`
	if _, err := schema.Object(json.RawMessage(tree), true); err != nil {
		t.Errorf("a tree is refused: %v", err)
	}
}

// TestSlowValues: a schema that doubles its work with each level of a value, or that a
// value is too large for, gives an answer all the same.
func TestSlowValues(t *testing.T) {
	nested := strings.Repeat(`{"x":`, 60) + `{}` + strings.Repeat("}", 60)
	many := `{"x":[1` + strings.Repeat(",1", 1000) + `]}`
	for name, test := range map[string]struct{ schema, value string }{
		"twice":   {`{"$defs":{"a":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}},"$ref":"#/$defs/a"}`, nested},
		"depends": {`{"properties":{"x":{"$ref":"#"}},"dependentSchemas":{"x":{"properties":{"x":{"$ref":"#"}}}}}`, nested},
		"itself":  {`{"dependentSchemas":{"x":{"$ref":"#"}},"properties":{"x":{}}}`, `{"x":1}`},
		"wide":    {`{"properties":{"x":{"items":{"allOf":[` + strings.Repeat(`{"type":"integer"},`, 500) + `{}]}}}}`, many},
	} {
		s, err := schema.Object(json.RawMessage(test.schema), false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err = s.Check(json.RawMessage(test.value))
		if err == nil || !strings.Contains(err.Error(), "might never end") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNumbersBeyond: a number that is beyond 64 bits of floating point is refused, wherever it is and
// whatever it is held against, before anybody computes with it.
func TestNumbersBeyond(t *testing.T) {
	s, err := schema.Object(json.RawMessage(`{"properties":{"i":{"type":"integer","minimum":1},"m":{"type":"number","multipleOf":3},"e":{"enum":[1,[2]]},"a":{}}}`), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"i", "m", "e", "a"} {
		for _, n := range []string{"1e999", "-1e999", "3e9999999", "1e-9999999", "1e999999", "1" + strings.Repeat("0", 5000)} {
			for _, value := range []string{n, `"` + n + `"`, "[" + n + "]"} {
				input := `{"` + key + `":` + value + `}`
				wrong, ok := errors.AsType[*tools.InputError](s.ValidateText([]byte(input)))
				if text := value[0] == '"'; !text && (!ok || !strings.Contains(wrong.Error(), "floating-point")) {
					t.Errorf("%.60s as a result: %v", input, wrong)
				}
				if _, err := s.Check(json.RawMessage(input)); err == nil && key != "a" {
					t.Errorf("%.60s is taken", input)
				}
			}
		}
	}
	for input, want := range map[string]string{`{"i":"12"}`: `{"i":12}`, `{"i":1e3,"m":0.0e-9,"a":[-0,5e-320,1.7e308]}`: `{"i":1e3,"m":0.0e-9,"a":[-0,5e-320,1.7e308]}`} {
		if got, err := s.Check(json.RawMessage(input)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", input, got, err)
		}
	}
	for _, text := range []string{`{"i":"+5"}`, `{"i":"05"}`, `{"i":"5."}`} {
		if _, err := s.Check(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), "/i") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
