// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// grammars are the languages of modules that have the examples of their authors.
var grammars = map[string]string{
	"tree-sitter-bash": "bash", "tree-sitter-c": "c", "tree-sitter-c-sharp": "csharp", "tree-sitter-cpp": "cpp", "tree-sitter-css": "css",
	"tree-sitter-go": "go", "tree-sitter-html": "html", "tree-sitter-java": "java", "tree-sitter-javascript": "javascript", "tree-sitter-json": "json",
	"tree-sitter-kotlin": "kotlin", "tree-sitter-php": "php", "tree-sitter-python": "python", "tree-sitter-ruby": "ruby", "tree-sitter-rust": "rust",
	"tree-sitter-toml": "toml", "tree-sitter-typescript": "typescript", "tree-sitter-yaml": "yaml",
}

var (
	rule   = regexp.MustCompile(`^={3,}[^=]*$`)
	middle = regexp.MustCompile(`(?m)^-{3,}[^-\n]*\n`)
	labels = regexp.MustCompile(`[a-zA-Z_]+: *\(`)
	blank  = regexp.MustCompile(`\s+`)
)

// examples calls use with the examples of a file, but for those of wrong texts and of
// other languages.
func examples(file string, use func(name, text, want string)) {
	lines := strings.SplitAfter(strings.ReplaceAll(file, "\r\n", "\n"), "\n")
	isRule := func(i int) bool { return i < len(lines) && rule.MatchString(strings.TrimRight(lines[i], "\n")) }
	for i := 0; i < len(lines); {
		if !isRule(i) {
			i++
			continue
		}
		name := ""
		for i++; i < len(lines) && !isRule(i); i++ {
			name += lines[i]
		}
		body := ""
		for i++; i < len(lines) && !isRule(i); i++ {
			body += lines[i]
		}
		dividers := middle.FindAllStringIndex(body, -1)
		if len(dividers) == 0 || strings.Contains(name, "\n:") {
			continue
		}
		last := dividers[len(dividers)-1]
		text, want := body[:last[0]], body[last[1]:]
		if strings.Contains(want, "ERROR") || strings.Contains(want, "MISSING") || strings.Contains(want, ";") {
			continue
		}
		want = blank.ReplaceAllString(labels.ReplaceAllString(want, "("), " ")
		want = strings.TrimSpace(strings.NewReplacer(" )", ")", "( ", "(").Replace(want))
		use(strings.TrimSpace(name), strings.TrimSuffix(text, "\n"), want)
	}
}

// TestGrammarsOwnExamples: what the authors of grammars say that their examples are made of is
// what comes out here.
func TestGrammarsOwnExamples(t *testing.T) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "all")
	list.Dir = "../../cmd/toolserver-syntax"
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	engine := engineOf(t, t.TempDir())
	seen := make(map[string]int)
	for dir := range strings.FieldsSeq(string(out)) {
		module, _, _ := strings.Cut(filepath.Base(dir), "@")
		language := grammars[module]
		if language == "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "test", "corpus", "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			examples(string(text), func(name, text, want string) {
				seen[language]++
				if got, err := engine.Shape(t.Context(), language, []byte(text)); err != nil || got != want {
					t.Errorf("%s, %s of %s: %v\n%s\n got %s\nwant %s", language, name, filepath.Base(file), err, text, got, want)
				}
			})
		}
	}
	for _, language := range grammars {
		if seen[language] == 0 {
			t.Errorf("there are no examples of %s", language)
		}
	}
	t.Log(seen)
}
