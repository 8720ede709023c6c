// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"

	"github.com/toolserver/toolserver/internal/shell"
)

// environment is what expressions are written in: CEL with optional values, and one
// function, command, which returns the command line that a list of words stands for.
// What an expression costs is bounded by the size of an input: none has a loop in a loop.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(), ext.Strings(), ext.Lists(), ext.Regex(), ext.Math(), ext.Bindings(),
		cel.Function("command", cel.Overload("command_list", []*cel.Type{cel.ListType(cel.DynType)}, cel.StringType,
			cel.UnaryBinding(commandOf))),
		cel.Variable("input", cel.DynType), cel.Variable("text", cel.StringType), cel.Variable("details", cel.DynType),
		cel.Variable("stdout", cel.StringType), cel.Variable("stderr", cel.StringType),
		cel.Variable("exit", cel.DynType),
	)
})

// A program is an expression that can be evaluated; nil: there is none.
type program cel.Program

func newProgram(source string) (program, error) {
	if source == "" {
		return nil, nil
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	return env.Program(parsed)
}

// commandOf returns the command line of a list of words. One that only has a shell run a
// script is that script.
func commandOf(list ref.Val) ref.Val {
	words, ok := list.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(list)
	}
	var all []string
	for it := words.Iterator(); it.HasNext() == types.True; {
		word, ok := it.Next().(types.String)
		if !ok {
			return types.NewErr("command: a word is no text")
		}
		all = append(all, string(word))
	}
	return types.String(shell.Line(all))
}

// appendJSON appends a value of an expression as JSON text.
func appendJSON(b []byte, v ref.Val) ([]byte, error) {
	switch v := v.(type) {
	case types.Null:
		return append(b, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(b, bool(v)), nil
	case types.Int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(b, uint64(v), 10), nil
	case types.Double, types.String:
		text, err := json.Marshal(v.Value())
		return append(b, text...), err
	case *types.Optional:
		if v.HasValue() {
			return appendJSON(b, v.GetValue())
		}
		return append(b, "null"...), nil
	case traits.Mapper:
		return appendMap(b, v)
	case traits.Lister:
		return appendList(b, v)
	}
	if err, ok := v.(*types.Err); ok {
		return b, err
	}
	return b, fmt.Errorf("%s has no form in JSON", v.Type().TypeName())
}

func appendMap(b []byte, m traits.Mapper) (_ []byte, err error) {
	b = append(b, '{')
	first := true
	for it := m.Iterator(); it.HasNext() == types.True; first = false {
		if !first {
			b = append(b, ',')
		}
		key := it.Next()
		if b, err = appendJSON(b, key.ConvertToType(types.StringType)); err != nil {
			return b, err
		}
		b = append(b, ':')
		if b, err = appendJSON(b, m.Get(key)); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendList(b []byte, l traits.Lister) (_ []byte, err error) {
	b = append(b, '[')
	first := true
	for it := l.Iterator(); it.HasNext() == types.True; first = false {
		if !first {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, it.Next()); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}
