// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/toolserver/toolserver/internal/programtest"
)

// TestDemo: the servers start, a call is cancelled through another replica, and all ends.
func TestDemo(t *testing.T) {
	program, err := programtest.Build(t.TempDir(), "cmd/toolserver")
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), program, size, true); err != nil {
		t.Fatal(err)
	}
}
