// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"encoding/json"
	"strings"
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
	store := memory.New(memory.Options{
		Engine: func(context.Context) (state.Engine, error) { return kept, nil }, Mask: func(text string) string { return strings.ReplaceAll(text, "hush", "***") },
	})
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

// TestPreview: a person who is asked sees what a call does, and the text as it is stored.
func TestPreview(t *testing.T) {
	for _, one := range family(t) {
		if one.Spec().Name != "memory_store" {
			continue
		}
		call, err := one.Decode(tools.Env{}, json.RawMessage(`{"key":"k","text":"the token is hush","scope":"tenant"}`))
		if err != nil {
			t.Fatal(err)
		}
		want := "Stores in memory, as \"k\", for everybody of the tenant.\n\nthe token is ***"
		if got := call.(tools.Previewer).Preview(t.Context()).Text; got != want {
			t.Errorf("%q", got)
		}
	}
}

func TestContract(t *testing.T) {
	for _, one := range family(t) {
		t.Run(one.Spec().Name, func(t *testing.T) { toolstest.Test(t, one) })
	}
}
