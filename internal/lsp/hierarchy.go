// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"

	"go.lsp.dev/protocol"
)

// A Direction is which way a hierarchy is gone through.
type Direction string

const (
	Callers    Direction = "callers"    // who calls it
	Callees    Direction = "callees"    // what it calls
	Supertypes Direction = "supertypes" // what it is a kind of
	Subtypes   Direction = "subtypes"   // what is a kind of it
)

// A Step is a symbol of a hierarchy. Its depth is how far it is from where was begun, from
// one.
type Step struct {
	Symbol
	Sites []Location // of calls, in the one who calls
}

// Steps are several: each before what it leads to.
type Steps struct {
	About
	List []Step
	More bool // there are more
}

// Bounds of a hierarchy.
const (
	maxSteps = 500
	maxDepth = 10
)

// Hierarchy returns what calls a target or is called by it, or the types above or below
// it, up to a depth of ten.
func (a *Asker) Hierarchy(ctx context.Context, direction Direction, t Target, depth int) (*Steps, error) {
	var s Steps
	depth = min(max(depth, 1), maxDepth)
	about, err := a.askAt(ctx, t, func(q *question, d document, at protocol.Position) error {
		s = Steps{}
		if direction == Callers || direction == Subtypes {
			if err := q.giveUsers(d.text.wordAt(at, q.encoding)); err != nil {
				return err
			}
		}
		if direction == Callers || direction == Callees {
			return q.calls(&s, direction, position(q, &d, at), depth)
		}
		return q.types(&s, direction, position(q, &d, at), depth)
	})
	s.About = about
	return &s, err
}

func (q *question) calls(s *Steps, direction Direction, at protocol.TextDocumentPositionParams, depth int) error {
	if q.can.CallHierarchyProvider == nil {
		return q.cannot("tell who calls whom")
	}
	items, err := within(q, func(ctx context.Context) ([]protocol.CallHierarchyItem, error) {
		return q.remote.PrepareCallHierarchy(ctx, &protocol.CallHierarchyPrepareParams{TextDocumentPositionParams: at})
	})
	if err != nil || len(items) == 0 {
		return err
	}
	next := func(item protocol.CallHierarchyItem) (calls []protocol.CallHierarchyIncomingCall, err error) {
		if direction == Callers {
			return within(q, func(ctx context.Context) ([]protocol.CallHierarchyIncomingCall, error) {
				return q.remote.IncomingCalls(ctx, &protocol.CallHierarchyIncomingCallsParams{Item: item})
			})
		}
		called, err := within(q, func(ctx context.Context) ([]protocol.CallHierarchyOutgoingCall, error) {
			return q.remote.OutgoingCalls(ctx, &protocol.CallHierarchyOutgoingCallsParams{Item: item})
		})
		for _, c := range called {
			calls = append(calls, protocol.CallHierarchyIncomingCall{From: c.To, FromRanges: c.FromRanges})
		}
		return calls, err
	}
	seen := make(map[protocol.Location]bool)
	var visit func(item protocol.CallHierarchyItem, level int) error
	visit = func(item protocol.CallHierarchyItem, level int) error {
		calls, err := next(item)
		if err != nil {
			return err
		}
		for _, c := range calls {
			if len(s.List) == maxSteps {
				s.More = true
				return nil
			}
			at := protocol.Location{URI: c.From.URI, Range: c.From.SelectionRange}
			symbol, ok := q.item(c.From.Name, c.From.Kind, c.From.Detail, at)
			if !ok {
				continue
			}
			symbol.Depth = level
			step := Step{Symbol: symbol}
			sites := c.From.URI // calls are in the one who calls
			if direction == Callees {
				sites = item.URI
			}
			for _, r := range c.FromRanges[:min(len(c.FromRanges), maxCandidates)] {
				if l, ok := q.location(sites, r); ok {
					step.Sites = append(step.Sites, l)
				}
			}
			s.List = append(s.List, step)
			if level < depth && !seen[at] {
				seen[at] = true
				if err := visit(c.From, level+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return visit(items[0], 1)
}

func (q *question) types(s *Steps, direction Direction, at protocol.TextDocumentPositionParams, depth int) error {
	if q.can.TypeHierarchyProvider == nil {
		return q.cannot("tell how types are related: ask for implementations")
	}
	items, err := within(q, func(ctx context.Context) ([]protocol.TypeHierarchyItem, error) {
		return q.remote.PrepareTypeHierarchy(ctx, &protocol.TypeHierarchyPrepareParams{TextDocumentPositionParams: at})
	})
	if err != nil || len(items) == 0 {
		return err
	}
	seen := make(map[protocol.Location]bool)
	var visit func(item protocol.TypeHierarchyItem, level int) error
	visit = func(item protocol.TypeHierarchyItem, level int) error {
		list, err := within(q, func(ctx context.Context) ([]protocol.TypeHierarchyItem, error) {
			if direction == Supertypes {
				return q.remote.Supertypes(ctx, &protocol.TypeHierarchySupertypesParams{Item: item})
			}
			return q.remote.Subtypes(ctx, &protocol.TypeHierarchySubtypesParams{Item: item})
		})
		if err != nil {
			return err
		}
		for _, one := range list {
			if len(s.List) == maxSteps {
				s.More = true
				return nil
			}
			at := protocol.Location{URI: one.URI, Range: one.SelectionRange}
			symbol, ok := q.item(one.Name, one.Kind, one.Detail, at)
			if !ok {
				continue
			}
			symbol.Depth = level
			s.List = append(s.List, Step{Symbol: symbol})
			if level < depth && !seen[at] {
				seen[at] = true
				if err := visit(one, level+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return visit(items[0], 1)
}

// item returns a symbol of a hierarchy.
func (q *question) item(name string, kind protocol.SymbolKind, detail *string, at protocol.Location) (Symbol, bool) {
	l, ok := q.location(at.URI, at.Range)
	return Symbol{Name: name, Kind: kindOf(kind), Detail: clip(value(detail)), Location: l, Begin: l.Line, Last: l.EndLine}, ok
}
