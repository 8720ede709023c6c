// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"os"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// TestBackstop has all commands together stay under a number of processes, even
// where no limit is set for one of them.
func TestBackstop(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err != nil || os.Geteuid() != 0 {
		t.Skip("control groups of this kind cannot be made here")
	}
	p := newPlace(t, sandbox.Config{MaxProcesses: 40}, nil)
	out, end := p.run(t, "exec sh -c 'i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done'", sandbox.Limits{})
	if !strings.Contains(out, "Cannot fork") {
		t.Errorf("%q %+v", out, end)
	}
}
