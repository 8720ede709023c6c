// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package dynamic_test

import (
	"strings"
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

// TestIdentity: who grants a version grants what is run, so that nobody may be able to make
// another one of that identity.
func TestIdentity(t *testing.T) {
	registry := new(tools.Registry)
	set, err := dynamic.New(dynamic.Config{}, registry, command.New(command.Config{Path: []string{"/bin", "/usr/bin"}}))
	if err != nil {
		t.Fatal(err)
	}
	create := `{"name":"shout","description":"Shouts.","schema":{"type":"object"},"interpreter":"bash","source":"tr a-z A-Z"}`
	if _, _, err := toolstest.Run(t, set.Tools()[0], toolstest.Env(t, nil), create); err != nil {
		t.Fatal(err)
	}
	made, ok := registry.Lookup("dynamic__shout", nil)
	if !ok {
		t.Fatal("it was not made")
	}
	number, digest, _ := strings.Cut(made.Spec.Version, "-")
	if bits := 4 * len(digest); number != "1" || bits < 128 {
		t.Errorf("version %s has %d bits of its digest", made.Spec.Version, bits)
	}
}
