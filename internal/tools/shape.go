// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A shape is a Go type seen as JSON: the decoder follows it and the schema
// tells it. It never changes once it is compiled.
type shape struct {
	// schema is set at the root only.
	schema json.RawMessage

	kind        valueType
	typ         reflect.Type // what a pointer points to
	pointer     bool         // the Go type is *typ, and null is nil
	optional    bool         // a field that may be absent, or null for the same
	description string

	// min and max bound a number, or else the count of valueTypes[kind].unit; they
	// are infinite where there is no bound.
	min, max float64

	// enum lists the strings allowed, or is nil.
	enum []string

	// numeral says that a number is taken for the string that spells it; of the root,
	// that some string of the input is such a one.
	numeral bool

	// item is the shape of the items of a list or the values of a map.
	item *shape

	// fields are those of a struct; bit i of required says that fields[i] is.
	fields   []field
	required uint64
	inOrder  []int // the places of fields, by name
}

type field struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
	shape *shape
}

// maxFields is the number of bits in shape.required.
const maxFields = 64

// maxBound is the largest bound: up to here, comparing any 64-bit integer with
// it as a float64 is exact.
const maxBound = 1<<53 - 1

type valueType uint8

const (
	stringType valueType = iota
	boolType
	intType
	uintType
	floatType
	listType
	mapType
	structType
	rawType // any JSON value
)

var valueTypes = [...]struct {
	schema   string // the type in a schema
	want     string // the type in a message
	min, max string // the bounds in a schema; empty where there are none
	unit     string // what the bounds count; empty for a number itself
}{
	stringType: {schema: "string", want: "a string", min: "minLength", max: "maxLength", unit: "characters"},
	boolType:   {schema: "boolean", want: "true or false"},
	intType:    {schema: "integer", want: "an integer", min: "minimum", max: "maximum"},
	uintType:   {schema: "integer", want: "an integer", min: "minimum", max: "maximum"},
	floatType:  {schema: "number", want: "a number", min: "minimum", max: "maximum"},
	listType:   {schema: "array", want: "an array", min: "minItems", max: "maxItems", unit: "items"},
	mapType:    {schema: "object", want: "an object", min: "minProperties", max: "maxProperties", unit: "keys"},
	structType: {schema: "object", want: "an object"},
	rawType:    {want: "any value"},
}

// schemas keeps the room that a schema was written in for the next: it grows many
// times before it has its size.
var schemas = sync.Pool{New: func() any { return new([]byte) }}

// newShape compiles t, a struct or a map. It panics where t cannot be told as a
// schema; see [Tool.InputSchema] for what can.
func newShape(t reflect.Type) *shape {
	s := compile(t, nil, t.String())
	if s.kind != structType && s.kind != mapType || s.pointer {
		panic(fmt.Sprintf("tools: input type %s is neither a struct nor a map", t))
	}
	s.writeSchema()
	s.numeral = s.hasNumeral()
	return s
}

// hasNumeral reports whether a string is one that a number is taken for.
func (s *shape) hasNumeral() bool {
	return s.numeral || s.item != nil && s.item.hasNumeral() || slices.ContainsFunc(s.fields, func(f field) bool { return f.shape.hasNumeral() })
}

func (s *shape) writeSchema() {
	scratch := schemas.Get().(*[]byte)
	*scratch = s.appendSchema((*scratch)[:0])
	s.schema = slices.Clone(*scratch)
	schemas.Put(scratch)
}

// choosing returns a shape with a field that allows these strings alone.
func (s *shape) choosing(field string, choices []string) *shape {
	i := slices.Index(s.names(), field)
	if i < 0 || s.fields[i].shape.kind != stringType {
		refuse(s.typ.String(), "there is no string %q to choose", field)
	}
	changed := *s.fields[i].shape
	changed.enum = choices
	return s.with(i, &changed)
}

// bounded returns a shape with a lower maximum of a field, if it has that field and
// the maximum is lower.
func (s *shape) bounded(field string, most float64) *shape {
	i := slices.Index(s.names(), field)
	if i < 0 || valueTypes[s.fields[i].shape.kind].max == "" || most >= s.fields[i].shape.max {
		return s
	}
	changed := *s.fields[i].shape
	changed.max = most
	return s.with(i, &changed)
}

// with returns a shape with another one of a field.
func (s *shape) with(field int, changed *shape) *shape {
	next := *s
	next.fields = slices.Clone(s.fields)
	next.fields[field].shape = changed
	next.writeSchema()
	return &next
}

