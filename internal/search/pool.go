// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"sync"

	"github.com/toolserver/toolserver/internal/workspace"
)

// A Pool has an engine for every workspace that is searched, until the workspace
// is closed. Its methods are safe for concurrent use.
type Pool struct {
	config Config
	shared *shared

	mu      sync.Mutex
	engines map[*workspace.Workspace]*Engine
}

// NewPool returns a pool. It needs no end of its own.
func NewPool(config Config) *Pool {
	return &Pool{config: config, shared: newShared(config), engines: make(map[*workspace.Workspace]*Engine)}
}

// Engine returns the engine of a workspace.
func (p *Pool) Engine(ws *workspace.Workspace) *Engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.engines[ws]
	if e != nil {
		return e
	}
	e = newEngine(ws, p.config, p.shared)
	if ws.AtClose(func() { p.end(ws) }) {
		p.engines[ws] = e
	} else {
		e.Close()
	}
	return e
}

// end closes the engine of a workspace.
func (p *Pool) end(ws *workspace.Workspace) {
	p.mu.Lock()
	e := p.engines[ws]
	delete(p.engines, ws)
	p.mu.Unlock()
	e.Close()
}
