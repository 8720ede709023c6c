// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A Symbol is something in code that has a name.
type Symbol struct {
	Name        string
	Kind        string // such as "function"
	Container   string // what it is in, where that is known; several joined by dots
	Location           // of its name
	Begin, Last int    // the lines of all of it, where they are known
	Depth       int    // how many symbols it is in
}

// Bounds of answers.
const (
	maxSymbols    = 5000
	maxCandidates = 20
	maxOutlined   = 40 // files that are looked into for a name
)

// kinds are the names of what [protocol.SymbolKind] counts, from one.
var kinds = []string{
	"file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum", "interface", "function",
	"variable", "constant", "string", "number", "boolean", "array", "object", "key", "null", "enum member", "struct", "event", "operator", "type parameter",
}

func kindOf(k protocol.SymbolKind) string {
	if i := int(k) - 1; i >= 0 && i < len(kinds) {
		return kinds[i]
	}
	return "symbol"
}

// symbolsIn returns what is in a file, in its order.
func (q *question) symbolsIn(d *document) ([]Symbol, error) {
	if q.can.DocumentSymbolProvider == nil {
		return nil, q.cannot("tell what is in a file")
	}
	at := q.uri(d.path)
	result, err := within(q, func(ctx context.Context) (protocol.DocumentSymbolResult, error) {
		return q.remote.DocumentSymbol(ctx, &protocol.DocumentSymbolParams{TextDocument: protocol.TextDocumentIdentifier{URI: at}})
	})
	if err != nil {
		return nil, err
	}
	var list []Symbol
	switch result := result.(type) {
	case protocol.SymbolInformationSlice:
		for _, s := range result[:min(len(result), maxSymbols)] {
			if l, ok := q.location(at, s.Location.Range); ok {
				list = append(list, Symbol{Name: s.Name, Kind: kindOf(s.Kind), Container: value(s.ContainerName), Location: l, Begin: l.Line, Last: l.EndLine})
			}
		}
	case protocol.DocumentSymbolSlice:
		var add func(all []protocol.DocumentSymbol, container string, depth int)
		add = func(all []protocol.DocumentSymbol, container string, depth int) {
			for _, s := range all {
				if len(list) == maxSymbols || depth > 100 {
					return
				}
				l, _ := q.location(at, s.SelectionRange)
				whole, _ := q.location(at, s.Range)
				list = append(list, Symbol{Name: s.Name, Kind: kindOf(s.Kind), Container: container, Location: l, Begin: whole.Line, Last: whole.EndLine, Depth: depth})
				add(s.Children, strings.TrimPrefix(container+"."+s.Name, "."), depth+1)
			}
		}
		add(result, "", 0)
	}
	return list, nil
}

// named returns the symbols of the workspace that servers find for a name, which may be
// qualified, in the languages that the workspace has most files of.
func (a *Asker) named(ctx context.Context, name string) (all []Symbol, err error) {
	servers, err := a.serversOfMost(ctx)
	if err != nil {
		return nil, err
	}
	var failed error
	answered := false
	for _, server := range servers {
		program, _ := a.set.find(server)
		var list []Symbol
		_, err := a.askServer(ctx, server, program, func(q *question) (err error) {
			list, err = q.symbolsNamed(name)
			return err
		})
		if err != nil {
			failed = err
			continue
		}
		answered = true
		all = append(all, list...)
	}
	if !answered {
		return nil, failed
	}
	return all[:min(len(all), maxSymbols)], nil
}

// Bounds of finding out which languages a workspace has.
const (
	maxExamined = 20_000 // entries
	maxAsked    = 3      // servers that are asked when no language is named
)

