// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// TestMain gives the servers of tests a helper, which this binary cannot be, and the variables
// that their configurations name: tests that run at the same time set none.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"TEST_MODEL_KEY": "key", "TOKEN_OF_THE_SERVER": "not for programs", "GIVEN_ON": "by its name",
	} {
		os.Setenv(name, value)
	}
	sandboxtest.Main(m)
}
