// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

func TestRename(t *testing.T) {
	spec := tools.Spec{Keys: []tools.Key{{Other: "file_path", Name: "path"}, {Other: "-i", Name: "ignore_case"}}}
	long := strings.Repeat("x", tools.MaxInputBytes)
	for _, test := range []struct{ input, want string }{
		{`{"file_path":"a"}`, `{"path":"a"}`},
		{` { "x" : {"file_path":1} , "file_path" : "file_path", "-i":true } `, ` { "x" : {"file_path":1} , "path" : "file_path", "ignore_case":true } `},
		{`{"file_path":1,"path":2,"file_path":3}`, `{"path":1,"path":2,"path":3}`},
		{`{"x":"\"file_path\":1"}`, `{"x":"\"file_path\":1"}`},
		{`{"\u0066ile_path":1,"file_path":2}`, `{"\u0066ile_path":1,"path":2}`},
		{`{"path":"file_path"}`, `{"path":"file_path"}`},
		{`["file_path"]`, `["file_path"]`},
		{`{"file_path":`, `{"file_path":`},
		{`{"file_path" 1}`, `{"file_path" 1}`},
		{`{"file_path":1}x`, `{"path":1}x`},
		{``, ``},
		{`{"file_path":"` + long + `"}`, `{"file_path":"` + long + `"}`},
	} {
		if got := string(spec.Rename([]byte(test.input))); got != test.want {
			t.Errorf("%.200s is %.200s, want %.200s", test.input, got, test.want)
		}
	}
}

// TestRenameWithin renames keys of objects that are values of others.
func TestRenameWithin(t *testing.T) {
	spec := tools.Spec{Keys: []tools.Key{{Other: "role", Name: "agent", In: "stages"}, {Other: "role", Name: "who", In: "map"}, {Other: "steps", Name: "stages"}}}
	for _, test := range []struct{ input, want string }{
		{`{"stages":[{"role":"a","x":[{"role":1}]}, "role", { "role" : "b" }],"role":1}`, `{"stages":[{"agent":"a","x":[{"role":1}]}, "role", { "agent" : "b" }],"role":1}`},
		{`{"map":{"role":"a"},"other":{"role":"b"}}`, `{"map":{"who":"a"},"other":{"role":"b"}}`},
		{`{"stages":{"stages":[{"role":1}]}}`, `{"stages":{"stages":[{"role":1}]}}`},
		{`{"stages":"role","steps":[]}`, `{"stages":"role","stages":[]}`},
		{`{"stages":[{"role":1]}`, `{"stages":[{"role":1]}`},
	} {
		if got := string(spec.Rename([]byte(test.input))); got != test.want {
			t.Errorf("%s is %s, want %s", test.input, got, test.want)
		}
	}
}
