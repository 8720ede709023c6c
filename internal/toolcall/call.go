// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/nearest"
)

// A draft is a call as a model wrote it: its input is JSON that may be broken, or pairs.
type draft struct {
	id, name string
	raw      string
	input    string // JSON text; empty: none
	line     bool   // input is a line of text
	pairs    []pair
	closed   bool // the end of the call was there
	maybe    bool // where it has no name it is no call
}

// A pair is one argument, with its value as it was written.
type pair struct {
	key, value string
	kind       valueKind
}

type valueKind int

const (
	bySchema valueKind = iota // text, or JSON where the schema wants that
	asText
	asJSON
)

var errNoName = errors.New(`the name of the tool is missing: write it as "name"`)

// A catalog is the tools that calls can be of; without any, calls are of any tool.
type catalog struct {
	tools map[string]*knownTool
	names []string
	loose map[string][]string // names by what is left of them without case and marks

	accepts func(name string) bool // other names; nil: none
}

type knownTool struct {
	Tool
	schema *property // compiled when it is needed
}

func newCatalog(tools []Tool) *catalog {
	c := &catalog{tools: make(map[string]*knownTool, len(tools)), loose: make(map[string][]string)}
	for _, t := range tools {
		if _, twice := c.tools[t.Name]; !twice {
			c.tools[t.Name] = &knownTool{Tool: t}
			c.names = append(c.names, t.Name)
			c.loose[loosely(t.Name)] = append(c.loose[loosely(t.Name)], t.Name)
		}
	}
	return c
}

// loosely returns what a name has in common with other spellings of it.
func loosely(name string) string {
	for _, prefix := range []string{"functions.", "function.", "tools.", "default_api."} {
		name = strings.TrimPrefix(name, prefix)
	}
	return strings.ToLower(withoutMarks.Replace(name))
}

var withoutMarks = strings.NewReplacer("_", "", "-", "", ".", "", "/", "", ":", "", " ", "")

// find returns the tool that a name means: nil where any will do.
func (c *catalog) find(name string) (*Tool, bool) {
	if t, ok := c.tools[name]; ok {
		return &t.Tool, true
	}
	if meant := c.loose[loosely(name)]; len(meant) == 1 {
		return &c.tools[meant[0]].Tool, true
	}
	return nil, len(c.tools) == 0 || c.accepts != nil && c.accepts(name)
}

// schemaOf returns the schema of a tool; nil where it is not known.
func (c *catalog) schemaOf(name string) *property {
	t, ok := c.tools[name]
	if !ok {
		return nil
	}
	if t.schema == nil {
		t.schema = newProperty(t.Schema, 0)
	}
	return t.schema
}

// broken returns the piece for a call that cannot be read.
func broken(id, tool string, raw []byte, format string, args ...any) Broken {
	about := "A call"
	if tool != "" {
		about = "The call of " + tool
	}
	why := fmt.Sprintf(format, args...)
	if !strings.HasSuffix(why, "?") {
		why += "."
	}
	return Broken{ID: id, Tool: tool, Raw: valid(raw), Message: about + " could not be read and was not run: " + why + " Write the whole call again."}
}

// finish makes a call of a draft, or says why there is none.
func (c *catalog) finish(d draft, err error) Piece {
	name := strings.TrimSpace(d.name)
	if d.maybe && (err != nil || name == "") {
		return Text(d.raw)
	}
	if err == nil && name == "" {
		err = errNoName
	}
	if err != nil {
		return broken(d.id, name, []byte(d.raw), "%v", err)
	}
	tool, ok := c.find(name)
	if !ok {
		return Broken{ID: d.id, Tool: name, Raw: valid([]byte(d.raw)), Message: fmt.Sprintf(
			"Nothing was run: there is no tool %s%s", name, cmp.Or(nearest.Hint(nearest.Names(name, c.names)), "."))}
	}
	if tool != nil {
		name = tool.Name
	}
	input, err := c.input(name, &d)
	if err != nil {
		return broken(d.id, name, []byte(d.raw), "%v", err)
	}
	return Call{ID: d.id, Tool: name, Input: json.RawMessage(input)}
}

