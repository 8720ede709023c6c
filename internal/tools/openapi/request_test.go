// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"net/url"
	"testing"
)

// TestStylesOfPaths has the examples of the specification for parameters in paths.
func TestStylesOfPaths(t *testing.T) {
	list, object := []any{"blue", "black", "brown"}, map[string]any{"B": json.Number("150"), "G": json.Number("200"), "R": json.Number("100")}
	for _, c := range []struct {
		style         string
		explode       bool
		text, of, set string
	}{
		{"simple", false, "blue", "blue,black,brown", "B,150,G,200,R,100"},
		{"simple", true, "blue", "blue,black,brown", "B=150,G=200,R=100"},
		{"label", false, ".blue", ".blue,black,brown", ".B,150,G,200,R,100"},
		{"label", true, ".blue", ".blue.black.brown", ".B=150.G=200.R=100"},
		{"matrix", false, ";color=blue", ";color=blue,black,brown", ";color=B,150,G,200,R,100"},
		{"matrix", true, ";color=blue", ";color=blue;color=black;color=brown", ";B=150;G=200;R=100"},
	} {
		op := &operation{base: &url.URL{Scheme: "https", Host: "api.example"}, method: "GET", path: "/x{color}",
			params: []param{{key: "color", name: "color", in: "path", style: c.style, explode: c.explode}}}
		for want, value := range map[string]any{c.text: "blue", c.of: list, c.set: object} {
			request, err := op.address(map[string]any{"color": value})
			if err != nil || request.URL.EscapedPath() != "/x"+want {
				t.Errorf("%s, explode %v: %v gives %v %v, want %s", c.style, c.explode, value, request, err, want)
			}
		}
	}
}
