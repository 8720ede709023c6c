// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// everythingInputs are inputs of the type everything, all of them good.
var everythingInputs = []string{
	`{"text":"a","maybe":null,"choice":null}`,
	`{"text":"é😀\u00e9\ud83d\ude00\n","word":"b & c","flag":true,"int":-5,"int8":-128,"int64":9223372036854775807,` +
		`"uint":18446744073709551615,"uint16":2,"float":-0.5,"float32":1e3,"limit":1e2,"~/deep":"x","maybe":5.0,"choice":"a"}`,
	`{"maybe":1,"choice":"b","text":"t","names":["x","y"],"env":{"A":1,"a":2},"edits":[{"old":"x"},{"new":"","old":""}],` +
		`"raw":{"a":[1,null,{"b":"c"}]},"free":{"x":1.50,"y":[]},"pointer":{"old":"o"},"holes":[true,null,false]}`,
	`{"text":"a","maybe":null,"choice":"a","names":"[\"x\"]","env":"{}","pointer":"{\"old\":\"{}\"}","raw":"[","edits":"[{\"old\":\"x\"}]"}`,
	`"{\"text\":\"a\",\"maybe\":null,\"choice\":\"b\",\"env\":null}"`,
}

// FuzzDecode checks that what is accepted is JSON and survives being written
// and read again, and that what is refused is refused briefly.
func FuzzDecode(f *testing.F) {
	for _, input := range everythingInputs {
		f.Add([]byte(input))
	}
	f.Add(commandJSON())
	f.Add([]byte(``))
	f.Add([]byte(`{"text":"\u0000","text":"` + "\xff" + `"}`))
	f.Add([]byte(`{"text":01,"int":1e99999,"env":{"a":1,"a":2}} x`))
	f.Add([]byte(strings.Repeat(`{"raw":[`, 100)))

	rich, command, free := shapeOf[everything](), shapeOf[commandInput](), shapeOf[map[string]json.RawMessage]()
	f.Fuzz(func(t *testing.T, input []byte) {
		checkRoundTrip(t, rich, input, func() any { return new(everything) })
		checkRoundTrip(t, command, input, func() any { return new(commandInput) })
		checkRoundTrip(t, free, input, func() any { return new(map[string]json.RawMessage) })
	})
}

func checkRoundTrip(t *testing.T, s *shape, input []byte, zero func() any) {
	t.Helper()
	value := zero()
	if err := s.decode(input, value); err != nil {
		if n := len(err.Error()); n > 200_000 {
			t.Errorf("the error has %d bytes", n)
		}
		return
	}
	if !json.Valid(input) && len(bytes.Trim(input, " \t\r\n")) > 0 {
		t.Errorf("accepted what is no JSON: %q", input)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("%q: %v", input, err)
	}
	again := zero()
	if err := s.decode(text, again); err != nil {
		t.Fatalf("%q became %s, which is refused: %v", input, text, err)
	}
	if got, err := json.Marshal(again); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%q became %s, and then %s", input, text, got)
	}
}

// TestDecodeAgreesWithSchema compares the decoder with a validator that knows
// only the schema, on inputs that are almost good.
func TestDecodeAgreesWithSchema(t *testing.T) {
	s := shapeOf[everything]()
	validator := compileSchema(t, s)
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.schema))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	const rounds = 10_000
	for range rounds {
		input := mutate(random, everythingInputs[random.IntN(len(everythingInputs))])
		var got everything
		problem := s.decode([]byte(input), &got)
		if problem == nil {
			accepted++
		}
		agree := validates(validator, schema, input) == (problem == nil)
		if !agree && !stricter(problem) {
			t.Fatalf("the decoder says %v, the schema says otherwise:\n%s", problem, input)
		}
		var want everything
		if problem != nil || json.Unmarshal([]byte(input), &want) != nil {
			continue // encoding/json takes no 5.0 for an int and no strings for objects
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\ngot  %+v\nwant %+v", input, got, want)
		}
	}
	if accepted < rounds/20 || accepted > rounds*19/20 {
		t.Errorf("%d of %d inputs were accepted: the comparison tells little", accepted, rounds)
	}
}

