// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestOutline(t *testing.T) {
	for input, want := range map[string]string{
		``:                                    ``,
		`{}`:                                  ``,
		`{"path":"README.md"}`:                `path:string(9)`,
		` { "a" : 1.5 , "b" : "x\"}y" } `:     `a:number b:string(5)`,
		`{"a":{"secret":[1,"]}"]},"b":[1,2]}`: `a:object(17) b:array(3)`,
		`{"a":true,"b":null,"c":false}`:       `a:boolean b:null c:boolean`,
		` "{\"path\":\"x\"}"`:                 `string`,
	} {
		if got := outline([]byte(input)); got != want {
			t.Errorf("outline of %s is %q, want %q", input, got, want)
		}
	}
}

// FuzzOutline proves that the outline of a valid object never has its values.
func FuzzOutline(f *testing.F) {
	f.Add("key", "value")
	f.Add("k", `"}],\`)
	f.Fuzz(func(t *testing.T, key, value string) {
		input, err := json.Marshal(map[string]any{"k": key, "list": []string{value}, "nested": map[string]string{key: value}})
		if err != nil {
			t.Skip()
		}
		got := outline(input)
		fields := strings.Fields(got)
		if len(fields) != 3 || !strings.HasPrefix(fields[0], "k:string(") ||
			!strings.HasPrefix(fields[1], "list:array(") || !strings.HasPrefix(fields[2], "nested:object(") {
			t.Errorf("outline of %s is %q", input, got)
		}
	})
}
