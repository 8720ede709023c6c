// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"fmt"
	"strings"
	"testing"

	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"
)

// TestReportsAreBounded: whatever a server reports, some of it is kept, and no more.
func TestReportsAreBounded(t *testing.T) {
	c := newClient(&Server{})
	report := func(path string, messages ...string) {
		params := &protocol.PublishDiagnosticsParams{URI: uri.File(path)}
		for _, m := range messages {
			params.Diagnostics = append(params.Diagnostics, protocol.Diagnostic{Message: protocol.String(m)})
		}
		if err := c.PublishDiagnostics(t.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		report(fmt.Sprintf("/%d", i), strings.Repeat("x", 1<<20), "small")
	}
	kept := 0
	for _, r := range c.found {
		for _, d := range r.list {
			kept += len(d.Message.(protocol.String))
		}
	}
	if kept > maxReported || kept < maxReported/2 || c.size > maxReported+100*10 || len(c.found) != 100 {
		t.Errorf("%d bytes of %d reports are kept, and counted as %d", kept, len(c.found), c.size)
	}
	for i := range 100 {
		report(fmt.Sprintf("/%d", i))
	}
	if report("/7", "after all"); len(c.found["/7"].list) != 1 || c.size > 10_000 {
		t.Errorf("what was kept is not forgotten: %d bytes", c.size)
	}
}
