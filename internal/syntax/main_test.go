// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/syntax/syntaxtest"
	"github.com/toolserver/toolserver/internal/workspace"
)

func TestMain(m *testing.M) { syntaxtest.Main(m) }

// engineOf returns the engine of a directory, which hears of changes.
func engineOf(t testing.TB, dir string) *syntax.Engine {
	t.Helper()
	pool := syntaxtest.Pool(t, syntaxtest.Program(t), index.NewPool(index.Config{}))
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return pool.Engine(ws)
}

// tree writes files below a directory of its own.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, dir, name, text)
	}
	return dir
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// goSource returns the directory of Go's own source.
func goSource(t testing.TB) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src")
}
