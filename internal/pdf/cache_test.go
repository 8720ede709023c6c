// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// TestForeignCache: machine code is taken from a directory of our own only.
func TestForeignCache(t *testing.T) {
	jails, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "document.pdf")
	if err := os.WriteFile(path, document(hello("x")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"group", func(dir string) error { return os.Chmod(dir, 0o770) }, "can be written by others, its mode is 0770"},
		{"all", func(dir string) error { return os.Chmod(dir, 0o777) }, "can be written by others, its mode is 0777"},
		{"owner", func(dir string) error { return os.Chown(dir, 12345, -1) }, "is not the server's own"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "cache")
			if err := os.Mkdir(cache, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := test.spoil(cache); os.IsPermission(err) {
				t.Skip("only root gives directories away")
			} else if err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			reader := pdf.NewReader(pdf.Config{Sandbox: jails, Cache: cache, Program: "/bin/false"})
			_, err = reader.Read(t.Context(), file, pdf.Request{}, func(pdf.Page) bool { return true })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestPreparing: who waits for machine code to be made is told so, and nobody else.
func TestPreparing(t *testing.T) {
	jails, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "document.pdf")
	if err := os.WriteFile(path, document(hello("x")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, entry string
		want        int
	}{{"new", "", 2}, {"filled", "wazero", 0}} {
		t.Run(test.name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "cache")
			if test.entry != "" {
				if err := os.MkdirAll(filepath.Join(cache, test.entry), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			// The program makes nothing, so that the second document waits as the first did.
			reader := pdf.NewReader(pdf.Config{Sandbox: jails, Cache: cache, Program: "/bin/false"})
			reports := 0
			for range 2 {
				file, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				_, err = reader.Read(t.Context(), file, pdf.Request{Preparing: func() { reports++ }}, func(pdf.Page) bool { return true })
				if err == nil {
					t.Fatal("/bin/false reads documents")
				}
			}
			if reports != test.want {
				t.Errorf("told %d times, want %d", reports, test.want)
			}
		})
	}
}
