// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestTable: servers that run what a workspace names are there where an operator names them.
func TestTable(t *testing.T) {
	for _, test := range []struct {
		name    string
		servers []Server
		has     bool
	}{
		{"nothing said", nil, false},
		{"named", []Server{{Name: "rust-analyzer"}}, true},
		{"left out", []Server{{Name: "rust-analyzer", Off: true}}, false},
		{"another one", []Server{{Name: "zls", Command: []string{"zls"}, Languages: map[string][]string{"zig": {".zig"}}}}, false},
	} {
		config := Config{Servers: test.servers}
		config.Check(func(key, format string, args ...any) {
			t.Errorf("%s: %s: "+format, append([]any{test.name, key}, args...)...)
		})
		at := slices.IndexFunc(config.Known(), func(s Server) bool { return s.languageOf("main.rs") != "" })
		if has := at >= 0; has != test.has {
			t.Errorf("%s: rust-analyzer is used: %t", test.name, has)
		}
		if !slices.ContainsFunc(config.Known(), func(s Server) bool { return s.Name == "gopls" }) {
			t.Errorf("%s: gopls is not used", test.name)
		}
	}
}

// TestTableAdds: what an operator says of a known server without its command is added to it.
func TestTableAdds(t *testing.T) {
	config := Config{Servers: []Server{{Name: "gopls", Env: []string{"A=b"}, Settings: map[string]any{"gopls": map[string]any{"staticcheck": true}}}}}
	at := slices.IndexFunc(config.Known(), func(s Server) bool { return s.Name == "gopls" })
	gopls := config.Known()[at]
	if !slices.Equal(gopls.Env, []string{"A=b"}) || gopls.section("gopls.staticcheck") != true || gopls.section("gopls.verboseWorkDoneProgress") != true || gopls.languageOf("a.go") != "go" {
		t.Errorf("%+v", gopls)
	}
}

// TestTypeScriptOfItsOwn: the TypeScript of a workspace is not run.
func TestTypeScriptOfItsOwn(t *testing.T) {
	at := slices.IndexFunc(Defaults(), func(s Server) bool { return s.Name == "typescript-language-server" })
	server := Defaults()[at]
	program := filepath.Join(t.TempDir(), "node_modules", "typescript-language-server", "lib", "cli.mjs")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := server.options(program); !errors.Is(err, errNoTypeScript) {
		t.Errorf("without TypeScript beside it: %v", err)
	}
	beside := filepath.Join(filepath.Dir(program), "..", "..", "typescript", "lib")
	if err := os.MkdirAll(beside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(beside, "tsserver.js"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.options(program)
	if own, _ := options["tsserver"].(map[string]any); err != nil || own["path"] != filepath.Join(beside, "tsserver.js") {
		t.Errorf("with one: %v, %v", options, err)
	}
}
