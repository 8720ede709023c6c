// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema reads JSON Schemas that others wrote, within bounds, and tells what
// is wrong with a value in words that a model can act on.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/toolserver/toolserver/internal/tools"
)

// Bounds of a schema: what is more is no description of an input. Every time a
// reference is followed while a value is checked counts again, so those are few.
const (
	MaxBytes = 256 << 10
	maxDepth = 48
	maxNodes = 20_000
	maxRefs  = 2_000
	maxWork  = 5_000 // subschemas that apply to one value and its parts, references followed

	maxSteps = 200_000 // times that a part of a schema is held against a part of a value
	maxOpen  = 2_000   // of those within each other
)

// A Schema is a JSON Schema. Its methods are safe for concurrent use.
type Schema struct {
	// Text is the schema as it was written, without space.
	Text json.RawMessage

	value    map[string]any
	compiled *jsonschema.Schema
}

// Object compiles the schema of an input, which is an object. An empty text is the schema of
// an object without keys. A strict schema refuses keys that it does not name, unless its text has
// additionalProperties or the like.
func Object(text json.RawMessage, strict bool) (*Schema, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	object, err := read(text)
	if err != nil {
		return nil, err
	}
	if kind, said := object["type"]; said && kind != "object" {
		return nil, fmt.Errorf("the schema is of type %v: an input is an object", kind)
	}
	object["type"] = "object"
	if _, said := object["additionalProperties"]; strict && !said && !composed(object) {
		object["additionalProperties"] = false
	}
	return newSchema(object)
}

// Any compiles the schema of a value of any type, such as a result.
func Any(text json.RawMessage) (*Schema, error) {
	object, err := read(text)
	if err != nil {
		return nil, err
	}
	return newSchema(object)
}

func read(text json.RawMessage) (map[string]any, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes: at most %d", len(text), MaxBytes)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New(`the schema is no object: want {"type": "object", "properties": {…}}`)
	}
	return object, nil
}

func newSchema(object map[string]any) (*Schema, error) {
	if err := bounded(object); err != nil {
		return nil, err
	}
	text, err := compact(object)
	if err != nil {
		return nil, err
	}
	compiled, err := compile(object)
	return &Schema{Text: text, value: object, compiled: compiled}, err
}

// composed reports whether a schema has its keys from others too, so that those it
// names itself are not all.
func composed(object map[string]any) bool {
	return slices.ContainsFunc([]string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "unevaluatedProperties", "dependentSchemas"},
		func(word string) bool { _, ok := object[word]; return ok })
}

