// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// TestMain gives the servers of tests a helper: this binary cannot be one.
func TestMain(m *testing.M) {
	sandboxtest.Main(m)
}
