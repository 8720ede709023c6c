// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"math"
	"strconv"
)

// appendSchema appends the JSON Schema of s, in the words of draft 2020-12.
//
// A null that stands for an absent field is taken by the decoder but not told:
// leaving the key out is the better way. A pointer that must be there is told
// to be nullable.
func (s *shape) appendSchema(b []byte) []byte {
	null := s.pointer && !s.optional
	words := valueTypes[s.kind]

	b = append(b, '{')
	if words.schema != "" {
		b = appendSchemaKey(b, "type")
		if null {
			b = append(b, '[')
		}
		b = appendJSONString(b, words.schema)
		if null {
			b = append(b, `,"null"]`...)
		}
	}
	if s.description != "" {
		b = appendSchemaKey(b, "description")
		b = appendJSONString(b, s.description)
	}
	if s.enum != nil {
		b = appendSchemaKey(b, "enum")
		b = appendJSONStrings(b, s.enum)
		if null {
			b = append(b[:len(b)-1], `,null]`...)
		}
	}
	if !math.IsInf(s.min, 0) {
		b = appendSchemaKey(b, words.min)
		b = strconv.AppendFloat(b, s.min, 'f', -1, 64)
	}
	if !math.IsInf(s.max, 0) {
		b = appendSchemaKey(b, words.max)
		b = strconv.AppendFloat(b, s.max, 'f', -1, 64)
	}
	switch s.kind {
	case listType:
		b = s.item.appendSchema(appendSchemaKey(b, "items"))
	case mapType:
		if s.item.kind != rawType { // else any value, as without the key
			b = s.item.appendSchema(appendSchemaKey(b, "additionalProperties"))
		}
	case structType:
		b = s.appendProperties(b)
	}
	return append(b, '}')
}

func (s *shape) appendProperties(b []byte) []byte {
	b = append(appendSchemaKey(b, "properties"), '{')
	var required []string
	for _, f := range s.fields {
		b = f.shape.appendSchema(appendSchemaKey(b, f.name))
		if !f.shape.optional {
			required = append(required, f.name)
		}
	}
	b = append(b, '}')
	if required != nil {
		b = appendJSONStrings(appendSchemaKey(b, "required"), required)
	}
	return append(appendSchemaKey(b, "additionalProperties"), "false"...)
}

// appendSchemaKey appends a key of an object and what separates it from the
// member before and from its value.
func appendSchemaKey(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendJSONString(b, key), ':')
}

func appendJSONStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONString(b, s)
	}
	return append(b, ']')
}
