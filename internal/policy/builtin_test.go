// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/strictyaml"
)

// TestBuiltinIsDefault proves that builtin.go is default.yaml, and that both are
// the same policy. With UPDATE_GOLDEN=1 it writes builtin.go.
func TestBuiltinIsDefault(t *testing.T) {
	var f policyFile
	reader := strictyaml.NewReader(BuiltinName, "policy")
	reader.Read(defaultText, &f)
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	code, err := format.Source(builtinCode(&f))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("builtin.go", code, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("written: run the test again")
	}
	if have, err := os.ReadFile("builtin.go"); err != nil || !bytes.Equal(have, code) {
		t.Errorf("builtin.go is not what default.yaml says (%v): run UPDATE_GOLDEN=1 go test ./internal/policy", err)
	}
	want, err := Parse(BuiltinName, defaultText) // which tries its examples
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(Builtin(), want) {
		t.Errorf("the built-in policy is\n%+v\nand default.yaml\n%+v", Builtin(), want)
	}
}

// builtinCode returns the source of builtin.go.
func builtinCode(f *policyFile) []byte {
	var code bytes.Buffer
	code.WriteString(`// Code generated from default.yaml by TestBuiltinIsDefault. DO NOT EDIT.

// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

// builtinFile is default.yaml without its examples, so that a server need not
// read it at every start.
var builtinFile = policyFile{
`)
	fields := func(v reflect.Value) {
		for i := range v.NumField() {
			name, field := v.Type().Field(i).Name, v.Field(i)
			switch value := field.Interface().(type) {
			case []ruleFile, examplesFile:
			case Action:
				fmt.Fprintf(&code, "Action: %s,\n", [...]string{"Deny", "Ask", "Allow"}[value])
			case string:
				if value != "" {
					fmt.Fprintf(&code, "%s: %q,\n", name, value)
				}
			case []string:
				if len(value) == 0 {
					continue
				}
				fmt.Fprintf(&code, "%s: []string{\n", name)
				for _, text := range value {
					fmt.Fprintf(&code, "%q,\n", text)
				}
				code.WriteString("},\n")
			default:
				if !field.IsZero() && !(field.Kind() == reflect.Slice && field.Len() == 0) {
					fmt.Fprintf(&code, "%s: %s,\n", name, strings.ReplaceAll(fmt.Sprintf("%#v", value), "policy.", ""))
				}
			}
		}
	}
	fields(reflect.ValueOf(*f))
	code.WriteString("Rules: []ruleFile{\n")
	for _, rule := range f.Rules {
		code.WriteString("{\n")
		fields(reflect.ValueOf(rule))
		code.WriteString("},\n")
	}
	code.WriteString("},\n}\n")
	return code.Bytes()
}