func compact(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// compile compiles a schema that names no files, and no addresses.
func compile(value any) (_ *jsonschema.Schema, err error) {
	defer func() {
		if failed := recover(); failed != nil { // in a library, on a text of anybody's
			err = fmt.Errorf("the schema cannot be read: %v", failed)
		}
	}()
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource(at, value); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(at)
	if err != nil {
		return nil, fmt.Errorf("the schema is wrong: %s", strings.ReplaceAll(err.Error(), at, "input.json"))
	}
	return compiled, nil
}

// at is where a schema is: nowhere. A name alone would be taken for a file, and errors
// would tell where this server runs.
const at = "schema:///input.json"

// bounded returns why checking a value by a schema might never end, or nil.
func bounded(root map[string]any) error {
	nodes, refs := 0, 0
	var walk func(value any, depth int) error
	walk = func(value any, depth int) error {
		if nodes++; nodes > maxNodes {
			return fmt.Errorf("the schema has more than %d parts", maxNodes)
		}
		if depth > maxDepth {
			return fmt.Errorf("the schema is nested more than %d deep", maxDepth)
		}
		switch v := value.(type) {
		case map[string]any:
			if _, ok := v["$id"].(string); ok && depth > 0 {
				return errors.New("a part of the schema has an $id: references lead to parts of the whole alone")
			}
			for _, word := range references {
				target, ok := v[word].(string)
				if !ok {
					continue
				}
				if refs++; refs > maxRefs {
					return fmt.Errorf("the schema has more than %d references", maxRefs)
				}
				if target != "#" && !strings.HasPrefix(target, "#/") {
					return fmt.Errorf("the schema refers to %q: only references to parts of itself, such as #/$defs/name, are followed", target)
				}
			}
			for _, inner := range v {
				if err := walk(inner, depth+1); err != nil {
					return err
				}
			}
		case []any:
			for _, inner := range v {
				if err := walk(inner, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(root, 0); err != nil {
		return err
	}
	if refs == 0 {
		return nil
	}
	return (&expansion{root: root}).of(root, nil)
}

// references are the words that have another part of a schema hold.
var references = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// An expansion counts the subschemas that apply to one and the same value, which
// references can make exponentially many, or endless.
type expansion struct {
	root map[string]any
	work int
}

// of counts what applies beside a schema to its own value: what it refers to and is
// composed of. What applies to parts of the value comes one level of the value later,
// and values are bounded; but it is looked at as well, each part once from here.
func (e *expansion) of(value any, open []string) error {
	if e.work++; e.work > maxWork {
		return errors.New("the schema refers to itself so often that checking a value might never end")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	for _, word := range references {
		target, ok := object[word].(string)
		if !ok {
			continue
		}
		if slices.Contains(open, target) {
			return fmt.Errorf("the schema at %s refers to itself without end", target)
		}
		if found, ok := Lookup(e.root, target); ok {
			if err := e.of(found, append(open[:len(open):len(open)], target)); err != nil {
				return err
			}
		}
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := object[word].([]any)
		for _, inner := range list {
			if err := e.of(inner, open); err != nil {
				return err
			}
		}
	}
	for _, word := range []string{"not", "if", "then", "else"} {
		if inner, ok := object[word]; ok {
			if err := e.of(inner, open); err != nil {
				return err
			}
		}
	}
	if len(open) > 0 {
		return nil
	}
	for _, word := range []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"} {
		parts, _ := object[word].(map[string]any)
		for _, inner := range parts {
			if err := e.of(inner, nil); err != nil {
				return err
			}
		}
	}
	for _, word := range []string{"items", "additionalProperties", "contains", "propertyNames"} {
		if err := e.of(object[word], nil); err != nil {
			return err
		}
	}
	return nil
}

// Lookup returns what a reference such as #/$defs/name stands for in a document.
func Lookup(root map[string]any, ref string) (any, bool) {
	if ref == "#" {
		return root, true
	}
	path, inner := strings.CutPrefix(ref, "#/")
	if !inner {
		return nil, false
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	var at any = root
	for word := range strings.SplitSeq(path, "/") {
		switch v := at.(type) {
		case map[string]any:
			at = v[unescaped.Replace(word)]
		case []any:
			i, err := strconv.Atoi(word)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, at != nil
}

// unescaped writes a word of a reference as it is.
var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// Check returns the input as the schema wants it, where there is one reading (see
// [Settle]), or an [*tools.InputError] with what is wrong.
func (s *Schema) Check(input json.RawMessage) (json.RawMessage, error) {
	value, err := tools.DecodeJSON(input)
	if err != nil {
		return nil, err
	}
	err = s.validate(value)
	if err == nil {
		return input, nil
	}
	if errors.Is(err, errEndless) {
		return nil, Problems(err)
	}
	settled := Settle(s.value, value, nil)
	if s.validate(settled) != nil {
		properties, _ := s.value["properties"].(map[string]any)
		return nil, problems(err, slices.Sorted(maps.Keys(properties)))
	}
	return compact(settled)
}

// Validate returns what is wrong with a decoded JSON value that is no input, such as a result.
func (s *Schema) Validate(value any) error {
	if err := s.validate(value); err != nil {
		return Problems(err)
	}
	return nil
}

// ValidateText is Validate of a value that is not decoded yet.
func (s *Schema) ValidateText(text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// validate holds the schema against a value, unless that would take too long: a schema that
// refers to itself twice in each level of a value doubles with each.
func (s *Schema) validate(value any) error {
	if n, found := beyond(value); found {
		return fmt.Errorf("the number %.60s does not fit a 64-bit floating-point number", n)
	}
	if !(&steps{s.value, maxSteps}).hold(s.value, value, 0) {
		return errEndless
	}
	return s.compiled.Validate(value)
}

// beyond returns a number in a value that nobody computes with.
func beyond(value any) (n json.Number, found bool) {
	switch v := value.(type) {
	case json.Number:
		return v, !tools.IsNumber(v)
	case []any:
		for _, item := range v {
			if n, found = beyond(item); found {
				return n, true
			}
		}
	case map[string]any:
		for _, item := range v {
			if n, found = beyond(item); found {
				return n, true
			}
		}
	}
	return "", false
}

var errEndless = errors.New("there is so much to check that it might never end: nest less deep, or give fewer values")

// steps counts how often a part of a schema is held against a part of a value, at most.
type steps struct {
	root map[string]any
	left int
}

// hold counts what a schema takes for a value, and reports whether that is not too much.
func (s *steps) hold(schema, value any, depth int) bool {
	if s.left--; s.left < 0 || depth > maxOpen {
		return false
	}
	object, ok := schema.(map[string]any)
	if !ok {
		return true
	}
	hold := func(inner, value any) bool { return inner == nil || s.hold(inner, value, depth+1) }
	each := func(inner, value any) bool {
		switch list := inner.(type) {
		case []any:
			return !slices.ContainsFunc(list, func(one any) bool { return !hold(one, value) })
		case map[string]any:
			for _, one := range list {
				if !hold(one, value) {
					return false
				}
			}
		}
		return true
	}
	if enum, ok := object["enum"].([]any); ok {
		s.left -= len(enum) / 8
	}
	for _, word := range references {
		if target, ok := object[word].(string); ok {
			if found, ok := Lookup(s.root, target); ok && !hold(found, value) {
				return false
			}
		}
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"} {
		if inner, ok := object[word]; ok && !each(inner, value) {
			return false
		}
	}
	for _, word := range []string{"not", "if", "then", "else"} {
		if !hold(object[word], value) {
			return false
		}
	}
	switch v := value.(type) {
	case map[string]any:
		properties, _ := object["properties"].(map[string]any)
		for key, item := range v {
			inner, named := properties[key]
			if !named {
				inner = object["additionalProperties"]
			}
			if !hold(inner, item) || !each(object["patternProperties"], item) || !hold(object["unevaluatedProperties"], item) || !hold(object["propertyNames"], key) {
				return false
			}
		}
	case []any:
		first, _ := object["prefixItems"].([]any)
		if list, ok := object["items"].([]any); ok { // as it was before
			first = list
		}
		for i, item := range v {
			if i < len(first) && !hold(first[i], item) {
				return false
			}
			for _, word := range []string{"items", "additionalItems", "contains", "unevaluatedItems"} {
				if !hold(object[word], item) {
					return false
				}
			}
		}
	}
	return true
}

// Settle returns a value as a schema wants it, where there is one reading: numbers and
// booleans that came as text, objects and arrays that came as a string with their JSON,
// one value in place of a list. Numbers become what number makes of them, which is told the
// type that is wanted; nil: they stay as they are.
func Settle(schema map[string]any, value any, number func(want string, n json.Number) any) any {
	return settle(schema, value, number, 0)
}

func settle(schema map[string]any, value any, number func(string, json.Number) any, depth int) any {
	want, _ := schema["type"].(string)
	if text, ok := value.(string); ok && depth < tools.MaxDepth {
		if inner, ok := Unquoted(want, text); ok {
			return settle(schema, inner, number, depth+1)
		}
	}
	switch v := value.(type) {
	case json.Number:
		if number != nil {
			return number(want, v)
		}
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for key, item := range v {
			inner, _ := properties[key].(map[string]any)
			v[key] = settle(inner, item, number, depth+1)
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, item := range v {
			v[i] = settle(items, item, number, depth+1)
		}
		return v
	}
	if want == "array" && value != nil {
		items, _ := schema["items"].(map[string]any)
		return []any{settle(items, value, number, depth+1)}
	}
	return value
}

// Unquoted returns the value that a text spells where something else than a text is
// wanted.
func Unquoted(want, text string) (any, bool) {
	text = strings.TrimSpace(text)
	switch want {
	case "integer", "number":
		if !json.Valid([]byte(text)) || !tools.IsNumber(json.Number(text)) {
			return nil, false
		}
		return json.Number(text), true
	case "boolean":
		switch strings.ToLower(text) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	case "object", "array":
		begin := map[string]string{"object": "{", "array": "["}[want]
		if !strings.HasPrefix(text, begin) {
			return nil, false
		}
		inner, err := tools.DecodeJSON([]byte(text))
		return inner, err == nil && inner != nil
	}
	return nil, false
}

// Problems returns what a schema has found wrong, for a model to correct.
func Problems(err error) error { return problems(err, nil) }

// problems is [Problems] of an input that has these keys, if any are known.
func problems(err error, keys []string) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &tools.InputError{Problems: []tools.Problem{{Message: err.Error()}}}
	}
	wrong := new(tools.InputError)
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			collect(cause)
		}
		if len(e.Causes) == 0 && len(wrong.Problems) < 20 {
			wrong.Problems = append(wrong.Problems, problemOf(e, keys))
		}
	}
	collect(invalid)
	slices.SortStableFunc(wrong.Problems, func(a, b tools.Problem) int { return strings.Compare(a.Pointer, b.Pointer) })
	return wrong
}

// joined names some keys, and how many there are more.
func joined(keys []string) string {
	const most = 10
	text := strings.Join(keys[:min(most, len(keys))], ", /")
	if n := len(keys) - most; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

var english = message.NewPrinter(language.English)

func problemOf(e *jsonschema.ValidationError, keys []string) tools.Problem {
	at := ""
	for _, key := range e.InstanceLocation {
		at += "/" + key
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return tools.Problem{Pointer: at + "/" + joined(k.Missing), Message: "is required"}
	case *kind.AdditionalProperties:
		message := "unknown key"
		if at == "" && len(keys) > 0 && len(keys) <= 50 {
			message = tools.UnknownKey(joined(k.Properties), keys)
		}
		return tools.Problem{Pointer: at + "/" + joined(k.Properties), Message: message}
	case *kind.Type:
		return tools.Problem{Pointer: at, Message: fmt.Sprintf("want %s, got %s", strings.Join(k.Want, " or "), k.Got)}
	}
	return tools.Problem{Pointer: at, Message: e.ErrorKind.LocalizedString(english)}
}
