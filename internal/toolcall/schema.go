// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// A property is what is known of the type of a value. A nil one knows nothing.
type property struct {
	types      []string // empty: any
	properties map[string]*property
	required   []string
	items      *property
}

func newProperty(schema json.RawMessage, depth int) *property {
	var s struct {
		Type         json.RawMessage
		Enum         []json.RawMessage
		AnyOf, OneOf []json.RawMessage
		Properties   map[string]json.RawMessage
		Required     []string
		Items        json.RawMessage
	}
	if depth > 16 || len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	p := &property{properties: make(map[string]*property), required: s.Required, items: newProperty(s.Items, depth+1)}
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		p.types = []string{one}
	} else if json.Unmarshal(s.Type, &p.types) != nil {
		p.types = nil
	}
	if len(p.types) == 0 {
		for _, value := range s.Enum {
			p.types = append(p.types, typeOf(value[0]))
		}
		for _, branch := range slices.Concat(s.AnyOf, s.OneOf) {
			of := newProperty(branch, depth+1)
			if of == nil || len(of.types) == 0 {
				p.types = nil
				break
			}
			p.types = append(p.types, of.types...)
		}
	}
	for name, of := range s.Properties {
		p.properties[name] = newProperty(of, depth+1)
	}
	return p
}

// typeOf returns the type of a JSON value by its first byte.
func typeOf(first byte) string {
	switch first {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func (p *property) of(key string) *property {
	if p == nil {
		return nil
	}
	return p.properties[key]
}

// isText reports whether the value is a string and nothing else.
func (p *property) isText() bool {
	return p != nil && len(p.types) > 0 && !slices.ContainsFunc(p.types, func(t string) bool { return t != "string" })
}

// takes reports whether a JSON value with this first byte fits.
func (p *property) takes(first byte) bool {
	if p == nil || len(p.types) == 0 {
		return true
	}
	t := typeOf(first)
	return slices.Contains(p.types, t) || t == "number" && slices.Contains(p.types, "integer")
}

// onlyText returns the one argument that a text can be.
func (p *property) onlyText() (key string, ok bool) {
	if p == nil {
		return "", false
	}
	switch {
	case len(p.required) == 1:
		key = p.required[0]
	case len(p.properties) == 1:
		for name := range p.properties {
			key = name
		}
	}
	return key, p.of(key).isText()
}

// withoutNulls returns a JSON object without what is null and need not be there: models
// that have to name every key write null for what they leave out.
func (p *property) withoutNulls(text string) string {
	if p == nil || !strings.Contains(text, "null") {
		return text
	}
	o, err := parseObject([]byte(text))
	if err != nil {
		return text
	}
	kept := slices.DeleteFunc(slices.Clone(o), func(m member) bool {
		of := p.of(m.key)
		return string(m.value) == "null" && of != nil && !of.takes('n') && !slices.Contains(p.required, m.key)
	})
	changed := len(kept) < len(o)
	for i, m := range kept {
		if of := p.of(m.key); of != nil && m.value[0] == '{' {
			if without := of.withoutNulls(string(m.value)); without != string(m.value) {
				kept[i].value, changed = json.RawMessage(without), true
			}
		}
	}
	if !changed {
		return text
	}
	return string(encode(kept))
}

// strict returns a schema that OpenAI accepts as strict: all keys are required, those
// that were not may be null, and no others are allowed. It reports false for a schema
// that cannot be so, such as one of an object with any keys.
func strict(schema json.RawMessage) (json.RawMessage, bool) {
	o, err := parseObject(objectOf(schema))
	if err != nil {
		return nil, false
	}
	if o.get("properties") == nil {
		o = append(o, member{"properties", json.RawMessage("{}")})
	}
	out, ok := strictly(o, 0)
	return encode(out), ok
}

// strictKeys are the keywords that strict schemas may have.
var strictKeys = []string{
	"type", "description", "enum", "const", "items", "properties", "anyOf", "$ref", "$defs", "pattern", "format",
	"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
}

// dropped are those that only advise or narrow, so that a schema without them is still
// right: the tool checks its input itself.
var dropped = []string{
	"$schema", "$id", "$comment", "title", "default", "examples", "deprecated", "readOnly", "writeOnly", "minLength", "maxLength",
	"uniqueItems", "contentEncoding", "contentMediaType", "minProperties", "maxProperties", "required", "additionalProperties",
}

var strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}

func strictly(o object, depth int) (object, bool) {
	if depth > 32 {
		return nil, false
	}
	out := object{}
	required := list(o.get("required"))
	ok := true
	below := func(value json.RawMessage) json.RawMessage {
		child, err := parseObject(value)
		if err != nil {
			ok = false // such as true, which is any value
			return value
		}
		child, fits := strictly(child, depth+1)
		ok = ok && fits
		return encode(child)
	}
	isObject := o.get("properties") != nil || o.text("type") == "object"
	if more := o.get("additionalProperties"); isObject && (o.get("properties") == nil && string(more) != "false" || more != nil && string(more) != "false" && string(more) != "true") {
		return nil, false
	}
	for _, m := range o {
		if m.key == "oneOf" {
			m.key = "anyOf"
		}
		switch {
		case m.key == "properties" || m.key == "$defs":
			members, _ := parseObject(m.value)
			names := []string{}
			for i, p := range members {
				members[i].value = below(p.value)
				if m.key == "properties" && !slices.Contains(required, p.key) {
					members[i].value = nullable(members[i].value)
				}
				names = append(names, p.key)
			}
			m.value = encode(members)
			if m.key == "properties" {
				out = append(out, m)
				out.set("required", names)
				out.set("additionalProperties", false)
				continue
			}
		case m.key == "items":
			m.value = below(m.value)
		case m.key == "anyOf":
			var branches []json.RawMessage
			ok = ok && json.Unmarshal(m.value, &branches) == nil
			for i := range branches {
				branches[i] = below(branches[i])
			}
			m.value = encode(branches)
		case m.key == "format" && !slices.Contains(strictFormats, o.text("format")), slices.Contains(dropped, m.key):
			continue
		case !slices.Contains(strictKeys, m.key):
			return nil, false
		}
		out = append(out, m)
	}
	typed := slices.ContainsFunc([]string{"type", "anyOf", "$ref", "enum", "const"}, func(key string) bool { return out.get(key) != nil })
	return out, ok && (typed || isObject)
}

func list(text json.RawMessage) (items []string) {
	if json.Unmarshal(text, &items) != nil {
		return nil
	}
	return items
}

// nullable returns a schema that takes null as well.
func nullable(schema json.RawMessage) json.RawMessage {
	o, err := parseObject(schema)
	if err != nil {
		return schema
	}
	if newProperty(schema, 0).takes('n') && o.get("type") != nil {
		return schema
	}
	if o.get("type") == nil || o.get("const") != nil {
		return encode(fields("anyOf", []any{o, fields("type", "null")}))
	}
	for i, m := range o {
		switch m.key {
		case "type":
			types := list(m.value)
			if one := o.text("type"); one != "" {
				types = []string{one}
			}
			o[i].value = encode(append(types, "null"))
		case "enum":
			var values []json.RawMessage
			if json.Unmarshal(m.value, &values) == nil {
				o[i].value = encode(append(values, json.RawMessage("null")))
			}
		}
	}
	return encode(o)
}

// geminiKeys are the keywords of Gemini's subset of OpenAPI.
var geminiKeys = []string{
	"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties", "required",
	"minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf", "propertyOrdering", "default",
}

// geminiSchema returns a schema in Gemini's subset; nil for one without properties, of
// which Gemini wants none. What the subset cannot say is left out: the tool checks its
// input itself.
func geminiSchema(schema json.RawMessage) json.RawMessage {
	o, err := parseObject(objectOf(schema))
	if properties, none := parseObject(o.get("properties")); err != nil || none != nil || len(properties) == 0 {
		return nil
	}
	defs, _ := parseObject(o.get("$defs"))
	return encode(inSubset(o, defs, 0))
}

func inSubset(o, defs object, depth int) object {
	out := object{}
	below := func(value json.RawMessage) object {
		child, err := parseObject(value)
		if err != nil || depth > 16 { // true, or a type that contains itself
			return fields("type", "string", "description", "JSON text")
		}
		return inSubset(child, defs, depth+1)
	}
	if name, ok := strings.CutPrefix(o.text("$ref"), "#/$defs/"); ok {
		return below(defs.get(name))
	}
	kind := o.text("type")
	for _, m := range o {
		switch m.key {
		case "oneOf":
			m.key = "anyOf"
		case "const":
			m.key, m.value = "enum", append(append([]byte("["), m.value...), ']')
		}
		switch m.key {
		case "type":
			types := slices.DeleteFunc(list(m.value), func(t string) bool { return t == "null" })
			if kind == "" && len(types) < len(list(m.value)) {
				out.set("nullable", true)
			}
			if kind == "" && len(types) > 1 {
				var branches []object
				for _, t := range types {
					branches = append(branches, fields("type", t))
				}
				out.set("anyOf", branches)
				continue
			}
			if kind == "" && len(types) == 1 {
				kind = types[0]
				m.value = encode(kind)
			}
		case "properties":
			members, _ := parseObject(m.value)
			for i := range members {
				members[i].value = encode(below(members[i].value))
			}
			m.value = encode(members)
		case "items":
			m.value = encode(below(m.value))
		case "anyOf":
			var branches []json.RawMessage
			var rendered []object
			json.Unmarshal(m.value, &branches)
			for _, branch := range branches {
				if bytes.Contains(branch, []byte(`"null"`)) && newProperty(branch, 0).takes('n') {
					out.set("nullable", true)
					continue
				}
				rendered = append(rendered, below(branch))
			}
			if len(rendered) == 0 {
				continue
			}
			m.value = encode(rendered)
		case "enum":
			if list(m.value) == nil { // only strings can be listed
				continue
			}
			if kind == "" {
				out.set("type", "string")
			}
		case "format":
			formats := map[string][]string{"string": {"enum", "date-time"}, "integer": {"int32", "int64"}, "number": {"float", "double"}}
			if !slices.Contains(formats[kind], o.text("format")) {
				continue
			}
		}
		if slices.Contains(geminiKeys, m.key) {
			out = append(out, m)
		}
	}
	return out
}
