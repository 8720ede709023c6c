// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/syntax"
)

// definitions are the kinds of universal-ctags that an outline has to have.
var definitions = map[string]bool{
	"func": true, "function": true, "method": true, "class": true, "struct": true, "interface": true, "enum": true, "type": true,
	"union": true, "typedef": true, "namespace": true, "macro": true, "module": true, "implementation": true, "enumerator": true, "methodSpec": true,
}

// TestAsCtags holds outlines of real files, the examples of the authors of the
// grammars and some of Go's own, against universal-ctags: what it finds has to be
// found where it is. Known differences of ctags are allowed for by the least share.
func TestAsCtags(t *testing.T) {
	ctags, err := exec.LookPath("ctags")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("universal-ctags is not there: make test installs it where it can")
	}
	e := engineOf(t, t.TempDir())
	found, all := make(map[string]int), make(map[string]int)
	for _, file := range realFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o, err := e.Outline(t.Context(), file, text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, tag := range tagsOf(t, ctags, file) {
			all[o.Language]++
			if has(o.Symbols, tag) {
				found[o.Language]++
			} else {
				t.Logf("%s:%d has no %s %s", file, tag.line, tag.kind, tag.name)
			}
		}
	}
	for language, least := range map[string]float64{
		"go": 1, "python": 1, "rust": 0.98, "c": 0.97, "cpp": 0.95, "typescript": 0.97, "javascript": 0.8, "bash": 1,
	} {
		share := float64(found[language]) / float64(max(all[language], 1))
		t.Logf("%s: %d of %d that ctags finds", language, found[language], all[language])
		if share < least || all[language] < 4 {
			t.Errorf("%s: an outline has %d of the %d symbols that ctags finds: less than %v", language, found[language], all[language], least)
		}
	}
}

// realFiles are the examples of the grammars, and files of Go's source.
func realFiles(t *testing.T) (files []string) {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "all")
	list.Dir = "../../cmd/toolserver-syntax"
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dir := range strings.FieldsSeq(string(out)) {
		examples, _ := filepath.Glob(filepath.Join(dir, "examples", "*.*"))
		files = append(files, examples...)
	}
	own, _ := filepath.Glob(filepath.Join(goSource(t), "net", "http", "*.go"))
	files = append(files, own...)
	var known []string
	for _, file := range files {
		if syntax.IsCode(file) && !strings.Contains(file, "python2") { // which is no Python any more
			known = append(known, file)
		}
	}
	if len(known) < 50 {
		t.Fatalf("%d files", len(known))
	}
	return known
}

type tag struct {
	name, kind string
	line       int
}

// tagsOf returns the definitions that ctags finds.
func tagsOf(t *testing.T, ctags, file string) (tags []tag) {
	t.Helper()
	out, err := exec.Command(ctags, "--options=NONE", "-f", "-", "--sort=no", "--fields=nK", "--extras=", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		_, fields, ok := strings.Cut(line, ";\"\t")
		name, _, _ := strings.Cut(line, "\t")
		parts := strings.Split(strings.TrimSpace(fields), "\t")
		if !ok || len(parts) < 2 || !definitions[parts[0]] || strings.HasPrefix(name, "__anon") || strings.HasPrefix(name, "AnonymousFunction") {
			continue
		}
		number, err := strconv.Atoi(strings.TrimPrefix(parts[1], "line:"))
		if err != nil {
			t.Fatal(line)
		}
		odd := strings.HasSuffix(name, "=") && strings.HasSuffix(file, ".sh") || // an array of bash
			parts[0] == "namespace" && strings.HasSuffix(file, ".py") || // what is imported
			parts[0] == "class" && strings.HasSuffix(file, ".js") // any object
		if !odd {
			tags = append(tags, tag{strings.ReplaceAll(name, " ", ""), parts[0], number})
		}
	}
	return tags
}

// has reports whether a symbol is where a tag is.
func has(symbols []syntax.Symbol, t tag) bool {
	for _, s := range symbols {
		if strings.ReplaceAll(s.Name, " ", "") == t.name && s.Line <= t.line && t.line <= s.EndLine {
			return true
		}
	}
	return false
}
