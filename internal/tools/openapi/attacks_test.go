// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"net/url"
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
