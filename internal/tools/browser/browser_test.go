// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/command"
	tool "github.com/toolserver/toolserver/internal/tools/browser"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestContract(t *testing.T) {
	for _, tool := range tool.Tools(browser.New(command.New(command.Config{}), browser.Config{})) {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}
