// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

// TestStructuredOutputIsExact hands over values of every type: not a byte of
// them changes.
func TestStructuredOutputIsExact(t *testing.T) {
	for _, data := range []string{
		`null`, `true`, `false`, `0`, `-0`, `-1.50e+3`, `""`, `"text"`, `[]`, `{}`, `[null]`,
		`{"b":1,"a":{"c":[1, 2,{}]} }`,
		`"\u00e9\ud83d\ude00é😀\/<&>"`,
		`9007199254740993`, `1e308`, `0.` + strings.Repeat("1", 900), strings.Repeat("7", 300),
		`"{\"quoted\":true}"`,
		strings.Repeat("[", 63) + strings.Repeat("]", 63),
		`[` + strings.Repeat(`"x",`, 100_000) + `"x"]`,
	} {
		result, reports, err := toolstest.Run(t, turn.StructuredOutput(), tools.Env{}, `{"data": `+data+` }`)
		if err != nil || len(reports) != 0 || len(result.Content) != 1 {
			t.Errorf("%.50s: %v, %d reports, %d pieces", data, err, len(reports), len(result.Content))
			continue
		}
		if got, ok := result.Content[0].(tools.JSON); !ok || string(got) != data {
			t.Errorf("%.50s became %.50s", data, got)
		}
	}
}

func TestStructuredOutputRefuses(t *testing.T) {
	for _, test := range []struct{ name, input, says string }{
		{"nothing", `{}`, "/data: is required"},
		{"a value that ends early", `{"data":[1,2}`, "invalid JSON"},
		{"not a number", `{"data":NaN}`, "invalid JSON"},
		{"a number that nobody computes with", `{"data":[1e999999999]}`, "/data/0: 1e999999999 does not fit a 64-bit floating-point number"},
		{"a key twice", `{"data":{"a":{"b":1,"b":2}}}`, "/data/a/b: key appears twice"},
		{"data twice", `{"data":1,"data":2}`, "/data: key appears twice"},
		{"too deep", `{"data":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "nested too deeply"},
		{"half a surrogate pair", `{"data":["\ud83d"]}`, "/data/0: "},
		{"a schema", `{"data":1,"schema":{"$ref":"file:///etc/passwd"}}`, "/schema: unknown key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := turn.StructuredOutput().Decode(&tools.Env{}, json.RawMessage(test.input))
			if _, ok := errors.AsType[*tools.InputError](err); !ok || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q in it", err, test.says)
			}
		})
	}
}
