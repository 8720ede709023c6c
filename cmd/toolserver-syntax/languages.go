// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"unsafe"

	kotlin "github.com/tree-sitter-grammars/tree-sitter-kotlin/bindings/go"
	markdown "github.com/tree-sitter-grammars/tree-sitter-markdown/bindings/go"
	toml "github.com/tree-sitter-grammars/tree-sitter-toml/bindings/go"
	yaml "github.com/tree-sitter-grammars/tree-sitter-yaml/bindings/go"
	bash "github.com/tree-sitter/tree-sitter-bash/bindings/go"
	csharp "github.com/tree-sitter/tree-sitter-c-sharp/bindings/go"
	c "github.com/tree-sitter/tree-sitter-c/bindings/go"
	cpp "github.com/tree-sitter/tree-sitter-cpp/bindings/go"
	css "github.com/tree-sitter/tree-sitter-css/bindings/go"
	golang "github.com/tree-sitter/tree-sitter-go/bindings/go"
	html "github.com/tree-sitter/tree-sitter-html/bindings/go"
	java "github.com/tree-sitter/tree-sitter-java/bindings/go"
	javascript "github.com/tree-sitter/tree-sitter-javascript/bindings/go"
	json "github.com/tree-sitter/tree-sitter-json/bindings/go"
	php "github.com/tree-sitter/tree-sitter-php/bindings/go"
	python "github.com/tree-sitter/tree-sitter-python/bindings/go"
	ruby "github.com/tree-sitter/tree-sitter-ruby/bindings/go"
	rust "github.com/tree-sitter/tree-sitter-rust/bindings/go"
	typescript "github.com/tree-sitter/tree-sitter-typescript/bindings/go"
)

// grammars are the languages, by the names that the server gives them.
var grammars = map[string]func() unsafe.Pointer{
	"bash":       bash.Language,
	"c":          c.Language,
	"cpp":        cpp.Language,
	"csharp":     csharp.Language,
	"css":        css.Language,
	"go":         golang.Language,
	"html":       html.Language,
	"java":       java.Language,
	"javascript": javascript.Language,
	"json":       json.Language,
	"kotlin":     kotlin.Language,
	"markdown":   markdown.Language,
	"php":        php.LanguagePHP,
	"python":     python.Language,
	"ruby":       ruby.Language,
	"rust":       rust.Language,
	"toml":       toml.Language,
	"tsx":        typescript.LanguageTSX,
	"typescript": typescript.LanguageTypescript,
	"yaml":       yaml.Language,
}
