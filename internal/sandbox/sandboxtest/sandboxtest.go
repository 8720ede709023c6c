// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxtest builds the helper for tests that run commands, and runs
// such tests as other users.
package sandboxtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/programtest"
	exechelper "github.com/toolserver/toolserver/internal/sandbox/helper"
)

// HelperVariable names the helper for tests that other tests run.
const HelperVariable = "SANDBOXTEST_HELPER"

// Main runs the tests of a package with a helper that was built for them. It is
// called by TestMain.
func Main(m *testing.M) {
	os.Exit(Run(m, func(string) {}))
}

// Run runs the tests of a package once ready was told the path of the helper.
func Run(m *testing.M, ready func(helper string)) int {
	if len(os.Args) == 0 { // never; but what a test has in it must change when the helper does, or go test would not run it again
		exechelper.Execute(nil)
	}
	if helper = os.Getenv(HelperVariable); helper != "" {
		ready(helper)
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sandboxtest")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755) // for other users
	if helper, err = programtest.Build(dir, "cmd/toolserver-exec"); err != nil {
		panic(err)
	}
	ready(helper)
	return m.Run()
}

var helper string

// Helper returns the path of the helper.
func Helper() string { return helper }

// Unprivileged runs tests of the package, chosen by regular expressions, as a
// user who may do nothing. Who is such a user skips it.
func Unprivileged(t *testing.T, tests, skip string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("these are run by a user without privileges")
	}
	dir, err := os.MkdirTemp("", "sandboxtest")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/proc/self/exe") // which is where only root may look
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-test.v", "-test.run", tests, "-test.skip", skip)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), HelperVariable+"="+helper, "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	runTests(t, cmd)
}

// runTests runs a program of tests, of which one at least is to pass and none to
// fail.
func runTests(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.WaitDelay = time.Minute // or a process that is left, and has its output, holds up all tests
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := bytes.Count(out, []byte("\n--- PASS"))
	if passed == 0 {
		t.Fatalf("nothing was run:\n%s", out)
	}
	t.Logf("%d tests passed", passed)
	if testing.Verbose() {
		t.Logf("%s", said(out))
	}
}

// said returns what tests have written, without the lines about their course.
func said(out []byte) []byte {
	var kept [][]byte
	for _, line := range bytes.Split(out, []byte("\n")) {
		if trimmed := bytes.TrimLeft(line, " "); !bytes.HasPrefix(trimmed, []byte("=== ")) && !bytes.HasPrefix(trimmed, []byte("--- ")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, []byte("\n"))
}
