// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// jailedVariable has a copy of the test program do, as a command, what jailed
// lists.
const jailedVariable = "TOOLSERVER_TEST_JAILED"

var jailed = map[string]func(args []string){
	"serve":    serveHere,
	"race":     race,
	"connects": connects,
	"setid":    makeSetID,
}

// startJailed starts a copy of the test program in the jail.
func (p *place) startJailed(t testing.TB, what string, args ...string) (*sandbox.Process, *os.File) {
	t.Helper()
	path := filepath.Join(p.dir, "jailed")
	if _, err := os.Stat(path); err != nil {
		program, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p.start(t, "exec env "+jailedVariable+"="+what+" ./jailed "+strings.Join(args, " "), sandbox.Limits{})
}

// runJailed returns what a copy of the test program says in the jail.
func (p *place) runJailed(t testing.TB, what string, args ...string) (string, sandbox.End) {
	t.Helper()
	process, r := p.startJailed(t, what, args...)
	defer r.Close()
	var out bytes.Buffer
	copied := make(chan struct{})
	go func() { io.Copy(&out, r); close(copied) }()
	end, err := process.Wait()
	<-copied
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), end
}
