// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog is the family of tools about tools: one that finds those that a model
// was not told of, and skills.
package catalog

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/tools"
)

// Tools returns the family. skills returns those that there are, and a number that changes
// when they do; nil: there are none.
func Tools(skills func() ([]Skill, uint64)) []tools.Tool { return []tools.Tool{ToolSearch(skills)} }

// skillTool is the tool that loads skills: who has it finds them.
const skillTool = "skill"

//go:embed tool_search.md
var toolSearchDoc string

type searchInput struct {
	Query    string `json:"query,omitempty" check:"max=1000" jsonschema:"words, a name, or select:NAME,NAME"`
	Category string `json:"category,omitempty" check:"max=64" jsonschema:"only of this family, such as files or skills"`
	Source   string `json:"source,omitempty" check:"max=128" jsonschema:"only from there: builtin, mcp, openapi, dynamic or the name of a server"`
	Limit    int    `json:"limit,omitempty" check:"min=1,max=50" jsonschema:"at most so many; 5 unless set"`
}

const defaultLimit = 5

// ToolSearch returns the tool that finds tools and skills.
func ToolSearch(skills func() ([]Skill, uint64)) tools.Tool {
	var current atomic.Pointer[index]
	return tools.New(
		tools.Spec{
			Name:            "tool_search",
			Label:           "Find tools",
			Summary:         "Find tools by what they do, and get their definitions.",
			Description:     toolSearchDoc,
			Category:        "catalog",
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "By words", Input: json.RawMessage(`{"query":"rename a file"}`)},
				{Summary: "By names", Input: json.RawMessage(`{"query":"select:move_file,make_dir"}`)},
				{Summary: "What a family has", Input: json.RawMessage(`{"category":"git","limit":20}`)},
			},
		},
		nil,
		func(_ context.Context, env tools.Env, in searchInput, _ tools.Sink) (tools.Result, error) {
			if env.Catalog == nil {
				return tools.Result{}, tools.Failf("no_catalog", "There is nothing to search here: the tools that you were told of are all there are.")
			}
			var now revision
			var entries []*tools.Entry
			var known []Skill
			if entries, now.tools = env.Catalog.All(); skills != nil {
				known, now.skills = skills()
			}
			ix := current.Load()
			if ix == nil || ix.revision != now {
				ix = newIndex(entries, known, now)
				current.Store(ix)
			}
			return find(env, ix, in)
		})
}

// find answers a search, and activates what it found.
func find(env tools.Env, ix *index, in searchInput) (tools.Result, error) {
	fits := func(it *item) bool {
		spec := &it.Spec
		return (in.Category == "" || strings.EqualFold(in.Category, spec.Category)) &&
			(in.Source == "" || strings.EqualFold(in.Source, spec.Kind.String()) || strings.EqualFold(in.Source, spec.Server)) &&
			env.Catalog.Has(it.Entry)
	}
	var found []*item
	var missing []string
	matched := 0
	if names, ok := strings.CutPrefix(strings.TrimSpace(in.Query), "select:"); ok {
		found, missing = ix.named(strings.Split(names, ","), fits)
		matched = len(found)
	} else {
		found, matched = ix.search(in.Query, fits, cmp.Or(in.Limit, defaultLimit))
	}
	var text strings.Builder
	names, loaded, shown, room := []string{}, []string{}, 0, env.Shown()
	for _, it := range found {
		definition := it.definition(env)
		if room -= env.Measure.Of(definition); room < 0 && shown > 0 {
			break // the answer has room for no more
		}
		text.WriteString(definition)
		if shown++; it.skill != nil {
			loaded = append(loaded, it.skill.Name)
		} else {
			names = append(names, it.Spec.Name)
		}
	}
	env.Catalog.Activate(names...)
	if len(loaded) > 0 {
		env.Catalog.Activate(skillTool)
	}
	switch {
	case len(missing) > 0:
		fmt.Fprintf(&text, "(There is no tool %s%s)\n", strings.Join(missing, ", "), nearest.Hint(ix.near(missing, fits)))
	case len(found) == 0:
		fmt.Fprintf(&text, "(No tool matches. %s)\n", ix.categories(env.Catalog.Has))
	}
	if matched > shown {
		fmt.Fprintf(&text, "(%d of %d that match. For others use other words, a category or source, or a limit of up to 50.)\n", shown, matched)
	}
	summary := map[string]any{"tools": names, "matched": matched}
	if len(loaded) > 0 {
		summary["skills"] = loaded
	}
	return tools.Detailed(text.String(), summary)
}

// definition returns all that a model needs for calls of a tool, on one line; of a skill,
// how it is loaded.
func (it *item) definition(env tools.Env) string {
	if it.skill != nil {
		return fmt.Sprintf("Skill %s: %s (Load it with %s)\n", it.skill.Name, it.skill.Description, env.Words.GoOn(skillTool, map[string]string{"name": it.skill.Name}))
	}
	entry := it.Entry
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}{entry.Spec.Name, strings.TrimSpace(entry.Spec.Description), entry.Tool.InputSchema()})
	if err != nil { // a schema that is no JSON
		return entry.Spec.Name + ": " + entry.Spec.Summary + "\n"
	}
	return b.String()
}

// named returns what has these names, in their order, and which there are none of.
func (ix *index) named(names []string, fits func(*item) bool) (found []*item, missing []string) {
	for _, name := range names {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		it := ix.byName[strings.ToLower(name)]
		switch {
		case it == nil || !fits(it):
			missing = append(missing, name)
		case !slices.Contains(found, it):
			found = append(found, it)
		}
	}
	return found, missing
}

// near returns the names that wrong ones may have been meant to be.
func (ix *index) near(wrong []string, fits func(*item) bool) (near []string) {
	var known []string
	for _, it := range ix.items {
		if fits(it) {
			known = append(known, it.name())
		}
	}
	for _, name := range wrong {
		near = append(near, nearest.Names(name, known)...)
	}
	return near
}

// categories tells the families that there are.
func (ix *index) categories(has func(*tools.Entry) bool) string {
	counts := map[string]int{}
	var names []string
	for _, it := range ix.items {
		if has(it.Entry) {
			if counts[it.Spec.Category]++; counts[it.Spec.Category] == 1 {
				names = append(names, it.Spec.Category)
			}
		}
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, counts[name])
	}
	return "Categories: " + strings.Join(names, ", ") + "."
}
