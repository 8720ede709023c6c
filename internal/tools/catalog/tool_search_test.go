// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/catalog"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestContract(t *testing.T) {
	for _, tool := range catalog.Tools() {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}

type fake struct {
	tools.Tool
	spec   tools.Spec
	schema string
}

func (f fake) Spec() tools.Spec             { return f.spec }
func (f fake) InputSchema() json.RawMessage { return json.RawMessage(f.schema) }

// shelf is a catalog of a registry whose tools are all there but for one.
type shelf struct {
	registry  tools.Registry
	hidden    string
	activated []string
}

func (s *shelf) All() ([]*tools.Entry, uint64) { return s.registry.All() }
func (s *shelf) Has(entry *tools.Entry) bool   { return entry.Spec.Name != s.hidden }
func (s *shelf) Activate(names ...string)      { s.activated = append(s.activated, names...) }

func stocked(t testing.TB) *shelf {
	tool := func(name, category, summary, description, key string) tools.Tool {
		return fake{spec: tools.Spec{Name: name, Category: category, Summary: summary, Description: description, Level: tools.ReadOnly, Kind: tools.MCP},
			schema: fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string","description":"the %s"}}}`, key, key)}
	}
	s := &shelf{hidden: "github__delete_repository"}
	err := s.registry.Replace("github",
		tool("create_issue", "issues", "Open an issue.", "Opens a ticket in a repository.", "title"),
		tool("list_issues", "issues", "List the issues of a repository.", "", "state"),
		tool("delete_repository", "repositories", "Delete a repository.", "", "repository"),
		tool("search", "search", "Search code.", "Finds code in repositories.", "phrase"),
	)
	for i := range 20 {
		if err == nil {
			err = s.registry.Replace(fmt.Sprint("server", i), tool("ping", "net", "Ping a host.", "Sends packets.", "address"))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestToolSearch(t *testing.T) {
	for _, test := range []struct {
		input string
		want  []string // found, in this order
		says  string
	}{
		{`{"query":"open a ticket"}`, []string{"github__create_issue"}, `"title"`},
		{`{"query":"issues"}`, []string{"github__list_issues", "github__create_issue"}, ""},
		{`{"query":"CreateIssue"}`, []string{"github__create_issue", "github__list_issues"}, ""},
		{`{"query":"github__search"}`, []string{"github__search"}, ""},
		{`{"query":"select:github__search, github__list_issues"}`, []string{"github__search", "github__list_issues"}, ""},
		{`{"query":"select:github__serch"}`, nil, "no tool github__serch; did you mean github__search?"},
		{`{"query":"select:github__delete_repository"}`, nil, "no tool"},
		{`{"query":"delete"}`, nil, "No tool matches. Categories: issues (2), net (20), search (1)."},
		{`{"query":"phras"}`, []string{"github__search"}, ""},
		{`{"category":"Issues"}`, []string{"github__create_issue", "github__list_issues"}, ""},
		{`{"source":"server7"}`, []string{"server7__ping"}, ""},
		{`{"query":"ping","limit":2}`, []string{"server0__ping", "server10__ping"}, "(2 of 20 that match."},
		{`{"query":"ping","source":"github"}`, nil, "No tool matches"},
		{`{"query":"日本 <>&\"'"}`, nil, "No tool matches"},
	} {
		env := toolstest.Env(t, nil)
		shelf := stocked(t)
		env.Catalog = shelf
		result, _, err := toolstest.Run(t, catalog.ToolSearch(), env, test.input)
		if err != nil {
			t.Fatal(err)
		}
		text := toolstest.Text(result)
		if n := len(test.want); len(shelf.activated) < n || !slices.Equal(shelf.activated[:n], test.want) || n == 0 && len(shelf.activated) > 0 || !strings.Contains(text, test.says) {
			t.Errorf("%s finds %v and says\n%s\nwant %v and %q", test.input, shelf.activated, text, test.want, test.says)
		}
		for _, name := range shelf.activated {
			if !strings.Contains(text, `{"name":"`+name+`","description":`) {
				t.Errorf("%s: no definition of %s in\n%s", test.input, name, text)
			}
		}
	}
	env, shelf := toolstest.Env(t, nil), stocked(t)
	env.Catalog, env.Answer, env.Measure = shelf, 2000, tools.Measure{Tokens: true}
	result, _, err := toolstest.Run(t, catalog.ToolSearch(), env, `{"query":"ping"}`)
	if err != nil {
		t.Fatal(err)
	}
	if text := toolstest.Text(result); env.Measure.Cost(text) > 500 || strings.Contains(text, "left out") || len(shelf.activated) < 2 || strings.Count(text, `{"name":`) != len(shelf.activated) {
		t.Errorf("with 500 tokens: %d activated, and\n%s", len(shelf.activated), text)
	}
	if _, _, err := toolstest.Run(t, catalog.ToolSearch(), toolstest.Env(t, nil), `{"query":"x"}`); err == nil {
		t.Error("there is a search where there is no catalog")
	}
}
