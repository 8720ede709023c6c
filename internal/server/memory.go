// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/memory"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/tools"
	memorytools "github.com/toolserver/toolserver/internal/tools/memory"
	"github.com/toolserver/toolserver/internal/tools/web"
)

// remembering is the store of memories and knowledge, with what it opened.
type remembering struct {
	*memory.Store
	models *model.Table // nil: none makes vectors
}

// openMemory returns the store, of which nothing is opened before it is used.
func openMemory(c *config.Config, lasting *lastingEngine, mask func(string) string, logger *zap.Logger) (*remembering, error) {
	r := &remembering{}
	options := memory.Options{Config: c.Memory, Lasting: lasting.stored != nil, Mask: mask, Logger: logger}
	options.Engine = lasting.engine
	if name := c.Memory.Embeddings; name != "" {
		var err error
		if r.models, err = model.New(c.Models, model.Options{}); err != nil {
			return nil, err
		}
		endpoint, err := r.models.Endpoint(name)
		if err != nil {
			return nil, err
		}
		options.Embed, options.Model = endpoint.Embed, endpoint.Model()
	}
	r.Store = memory.New(options)
	return r, nil
}

// Close closes the store, and what it opened.
func (r *remembering) Close() error {
	r.Store.Close()
	if r.models != nil {
		r.models.Close()
	}
	return nil
}

// memoryTools returns the tools of a store.
func memoryTools(store *memory.Store, engines *search.Pool, pages *web.Family) []tools.Tool {
	return memorytools.Tools(store, engines, memorytools.Web{
		Reaches: web.Reaches,
		Read: func(ctx context.Context, env tools.Env, address string) (url, title, text string, err error) {
			page, err := pages.Read(ctx, env, address)
			return page.URL, page.Title, page.Text, err
		},
		Document: pages.Document,
	})
}
