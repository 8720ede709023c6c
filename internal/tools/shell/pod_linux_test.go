// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// TestPod runs all that attacks, works and is limited in a container.
func TestPod(t *testing.T) {
	sandboxtest.Pod(t, "", "TestPod|TestUnprivileged|TestSoak|TestContract")
}