// compile returns the shape of t, which is part of the types around it and is
// reached by path.
func compile(t reflect.Type, around []reflect.Type, path string) *shape {
	if t.Kind() == reflect.Pointer {
		s := compile(t.Elem(), around, path)
		if s.pointer {
			refuse(path, "%s points to a pointer", t)
		}
		s.pointer = true
		return s
	}
	if slices.Contains(around, t) {
		refuse(path, "%s contains itself", t)
	}
	around = append(slices.Clip(around), t)

	s := &shape{typ: t, min: math.Inf(-1), max: math.Inf(1)}
	if t == reflect.TypeFor[json.RawMessage]() {
		s.kind = rawType
		return s
	}
	if decodesItself(t) {
		refuse(path, "%s decodes itself, so that its schema is not known: use a plain type", t)
	}
	switch t.Kind() {
	case reflect.String:
		s.kind = stringType
	case reflect.Bool:
		s.kind = boolType
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.kind = intType
		if bits := t.Bits(); bits < 64 {
			s.min, s.max = -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1)-1
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.kind, s.min = uintType, 0
		if bits := t.Bits(); bits < 64 {
			s.max = math.Ldexp(1, bits) - 1
		}
	case reflect.Float32, reflect.Float64:
		s.kind = floatType
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			refuse(path, "%s holds bytes, which JSON has no type for: use a string", t)
		}
		s.kind, s.item = listType, compile(t.Elem(), around, path+"[]")
	case reflect.Map:
		if t.Key().Kind() != reflect.String || decodesItself(t.Key()) {
			refuse(path, "the keys of %s are not strings", t)
		}
		s.kind, s.item = mapType, compile(t.Elem(), around, path+"[]")
	case reflect.Struct:
		s.kind = structType
		s.addFields(t, nil, around, path)
		for i := range s.fields {
			s.inOrder = append(s.inOrder, i)
		}
		slices.SortFunc(s.inOrder, func(i, j int) int { return strings.Compare(s.fields[i].name, s.fields[j].name) })
	default:
		refuse(path, "%s has no JSON schema", t)
	}
	return s
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		t == reflect.TypeFor[json.Number]()
}

// addFields adds the fields of t, which is s.typ or a struct embedded in it at
// index.
func (s *shape) addFields(t reflect.Type, index []int, around []reflect.Type, path string) {
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup("json")
		at := append(slices.Clip(index), f.Index...)
		fieldPath := path + "." + f.Name

		if f.Anonymous && !tagged {
			if f.Type.Kind() != reflect.Struct {
				refuse(fieldPath, "an embedded %s needs a json tag", f.Type)
			}
			s.addFields(f.Type, at, around, fieldPath)
			continue
		}
		if !tagged || tag == "-" {
			continue
		}
		if !f.IsExported() {
			refuse(fieldPath, "a field with a json tag must be exported")
		}
		name, options, _ := strings.Cut(tag, ",")
		name = cmp.Or(name, f.Name)
		if slices.Contains(s.names(), name) {
			refuse(fieldPath, "another field has the name %q", name)
		}
		if len(s.fields) == maxFields {
			refuse(fieldPath, "there are more than %d fields", maxFields)
		}

		item := compile(f.Type, around, fieldPath)
		item.description = f.Tag.Get("jsonschema")
		item.optional = optional(options, fieldPath)
		if check, ok := f.Tag.Lookup("check"); ok {
			item.limit(check, fieldPath)
		}
		if !item.optional {
			s.required |= 1 << len(s.fields)
		}
		s.fields = append(s.fields, field{name: name, index: at, shape: item})
	}
}

// optional reads the options of a json tag.
func optional(options, path string) bool {
	if options == "" {
		return false
	}
	for option := range strings.SplitSeq(options, ",") {
		if option != "omitempty" && option != "omitzero" {
			refuse(path, "the json tag has the option %q, which is not known here", option)
		}
	}
	return true
}

// limit reads a check tag.
func (s *shape) limit(check, path string) {
	for part := range strings.SplitSeq(check, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "min":
			s.min = max(s.min, s.bound(value, path))
		case "max":
			s.max = min(s.max, s.bound(value, path))
		case "enum":
			limited := s
			if s.kind == listType {
				limited = s.item
			}
			if limited.kind != stringType {
				refuse(path, "enum= limits strings, not %s", s.typ)
			}
			limited.enum = splitEnum(value, path)
		case "numeral":
			if s.kind != stringType {
				refuse(path, "numeral is for strings, not for %s", s.typ)
			}
			s.numeral = true
		default:
			refuse(path, "the check tag has %q: want min=N, max=N, enum=a|b or numeral", part)
		}
	}
	if s.min > s.max {
		refuse(path, "the check tag allows nothing: its minimum is above its maximum")
	}
}

func (s *shape) bound(value, path string) float64 {
	words := valueTypes[s.kind]
	if words.min == "" {
		refuse(path, "min= and max= do not limit %s", s.typ)
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(n) || math.Abs(n) > maxBound {
		refuse(path, "the check tag has the bound %q: want a number of at most 2^53", value)
	}
	if s.kind != floatType && n != math.Trunc(n) || words.unit != "" && n < 0 {
		refuse(path, "the check tag has the bound %q, which no %s can have", value, s.typ)
	}
	return n
}

func splitEnum(value, path string) []string {
	words := strings.Split(value, "|")
	for i, word := range words {
		if slices.Contains(words[:i], word) {
			refuse(path, "the check tag lists %q twice", word)
		}
	}
	return words
}

func refuse(path, format string, args ...any) {
	panic("tools: input type " + path + ": " + fmt.Sprintf(format, args...))
}

// find returns the place of the field called name, or -1. It looks first at
// next: inputs mostly keep the order of the schema.
func (s *shape) find(name string, next int) int {
	for i := next; i < len(s.fields); i++ {
		if s.fields[i].name == name {
			return i
		}
	}
	for i := range min(next, len(s.fields)) {
		if s.fields[i].name == name {
			return i
		}
	}
	return -1
}

// names returns the names of the fields.
func (s *shape) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}
