// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/toolserver/toolserver/internal/tools"
)

// Words returns how the models of the system know our tools and their keys, so that
// hints and errors name what they can call.
func (s *System) Words() tools.Words { return tools.Words{Names: words{s}} }

// words is what a meaning says, read backwards: which key of theirs becomes a key of ours
// and which constants choose the meaning. Both are found in the expressions.
type words struct{ *System }

// meanings calls f for what means a tool of ours, the tools that mean nothing else first,
// until f returns true.
func (w words) meanings(tool string, f func(*Tool, *Meaning) bool) bool {
	for _, alone := range []bool{true, false} {
		for _, theirs := range w.Tools {
			for _, m := range theirs.Means {
				if m.Tool != tool || (m.When == "") != alone {
					continue
				}
				theirs.mustCompile()
				if f(theirs, m) {
					return true
				}
			}
		}
	}
	return false
}

func (w words) Tool(tool string) (name string, ok bool) {
	ok = w.meanings(tool, func(theirs *Tool, m *Meaning) bool {
		name = theirs.Name + m.chosen()
		return true
	})
	return name, ok
}

// chosen tells which constants choose a meaning.
func (m *Meaning) chosen() (text string) {
	for _, key := range slices.Sorted(maps.Keys(m.chosenBy)) {
		value := fmt.Sprint(m.chosenBy[key])
		if strings.ContainsFunc(value, unicode.IsControl) {
			value = string(tools.AppendJSON(nil, value))
		}
		text += " with " + key + " " + value
	}
	return text
}

func (w words) Key(tool, key string) (name string, ok bool) {
	ok = w.meanings(tool, func(_ *Tool, m *Meaning) bool {
		name, ok = m.keys[key]
		return ok
	})
	return name, ok
}

// Call returns a call of theirs that becomes one of ours: it was translated to see that
// it does.
func (w words) Call(tool string, input []byte) (call string, ok bool) {
	var ours map[string]any
	if json.Unmarshal(input, &ours) != nil {
		return "", false
	}
	ok = w.meanings(tool, func(theirs *Tool, m *Meaning) bool {
		value, found := theirs.inverse(m, ours)
		if found {
			call = tools.Written(theirs.Name, value)
		}
		return found
	})
	return call, ok
}

// inverse returns the input of theirs that becomes ours, if it can be found: the same
// values under their names, numbers counted as they do.
func (t *Tool) inverse(m *Meaning, ours map[string]any) (map[string]any, bool) {
	theirs := make(map[string]any)
	maps.Copy(theirs, m.chosenBy)
	for key, value := range ours {
		name, ok := m.keys[key]
		if !ok {
			if value, constant := m.constants[key]; constant && value == ours[key] {
				continue
			}
			return nil, false
		}
		theirs[name] = value
	}
	for range 2 {
		text, err := json.Marshal(theirs)
		if err != nil {
			return nil, false
		}
		call, err := t.Translate(text)
		if err != nil || call.Tool != m.Tool {
			return nil, false
		}
		var became map[string]any
		if json.Unmarshal(call.Input, &became) != nil {
			return nil, false
		}
		same := true
		for key, want := range ours {
			got, there := became[key]
			if there && tools.Written("", got) == tools.Written("", want) {
				continue
			}
			same = false
			n, number := want.(float64)
			other, also := got.(float64)
			sent, _ := theirs[m.keys[key]].(float64)
			switch {
			case !number || !also:
				return nil, false
			case other == sent*1000:
				theirs[m.keys[key]] = n / 1000
			default:
				theirs[m.keys[key]] = sent + n - other
			}
		}
		if same {
			return theirs, true
		}
	}
	return nil, false
}

// read finds what expressions tell of a meaning: which keys of theirs become keys of
// ours, which keys of ours are constants, and which constants choose it.
func (m *Meaning) read(when, input *ast.AST, properties map[string]any) {
	m.keys, m.constants, m.chosenBy = map[string]string{}, map[string]any{}, map[string]any{}
	if when != nil {
		if e := when.Expr(); e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "orValue" { // whether a flag is set
			if key := keyOf(e.AsCall().Target(), properties); key != "" {
				m.chosenBy[key] = true
			}
		}
		ast.PreOrderVisit(when.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "_==_" || len(e.AsCall().Args()) != 2 {
				return
			}
			args := e.AsCall().Args()
			if key := keyOf(args[0], properties); key != "" && args[1].Kind() == ast.LiteralKind {
				m.chosenBy[key] = args[1].AsLiteral().Value()
			}
		}))
	}
	if input == nil {
		for key := range properties {
			m.keys[key] = key
		}
		return
	}
	if input.Expr().Kind() != ast.MapKind {
		return
	}
	for _, entry := range input.Expr().AsMap().Entries() {
		e := entry.AsMapEntry()
		if e.Key().Kind() != ast.LiteralKind {
			continue
		}
		ours, ok := e.Key().AsLiteral().(types.String)
		if !ok {
			continue
		}
		if e.Value().Kind() == ast.LiteralKind {
			m.constants[string(ours)] = plain(e.Value().AsLiteral().Value())
		} else if theirs := keyOf(e.Value(), properties); theirs != "" {
			m.keys[string(ours)] = theirs
		}
	}
}

// plain returns a value as JSON text has it.
func plain(value any) any {
	if n, ok := value.(int64); ok {
		return float64(n)
	}
	return value
}

// keyOf returns the first key of the input that an expression looks at; empty: none.
func keyOf(e ast.Expr, properties map[string]any) (key string) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if key != "" {
			return
		}
		name := ""
		switch e.Kind() {
		case ast.SelectKind:
			if isInput(e.AsSelect().Operand()) {
				name = e.AsSelect().FieldName()
			}
		case ast.CallKind:
			args := e.AsCall().Args()
			if len(args) == 2 && isInput(args[0]) && args[1].Kind() == ast.LiteralKind { // input.?key and input[?"key"]
				text, _ := args[1].AsLiteral().(types.String)
				name = string(text)
			}
		}
		if _, ok := properties[name]; ok {
			key = name
		}
	}))
	return key
}

func isInput(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "input" }
