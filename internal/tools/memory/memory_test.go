// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/memory"
	"github.com/toolserver/toolserver/internal/pdf/pdftest"
	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
	tool "github.com/toolserver/toolserver/internal/tools/memory"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/web"
)

func TestMain(m *testing.M) { pdftest.Main(m) }

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
	pages, err := web.New(web.Config{}, pdftest.Documents{})
	if err != nil {
		t.Fatal(err)
	}
	return tool.Tools(store, engine.NewPool(nil), tool.Web{
		Reaches: web.Reaches,
		Read: func(ctx context.Context, env tools.Env, address string) (url, title, text string, err error) {
			page, err := pages.Read(ctx, env, address)
			return page.URL, page.Title, page.Text, err
		},
		Document: pages.Document,
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

// TestFolder: of a folder, texts and PDF documents are found by what is in them; what cannot be
// read, and what is packed, is told and left out.
func TestFolder(t *testing.T) {
	document, err := os.ReadFile("../../pdf/testdata/cjk.pdf")
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	for range 1000 {
		packer.Write(make([]byte, 1<<16))
	}
	packer.Close()
	env := toolstest.Env(t, map[string]string{"a.pdf": string(document), "b.pdf": "%PDF-1.7\nnothing else\n", "c.md": "# Text", "d.gz": bomb.String()})
	list := family(t)
	result, _, err := toolstest.Run(t, list[3], env, `{"path":"."}`)
	if text := fmt.Sprint(result.Content); err != nil || !strings.Contains(text, "2 files") || !strings.Contains(text, "1 that could not be read") || !strings.Contains(text, "1 that are no text") {
		t.Fatalf("%v, %s", err, text)
	}
	result, _, err = toolstest.Run(t, list[4], env, `{"query":"世界"}`)
	if text := fmt.Sprint(result.Content); err != nil || !strings.Contains(text, "a.pdf:") {
		t.Errorf("%v, %s", err, text)
	}
}

func TestContract(t *testing.T) {
	for _, one := range family(t) {
		t.Run(one.Spec().Name, func(t *testing.T) { toolstest.Test(t, one) })
	}
}
