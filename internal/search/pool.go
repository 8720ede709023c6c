// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"sync"

	"github.com/toolserver/toolserver/internal/workspace"
)

// A Pool has an engine for every workspace that is searched, as long as it is
// used. Its methods are safe for concurrent use.
type Pool struct {
	config Config
	budget *budget

	mu      sync.Mutex
	engines map[*workspace.Workspace]*Engine
}

// NewPool returns a pool. Close it after use.
func NewPool(config Config) *Pool {
	return &Pool{config: config, budget: &budget{max: cmp.Or(config.MaxText, 256<<20)}, engines: make(map[*workspace.Workspace]*Engine)}
}

// Engine returns the engine of a workspace.
func (p *Pool) Engine(ws *workspace.Workspace) *Engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.engines[ws]
	if e == nil {
		e = newEngine(ws, p.config, p.budget)
		e.onIdle = func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.engines[ws] == e {
				delete(p.engines, ws)
			}
		}
		p.engines[ws] = e
	}
	return e
}

// Close closes all engines.
func (p *Pool) Close() {
	p.mu.Lock()
	engines := p.engines
	p.engines = make(map[*workspace.Workspace]*Engine)
	p.mu.Unlock()
	for _, e := range engines {
		e.Close()
	}
}
