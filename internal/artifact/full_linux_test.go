// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/artifact"
)

// TestFullDisk writes more than a real file system has room for.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, err := artifact.Open(artifact.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := create(t, s, alice)
	data := bytes.Repeat([]byte("0123456789"), 3000)
	for range 4 {
		if n, err := w.Write(data); n != len(data) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	info := w.Close()
	if info.Written != 120_000 || info.Size == 0 || info.Size > 64<<10 || info.Complete || !strings.Contains(info.Incomplete, "full") {
		t.Errorf("%+v", info)
	}
	got, err := read(s, "alice", info.ID, 0, 0)
	if err != nil || got != strings.Repeat(string(data), 4)[:info.Size] {
		t.Errorf("%d bytes are kept, %v, and they are not the first", len(got), err)
	}
}
