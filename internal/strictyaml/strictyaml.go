// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package strictyaml fills Go values from YAML that people write by hand. It
// finds everything that is wrong at once, each with its line: unknown and
// duplicate keys, values of another type, anchors, a second document.
package strictyaml

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/toolserver/toolserver/internal/nearest"
)

// A Reader fills a struct and collects everything that is wrong. It walks the
// syntax tree itself: a decoder would stop at the first mistake and forget the
// line of most.
//
// Keys are the yaml tags of fields. A field is a struct, a slice, a map with
// strings for keys, any for a value of whatever shape, or a single value: a
// string, bool, int, [time.Duration] or [encoding.TextUnmarshaler].
type Reader struct {
	file    string
	what    string
	origins map[string]string // where keys were set, such as "server.yaml:12"
	faults  []fault
}

// A fault is one thing that is wrong.
type fault struct {
	line       int // 0 where there is none
	where, key string
	message    string
}

// NewReader returns a reader of the file with this name. Its errors are about
// what, such as "configuration".
func NewReader(file, what string) *Reader {
	return &Reader{file: file, what: what, origins: make(map[string]string)}
}

// Read sets what the text of the file says in the struct that target points to.
func (r *Reader) Read(text []byte, target any) {
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey()) // reported below, all of them
	if err != nil {
		r.syntax(err)
		return
	}
	if len(tree.Docs) > 1 {
		r.at(tree.Docs[1].Start, "", "a second document begins here: one is enough")
	}
	if len(tree.Docs) > 0 {
		r.set(tree.Docs[0].Body, reflect.ValueOf(target).Elem(), "")
	}
}

// Has reports whether a key such as "rules[2].tools" was set, and so a list
// that is there but empty can be told from none.
func (r *Reader) Has(key string) bool { return r.origins[key] != "" }

// Origin returns where a key was set, such as "server.yaml:12", or what Override
// was told; nothing where it was not.
func (r *Reader) Origin(key string) string { return r.origins[key] }

// Line returns the line that set a key, or 0.
func (r *Reader) Line(key string) int {
	text, _ := strings.CutPrefix(r.origins[key], r.file+":")
	line, _ := strconv.Atoi(text)
	return line
}

// syntax notes that the file is not YAML.
func (r *Reader) syntax(err error) {
	var at interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &at) {
		r.at(at.GetToken(), "", at.GetMessage())
		return
	}
	r.Fault("", "%v", err)
}

// set gives target, which key names, the value of a node.
func (r *Reader) set(node ast.Node, target reflect.Value, key string) {
	switch node.(type) {
	case nil, *ast.CommentGroupNode:
		return // an empty file
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		r.at(node.GetToken(), key, "anchors, aliases and tags are not supported: write the value")
		return
	}
	_, isNull := node.(*ast.NullNode)
	kind := target.Kind()
	if _, single := target.Addr().Interface().(encoding.TextUnmarshaler); single {
		kind = reflect.Invalid
	}
	group := kind == reflect.Struct || kind == reflect.Slice || kind == reflect.Map
	switch {
	case kind == reflect.Interface:
		r.anything(node, target, key)
	case group && isNull:
		// All that belongs here is commented out.
	case isNull:
		r.at(node.GetToken(), key, `has no value: write one, or "" for an empty one`)
	case kind == reflect.Struct, kind == reflect.Map:
		r.mapping(node, target, key)
	case kind == reflect.Slice:
		r.sequence(node, target, key)
	default:
		r.scalar(node, target, key)
	}
}

// mapping fills a struct or a map.
func (r *Reader) mapping(node ast.Node, target reflect.Value, key string) {
	m, ok := node.(ast.MapNode)
	if !ok {
		text := "want keys with values here"
		if target.Kind() == reflect.Struct && key != "" {
			text += ": " + strings.Join(slices.Sorted(maps.Keys(FieldsOf(target))), ", ")
		}
		r.at(node.GetToken(), key, text)
		return
	}
	var fields map[string]reflect.Value
	if target.Kind() == reflect.Struct {
		fields = FieldsOf(target)
	} else {
		target.Set(reflect.MakeMap(target.Type()))
	}
	first := make(map[string]int)
	for entries := m.MapRange(); entries.Next(); {
		at := entries.Key().GetToken()
		name := at.Value
		path := strings.TrimPrefix(key+"."+name, ".")
		field, known := fields[name]
		line, again := first[name]
		switch {
		case fields != nil && !known:
			r.at(at, path, "unknown key"+suggestion(name, fields))
			continue
		case again:
			r.at(at, path, fmt.Sprintf("duplicate key: it is on line %d already", line))
			continue
		case fields == nil:
			field = reflect.New(target.Type().Elem()).Elem()
		}
		first[name] = at.Position.Line
		r.origins[path] = fmt.Sprintf("%s:%d", r.file, at.Position.Line)
		r.set(entries.Value(), field, path)
		if fields == nil {
			target.SetMapIndex(reflect.ValueOf(name), field)
		}
	}
}

// FieldsOf returns the fields of a struct by their YAML names.
func FieldsOf(target reflect.Value) map[string]reflect.Value {
	fields := make(map[string]reflect.Value, target.NumField())
	for i := range target.NumField() {
		if name := target.Type().Field(i).Tag.Get("yaml"); name != "-" {
			fields[name] = target.Field(i)
		}
	}
	return fields
}

