// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"sync"

	"github.com/toolserver/toolserver/internal/workspace"
)

// Watches returns how many inotify watches the user of this process may have, whatever for.
func Watches() int { return limitsOfKernel().watches }

// A Pool has an index for every workspace that is searched, until the workspace
// is closed. What it may take is shared by all of them. Its methods are safe for concurrent use.
type Pool struct {
	config Config
	shared *shared

	mu      sync.Mutex
	indexes map[*workspace.Workspace]*Index
}

// NewPool returns a pool. It needs no end of its own.
func NewPool(config Config) *Pool {
	return &Pool{config: config, shared: newShared(config), indexes: make(map[*workspace.Workspace]*Index)}
}

// Index returns the index of a workspace.
func (p *Pool) Index(ws *workspace.Workspace) *Index {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.indexes[ws]
	if x != nil {
		return x
	}
	x = newIndex(ws, p.config, p.shared)
	if ws.AtClose(func() { p.end(ws) }) {
		p.indexes[ws] = x
	} else {
		x.Close()
	}
	return x
}

// end closes the index of a workspace.
func (p *Pool) end(ws *workspace.Workspace) {
	p.mu.Lock()
	x := p.indexes[ws]
	delete(p.indexes, ws)
	p.mu.Unlock()
	x.Close()
}