// stricter reports whether the decoder refused something that no schema can
// say.
func stricter(err error) bool {
	return err != nil && slices.ContainsFunc([]string{
		"key appears twice", "NUL character", "surrogate pair", "valid UTF-8", "does not fit", "nested too deeply",
	}, func(reason string) bool { return strings.Contains(err.Error(), reason) })
}

// validates asks the validator about input, in the form that it would have if
// it had been sent as the schema wants it.
func validates(validator *jsonschema.Schema, schema any, input string) bool {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(input))
	if err != nil {
		return false
	}
	return validator.Validate(plain(value, schema.(map[string]any))) == nil
}

// plain undoes what the decoder takes beyond the schema: objects and arrays in
// strings, and null for a field that may be absent.
func plain(value any, schema map[string]any) any {
	if text, ok := value.(string); ok && (schema["type"] == "object" || schema["type"] == "array") {
		inner, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if _, again := inner.(string); err != nil || again {
			return value
		}
		value = inner
	}
	switch value := value.(type) {
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i := range value {
			value[i] = plain(value[i], items)
		}
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for name, property := range properties {
			member, ok := value[name]
			switch {
			case !ok:
			case member == nil && !slices.Contains(required, any(name)):
				delete(value, name)
			default:
				value[name] = plain(member, property.(map[string]any))
			}
		}
	}
	return value
}

// mutate changes a few places of input: it puts other JSON where some value
// is, renames a key, or changes bytes.
func mutate(random *rand.Rand, input string) string {
	values := []string{
		`null`, `true`, `0`, `-1`, `1`, `2`, `101`, `1.5`, `2.0`, `1e2`, `128`, `65536`, `9223372036854775808`, `1e400`,
		`""`, `"a"`, `"x"`, `"ééééééééé"`, `"\u0000"`, `"\ud800"`, `"{}"`, `"[]"`, `"{\"old\":\"\"}"`, `"[\"x\",\"y\",\"x\",\"y\"]"`,
		`{}`, `[]`, `{"old":""}`, `{"a":1,"a":1}`, `{"a":1,"b":2,"c":3}`, `["x","y","x","y"]`, `[[[]]]`, `[null]`, `01`, `NaN`,
	}
	keys := []string{`"text"`, `"Text"`, `"int"`, `"int8"`, `"names"`, `"raw"`, `"old"`, `"\u006fld"`, `"choice"`, `"maybe"`, `"env"`, `"unknown"`}
	const bytesOfJSON = "{}[]\",:\\ue+-.019 \n\x00\xff\xc3tn"

	for range random.IntN(4) {
		at := random.IntN(len(input))
		switch random.IntN(6) {
		case 0, 1, 2: // put another value behind some colon or bracket
			from := strings.IndexAny(input[at:], ":[,")
			if from < 0 {
				continue
			}
			from += at + 1
			to := strings.IndexAny(input[from:], ",}]")
			if to < 0 {
				continue
			}
			input = input[:from] + values[random.IntN(len(values))] + input[from+to:]
		case 3: // rename some key
			colon := strings.IndexByte(input[at:], ':')
			if colon < 0 {
				continue
			}
			colon += at
			from := strings.LastIndexAny(input[:colon], "{,") + 1
			input = input[:from] + keys[random.IntN(len(keys))] + input[colon:]
		case 4: // add a member
			from := strings.IndexByte(input[at:], '{')
			if from < 0 {
				continue
			}
			from += at + 1
			input = input[:from] + keys[random.IntN(len(keys))] + ":" + values[random.IntN(len(values))] + "," + input[from:]
		case 5: // change a byte
			from := random.IntN(len(bytesOfJSON))
			input = input[:at] + bytesOfJSON[from:from+1] + input[at+random.IntN(2):]
		}
	}
	return input
}
