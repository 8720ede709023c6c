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
	for _, tool := range catalog.Tools(nil) {
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
		result, _, err := toolstest.Run(t, catalog.ToolSearch(nil), env, test.input)
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
	result, _, err := toolstest.Run(t, catalog.ToolSearch(nil), env, `{"query":"ping"}`)
	if err != nil {
		t.Fatal(err)
	}
	if text := toolstest.Text(result); env.Measure.Cost(text) > 500 || strings.Contains(text, "left out") || len(shelf.activated) < 2 || strings.Count(text, `{"name":`) != len(shelf.activated) {
		t.Errorf("with 500 tokens: %d activated, and\n%s", len(shelf.activated), text)
	}
	if _, _, err := toolstest.Run(t, catalog.ToolSearch(nil), toolstest.Env(t, nil), `{"query":"x"}`); err == nil {
		t.Error("there is a search where there is no catalog")
	}
}

// TestSkillSearch proves that skills are found by who can load them, and that new ones are.
func TestSkillSearch(t *testing.T) {
	skills, revision := []catalog.Skill{{Name: "fill-forms", Description: "Fill in forms of PDF documents."}, {Name: "ping", Description: "Ask whether hosts are there."}}, uint64(1)
	search := catalog.ToolSearch(func() ([]catalog.Skill, uint64) { return skills, revision })
	shelf := stocked(t)
	find := func(input string) (text, details string) {
		t.Helper()
		env := toolstest.Env(t, nil)
		env.Catalog = shelf
		result, _, err := toolstest.Run(t, search, env, input)
		if err != nil {
			t.Fatal(err)
		}
		return toolstest.Text(result), string(result.Details)
	}
	if text, _ := find(`{"query":"fill pdf form"}`); !strings.Contains(text, "No tool matches") {
		t.Errorf("without a tool that loads skills, it finds\n%s", text)
	}
	loads := fake{spec: tools.Spec{Name: "skill", Category: "skills", Summary: "Load a skill.", Level: tools.ReadOnly}, schema: `{"type":"object"}`}
	if err := shelf.registry.Replace("builtin", loads); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ input, says, details string }{
		{`{"query":"fill pdf form"}`, "Skill fill-forms: Fill in forms of PDF documents. (Load it with skill {\"name\":\"fill-forms\"})", `"skills":["fill-forms"]`},
		{`{"query":"select:fill-forms"}`, "Skill fill-forms", `"matched":1`},
		{`{"category":"skills"}`, "Skill ping: ", `"skills":["fill-forms","ping"],"tools":["skill"]`},
		{`{"query":"select:fill-from"}`, "did you mean fill-forms?", `"matched":0`},
	} {
		if text, details := find(test.input); !strings.Contains(text, test.says) || !strings.Contains(details, test.details) {
			t.Errorf("%s finds\n%s%s\nwant %q and %s", test.input, text, details, test.says, test.details)
		}
	}
	if !slices.Contains(shelf.activated, "skill") {
		t.Error("the tool that loads them is not active")
	}
	skills, revision = append(skills, catalog.Skill{Name: "deploy", Description: "Bring it to production."}), 2
	if text, _ := find(`{"query":"production"}`); !strings.Contains(text, "Skill deploy") {
		t.Errorf("a new skill is not found:\n%s", text)
	}
	shelf.hidden = "skill"
	if text, _ := find(`{"query":"production"}`); strings.Contains(text, "deploy") {
		t.Errorf("who has no tool for skills finds\n%s", text)
	}
}