// input returns the input of a draft as a JSON object.
func (c *catalog) input(name string, d *draft) (string, error) {
	schema := c.schemaOf(name)
	if d.pairs != nil {
		return pairsInput(schema, d)
	}
	text := strings.TrimSpace(d.input)
	if d.line && !strings.HasPrefix(text, "{") && text != "" {
		key, ok := schema.onlyText()
		if !ok {
			return "", errors.New("its input has to be a JSON object")
		}
		return string(encode(object{{key, encode(strings.Trim(text, `"`))}})), nil
	}
	if text == "" {
		return "{}", nil
	}
	for range 3 { // the arguments as a string, and once more
		fixed, err := repair(text, d.closed)
		if err != nil {
			return "", fmt.Errorf("its arguments are not valid: %w", err)
		}
		switch fixed[0] {
		case '{':
			return schema.withoutNulls(fixed), nil
		case 'n':
			return "{}", nil
		case '"':
			json.Unmarshal([]byte(fixed), &text)
			if strings.TrimSpace(text) == "" {
				return "{}", nil
			}
			continue
		}
		break
	}
	return "", fmt.Errorf("its arguments are %.40s: want a JSON object", text)
}

func pairsInput(schema *property, d *draft) (string, error) {
	input := make(object, 0, len(d.pairs))
	there := make(map[string]bool, len(d.pairs))
	for _, p := range d.pairs {
		key := strings.TrimSpace(p.key)
		if there[key] {
			return "", fmt.Errorf("%s is there twice", key)
		}
		there[key] = true
		value, err := readValue(schema.of(key), p)
		if err != nil {
			return "", fmt.Errorf("the value of %s: %w", key, err)
		}
		input = append(input, member{key, value})
	}
	return string(encode(input)), nil
}

// readValue returns a value that was written as it is.
func readValue(schema *property, p pair) (json.RawMessage, error) {
	text := strings.TrimSpace(p.value)
	switch {
	case p.kind == asJSON:
		fixed, err := repair(text, true)
		return json.RawMessage(fixed), err
	case p.kind == asText || schema.isText() || text == "":
		return encode(p.value), nil
	case json.Valid([]byte(text)) && schema.takes(text[0]):
		return json.RawMessage(text), nil
	}
	if fixed, err := repair(text, true); err == nil && !schema.takes('"') && schema.takes(fixed[0]) {
		return json.RawMessage(fixed), nil
	}
	return encode(p.value), nil // where that is the wrong type, the tool says so
}

// valuePair returns an argument whose value was written as it is, between marks.
func valuePair(key, text string, marks []string) pair {
	if inner, ok := unquote(text); ok && !plain(inner, marks) {
		return pair{key, inner, asText}
	}
	return pair{key, text, bySchema}
}

// plain reports whether a text can be written as a value as it is: it has no mark in it
// that ends the value or leaves its end open, and it is not a JSON string of a text that
// has, for that stands for the text.
func plain(text string, marks []string) bool {
	if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(text, mark) }) {
		return false
	}
	inner, ok := unquote(text)
	return !ok || plain(inner, marks)
}

// unquote returns the text of a JSON string.
func unquote(text string) (inner string, ok bool) {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", false
	}
	err := json.Unmarshal([]byte(text), &inner)
	return inner, err == nil
}

// quoted returns JSON without any <.
func quoted(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("toolcall: %v", err))
	}
	return string(text)
}

// writeValues calls write with each argument of a call, as a value is written.
func writeValues(tool *Tool, c Call, marks []string, write func(key, value string, kind valueKind)) {
	var schema *property
	if tool != nil {
		schema = newProperty(tool.Schema, 0)
	}
	input, _ := parseObject(objectOf(c.Input))
	for _, m := range input {
		var text string
		if json.Unmarshal(m.value, &text) != nil || m.value[0] != '"' {
			var escaped bytes.Buffer
			json.HTMLEscape(&escaped, m.value)
			write(m.key, escaped.String(), asJSON)
			continue
		}
		back, _ := readValue(schema.of(m.key), valuePair(m.key, text, marks))
		if plain(text, marks) && string(back) == string(encode(text)) {
			write(m.key, text, asText)
		} else {
			write(m.key, quoted(text), asJSON)
		}
	}
}
