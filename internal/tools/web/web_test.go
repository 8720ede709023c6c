// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/web"
)

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

// documents is a reader whose documents have a page for each line.
type documents struct{}

func (documents) Read(_ context.Context, file *os.File, _ pdf.Request, yield func(pdf.Page) bool) (int, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<20))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		if !yield(pdf.Page{Number: i + 1, Text: line + "\n"}) {
			break
		}
	}
	return len(lines), err
}

// TestPDF: a document is read by the reader of documents, whatever its header says.
func TestPDF(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		fmt.Fprint(w, "%PDF-1.7\nsecond page\n")
	}))
	defer server.Close()
	list, err := web.Tools(web.Config{Addresses: []string{"127.0.0.1"}}, documents{})
	if err != nil {
		t.Fatal(err)
	}
	call, err := list[0].Decode(toolstest.Env(t, nil), json.RawMessage(fmt.Sprintf(`{"url":%q}`, server.URL)))
	if err != nil {
		t.Fatal(err)
	}
	result, err := call.Run(t.Context(), toolstest.RightsOf(call), new(toolstest.Recorder))
	if got := fmt.Sprint(result.Content); err != nil || !strings.Contains(got, "--- page 2 ---\nsecond page") || !strings.Contains(got, "PDF document of 2 pages") {
		t.Errorf("%v, %s", err, got)
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
	call, err := list[0].Decode(toolstest.Env(t, nil), json.RawMessage(fmt.Sprintf(`{"urls":[%q,%[1]q]}`, server.URL)))
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
