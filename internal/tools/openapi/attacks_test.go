// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestPathsLeadNowhereElse: no value leads out of its place in the path, also where a proxy
// takes what is escaped for what it stands for.
func TestPathsLeadNowhereElse(t *testing.T) {
	base, err := url.Parse("https://api.example/v1")
	if err != nil {
		t.Fatal(err)
	}
	op := &operation{base: base, method: "GET", path: "/pets/{id}/toys", params: []param{{key: "id", name: "id", in: openapi3.ParameterInPath, style: "simple"}}}
	for value, ok := range map[string]bool{
		"7": true, "a/b": true, "a..b": true, "...": true, "a b?c#d": true,
		"..": false, ".": false, "../../admin": false, "a/../../../admin": false, `..\\..\\admin`: false, "x/..": false,
	} {
		request, err := op.address(map[string]any{"id": value})
		if (err == nil) != ok {
			t.Errorf("%q: %v %v", value, request, err)
		}
	}
}

// TestAliasesOfLargeTexts: what aliases stand for is counted before anybody writes it out.
func TestAliasesOfLargeTexts(t *testing.T) {
	head := "openapi: 3.0.0\npaths: {/x: {get: {responses: {}}}}\n"
	large := head + "x-a: &a " + strings.Repeat("x", 1<<20) + "\nx-b: [" + strings.Repeat("*a, ", 100_000) + "]\n" // 100 GiB
	for name, c := range map[string]struct{ text, want string }{
		"large":   {large, "without its aliases"},
		"endless": {head + "x-a: &a [*a]\n", "alias"},
		"few":     {head + "x-a: &a {type: string}\nx-b: [*a, *a]\nx-c: '& *'\n", ""},
	} {
		_, err := New(Spec{}, nil).reduce([]byte(c.text))
		if got := fmt.Sprint(err); err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}
