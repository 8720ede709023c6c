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
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
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

var build = sync.OnceValues(func() (program string, err error) {
	if dir, err = os.MkdirTemp("", "syntaxtest"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	return programtest.BuildSyntax(dir)
})

var open = sync.OnceValues(func() (*sandbox.Sandbox, error) {
	return sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
})

// Program returns the path of toolserver-syntax, which is built for the first test.
func Program(t testing.TB) string {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Pool returns a pool that parses with a program. indexes may be nil.
func Pool(t testing.TB, program string, indexes *index.Pool) *syntax.Pool {
	t.Helper()
	jails, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return syntax.NewPool(syntax.Config{Program: program}, jails, indexes, search.NewPool(indexes))
}
