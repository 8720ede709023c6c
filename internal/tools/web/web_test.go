// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/web"
)

func family(t testing.TB, c web.Config) map[string]tools.Tool {
	t.Helper()
	list, err := web.Tools(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]tools.Tool)
	for _, tool := range list {
		byName[tool.Spec().Name] = tool
	}
	return byName
}

func TestContract(t *testing.T) {
	for name, tool := range family(t, web.Config{}) {
		t.Run(name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}
