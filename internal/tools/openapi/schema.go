// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/schema"
)

// Bounds of the schemas of one tool, in bytes: beyond them, what is referred to is
// anything. Real documents refer from everything to everything.
const (
	maxInputSchema  = 96 << 10
	maxResultSchema = 8 << 10
	maxSchemaDepth  = 18
	maxNote         = 1000 // characters of a description within a schema
)

// A converter makes JSON Schemas of the schemas of a document. Those that are referred to
// are converted once.
type converter struct {
	*reduced
	is30     bool
	results  bool             // schemas are of results, not of inputs
	parts    map[string]*part // by reference
	names    map[string]bool  // of parts
	external string           // a reference to another document that was met
}

// part is a schema that others refer to, converted once it is needed.
type part struct {
	name   string
	schema any // nil before
	refs   []string
	size   int
}

func newConverter(from *reduced, results bool) *converter {
	version, _ := from.whole["openapi"].(string)
	return &converter{reduced: from, results: results, is30: strings.HasPrefix(version, "3.0"), parts: make(map[string]*part), names: make(map[string]bool)}
}

// raw returns a schema as the document has it; nil where there is none.
func (c *converter) raw(ref *openapi3.SchemaRef) any {
	if ref == nil || ref.Value == nil {
		return nil
	}
	n, ok := ref.Value.Extensions[schemaMark].(float64)
	if !ok || int(n) >= len(c.schemas) {
		return nil
	}
	return c.schemas[int(n)]
}

// schema converts a schema, and notes in refs what it refers to. What is none is anything.
func (c *converter) schema(ref *openapi3.SchemaRef, refs *[]string) map[string]any {
	converted, ok := c.convert(c.raw(ref), refs, 0).(map[string]any)
	if !ok { // true or false
		return map[string]any{}
	}
	return converted
}

// resolved returns a schema that is no reference.
func (c *converter) resolved(value any) map[string]any {
	object, _ := value.(map[string]any)
	for range 10 {
		ref, ok := object["$ref"].(string)
		if !ok {
			break
		}
		value, _ := schema.Lookup(c.whole, ref)
		object, _ = value.(map[string]any)
	}
	return object
}

// dropped are keywords that say nothing about a value, or that only OpenAPI knows.
var dropped = []string{"example", "examples", "externalDocs", "xml", "discriminator", "allowEmptyValue", "nullable", "readOnly", "writeOnly",
	"$schema", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$comment", "$defs", "$vocabulary"}

// convert converts one schema of the document.
func (c *converter) convert(value any, refs *[]string, depth int) any {
	from, ok := value.(map[string]any)
	if !ok || depth > maxSchemaDepth {
		if truth, ok := value.(bool); ok {
			return truth
		}
		return map[string]any{}
	}
	to := make(map[string]any, len(from))
	if ref, ok := from["$ref"].(string); ok {
		if !strings.HasPrefix(ref, "#/") {
			c.external = ref
			return map[string]any{}
		}
		*refs = append(*refs, ref)
		to["$ref"] = "#/$defs/" + c.part(ref).name
		if c.is30 { // where nothing else counts beside a reference
			kept := map[string]any{}
			for _, word := range []string{"description", "nullable"} {
				if value, ok := from[word]; ok {
					kept[word] = value
				}
			}
			from = kept
		}
	}
	inner := func(value any) any { return c.convert(value, refs, depth+1) }
	for word, value := range from {
		switch {
		case word == "$ref" || strings.HasPrefix(word, "x-") || slices.Contains(dropped, word):
		case word == "description" || word == "title":
			if text, ok := value.(string); ok {
				to[word] = brief(text, maxNote)
			}
		case word == "pattern":
			if text, ok := value.(string); ok {
				if _, err := regexp.Compile(text); err == nil { // others are of another grammar
					to[word] = text
				}
			}
		case slices.Contains([]string{"properties", "patternProperties", "dependentSchemas"}, word):
			if group, ok := value.(map[string]any); ok {
				to[word] = c.group(word, group, inner)
			}
		case slices.Contains([]string{"allOf", "anyOf", "oneOf", "prefixItems"}, word):
			if list, ok := value.([]any); ok && len(list) > 0 {
				converted := make([]any, len(list))
				for i, item := range list {
					converted[i] = inner(item)
				}
				to[word] = converted
			}
		case slices.Contains([]string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
			"unevaluatedProperties", "contentSchema"}, word):
			to[word] = inner(value)
		default:
			to[word] = value
		}
	}
	c.required(from, to)
	bounds(to)
	if from["nullable"] == true {
		return nullable(to)
	}
	return to
}

