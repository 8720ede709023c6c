// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestDownloadedPipe: a browser that was taken over cannot hold up a call with a pipe in the
// place of a download.
func TestDownloadedPipe(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "downloads"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "downloads", "1"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(&Set{})
	var err error
	if b.files, err = os.OpenRoot(dir); err != nil {
		t.Fatal(err)
	}
	defer b.files.Close()
	b.downloads = []*Download{{GUID: "1", Name: "a", State: "completed"}}
	if _, file, err := b.Downloaded(t.Context(), time.Minute); err == nil || file != nil {
		t.Errorf("%v, %v", file, err)
	}
}
