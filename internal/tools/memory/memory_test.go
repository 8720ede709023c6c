// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
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
func family(t *testing.T, config memory.Config) []tools.Tool {
	t.Helper()
	kept, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	store := memory.New(memory.Options{
		Config: config, Engine: func(context.Context) (state.Engine, error) { return kept, nil }, Mask: func(text string) string { return strings.ReplaceAll(text, "hush", "***") },
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
	for _, one := range family(t, memory.Config{}) {
		if one.Spec().Name != "memory_store" {
			continue
		}
		call, err := one.Decode(&tools.Env{}, json.RawMessage(`{"key":"k","text":"the token is hush","scope":"tenant"}`))
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
	list := family(t, memory.Config{})
	result, _, err := toolstest.Run(t, list[3], env, `{"path":"."}`)
	if text := fmt.Sprint(result.Content); err != nil || !strings.Contains(text, "2 files") || !strings.Contains(text, "1 that could not be read") || !strings.Contains(text, "1 that are no text") {
		t.Fatalf("%v, %s", err, text)
	}
	result, _, err = toolstest.Run(t, list[4], env, `{"query":"世界"}`)
	if text := fmt.Sprint(result.Content); err != nil || !strings.Contains(text, "a.pdf:") {
		t.Errorf("%v, %s", err, text)
	}
}

// TestTooManyFiles: a folder with more files than a source may have is refused before one is read.
func TestTooManyFiles(t *testing.T) {
	files := make(map[string]string)
	for i := range 25 {
		files[fmt.Sprintf("docs/%d.md", i)] = "# Text"
	}
	env := toolstest.Env(t, files)
	list := family(t, memory.Config{MaxFiles: 20})
	_, _, err := toolstest.Run(t, list[3], env, `{"path":"docs"}`)
	if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != "too_many_files" || !strings.Contains(failure.Message, "25 files") || !strings.Contains(failure.Message, "a source may have 20") {
		t.Error(err)
	}
	if result, _, err := toolstest.Run(t, list[3], env, `{"operation":"list"}`); err != nil || !strings.Contains(fmt.Sprint(result.Content), "There are no sources") {
		t.Error(err, result)
	}
}

// TestSearchTellsItsSources: a source that is not there is no empty result, and long parts are
// shortened, so that more of them are seen.
func TestSearchTellsItsSources(t *testing.T) {
	list := family(t, memory.Config{})
	var long strings.Builder
	for i := range 60 {
		fmt.Fprintf(&long, "a line of plain words that says nothing at all, number %d\n", i)
	}
	env := toolstest.Env(t, map[string]string{"guide.md": long.String()[:1500] + "the permit is granted here\n" + long.String()[1500:1900]})
	if _, _, err := toolstest.Run(t, list[3], env, `{"path":"guide.md"}`); err != nil {
		t.Fatal(err)
	}
	_, _, err := toolstest.Run(t, list[4], env, `{"query":"permit","source":"giude.md"}`)
	if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != "not_found" || !strings.Contains(failure.Message, "guide.md") {
		t.Error(err)
	}
	result, _, err := toolstest.Run(t, list[4], env, `{"query":"permit"}`)
	text := fmt.Sprint(result.Content)
	if err != nil || !strings.Contains(text, "the permit is granted here") || strings.Count(text, "a line of plain words") > 15 {
		t.Errorf("%v, %s", err, text)
	}
}

func TestContract(t *testing.T) {
	for _, one := range family(t, memory.Config{}) {
		t.Run(one.Spec().Name, func(t *testing.T) { toolstest.Test(t, one) })
	}
}