func (c *converter) group(word string, group map[string]any, inner func(any) any) map[string]any {
	converted := make(map[string]any, len(group))
	for name, schema := range group {
		if word == "properties" && c.lacks(schema) {
			continue
		}
		if _, err := regexp.Compile(name); err != nil && word == "patternProperties" {
			continue
		}
		converted[name] = inner(schema)
	}
	return converted
}

// lacks reports whether a property is one that inputs, or results, do not have.
func (c *converter) lacks(property any) bool {
	object, _ := property.(map[string]any)
	if c.results {
		return object["writeOnly"] == true
	}
	return object["readOnly"] == true
}

// required leaves out of what is required what is not there.
func (c *converter) required(from, to map[string]any) {
	list, _ := from["required"].([]any)
	properties, _ := from["properties"].(map[string]any)
	delete(to, "required")
	var names []any
	for _, name := range list {
		if text, ok := name.(string); ok && !c.lacks(properties[text]) {
			names = append(names, text)
		}
	}
	if len(names) > 0 {
		to["required"] = names
	}
}

// bounds writes bounds that are not included as JSON Schema has them.
func bounds(to map[string]any) {
	for exclusive, inclusive := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if is, ok := to[exclusive].(bool); ok {
			delete(to, exclusive)
			if bound, ok := to[inclusive]; ok && is {
				to[exclusive] = bound
				delete(to, inclusive)
			}
		}
	}
}

// nullable returns a schema that takes null as well.
func nullable(to map[string]any) map[string]any {
	kind, ok := to["type"].(string)
	if !ok {
		if len(to) == 0 {
			return to
		}
		return map[string]any{"anyOf": []any{to, map[string]any{"type": "null"}}}
	}
	to["type"] = []any{kind, "null"}
	if enum, ok := to["enum"].([]any); ok && !slices.Contains(enum, nil) {
		to["enum"] = append(slices.Clone(enum), nil)
	}
	return to
}

// part returns the place of what a reference stands for.
func (c *converter) part(ref string) *part {
	if p, ok := c.parts[ref]; ok {
		return p
	}
	name := spelled(strings.TrimPrefix(strings.TrimPrefix(ref, "#/components/schemas/"), "#/"), ".-")
	for i := 2; c.names[name]; i++ {
		name = fmt.Sprintf("%s_%d", name, i)
	}
	p := &part{name: name}
	c.parts[ref], c.names[name] = p, true
	return p
}

// converted returns what a reference stands for, with its schema.
func (c *converter) converted(ref string) *part {
	p := c.part(ref)
	if p.schema != nil {
		return p
	}
	p.schema = map[string]any{}
	if value, ok := schema.Lookup(c.whole, ref); ok {
		p.schema = c.convert(value, &p.refs, 0)
	}
	text, _ := json.Marshal(p.schema)
	p.size = len(text)
	return p
}

// complete returns the text of a schema with what it refers to, as far as most bytes and
// references go: what is beyond is anything.
func (c *converter) complete(schema map[string]any, refs []string, most, mostRefs int) (json.RawMessage, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	for depth := 12; len(text) > most && depth > 2; depth -= 2 {
		if text, err = json.Marshal(shallow(schema, depth)); err != nil {
			return nil, err
		}
	}
	if len(refs) == 0 {
		return text, nil
	}
	var out map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		return nil, err
	}
	defs, left, count := map[string]any{}, most-len(text), 0
	for queue := slices.Clone(refs); len(queue) > 0; queue = queue[1:] {
		if _, done := defs[c.part(queue[0]).name]; done {
			continue
		}
		p := c.converted(queue[0])
		if left -= p.size + len(p.name) + 8; left < 0 || count+len(p.refs) > mostRefs {
			defs[p.name] = map[string]any{}
			continue
		}
		count += len(p.refs)
		defs[p.name] = p.schema
		queue = append(queue, p.refs...)
	}
	out["$defs"] = defs
	return json.Marshal(out)
}

// shallow returns a schema without what is deeper, and without what is only said.
func shallow(value any, depth int) any {
	switch v := value.(type) {
	case map[string]any:
		if depth == 0 {
			return map[string]any{}
		}
		v = maps.Clone(v)
		if text, ok := v["description"].(string); ok {
			v["description"] = brief(text, 100)
		}
		for word, inner := range v {
			v[word] = shallow(inner, depth-1)
		}
		return v
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = shallow(inner, depth)
		}
		return list
	}
	return value
}

// brief returns a text that somebody else wrote without what nobody sees, and not too
// long.
func brief(text string, most int) string {
	text = strings.TrimSpace(output.WithoutInvisible(output.ValidText(text)))
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
