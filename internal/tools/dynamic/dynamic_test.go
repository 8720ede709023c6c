// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package dynamic_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/dynamic"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestContract(t *testing.T) {
	set, err := dynamic.New(dynamic.Config{}, new(tools.Registry), command.New(command.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range set.Tools() {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}
