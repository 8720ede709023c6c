// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"

	"github.com/toolserver/toolserver/internal/workspace"
)

// An Engine searches one workspace. Its methods are safe for concurrent use.
type Engine struct {
	ws *workspace.Workspace
}

// New returns an engine for a workspace, which must outlive it.
func New(ws *workspace.Workspace) *Engine { return &Engine{ws: ws} }

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
	return grepCold(ctx, e.ws, q, c, o, yield)
}

// Glob finds files. When ctx is done it returns what was found until then, with
// its cause.
func (e *Engine) Glob(ctx context.Context, s Scope, order Order) ([]File, Summary, error) {
	c, err := s.compile()
	if err != nil {
		return nil, Summary{}, err
	}
	return globCold(ctx, e.ws, c, order)
}

// A Pool has an engine for every workspace that is searched. Its methods are
// safe for concurrent use.
type Pool struct{}

// NewPool returns a pool.
func NewPool() *Pool { return new(Pool) }

// Engine returns the engine of a workspace.
func (p *Pool) Engine(ws *workspace.Workspace) *Engine { return New(ws) }
