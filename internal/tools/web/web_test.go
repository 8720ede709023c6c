// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/pdf/pdftest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/web"
)

func TestMain(m *testing.M) { pdftest.Main(m) }

func family(t testing.TB, c web.Config) map[string]tools.Tool {
	t.Helper()
	list, err := web.Tools(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]tools.Tool)
	for _, tool := range list {
		byName[tool.Spec().Name] = tool
	}
	return byName
}

func TestContract(t *testing.T) {
	for name, tool := range family(t, web.Config{}) {
		t.Run(name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}

// TestPDF: a document is read by the reader of documents, whatever its header says.
func TestPDF(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		if r.URL.Path == "/broken" {
			fmt.Fprint(w, "%PDF-1.7\nnothing else\n")
			return
		}
		http.ServeFile(w, r, "../../pdf/testdata/cjk.pdf")
	}))
	defer server.Close()
	list, err := web.Tools(web.Config{Addresses: []string{"127.0.0.1"}}, pdftest.Documents{})
	if err != nil {
		t.Fatal(err)
	}
	env := toolstest.Env(t, nil)
	result, _, err := toolstest.Run(t, list[0], env, fmt.Sprintf(`{"url":%q}`, server.URL))
	if got := fmt.Sprint(result.Content); err != nil || !strings.Contains(got, "--- page 1 ---\n你好，世界。") || !strings.Contains(got, "PDF document of 1 pages") {
		t.Errorf("%v, %s", err, got)
	}
	if result, _, err = toolstest.Run(t, list[0], env, fmt.Sprintf(`{"url":"%s/broken"}`, server.URL)); err == nil || !strings.Contains(err.Error(), "It is a PDF document that cannot be read") {
		t.Errorf("a broken one: %v, %v", result, err)
	}
}

// TestCache: a session asks whether a page has changed while it has the page: until newer ones
// need the room, and until its end. Accepted packings are those that are unpacked within bounds.
func TestCache(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+r.Header.Get("If-None-Match"))
		if packing := r.Header.Get("Accept-Encoding"); packing != "gzip, br, zstd" {
			t.Errorf("Accept-Encoding: %s", packing)
		}
		if r.URL.Path == "/secret" {
			w.Header().Set("Cache-Control", "private, No-Store")
		}
		w.Header().Set("ETag", "*")
		fmt.Fprint(w, strings.Repeat("x", 60))
	}))
	defer server.Close()
	fetch := family(t, web.Config{Addresses: []string{"127.0.0.1"}, Cache: 150})["web_fetch"]
	env, other := toolstest.Env(t, nil), toolstest.Env(t, nil) // of two principals, with the same id
	get := func(env tools.Env, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if _, _, err := toolstest.Run(t, fetch, env, fmt.Sprintf(`{"url":"%s/%s"}`, server.URL, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	get(env, "a", "b", "a", "c", "b", "a", "secret", "secret")
	get(other, "a", "a")
	other.Session.(*toolstest.Session).Close()
	get(env, "a")
	env.Session.(*toolstest.Session).Close()
	get(env, "a", "a")
	if got, want := strings.Join(asked, " "), "/a /b /a* /c /b /a /secret /secret /a /a* /a* /a /a"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// panicking is a reader of documents that fails as none should.
type panicking struct{}

func (panicking) Read(context.Context, *os.File, pdf.Request, func(pdf.Page) bool) (int, error) {
	panic("unforeseen")
}

// TestPanic: what fails on a page fails the call, where the executor notices it, and not the
// server.
func TestPanic(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "%PDF-1.7\n") }))
	defer server.Close()
	list, err := web.Tools(web.Config{Addresses: []string{"127.0.0.1"}}, panicking{})
	if err != nil {
		t.Fatal(err)
	}
	call, err := list[0].Decode(new(toolstest.Env(t, nil)), json.RawMessage(fmt.Sprintf(`{"urls":[%q,%[1]q]}`, server.URL)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != "unforeseen" {
			t.Errorf("the caller sees %v", p)
		}
	}()
	call.Run(t.Context(), toolstest.RightsOf(call), new(toolstest.Recorder))
}
