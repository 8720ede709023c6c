// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/syntax/syntaxtest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestHostileTexts proves that no text takes more than it may, and that the next
// one is parsed whatever came before.
func TestHostileTexts(t *testing.T) {
	e := engineOf(t, t.TempDir())
	minified := "var a=1;" + strings.Repeat("function f(a,b){return a+b*2}(1);", 30_000)
	for _, c := range []struct {
		name, file, text string
		fails            error // nil: it has an outline
	}{
		{"not Go at all", "a.go", "}}}}{{{{ func ((( \x01\x02", nil},
		{"half of a file", "a.go", "package a\n\nfunc f() {\n\tif x {\n", nil},
		{"empty", "a.go", "", nil},
		{"one line", "a.js", minified, nil},
		{"deep brackets", "a.js", strings.Repeat("[", 100_000), nil},
		{"deep brackets that end", "a.json", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), nil},
		{"deep parentheses", "a.go", "package a\nvar x = " + strings.Repeat("(", 100_000), nil},
		{"deep functions", "a.js", strings.Repeat("function f(){", 20_000), nil},
		{"deep templates", "a.cpp", strings.Repeat("a<", 20_000), nil},
		{"deep sections", "a.md", strings.Repeat("> ", 2_000) + "# x", nil},
		{"Latin-1", "a.py", "# caf\xe9\ndef f(): pass\n", nil},
		{"noise", "a.go", noise(1 << 20), nil},
		{"no language", "a.xyz", "x", syntax.ErrLanguage},
		{"too large", "a.go", strings.Repeat("x", syntax.MaxText+1), syntax.ErrLimit},
	} {
		began := time.Now()
		_, err := e.Outline(t.Context(), c.file, []byte(c.text))
		if !errors.Is(err, c.fails) && !errors.Is(err, syntax.ErrLimit) && !errors.Is(err, syntax.ErrCrashed) {
			t.Errorf("%s: %v, want %v", c.name, err, c.fails)
		}
		t.Logf("%s: %v after %v", c.name, err, time.Since(began).Round(time.Millisecond))
		o, err := e.Outline(t.Context(), "b.go", []byte("package a\n\nfunc F() {}\n"))
		if err != nil || len(o.Symbols) != 1 || o.Symbols[0].Name != "F" {
			t.Fatalf("after %s: %v, %v", c.name, o, err)
		}
	}
}

// noise is bytes that no grammar knows, and no NUL.
func noise(n int) string {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x>>24)%255 + 1
	}
	return string(b)
}

// TestFiles are those that cannot be parsed: they are told of, and others are found.
func TestFilesThatCannotBeParsed(t *testing.T) {
	dir := tree(t, map[string]string{"a.go": "package a\n\nfunc F() {}\n", "binary.go": "package a\x00func F() {}", "broken.go": "func F( {{{"})
	large, err := os.Create(filepath.Join(dir, "large.go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := large.WriteString("package a\n\nfunc F() {}\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := large.WriteString(strings.Repeat("// text\n", 100<<20/8)); err != nil {
		t.Fatal(err)
	}
	large.Close()
	e := engineOf(t, dir)
	found, survey, err := e.Find(t.Context(), syntax.Scope{}, syntax.Query{Name: "F", Exact: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 || found[0].Path != "a.go" || survey.Unparsed != 1 {
		t.Error(names(found), survey)
	}
	if _, err := e.Read("large.go"); !errors.Is(err, syntax.ErrLimit) {
		t.Error(err)
	}
	if _, err := e.Read("binary.go"); !errors.Is(err, syntax.ErrBinary) {
		t.Error(err)
	}
}

// TestHelperThatFails has programs in place of toolserver-syntax: the server says
// what is wrong, and does not wait for ever.
func TestHelperThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   error
	}{
		"ends at once":      {"#!/bin/sh\nexit 3\n", syntax.ErrCrashed},
		"answers nonsense":  {"#!/bin/sh\nprintf 'hello, world, this is no answer at all'\nsleep 60\n", syntax.ErrCrashed},
		"answers too short": {"#!/bin/sh\nprintf '\\002\\000\\000\\000\\000x'\nsleep 60\n", syntax.ErrCrashed},
		"is not there":      {"", syntax.ErrMissing},
	} {
		program := filepath.Join(t.TempDir(), "toolserver-syntax")
		if c.script != "" {
			if err := os.WriteFile(program, []byte(c.script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		ws, err := workspace.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		pool := syntaxtest.Pool(t, program, nil)
		_, err = pool.Engine(ws).Outline(t.Context(), "a.go", []byte("package a\n"))
		if !errors.Is(err, c.want) {
			t.Errorf("a helper that %s: %v, want %v", name, err, c.want)
		}
		ws.Close()
	}
}

// TestHelperThatHangs is killed when the call is.
func TestHelperThatHangs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "toolserver-syntax")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	pool := syntaxtest.Pool(t, program, nil)
	stopped := errors.New("the call was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(stopped) })
	if _, err := pool.Engine(ws).Outline(ctx, "a.go", []byte("package a\n")); !errors.Is(err, stopped) {
		t.Error(err)
	}
}
