// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"

	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"
)

// A Direction is which way a hierarchy is gone through.
type Direction string

const (
	Callers    Direction = "callers"    // who calls it
	Callees    Direction = "callees"    // what it calls
	Supertypes Direction = "supertypes" // what it is a kind of
	Subtypes   Direction = "subtypes"   // what is a kind of it
)

// A Step is a symbol that a hierarchy leads to.
type Step struct {
	Symbol
	Sites []Location // of calls, in the one who calls
}

// Steps are several.
type Steps struct {
	About
	List []Step
	More bool // there are more
}

// maxSteps is how many there are of an answer.
const maxSteps = 500

// Hierarchy returns what calls a target or is called by it, or the types right above or below
// it.
func (a *Asker) Hierarchy(ctx context.Context, direction Direction, t Target) (*Steps, error) {
	var s Steps
	about, err := a.askAt(ctx, t, func(q *question, d document, at protocol.Position) error {
		s = Steps{}
		if direction == Callers || direction == Subtypes {
			if err := q.giveUsers(d.text.wordAt(at, q.encoding)); err != nil {
				return err
			}
		}
		if direction == Callers || direction == Callees {
			return q.calls(&s, direction, position(q, &d, at))
		}
		return q.types(&s, direction, position(q, &d, at))
	})
	s.About = about
	return &s, err
}

func (q *question) calls(s *Steps, direction Direction, at protocol.TextDocumentPositionParams) error {
	if q.can.CallHierarchyProvider == nil {
		return q.cannot("tell who calls whom")
	}
	items, err := within(q, func(ctx context.Context) ([]protocol.CallHierarchyItem, error) {
		return q.remote.PrepareCallHierarchy(ctx, &protocol.CallHierarchyPrepareParams{TextDocumentPositionParams: at})
	})
	if err != nil || len(items) == 0 {
		return err
	}
	if direction == Callers {
		calls, err := within(q, func(ctx context.Context) ([]protocol.CallHierarchyIncomingCall, error) {
			return q.remote.IncomingCalls(ctx, &protocol.CallHierarchyIncomingCallsParams{Item: items[0]})
		})
		for _, c := range calls {
			s.add(q, c.From, c.From.URI, c.FromRanges)
		}
		return err
	}
	calls, err := within(q, func(ctx context.Context) ([]protocol.CallHierarchyOutgoingCall, error) {
		return q.remote.OutgoingCalls(ctx, &protocol.CallHierarchyOutgoingCallsParams{Item: items[0]})
	})
	for _, c := range calls {
		s.add(q, c.To, items[0].URI, c.FromRanges)
	}
	return err
}

func (q *question) types(s *Steps, direction Direction, at protocol.TextDocumentPositionParams) error {
	if q.can.TypeHierarchyProvider == nil {
		return q.cannot("tell how types are related: ask for implementations")
	}
	items, err := within(q, func(ctx context.Context) ([]protocol.TypeHierarchyItem, error) {
		return q.remote.PrepareTypeHierarchy(ctx, &protocol.TypeHierarchyPrepareParams{TextDocumentPositionParams: at})
	})
	if err != nil || len(items) == 0 {
		return err
	}
	list, err := within(q, func(ctx context.Context) ([]protocol.TypeHierarchyItem, error) {
		if direction == Supertypes {
			return q.remote.Supertypes(ctx, &protocol.TypeHierarchySupertypesParams{Item: items[0]})
		}
		return q.remote.Subtypes(ctx, &protocol.TypeHierarchySubtypesParams{Item: items[0]})
	})
	for _, one := range list {
		s.add(q, protocol.CallHierarchyItem(one), one.URI, nil)
	}
	return err
}

// add adds a symbol, and the calls of a file that lead to it.
func (s *Steps) add(q *question, item protocol.CallHierarchyItem, file uri.URI, calls []protocol.Range) {
	if s.More = len(s.List) == maxSteps; s.More {
		return
	}
	at, ok := q.location(item.URI, item.SelectionRange)
	if !ok {
		return
	}
	step := Step{Symbol: Symbol{Name: item.Name, Kind: kindOf(item.Kind), Location: at}}
	for _, r := range calls[:min(len(calls), maxCandidates)] {
		if site, ok := q.location(file, r); ok {
			step.Sites = append(step.Sites, site)
		}
	}
	s.List = append(s.List, step)
}