func suggestion(name string, fields map[string]reflect.Value) string {
	known := slices.Sorted(maps.Keys(fields))
	return cmp.Or(nearest.Hint(nearest.Names(name, known)), "; want one of "+strings.Join(known, ", "))
}

// OneAlone is a list that may be written as a single value.
type OneAlone interface {
	// One sets the list that a single value stands for.
	One(text string) error
}

func (r *Reader) sequence(node ast.Node, target reflect.Value, key string) {
	list, ok := node.(*ast.SequenceNode)
	one, alone := target.Addr().Interface().(OneAlone)
	if text, single := textOf(node); !ok && alone && single {
		if err := one.One(text); err != nil {
			r.at(node.GetToken(), key, err.Error())
		}
		return
	}
	if !ok {
		r.at(node.GetToken(), key, "want a list here")
		return
	}
	target.Set(reflect.MakeSlice(target.Type(), len(list.Values), len(list.Values)))
	for i, item := range list.Values {
		path := fmt.Sprintf("%s[%d]", key, i)
		r.origins[path] = fmt.Sprintf("%s:%d", r.file, item.GetToken().Position.Line)
		r.set(item, target.Index(i), path)
	}
	if len(list.Values) == 0 {
		target.SetZero() // an empty list is none
	}
}

func (r *Reader) scalar(node ast.Node, target reflect.Value, key string) {
	text, ok := textOf(node)
	if !ok {
		r.at(node.GetToken(), key, "want a single value here")
		return
	}
	if err := setText(target, text); err != nil {
		r.at(node.GetToken(), key, err.Error())
	}
}

// textOf returns the text of a single value.
func textOf(node ast.Node) (string, bool) {
	if literal, ok := node.(*ast.LiteralNode); ok {
		return literal.Value.Value, true
	}
	value, ok := node.(ast.ScalarNode)
	if !ok {
		return "", false
	}
	return value.GetToken().Value, true
}

// anything fills a field of type any with maps, slices, numbers, strings,
// truths and nil, as they are written.
func (r *Reader) anything(node ast.Node, target reflect.Value, key string) {
	var value reflect.Value
	switch node := node.(type) {
	case *ast.NullNode:
		return
	case ast.MapNode:
		value = reflect.New(reflect.TypeFor[map[string]any]()).Elem()
	case *ast.SequenceNode:
		value = reflect.New(reflect.TypeFor[[]any]()).Elem()
	case *ast.IntegerNode:
		value = reflect.ValueOf(node.Value)
	case *ast.FloatNode:
		value = reflect.ValueOf(node.Value)
	case *ast.BoolNode:
		value = reflect.ValueOf(node.Value)
	default:
		value = reflect.New(reflect.TypeFor[string]()).Elem()
	}
	if value.CanSet() {
		r.set(node, value, key)
	}
	target.Set(value)
}

// Override sets a single value from outside the file, where origin names.
func (r *Reader) Override(field reflect.Value, key, text, origin string) {
	r.origins[key] = origin
	if err := setText(field, text); err != nil {
		r.Fault(key, "%v", err)
	}
}

// setText gives a field the value that text stands for.
func setText(field reflect.Value, text string) error {
	switch to := field.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	case *string:
		*to = text
	case *bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*to = text == "true"
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*to = n
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf(`%q is not a duration: want one such as "30s", "100ms" or "1h30m"`, text)
		}
		*to = d
	default:
		panic(fmt.Sprintf("strictyaml: no way to read a %T", to))
	}
	return nil
}

// at notes a fault of a key, at a place in the file.
func (r *Reader) at(t *token.Token, key, message string) {
	f := fault{where: r.file, key: key, message: message}
	if t != nil && t.Position != nil {
		f.line = t.Position.Line
		f.where = fmt.Sprintf("%s:%d", r.file, f.line)
	}
	r.faults = append(r.faults, f)
}

// Fault notes what is wrong with the value of a key, wherever it came from,
// unless the key has a fault already. A part of a list or group that has no
// place of its own takes that of the whole.
func (r *Reader) Fault(key, format string, args ...any) {
	if slices.ContainsFunc(r.faults, func(f fault) bool { return f.key == key }) {
		return
	}
	f := fault{key: key, message: fmt.Sprintf(format, args...)}
	for part := key; part != "" && f.where == ""; part = part[:max(strings.LastIndexAny(part, ".["), 0)] {
		f.where = r.origins[part]
	}
	if text, ok := strings.CutPrefix(f.where, r.file+":"); ok {
		f.line, _ = strconv.Atoi(text)
	}
	r.faults = append(r.faults, f)
}

// FaultAt notes what is wrong on a line.
func (r *Reader) FaultAt(line int, key, message string) {
	r.faults = append(r.faults, fault{line: line, where: fmt.Sprintf("%s:%d", r.file, line), key: key, message: message})
}

// Err returns everything that is wrong, in the order of lines, or nil.
func (r *Reader) Err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b fault) int { return cmp.Compare(a.line, b.line) })
	return &Error{what: r.what, faults: r.faults}
}

// An Error is everything that is wrong, one line for each.
type Error struct {
	what   string
	faults []fault
}

func (e *Error) Error() string {
	lines := []string{"the " + e.what + " is not valid:"}
	for _, f := range e.faults {
		var parts []string
		for _, part := range []string{f.where, f.key, f.message} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		lines = append(lines, strings.Join(parts, ": "))
	}
	return strings.Join(lines, "\n")
}
