// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Relation is what leads from a name to places.
type Relation string

const (
	Definition     Relation = "definition"
	Declaration    Relation = "declaration"
	TypeDefinition Relation = "type_definition"
	Implementation Relation = "implementation"
	References     Relation = "references" // with the declaration
)

// Locations are several, sorted by path and line.
type Locations struct {
	About
	List []Location
	More int // how many were left out
}

// maxLocations is how many there are of an answer.
const maxLocations = 5000

// Find returns where a relation leads from a target.
func (a *Asker) Find(ctx context.Context, r Relation, t Target) (*Locations, error) {
	var found Locations
	about, err := a.askAt(ctx, t, func(q *question, d document, at protocol.Position) error {
		if r == References || r == Implementation {
			if err := q.giveUsers(d.text.wordAt(at, q.encoding)); err != nil {
				return err
			}
		}
		places, err := q.related(r, position(q, &d, at))
		if err != nil {
			return err
		}
		found = Locations{More: max(0, len(places)-maxLocations)}
		seen := make(map[Location]bool)
		for _, p := range places[:len(places)-found.More] {
			if l, ok := q.location(p.URI, p.Range); ok && !seen[l] {
				seen[l] = true
				found.List = append(found.List, l)
			}
		}
		return nil
	})
	slices.SortStableFunc(found.List, byPlace)
	found.About = about
	return &found, err
}

func byPlace(a, b Location) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

func position(q *question, d *document, at protocol.Position) protocol.TextDocumentPositionParams {
	return protocol.TextDocumentPositionParams{TextDocument: protocol.TextDocumentIdentifier{URI: q.uri(d.path)}, Position: at}
}

// related asks for places.
func (q *question) related(r Relation, at protocol.TextDocumentPositionParams) ([]protocol.Location, error) {
	switch r {
	case References:
		if q.can.ReferencesProvider == nil {
			return nil, q.cannot("find references")
		}
		return within(q, func(ctx context.Context) ([]protocol.Location, error) {
			return q.remote.References(ctx, &protocol.ReferenceParams{TextDocumentPositionParams: at, Context: protocol.ReferenceContext{IncludeDeclaration: true}})
		})
	case Declaration:
		return lead(q, q.can.DeclarationProvider != nil, "tell declarations from definitions: ask for the definition", func(ctx context.Context) (protocol.DeclarationResult, error) {
			return q.remote.Declaration(ctx, &protocol.DeclarationParams{TextDocumentPositionParams: at})
		})
	case TypeDefinition:
		return lead(q, q.can.TypeDefinitionProvider != nil, "find the definitions of types", func(ctx context.Context) (protocol.DefinitionResult, error) {
			return q.remote.TypeDefinition(ctx, &protocol.TypeDefinitionParams{TextDocumentPositionParams: at})
		})
	case Implementation:
		return lead(q, q.can.ImplementationProvider != nil, "find implementations", func(ctx context.Context) (protocol.DefinitionResult, error) {
			return q.remote.Implementation(ctx, &protocol.ImplementationParams{TextDocumentPositionParams: at})
		})
	case Definition:
		return lead(q, q.can.DefinitionProvider != nil, "find definitions", func(ctx context.Context) (protocol.DefinitionResult, error) {
			return q.remote.Definition(ctx, &protocol.DefinitionParams{TextDocumentPositionParams: at})
		})
	}
	return nil, tools.Failf("no_such_relation", "There is no relation %q between a name and places: there are %s, %s, %s, %s and %s.", r, Definition, Declaration, TypeDefinition, Implementation, References)
}

// lead returns the places that a server answers with, if it can tell them.
func lead[R any](q *question, can bool, cannot string, ask func(ctx context.Context) (R, error)) ([]protocol.Location, error) {
	if !can {
		return nil, q.cannot(cannot)
	}
	result, err := within(q, ask)
	return placesOf(result), err
}

// placesOf returns the places of an answer in each of its forms.
func placesOf(result any) (list []protocol.Location) {
	switch result := result.(type) {
	case *protocol.Location:
		if result != nil {
			return []protocol.Location{*result}
		}
	case protocol.LocationSlice:
		return result
	case protocol.DefinitionLinkSlice:
		for _, l := range result {
			list = append(list, protocol.Location{URI: l.TargetURI, Range: l.TargetSelectionRange})
		}
	case protocol.DeclarationLinkSlice:
		for _, l := range result {
			list = append(list, protocol.Location{URI: l.TargetURI, Range: l.TargetSelectionRange})
		}
	}
	return list
}

// Text is an answer in words, in Markdown.
type Text struct {
	About
	Text string
}

// maxWords is how long such an answer is, in bytes.
const maxWords = 16 << 10

