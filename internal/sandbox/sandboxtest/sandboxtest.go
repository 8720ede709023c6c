// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxtest builds the helper for tests that run commands.
package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main runs the tests of a package with a helper that was built for them. It is
// called by TestMain.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "sandboxtest")
	if err != nil {
		panic(err)
	}
	helper = filepath.Join(dir, "toolserver-exec")
	build := exec.Command("go", "build", "-o", helper, "github.com/toolserver/toolserver/cmd/toolserver-exec")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("building toolserver-exec: %v\n%s", err, out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var helper string

// Helper returns the path of the helper.
func Helper() string { return helper }