// serversOfMost returns the servers to ask: those of what the workspace has most files of.
func (a *Asker) serversOfMost(ctx context.Context) ([]*Server, error) {
	found := a.set.found()
	count := make(map[*Server]int)
	n := 0
	_, err := a.env.Workspace.Walk(ctx, ".", maxExamined, func(e workspace.Entry) error {
		if n++; n > maxExamined {
			return errTooMany
		}
		if base := filepath.Base(e.Path); e.Mode.IsDir() && (strings.HasPrefix(base, ".") || slices.Contains(late, base)) {
			return workspace.SkipDir
		}
		for _, server := range found {
			if e.Mode.IsRegular() && server.languageOf(e.Path) != "" {
				count[server]++
				break
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errTooMany) {
		return nil, err
	}
	list := slices.SortedStableFunc(maps.Keys(count), func(a, b *Server) int { return cmp.Or(count[b]-count[a], cmp.Compare(a.Name, b.Name)) })
	if len(list) == 0 {
		return nil, tools.Failf("no_language_server", "There is no language server for any file of the workspace. %s The operator installs them: known are %s; code.servers names more.", a.set.serves(), a.set.known())
	}
	return list[:min(len(list), maxAsked)], nil
}

// resolve returns a target with a path, where it has a name alone.
func (a *Asker) resolve(ctx context.Context, t Target) (Target, error) {
	switch {
	case t.Path != "":
		return t, nil
	case t.Symbol == "":
		return t, tools.Failf("no_target", "The question is about nothing: give a path with a line and a column, or the name of a symbol.")
	}
	all, err := a.named(ctx, t.Symbol)
	if err != nil {
		return t, err
	}
	list := slices.DeleteFunc(all, func(s Symbol) bool { return filepath.IsAbs(s.Path) })
	found, err := one(t.Symbol, list, "the workspace")
	if err != nil {
		return t, err
	}
	t = Target{Path: found.Path, Line: found.Line, Column: found.Column, Symbol: t.Symbol}
	// Some servers tell where a declaration begins: its name is meant.
	if column, err := columnOf(newText(found.Text), Target{Path: found.Path, Line: 1, Symbol: t.Symbol}); err == nil {
		t.Column = column
	}
	t.Symbol = ""
	return t, nil
}

// symbolsNamed returns the symbols of the workspace that the server finds for a name. One that
// it finds by no such name is looked for in the files that have its last part.
func (q *question) symbolsNamed(name string) ([]Symbol, error) {
	if q.can.WorkspaceSymbolProvider == nil {
		return nil, q.cannot("look for symbols by name in a workspace")
	}
	last := lastPart(name)
	if err := q.giveUsers(last); err != nil {
		return nil, err
	}
	if !q.server.findsAll && len(q.others(nil)) == 0 {
		return nil, nil // a server that knows no file answers that there is no project
	}
	list, err := q.symbolsLike(last)
	if err != nil || slices.ContainsFunc(list, func(s Symbol) bool { return s.is(name) }) {
		return list, err
	}
	var paths []string
	for _, s := range list {
		if lastPart(s.Name) == last && !filepath.IsAbs(s.Path) && !slices.Contains(paths, s.Path) {
			paths = append(paths, s.Path)
		}
	}
	having, err := q.filesWith(last)
	if err != nil {
		return nil, err
	}
	for _, path := range having {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, path := range paths[:min(len(paths), maxOutlined)] {
		if path, err = q.inside(path); err != nil {
			continue
		}
		d, err := q.open(q.ctx, path)
		if err != nil {
			continue
		}
		symbols, err := q.symbolsIn(&d)
		if err != nil {
			return nil, err
		}
		list = append(list, slices.DeleteFunc(symbols, func(s Symbol) bool { return !s.is(name) })...)
	}
	return list, nil
}

// symbolsLike asks for the symbols of the workspace that have a name, or one like it.
func (q *question) symbolsLike(name string) ([]Symbol, error) {
	result, err := within(q, func(ctx context.Context) (protocol.WorkspaceSymbolResult, error) {
		return q.remote.Symbols(ctx, &protocol.WorkspaceSymbolParams{Query: name})
	})
	if err != nil {
		return nil, err
	}
	var list []Symbol
	add := func(s protocol.BaseSymbolInformation, at protocol.Location) {
		if len(list) > maxSymbols {
			return
		}
		if l, ok := q.location(at.URI, at.Range); ok {
			list = append(list, Symbol{Name: s.Name, Kind: kindOf(s.Kind), Container: value(s.ContainerName), Location: l, Begin: l.Line, Last: l.EndLine})
		}
	}
	switch result := result.(type) {
	case protocol.SymbolInformationSlice:
		for _, s := range result {
			add(s.BaseSymbolInformation, s.Location)
		}
	case protocol.WorkspaceSymbolSlice:
		for _, s := range result {
			switch at := s.Location.(type) {
			case *protocol.Location:
				add(s.BaseSymbolInformation, *at)
			case *protocol.LocationUriOnly:
				add(s.BaseSymbolInformation, protocol.Location{URI: at.URI})
			}
		}
	}
	return list, nil
}

// namedIn returns the symbol of a file that has a name.
func (q *question) namedIn(d *document, name string) (Symbol, error) {
	list, err := q.symbolsIn(d)
	if err != nil {
		return Symbol{}, err
	}
	return one(name, list, d.path)
}

// one returns the one symbol that is meant by a name, which may be qualified.
func one(name string, list []Symbol, where string) (Symbol, error) {
	var found []Symbol
	for _, s := range list {
		if s.is(name) && !slices.ContainsFunc(found, func(o Symbol) bool { return o.Location == s.Location }) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		return Symbol{}, tools.Failf("no_such_symbol", "There is no symbol %s in %s. %s", name, where, tools.DidYouMean(nearest.Names(name, names), "Look for it by a part of its name, or give a path, a line and a column."))
	}
	lines := make([]string, 0, maxCandidates)
	for _, s := range found[:min(len(found), maxCandidates)] {
		lines = append(lines, fmt.Sprintf("%s: %s %s", s.Location, s.Kind, s.qualified()))
	}
	if n := len(found) - len(lines); n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	return Symbol{}, tools.Failf("ambiguous_symbol", "%s is the name of %d symbols in %s. Choose one by its path and line, or a qualified name:\n%s", name, len(found), where, strings.Join(lines, "\n"))
}

// is reports whether a symbol has a name, which may be qualified by what it is in.
func (s Symbol) is(name string) bool {
	plain := func(n string) string { return strings.NewReplacer("(", "", ")", "", "*", "").Replace(n) }
	name = plain(dotted(name))
	full := "." + moduleName(s.Path) + "." + plain(s.qualified())
	return plain(s.Name) == name || strings.HasSuffix(full, "."+name) || strings.HasSuffix(full, "/"+name)
}

func (s Symbol) qualified() string {
	if s.Container == "" {
		return s.Name
	}
	return s.Container + "." + s.Name
}

// dotted returns a qualified name of any language with dots.
func dotted(name string) string {
	name = strings.ReplaceAll(name, "::", ".")
	return name[:min(1, len(name))] + strings.ReplaceAll(name[min(1, len(name)):], "#", ".")
}

func lastPart(name string) string {
	name = dotted(name)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// cannot says that a server has no such answers.
func (q *question) cannot(what string) error {
	return tools.Failf("not_supported", "%s does not %s.", q.server.Name, what)
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func isWord(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// firstRune returns the first character; of nothing it is one that no word has.
func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}
