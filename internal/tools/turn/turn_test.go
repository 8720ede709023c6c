// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

func TestContract(t *testing.T) {
	for _, tool := range turn.Tools() {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}
