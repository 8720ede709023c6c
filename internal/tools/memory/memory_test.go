// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"testing"

	"github.com/toolserver/toolserver/internal/memory"
	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	tool "github.com/toolserver/toolserver/internal/tools/memory"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/web"
)

// family returns the tools, on a state in memory.
func family(t *testing.T) []tools.Tool {
	t.Helper()
	kept, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	store := memory.New(memory.Options{Engine: func() (state.Engine, error) { return kept, nil }})
	t.Cleanup(func() { store.Close() })
	pages, err := web.New(web.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Tools(store, engine.NewPool(nil), tool.Web{
		Reaches: web.Reaches,
		Read: func(ctx context.Context, env tools.Env, address string) (url, title, text string, err error) {
			page, err := pages.Read(ctx, env, address)
			return page.URL, page.Title, page.Text, err
		},
	})
}

func TestContract(t *testing.T) {
	for _, one := range family(t) {
		t.Run(one.Spec().Name, func(t *testing.T) { toolstest.Test(t, one) })
	}
}
