// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// TestPod runs the other tests in a container.
func TestPod(t *testing.T) { sandboxtest.Pod(t, "", "TestPod|GuardStopped") }
