// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/tools"
)

// A configReader fills a config and collects everything that is wrong with it.
// It walks the syntax tree itself: a decoder would stop at the first mistake
// and forget the line of most.
type configReader struct {
	file    string
	origins map[string]string // where keys were set, such as "server.yaml:12"
	faults  []configFault
}

// A configFault is one thing wrong with the configuration.
type configFault struct {
	line       int // 0 where there is none
	where, key string
	message    string
}

func newConfigReader(file string) *configReader {
	return &configReader{file: file, origins: make(map[string]string)}
}

// readFile sets what the file says.
func (r *configReader) readFile(c *config) error {
	text, err := os.ReadFile(r.file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	r.read(c, text)
	return nil
}

// read sets what the text of the file says.
func (r *configReader) read(c *config, text []byte) {
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey()) // mapping reports them all
	if err != nil {
		r.syntax(err)
		return
	}
	if len(tree.Docs) > 1 {
		r.at(tree.Docs[1].Start, "", "a second document begins here: one is enough")
	}
	if len(tree.Docs) > 0 {
		r.set(tree.Docs[0].Body, reflect.ValueOf(c).Elem(), "")
	}
}

// syntax notes that the file is not YAML.
func (r *configReader) syntax(err error) {
	var at interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &at) {
		r.at(at.GetToken(), "", at.GetMessage())
		return
	}
	r.fault("", "%v", err)
}

// set gives target, which key names, the value of a node.
func (r *configReader) set(node ast.Node, target reflect.Value, key string) {
	switch node.(type) {
	case nil, *ast.CommentGroupNode:
		return // an empty file
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		r.at(node.GetToken(), key, "anchors, aliases and tags are not supported: write the value")
		return
	}
	_, isNull := node.(*ast.NullNode)
	switch kind := target.Kind(); {
	case kind == reflect.Struct && !isNull:
		r.mapping(node, target, key)
	case kind == reflect.Slice && !isNull:
		r.sequence(node, target, key)
	case kind == reflect.Struct || kind == reflect.Slice:
		// All that belongs here is commented out.
	case isNull:
		r.at(node.GetToken(), key, `has no value: write one, or "" for an empty one`)
	default:
		r.scalar(node, target, key)
	}
}

func (r *configReader) mapping(node ast.Node, target reflect.Value, key string) {
	m, ok := node.(ast.MapNode)
	if !ok {
		r.at(node.GetToken(), key, "want keys with values here")
		return
	}
	fields := fieldsOf(target)
	first := make(map[string]int)
	for entries := m.MapRange(); entries.Next(); {
		at := entries.Key().GetToken()
		name := at.Value
		path := strings.TrimPrefix(key+"."+name, ".")
		field, known := fields[name]
		switch line, again := first[name]; {
		case !known:
			r.at(at, path, "unknown key"+suggestion(name, fields))
		case again:
			r.at(at, path, fmt.Sprintf("duplicate key: it is on line %d already", line))
		default:
			first[name] = at.Position.Line
			r.origins[path] = fmt.Sprintf("%s:%d", r.file, at.Position.Line)
			r.set(entries.Value(), field, path)
		}
	}
}

// fieldsOf returns the fields of a struct by their YAML names.
func fieldsOf(target reflect.Value) map[string]reflect.Value {
	fields := make(map[string]reflect.Value, target.NumField())
	for i := range target.NumField() {
		fields[target.Type().Field(i).Tag.Get("yaml")] = target.Field(i)
	}
	return fields
}

func suggestion(name string, fields map[string]reflect.Value) string {
	var known []string
	for field := range fields {
		known = append(known, field)
	}
	slices.Sort(known)
	if near := tools.Nearest(name, known); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return "; want one of " + strings.Join(known, ", ")
}

func (r *configReader) sequence(node ast.Node, target reflect.Value, key string) {
	list, ok := node.(*ast.SequenceNode)
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

func (r *configReader) scalar(node ast.Node, target reflect.Value, key string) {
	value, ok := node.(ast.ScalarNode)
	if !ok {
		r.at(node.GetToken(), key, "want a single value here")
		return
	}
	text := value.GetToken().Value
	if literal, ok := node.(*ast.LiteralNode); ok {
		text = literal.Value.Value
	}
	if err := setText(target, text); err != nil {
		r.at(node.GetToken(), key, err.Error())
	}
}

// override sets a key from outside the file.
func (r *configReader) override(c *config, key, text, origin string) {
	r.origins[key] = origin
	if err := setText(fieldAt(c, key), text); err != nil {
		r.fault(key, "%v", err)
	}
}

// fieldAt returns the field with a key such as "log.level".
func fieldAt(c *config, key string) reflect.Value {
	field := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		field = fieldsOf(field)[name]
	}
	return field
}

// textOf returns the value of a key as text.
func textOf(c *config, key string) string { return fmt.Sprint(fieldAt(c, key)) }

// setText gives a field the value that text stands for.
func setText(field reflect.Value, text string) error {
	switch to := field.Addr().Interface().(type) {
	case *zapcore.Level:
		if to.UnmarshalText([]byte(text)) != nil {
			return fmt.Errorf("%q is no level: want debug, info, warn or error", text)
		}
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
		panic(fmt.Sprintf("config: no way to read a %T", to))
	}
	return nil
}

// at notes a fault of a key, at a place in the file.
func (r *configReader) at(t *token.Token, key, message string) {
	f := configFault{where: r.file, key: key, message: message}
	if t != nil && t.Position != nil {
		f.line = t.Position.Line
		f.where = fmt.Sprintf("%s:%d", r.file, f.line)
	}
	r.faults = append(r.faults, f)
}

// fault notes what is wrong with the value of a key, wherever it came from,
// unless the key has a fault already. A part of a list or group that has no
// place of its own takes that of the whole.
func (r *configReader) fault(key, format string, args ...any) {
	if slices.ContainsFunc(r.faults, func(f configFault) bool { return f.key == key }) {
		return
	}
	f := configFault{key: key, message: fmt.Sprintf(format, args...)}
	for part := key; part != "" && f.where == ""; part = part[:max(strings.LastIndexAny(part, ".["), 0)] {
		f.where = r.origins[part]
	}
	if text, ok := strings.CutPrefix(f.where, r.file+":"); ok {
		f.line, _ = strconv.Atoi(text)
	}
	r.faults = append(r.faults, f)
}

// err returns all faults, in the order of their lines, or nil.
func (r *configReader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b configFault) int { return cmp.Compare(a.line, b.line) })
	return &configError{r.faults}
}

// A configError is everything wrong with a configuration, one line for each.
type configError struct{ faults []configFault }

func (e *configError) Error() string {
	lines := []string{"the configuration is not valid:"}
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

// A size is a number of bytes.
type size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// UnmarshalText reads a number of bytes, or a number with a unit.
func (s *size) UnmarshalText(text []byte) error {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n > (1<<62)/unit.bytes || n < -(1<<62)/unit.bytes {
			break
		}
		*s = size(n * unit.bytes)
		return nil
	}
	return fmt.Errorf(`%q is not a size: want bytes, or a number with KiB, MiB or GiB, such as "4MiB"`, text)
}

// String writes the size with the largest unit that divides it.
func (s size) String() string {
	for _, unit := range []int{2, 1, 0} {
		if u := sizeUnits[unit]; s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
