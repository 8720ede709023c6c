// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/policy"
)

// compile compiles an expression over what a step may speak of.
var expressions = sync.OnceValues(func() (func(string) (*policy.Expression, error), error) {
	return policy.Expressions("params", "steps", "item", "index")
})

func compile(text string) (*policy.Expression, error) {
	compile, err := expressions()
	if err != nil {
		return nil, err
	}
	return compile(text)
}

// A template is a value with expressions in its texts: "${…}" alone is what the expression
// gives, and among other text it is written out. "$${" is "${".
type template struct {
	text   []piece // of a text with expressions; nil otherwise
	fields map[string]*template
	items  []*template
	value  any // of anything else
}

// piece is a part of a text: plain, or an expression.
type piece struct {
	plain string
	code  *policy.Expression
}

// newTemplate makes a template of a value. wrong is told what is wrong, and where.
func newTemplate(value any, at string, wrong func(at, message string)) *template {
	switch value := value.(type) {
	case string:
		pieces, err := piecesOf(value)
		if err != nil {
			wrong(at, err.Error())
		}
		if len(pieces) == 0 || len(pieces) == 1 && pieces[0].code == nil {
			plain := ""
			if len(pieces) == 1 {
				plain = pieces[0].plain
			}
			return &template{value: plain}
		}
		return &template{text: pieces}
	case map[string]any:
		t := &template{fields: make(map[string]*template, len(value))}
		for name, v := range value {
			t.fields[name] = newTemplate(v, at+"."+name, wrong)
		}
		return t
	case []any:
		t := &template{items: make([]*template, len(value))}
		for i, v := range value {
			t.items[i] = newTemplate(v, fmt.Sprintf("%s[%d]", at, i), wrong)
		}
		return t
	}
	return &template{value: value}
}

// Bounds of templates.
const (
	maxClosing    = 32      // closing braces of an expression
	maxPieces     = 200     // expressions and plain texts of one text
	maxFilled     = 1 << 20 // bytes of a value with what its expressions give
	bytesPerValue = 8       // that a value counts for at least, also where it is empty
)

// piecesOf takes a text apart.
func piecesOf(text string) (pieces []piece, err error) {
	var plain strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if found && strings.HasSuffix(before, "$") {
			plain.WriteString(before[:len(before)-1] + "${")
			text = rest
			continue
		}
		plain.WriteString(before)
		if plain.Len() > 0 && (found || len(pieces) > 0 || before == text) {
			pieces = append(pieces, piece{plain: plain.String()})
		}
		plain.Reset()
		if !found {
			return pieces, nil
		}
		code, length, err := expressionIn(rest)
		if err != nil {
			return pieces, err
		}
		if pieces = append(pieces, piece{code: code}); len(pieces) > maxPieces {
			return pieces, fmt.Errorf("a text may have at most %d expressions: write a list, and join it in one expression", maxPieces/2)
		}
		text = rest[length:]
	}
}

// expressionIn compiles the expression that a text begins with, up to a closing brace.
func expressionIn(text string) (_ *policy.Expression, length int, first error) {
	end := 0
	for range maxClosing {
		i := strings.IndexByte(text[end:], '}')
		if i < 0 {
			break
		}
		end += i + 1
		code, err := compile(text[:end-1])
		if err == nil {
			return code, end, nil
		}
		if first == nil {
			first = fmt.Errorf("the expression ${%.100s: %w", text[:end], err)
		}
	}
	if first == nil {
		first = fmt.Errorf("the expression ${%.60s does not end: want } after it; a plain ${ is written $${", text)
	}
	return nil, 0, first
}

// fixed reports whether no expression is in it.
func (t *template) fixed() bool {
	fixed := true
	t.each(func(*policy.Expression) { fixed = false })
	return fixed
}

// each calls f with every expression.
func (t *template) each(f func(*policy.Expression)) {
	if t == nil {
		return
	}
	for _, p := range t.text {
		if p.code != nil {
			f(p.code)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.fields)) {
		t.fields[name].each(f)
	}
	for _, item := range t.items {
		item.each(f)
	}
}

// fill returns the value with what the expressions give.
func (t *template) fill(scope map[string]any) (any, error) {
	room := maxFilled
	return t.filled(scope, &room)
}

// take takes bytes of the room that a value has.
func take(room *int, n int) error {
	if *room -= n; *room < 0 {
		return fmt.Errorf("what the expressions give has more than %d bytes: have it written to a file, and pass its path", maxFilled)
	}
	return nil
}

// takeValue takes the room of what an expression gave.
func takeValue(room *int, value any) error {
	n := bytesPerValue
	switch value := value.(type) {
	case string:
		n += len(value)
	case []any:
		for _, v := range value {
			if err := takeValue(room, v); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, v := range value {
			n += len(name)
			if err := takeValue(room, v); err != nil {
				return err
			}
		}
	}
	return take(room, n)
}

func (t *template) filled(scope map[string]any, room *int) (any, error) {
	switch {
	case len(t.text) == 1:
		value, err := t.text[0].code.Value(scope)
		if err != nil {
			return nil, err
		}
		return value, takeValue(room, value)
	case t.text != nil:
		return t.written(scope, room)
	case t.fields != nil:
		all := make(map[string]any, len(t.fields))
		for name, field := range t.fields {
			value, err := field.filled(scope, room)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all[name] = value
		}
		return all, nil
	case t.items != nil:
		all := make([]any, len(t.items))
		for i, item := range t.items {
			value, err := item.filled(scope, room)
			if err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
			all[i] = value
		}
		return all, nil
	}
	return t.value, nil
}

// written returns a text with what its expressions give written out.
func (t *template) written(scope map[string]any, room *int) (string, error) {
	var b strings.Builder
	for _, p := range t.text {
		text := p.plain
		if p.code != nil {
			value, err := p.code.Value(scope)
			if err != nil {
				return "", err
			}
			var isText bool
			if text, isText = value.(string); isText {
				text = strings.TrimSuffix(text, "\n") // which ends the output of most programs
			} else {
				encoded, err := encode(value)
				if err != nil {
					return "", err
				}
				text = string(encoded)
			}
		}
		if err := take(room, len(text)); err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// encode returns a value as JSON, one text for one value.
func encode(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// decode returns a JSON value as expressions take it: whole numbers are whole.
func decode(text json.RawMessage) (any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return numbered(value), nil
}

func numbered(value any) any {
	switch value := value.(type) {
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		n, _ := value.Float64()
		return n
	case map[string]any:
		for k, v := range value {
			value[k] = numbered(v)
		}
	case []any:
		for i, v := range value {
			value[i] = numbered(v)
		}
	}
	return value
}
