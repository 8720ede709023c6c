// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestProgramIsNotOnTheHeap: a helper that is as large as a server does not have the collector wait for
// five times as much garbage.
func TestProgramIsNotOnTheHeap(t *testing.T) {
	const size = 64 << 20
	helper := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(helper, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(helper, size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	file, err := (&Sandbox{config: Config{Helper: helper}}).program()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > size/8 {
		t.Errorf("%d bytes were allocated", n)
	}
	if info, err := file.Stat(); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
}
