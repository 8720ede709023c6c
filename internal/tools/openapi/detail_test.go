// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/tools/openapi"
)

// TestDetail: operators see where an API is.
func TestDetail(t *testing.T) {
	for want, spec := range map[string]openapi.Spec{
		"https://api.example/v1":                       {Name: "x", URL: "https://api.example/openapi.json", BaseURL: "https://api.example/v1"},
		"as its document says: /etc/api.yaml":          {Name: "x", File: "/etc/api.yaml", BaseURL: "document"},
		"as its document says: (in the configuration)": {Name: "x", Document: "{}", BaseURL: "document"},
	} {
		if got := openapi.New(spec, nil).Detail().At; got != want {
			t.Errorf("%+v is at %q: want %q", spec, got, want)
		}
	}
}
