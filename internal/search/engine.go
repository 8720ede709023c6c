// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"

	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/workspace"
)

// An Engine searches one workspace. Its methods are safe for concurrent use.
type Engine struct {
	ws    *workspace.Workspace
	index *index.Index
}

// New returns an engine for a workspace. With an index of the workspace it is
// faster; without one, which is nil, every search reads the files.
func New(ws *workspace.Workspace, x *index.Index) *Engine { return &Engine{ws, x} }

// A Pool has engines for workspaces, whose indexes share what they may take. The
// zero value has engines without an index.
type Pool struct{ indexes *index.Pool }

// NewPool returns a pool; nil stands for no indexes.
func NewPool(indexes *index.Pool) *Pool { return &Pool{indexes} }

// Engine returns an engine for a workspace.
func (p *Pool) Engine(ws *workspace.Workspace) *Engine {
	if p.indexes == nil {
		return New(ws, nil)
	}
	return New(ws, p.indexes.Index(ws))
}

// Grep finds lines and calls yield for every file that has some, in order: the
// files of a directory by name, and then its directories. It ends early when
// yield returns false. When ctx is done it returns its cause, after yield was
// given what was found until then.
func (e *Engine) Grep(ctx context.Context, p Pattern, s Scope, o Options, yield func(File) bool) (Summary, error) {
	q, err := p.compile()
	if err != nil {
		return Summary{}, err
	}
	c, err := s.compile()
	if err != nil {
		return Summary{}, err
	}
	if e.index == nil || !c.answerable() {
		return grepCold(ctx, e.ws, q, c, o, yield)
	}
	var parts []output
	var sum Summary
	var failed error
	ok, err := e.index.Search(ctx, true, func(t *index.Tree) (ok bool) {
		parts, sum, ok, failed = memory{t}.grep(ctx, q, c, o)
		return ok
	})
	if err != nil {
		return sum, err
	}
	if !ok {
		return grepCold(ctx, e.ws, q, c, o, yield)
	}
	taken := newLimit(o, yield)
	for i := range parts {
		if !parts[i].each(taken.yield) {
			break
		}
	}
	return sum, failed
}

// Glob finds files. When ctx is done it returns what was found until then, with
// its cause.
func (e *Engine) Glob(ctx context.Context, s Scope, order Order) ([]File, Summary, error) {
	c, err := s.compile()
	if err != nil {
		return nil, Summary{}, err
	}
	if e.index == nil || !c.answerable() {
		return globCold(ctx, e.ws, c, order)
	}
	var files []File
	var sum Summary
	ok, err := e.index.Search(ctx, order == ByTime, func(t *index.Tree) (ok bool) {
		files, sum, ok = memory{t}.glob(c, order)
		return ok
	})
	if err != nil {
		return nil, sum, err
	}
	if !ok {
		return globCold(ctx, e.ws, c, order)
	}
	return files, sum, nil
}
