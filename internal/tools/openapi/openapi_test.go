// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/openapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

// offered returns the tools that a source offers first, or why it has none.
func offered(t *testing.T, spec openapi.Spec) ([]tools.Tool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var list []tools.Tool
	err := openapi.New(spec, func(text string) { t.Log(text) }).Serve(ctx, func(tools []tools.Tool) {
		list = tools
		cancel()
	})
	if list != nil {
		err = nil
	}
	return list, err
}

// TestGolden: the tools that a document becomes, with their schemas.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		list, err := offered(t, openapi.Spec{Name: "pets", File: file, BaseURL: "https://api.example.com/v2"})
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		for _, tool := range list {
			spec := tool.Spec()
			fmt.Fprintf(&got, "== %s (%s, dangerous: %t)\n%s\n-- description\n%s\n-- input\n%s\n", spec.Name, spec.Level, spec.Dangerous, spec.Summary, spec.Description, indented(t, tool.InputSchema()))
			if spec.ResultSchema != nil {
				fmt.Fprintf(&got, "-- result\n%s\n", indented(t, spec.ResultSchema))
			}
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".golden"
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got.String() != string(want) {
			t.Errorf("%s, %v: got\n%s", golden, err, got.String())
		}
	}
}

func indented(t *testing.T, text json.RawMessage) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSelect: operations are chosen by what is said of them.
func TestSelect(t *testing.T) {
	const doc = `{"openapi":"3.0.0","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{"operationId":"a","tags":["x"],"responses":{}},"post":{"operationId":"make","tags":["x","y"],"responses":{}}},
"/a/b":{"get":{"operationId":"ab","tags":["y"],"responses":{}},"trace":{"operationId":"t","responses":{}}}}}`
	for _, test := range []struct {
		choose openapi.Select
		want   string
	}{
		{openapi.Select{}, "a make ab"},
		{openapi.Select{Tags: []string{"y"}}, "make ab"},
		{openapi.Select{Tags: []string{"y"}, Methods: []string{"GET"}}, "ab"},
		{openapi.Select{Operations: []string{"a*"}}, "a ab"},
		{openapi.Select{Paths: []string{"/a/*"}}, "ab"},
		{openapi.Select{Methods: []string{"post", "put"}}, "make"},
		{openapi.Select{Tags: []string{"z"}}, ""},
	} {
		list, err := offered(t, openapi.Spec{Name: "x", Document: doc, BaseURL: "https://api.example.com", Select: test.choose})
		var names []string
		for _, tool := range list {
			names = append(names, tool.Spec().Name)
		}
		if got := strings.Join(names, " "); got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%+v: %s, %v; want %s", test.choose, got, err, test.want)
		}
	}
}

// TestExternal: other documents are read where an operator says so, from the place of the
// first alone.
func TestExternal(t *testing.T) {
	dir := t.TempDir()
	const head = "openapi: 3.0.0\ninfo: {title: x, version: '1'}\npaths: {/a: {post: {operationId: a, requestBody: {content: {application/json: {schema: {$ref: '%s'}}}}, responses: {}}}}\n"
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("api/parts/pet.yaml", "Pet: {type: object, required: [name], properties: {name: {$ref: '#/Name'}}}\nName: {type: string, maxLength: 3}\n")
	write("secret.yaml", "Pet: {type: string, enum: [secret]}\n")
	if err := os.Symlink(filepath.Join(dir, "secret.yaml"), filepath.Join(dir, "api/link.yaml")); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"parts/pet.yaml#/Pet":           "",
		"../secret.yaml#/Pet":           "is refused",
		"link.yaml#/Pet":                "is refused",
		dir + "/secret.yaml#/Pet":       "is refused",
		"http://127.0.0.1:1/x.yaml#Pet": "is refused",
	} {
		file := write("api/api.yaml", fmt.Sprintf(head, ref))
		list, err := offered(t, openapi.Spec{Name: "x", File: file, BaseURL: "https://api.example.com", ExternalRefs: true})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", ref, err)
		}
		if err == nil {
			if _, err := list[0].Decode(&tools.Env{}, json.RawMessage(`{"body":{"name":"long name"}}`)); err == nil || !strings.Contains(err.Error(), "/body/name") {
				t.Errorf("what is elsewhere is not checked: %v in %s", err, list[0].InputSchema())
			}
		}
	}
}

// TestBaseFromDocument: a document says where calls go only if the operator says so.
func TestBaseFromDocument(t *testing.T) {
	for servers, want := range map[string]string{
		`[{"url":"https://{r}.example.com/v1","variables":{"r":{"default":"eu"}}}]`: "POST https://eu.example.com/v1/a",
		`[{"url":"http://api.example.com"}]`:                                        "no address with https",
		`[{"url":"/v1"}]`:                                                           "no address with https",
		`[{"url":"https://u:p@api.example.com"}]`:                                   "no address with https",
		`[]`: "names no server",
	} {
		doc := `{"openapi":"3.0.0","info":{"title":"x","version":"1"},"servers":` + servers + `,"paths":{"/a":{"post":{"operationId":"a","responses":{}}}}}`
		list, err := offered(t, openapi.Spec{Name: "x", Document: doc, BaseURL: "document"})
		got := fmt.Sprint(err)
		if err == nil {
			got = list[0].Spec().Description
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", servers, got)
		}
	}
}
