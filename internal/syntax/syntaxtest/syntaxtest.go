// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package syntaxtest parses source code in tests as the server does: in a process
// in the sandbox.
package syntaxtest

import (
	"os"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/programtest"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/syntax"
)

var dir string // has the program, once there is one

// Main runs the tests of a package. It is called by TestMain.
func Main(m *testing.M) {
	code := sandboxtest.Run(m, func(string) {})
	if dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var build = sync.OnceValues(func() (syntax.Config, error) {
	var err error
	if dir, err = os.MkdirTemp("", "syntaxtest"); err != nil {
		return syntax.Config{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return syntax.Config{}, err
	}
	program, err := programtest.BuildSyntax(dir)
	if err != nil {
		return syntax.Config{}, err
	}
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	return syntax.Config{Sandbox: s, Program: program}, err
})

// Config returns how tests parse. The program that does is built for the first one.
func Config(t testing.TB) syntax.Config {
	t.Helper()
	config, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return config
}
