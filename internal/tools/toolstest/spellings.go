// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolstest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

// testSpellings holds all spellings of an input against each other: they are one
// call, with one canonical input and the same effects.
func testSpellings(t *testing.T, tool tools.Tool, env tools.Env) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, input := range Inputs(rng, tool, 30) {
		first, err := tool.Decode(&env, json.RawMessage(input))
		if err != nil {
			continue // the schema cannot tell everything
		}
		want, effects := string(first.Input()), fmt.Sprintf("%+v", first.Effects())
		for _, spelling := range append(Spellings(rng, tool, input), want) {
			spec := tool.Spec()
			call, err := tool.Decode(&env, spec.Rename([]byte(spelling)))
			if err != nil {
				t.Fatalf("%.300s\nis taken, and is not as\n%.300s\n%v", input, spelling, err)
			}
			if got := string(call.Input()); got != want {
				t.Fatalf("%.300s\nbecomes  %.300s\nand as\n%.300s\nit becomes %.300s", input, want, spelling, got)
			}
			if got := fmt.Sprintf("%+v", call.Effects()); got != effects {
				t.Fatalf("%.300s\nhas the effects %.300s\nand as\n%.300s\nit has %.300s", input, effects, spelling, got)
			}
		}
	}
}

// Inputs returns the examples of a tool and n random inputs that fit its schema.
func Inputs(rng *rand.Rand, tool tools.Tool, n int) []string {
	var inputs []string
	for _, example := range tool.Spec().Examples {
		inputs = append(inputs, string(example.Input))
	}
	var schema map[string]any
	if err := json.Unmarshal(tool.InputSchema(), &schema); err != nil {
		panic(err)
	}
	for range n {
		text, err := json.Marshal(randomValue(rng, schema))
		if err != nil {
			panic(err)
		}
		inputs = append(inputs, string(text))
	}
	return inputs
}

// randomValue returns a value that fits a schema of [tools.Tool.InputSchema].
func randomValue(rng *rand.Rand, schema map[string]any) any {
	bound := func(key string, other float64) float64 {
		if n, ok := schema[key].(float64); ok {
			return n
		}
		return other
	}
	if enum, ok := schema["enum"].([]any); ok {
		return enum[rng.IntN(len(enum))]
	}
	kind, _ := schema["type"].(string)
	if either, ok := schema["type"].([]any); ok {
		kind = either[0].(string)
	}
	switch kind {
	case "string":
		words := []string{"a", "b.txt", "x y", "é", "{}", "[1]", "true", "7", "\"q\"", "line\nline", "\\", "src/main.go"}
		text := words[rng.IntN(len(words))]
		for float64(len([]rune(text))) < bound("minLength", 0) {
			text += "a"
		}
		if longest := int(bound("maxLength", 1000)); len([]rune(text)) > longest {
			text = string([]rune(text)[:longest])
		}
		return text
	case "boolean":
		return rng.IntN(2) == 0
	case "integer", "number":
		least, most := bound("minimum", -3), bound("maximum", 10)
		return int64(least) + rng.Int64N(int64(min(most-least, 20))+1)
	case "array":
		items := []any{}
		for range int(bound("minItems", 0)) + rng.IntN(3) {
			if float64(len(items)) < bound("maxItems", 10) {
				items = append(items, randomValue(rng, schema["items"].(map[string]any)))
			}
		}
		return items
	case "object":
		object := make(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for name, property := range properties {
			if slices.Contains(required, any(name)) || rng.IntN(3) == 0 {
				object[name] = randomValue(rng, property.(map[string]any))
			}
		}
		if item, ok := schema["additionalProperties"].(map[string]any); ok {
			for _, key := range []string{"K", "a b"}[:rng.IntN(3)] {
				object[key] = randomValue(rng, item)
			}
		}
		return object
	}
	return []any{1, nil, "x"} // any value
}

// Spellings returns other texts that mean the same input of a tool: other space,
// another order of keys, escapes, other names of keys, optional fields that are null,
// objects and arrays as strings, and the whole as a string.
func Spellings(rng *rand.Rand, tool tools.Tool, input string) []string {
	decoder := json.NewDecoder(strings.NewReader(input))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(tool.InputSchema(), &schema); err != nil {
		panic(err)
	}
	spec := tool.Spec()
	var list []string
	for range 6 {
		s := speller{rng: rng, spec: &spec}
		list = append(list, s.spell(value, schema, true))
	}
	return append(list, quoted(list[0]), " "+quoted(" "+list[1]+"\n"))
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type speller struct {
	rng  *rand.Rand
	spec *tools.Spec
}

func (s *speller) space() string { return []string{"", "", " ", "\n\t"}[s.rng.IntN(4)] }

func (s *speller) spell(value any, schema map[string]any, root bool) string {
	var text string
	switch value := value.(type) {
	case map[string]any:
		text = s.object(value, schema, root)
	case []any:
		items, _ := schema["items"].(map[string]any)
		if items == nil {
			text = mustJSON(value) // which no schema knows
			break
		}
		var parts []string
		for _, item := range value {
			parts = append(parts, s.spell(item, items, false))
		}
		text = "[" + s.space() + strings.Join(parts, ","+s.space()) + s.space() + "]"
	case string:
		return s.string(value)
	default:
		return mustJSON(value)
	}
	if !root && schema["type"] != nil && s.rng.IntN(3) == 0 {
		return quoted(text)
	}
	return text
}

func (s *speller) object(value map[string]any, schema map[string]any, root bool) string {
	properties, _ := schema["properties"].(map[string]any)
	item, _ := schema["additionalProperties"].(map[string]any)
	if properties == nil && item == nil {
		return mustJSON(value)
	}
	var members []string
	for key, member := range value {
		of, _ := properties[key].(map[string]any)
		if of == nil {
			of = item
		}
		name := s.string(key)
		if root && s.rng.IntN(2) == 0 {
			for _, k := range s.spec.Keys {
				if k.Name == key {
					name = quoted(k.Other)
				}
			}
		}
		members = append(members, name+s.space()+":"+s.space()+s.spell(member, of, false))
	}
	required, _ := schema["required"].([]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		_, there := value[key]
		kind := properties[key].(map[string]any)["type"]
		if !there && kind != nil && !slices.Contains(required, any(key)) && s.rng.IntN(4) == 0 {
			members = append(members, quoted(key)+":null")
		}
	}
	s.rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + s.space() + strings.Join(members, s.space()+",") + s.space() + "}"
}

// string spells a text with more escapes than it needs.
func (s *speller) string(text string) string {
	if s.rng.IntN(2) == 0 {
		return quoted(text)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		if r < 0x10000 {
			fmt.Fprintf(&b, `\u%04X`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

func mustJSON(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(b)
}
