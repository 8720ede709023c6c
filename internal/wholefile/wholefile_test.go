// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package wholefile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/wholefile"
)

func TestReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	name := filepath.Join(dir, "file")
	for _, content := range []string{"first", "", "second"} {
		if err := wholefile.Replace(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("the file has %q, %v, want %q", got, err, content)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left beside it: %v, %v", entries, err)
	}
}

// TestReplaceFails: what cannot be replaced stays, nothing is left beside it, and the cause
// tells of no path.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full") // a directory, which no file replaces
	if err := os.MkdirAll(filepath.Join(full, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{full, filepath.Join("/proc/self/none", "file"), filepath.Join("/dev/null", "file")} {
		err := wholefile.Replace(name, []byte("new"))
		if err == nil || !strings.Contains(err.Error(), "/") {
			t.Fatalf("%s: %v", name, err)
		}
		if cause := wholefile.Cause(err); strings.Contains(cause.Error(), "/") {
			t.Errorf("the cause tells where: %v", cause)
		}
	}
	broken := errors.New("broken")
	if err := wholefile.Write(filepath.Join(dir, "part"), func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("what could not be written: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || !entries[0].IsDir() {
		t.Errorf("left: %v, %v", entries, err)
	}
}
