// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"

	"github.com/toolserver/toolserver/internal/shell"
)

// environment is what expressions are written in: CEL with optional values, and two
// functions. command returns the command line that a list of words stands for; feeds the
// text, and the directory, that a command line or a list of words gives to a program, if
// that is all it does.
// What an expression costs is bounded by the size of an input: none has a loop in a loop.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(), ext.Strings(), ext.Lists(), ext.Regex(), ext.Math(), ext.Bindings(),
		cel.Function("command", cel.Overload("command_list", []*cel.Type{cel.ListType(cel.DynType)}, cel.StringType,
			cel.UnaryBinding(commandOf))),
		cel.Function("feeds", cel.Overload("feeds_dyn_string", []*cel.Type{cel.DynType, cel.StringType}, cel.OptionalType(cel.DynType),
			cel.BinaryBinding(feeds))),
		cel.Variable("input", cel.DynType), cel.Variable("text", cel.StringType), cel.Variable("details", cel.DynType),
		cel.Variable("stdout", cel.StringType), cel.Variable("stderr", cel.StringType),
		cel.Variable("exit", cel.DynType), cel.Variable("ran_ms", cel.IntType), // how long this call ran
	)
})

// A program is an expression that can be evaluated; nil: there is none.
type program cel.Program

func newProgram(source string) (program, *ast.AST, error) {
	if source == "" {
		return nil, nil, nil
	}
	env, err := environment()
	if err != nil {
		return nil, nil, err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, nil, issues.Err()
	}
	made, err := env.Program(parsed)
	return made, parsed.NativeRep(), err
}

// commandOf returns the command line of a list of words. One that only has a shell run a
// script is that script.
func commandOf(list ref.Val) ref.Val {
	words, wrong := wordsOf(list)
	if wrong != nil {
		return wrong
	}
	return types.String(shell.Line(words))
}

// wordsOf returns the words of a list, or what is wrong with it.
func wordsOf(list ref.Val) (words []string, wrong ref.Val) {
	all, ok := list.(traits.Lister)
	if !ok {
		return nil, types.MaybeNoSuchOverloadErr(list)
	}
	for it := all.Iterator(); it.HasNext() == types.True; {
		word, ok := it.Next().(types.String)
		if !ok {
			return nil, types.NewErr("command: a word is no text")
		}
		words = append(words, string(word))
	}
	return words, nil
}

// feeds returns what a command, a line or a list of words, gives to a program.
func feeds(command, program ref.Val) ref.Val {
	name, ok := program.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(program)
	}
	var fed shell.Fed
	if line, text := command.(types.String); text {
		fed, ok = shell.Feeds(string(line), string(name))
	} else {
		words, wrong := wordsOf(command)
		if wrong != nil {
			return wrong
		}
		if ok = len(words) == 2 && words[0] == string(name); ok {
			fed.Text = words[1]
		} else {
			fed, ok = shell.Feeds(shell.Line(words), string(name))
		}
	}
	if !ok {
		return types.OptionalNone
	}
	return types.OptionalOf(types.DefaultTypeAdapter.NativeToValue(map[string]string{"dir": fed.Dir, "text": fed.Text}))
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