// Hover returns what is known of a target: its type, and its documentation.
func (a *Asker) Hover(ctx context.Context, t Target) (*Text, error) {
	var answer Text
	about, err := a.askAt(ctx, t, func(q *question, d document, at protocol.Position) error {
		if q.can.HoverProvider == nil {
			return q.cannot("tell of a symbol")
		}
		hover, err := within(q, func(ctx context.Context) (*protocol.Hover, error) {
			return q.remote.Hover(ctx, &protocol.HoverParams{TextDocumentPositionParams: position(q, &d, at)})
		})
		if err != nil || hover == nil {
			return err
		}
		answer.Text = words(hover.Contents)
		return nil
	})
	answer.About = about
	return &answer, err
}

// words returns a text of a server in each of its forms.
func words(contents any) string {
	var text string
	switch c := contents.(type) {
	case *protocol.MarkupContent:
		text = c.Value
	case protocol.String:
		text = string(c)
	//lint:ignore SA1019 servers still answer with it
	case *protocol.MarkedStringWithLanguage:
		text = "```" + c.Language + "\n" + c.Value + "\n```"
	case protocol.MarkedStringSlice:
		for _, one := range c {
			text += words(one) + "\n"
		}
	}
	return strings.TrimSpace(output.Clean([]byte(output.Short(text, maxWords))))
}

// A Completion is what could be written at a place.
type Completion struct {
	Label, Kind, Detail string
}

// Completions are several, the best first.
type Completions struct {
	About
	List []Completion
	More int
}

// maxCompletions is how many there are of an answer.
const maxCompletions = 200

// completionKinds are the names of what [protocol.CompletionItemKind] counts, from one.
var completionKinds = []string{
	"text", "method", "function", "constructor", "field", "variable", "class", "interface", "module", "property", "unit", "value", "enum",
	"keyword", "snippet", "color", "file", "reference", "folder", "enum member", "constant", "struct", "event", "operator", "type parameter",
}

// Completions returns what could be written at a target.
func (a *Asker) Completions(ctx context.Context, t Target) (*Completions, error) {
	var answer Completions
	about, err := a.askAt(ctx, t, func(q *question, d document, at protocol.Position) error {
		if q.can.CompletionProvider == nil {
			return q.cannot("complete what was begun")
		}
		result, err := within(q, func(ctx context.Context) (protocol.CompletionResult, error) {
			return q.remote.Completion(ctx, &protocol.CompletionParams{TextDocumentPositionParams: position(q, &d, at), Context: protocol.CompletionContext{TriggerKind: protocol.CompletionTriggerKindInvoked}})
		})
		if err != nil {
			return err
		}
		var items []protocol.CompletionItem
		switch result := result.(type) {
		case protocol.CompletionItemSlice:
			items = result
		case *protocol.CompletionList:
			items = result.Items
		}
		order := func(i protocol.CompletionItem) string {
			text, ok := i.SortText.Get()
			if !ok {
				return i.Label
			}
			return text
		}
		slices.SortStableFunc(items, func(a, b protocol.CompletionItem) int { return cmp.Compare(order(a), order(b)) })
		answer = Completions{More: max(0, len(items)-maxCompletions)}
		for _, item := range items[:len(items)-answer.More] {
			answer.List = append(answer.List, completionOf(item))
		}
		return nil
	})
	answer.About = about
	return &answer, err
}

func completionOf(item protocol.CompletionItem) Completion {
	c := Completion{Label: clip(item.Label), Kind: "text"}
	if i := int(item.Kind) - 1; i >= 0 && i < len(completionKinds) {
		c.Kind = completionKinds[i]
	}
	if detail, ok := item.Detail.Get(); ok {
		c.Detail = clip(detail)
	} else if item.LabelDetails != nil {
		c.Detail = clip(value(item.LabelDetails.Detail) + " " + value(item.LabelDetails.Description))
	}
	return c
}

// Signature returns how what is called at a target is called: its signatures, the one that
// is meant first.
func (a *Asker) Signature(ctx context.Context, t Target) (*Text, error) {
	var answer Text
	about, err := a.askAt(ctx, t, func(q *question, d document, at protocol.Position) error {
		if q.can.SignatureHelpProvider == nil {
			return q.cannot("tell signatures")
		}
		help, err := within(q, func(ctx context.Context) (*protocol.SignatureHelp, error) {
			return q.remote.SignatureHelp(ctx, &protocol.SignatureHelpParams{TextDocumentPositionParams: position(q, &d, at)})
		})
		if err != nil || help == nil {
			return err
		}
		list := help.Signatures
		if n := help.ActiveSignature; n != nil && int(*n) < len(list) && *n > 0 {
			list = append([]protocol.SignatureInformation{list[*n]}, slices.Delete(slices.Clone(list), int(*n), int(*n)+1)...)
		}
		var parts []string
		for _, s := range list {
			parts = append(parts, strings.TrimSpace(s.Label+"\n"+words(s.Documentation)))
		}
		answer.Text = words(protocol.String(strings.Join(parts, "\n\n")))
		return nil
	})
	answer.About = about
	return &answer, err
}
