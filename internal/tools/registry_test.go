// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

// tool returns a tool that does nothing, with other names it answers to.
func tool(name string, aliases ...string) tools.Tool {
	return toolOf(tools.Spec{Name: name, Aliases: aliases})
}

// toolOf completes a spec.
func toolOf(spec tools.Spec) tools.Tool {
	spec.Level = tools.ReadOnly
	spec.Summary = "Do nothing."
	return exactly(spec)
}

func exactly(spec tools.Spec) tools.Tool {
	return tools.New(spec, nil, func(context.Context, tools.Env, struct{}, tools.Sink) (tools.Result, error) {
		return tools.Result{}, nil
	})
}

// names lists what a registry has.
func names(r *tools.Registry) string {
	entries, _ := r.All()
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Spec.Name)
	}
	return strings.Join(list, " ")
}

func mustReplace(t *testing.T, r *tools.Registry, source string, list ...tools.Tool) {
	t.Helper()
	if err := r.Replace(source, list...); err != nil {
		t.Fatal(err)
	}
}

func TestRegistryOfNothing(t *testing.T) {
	var r tools.Registry
	if entries, revision := r.All(); len(entries) != 0 || revision != 0 {
		t.Errorf("%d tools, revision %d", len(entries), revision)
	}
	if _, ok := r.Lookup("", nil); ok {
		t.Error("there is a tool without a name")
	}
}

func TestRegistryLookup(t *testing.T) {
	var r tools.Registry
	mustReplace(t, &r, "builtin", tool("read_file", "Read", "cat"), tool("edit_file"))
	for _, name := range []string{"read_file", "Read", "cat"} {
		if entry, ok := r.Lookup(name, nil); !ok || entry.Spec.Name != "read_file" || entry.Tool.Spec().Name != "read_file" {
			t.Errorf("%s: %+v", name, entry)
		}
	}
	for _, name := range []string{"", "read", "READ_FILE", "read_file ", "*"} {
		if _, ok := r.Lookup(name, nil); ok {
			t.Errorf("there is a tool %q", name)
		}
	}
	if got := names(&r); got != "edit_file read_file" {
		t.Errorf("tools %s, want them sorted by name", got)
	}
}

// TestRegistryReplacesASource proves that a source is its newest list, whole,
// and that others stay.
func TestRegistryReplacesASource(t *testing.T) {
	var r tools.Registry
	var last uint64
	for _, step := range []struct {
		source string
		list   []tools.Tool
		want   string
	}{
		{"builtin", []tools.Tool{tool("b", "bee"), tool("a")}, "a b"},
		{"mcp", []tools.Tool{tool("y"), tool("x", "ex")}, "a b x y"},
		{"mcp", []tools.Tool{tool("z", "ex")}, "a b z"},
		{"builtin", []tools.Tool{tool("y", "bee")}, "y z"},
		{"mcp", nil, "y"},
		{"mcp", nil, "y"},
		{"builtin", nil, ""},
	} {
		mustReplace(t, &r, step.source, step.list...)
		if got := names(&r); got != step.want {
			t.Errorf("tools %q, want %q", got, step.want)
		}
		_, revision := r.All()
		if revision <= last {
			t.Errorf("revision %d after %d", revision, last)
		}
		last = revision
	}
	if _, ok := r.Lookup("bee", nil); ok {
		t.Error("an alias outlived its tool")
	}
}

// TestRegistryRefusesOne proves that a tool with a mistake is refused alone, with the
// reason, and that an alias is never a reason.
func TestRegistryRefusesOne(t *testing.T) {
	fine := tools.Spec{Name: "fine", Level: tools.ReadOnly, Summary: "Do nothing."}
	with := func(change func(*tools.Spec)) tools.Tool {
		spec := fine
		change(&spec)
		return exactly(spec)
	}
	for _, test := range []struct {
		name string
		list []tools.Tool
		have string
		want []string
	}{
		{"no name", []tools.Tool{tool("")}, "old", []string{`tool name ""`}},
		{"capital letters", []tools.Tool{tool("Read"), tool("a")}, "a old", []string{`tool name "Read"`}},
		{"a digit first", []tools.Tool{tool("1st")}, "old", []string{`tool name "1st"`}},
		{"a dash", []tools.Tool{tool("read-file")}, "old", []string{`"read-file"`}},
		{"a line ending", []tools.Tool{tool("read\n")}, "old", []string{`"read\n"`}},
		{"65 letters", []tools.Tool{tool(strings.Repeat("x", 65))}, "old", []string{"tool name"}},
		{"no level", []tools.Tool{with(func(s *tools.Spec) { s.Level = 0 })}, "old", []string{"tool fine has no level"}},
		{"a level too many", []tools.Tool{with(func(s *tools.Spec) { s.Level = 4 })}, "old", []string{"tool fine has no level"}},
		{"a negative level", []tools.Tool{with(func(s *tools.Spec) { s.Level = -1 })}, "old", []string{"tool fine has no level"}},
		{"more than the highest", []tools.Tool{with(func(s *tools.Spec) { s.LeastLevel = tools.WorkspaceWrite })}, "old", []string{"every call needs"}},
		{"no summary", []tools.Tool{with(func(s *tools.Spec) { s.Summary = "" })}, "old", []string{"tool fine needs a summary"}},
		{"two lines", []tools.Tool{with(func(s *tools.Spec) { s.Summary = "a\nb" })}, "old", []string{"tool fine needs a summary"}},
		{"a name twice", []tools.Tool{tool("twice"), tool("a"), tool("twice")}, "a old twice", []string{"tool twice of mcp is refused"}},
		{"a name of another source", []tools.Tool{tool("old"), tool("a")}, "a old", []string{"tool old of mcp is refused: other has"}},
		{"all mistakes", []tools.Tool{tool("fine"), tool("Bad"), tool("old")}, "fine old", []string{`"Bad"`, "tool old of mcp"}},

		{"an alias that is a name", []tools.Tool{tool("a", "b"), tool("b")}, "a b old", nil},
		{"an alias of two", []tools.Tool{tool("a", "x"), tool("b", "x")}, "a b old", nil},
		{"its own name", []tools.Tool{tool("a", "a")}, "a old", nil},
		{"an alias of another source", []tools.Tool{tool("ancient")}, "ancient old", nil},
		{"a namespace", []tools.Tool{toolOf(tools.Spec{Name: "old", Kind: tools.MCP})}, "mcp__old old", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r tools.Registry
			mustReplace(t, &r, "other", tool("old", "ancient"))
			mustReplace(t, &r, "mcp", tool("mine"))
			err := r.Replace("mcp", test.list...)
			if (err == nil) != (test.want == nil) {
				t.Errorf("%v, want %v", err, test.want)
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s in it", err, want)
				}
			}
			if got := names(&r); got != test.have {
				t.Errorf("now there is %s, want %s", got, test.have)
			}
		})
	}
}

// TestRegistryViews proves that a name is looked up among the tools that a session has,
// and that an alias is the weakest name.
func TestRegistryViews(t *testing.T) {
	foreign := func(name string, aliases ...string) tools.Tool {
		return toolOf(tools.Spec{Name: name, Aliases: aliases, Kind: tools.MCP})
	}
	var r tools.Registry
	mustReplace(t, &r, "builtin", tool("read_file", "Read", "find"), tool("search", "query"))
	mustReplace(t, &r, "github", foreign("search", "Read"), foreign("find"))
	mustReplace(t, &r, "jira", foreign("search"), foreign("query", "look"))
	for _, test := range []struct{ name, without, want string }{
		{"search", "", "search"},
		{"github__search", "", "github__search"},
		{"search", "search", "github__search"},
		{"search", "search github__search", "jira__search"},
		{"Read", "", "read_file"},
		{"Read", "read_file", "github__search"},
		{"find", "", "read_file"},
		{"find", "read_file", "github__find"},
		{"query", "", "search"},
		{"query", "search", "jira__query"},
		{"look", "", "jira__query"},
		{"look", "jira__query", ""},
		{"jira__look", "", ""},
	} {
		entry, ok := r.Lookup(test.name, func(spec *tools.Spec) bool { return !slices.Contains(strings.Fields(test.without), spec.Name) })
		if ok != (test.want != "") || ok && entry.Spec.Name != test.want {
			t.Errorf("%+v leads to %v %+v", test, ok, entry)
		}
	}
	entry, _ := r.Lookup("github__find", nil)
	for pattern, want := range map[string]bool{"@github": true, "@github/fi*": true, "@github/search": false, "@mcp/find": true, "github__*": true, "find": false} {
		if got := tools.Matches(pattern, &entry.Spec); got != want {
			t.Errorf("%s matches github__find: %v", pattern, got)
		}
	}
}

func TestRegistryCapabilities(t *testing.T) {
	r := tools.Registry{Capabilities: []string{"shell", "network"}}
	mustReplace(t, &r, "builtin",
		tool("a"),
		toolOf(tools.Spec{Name: "b", RequiredCapabilities: []string{"network", "shell"}}),
		toolOf(tools.Spec{Name: "c", RequiredCapabilities: []string{"network", "gpu", "display"}}),
	)
	for name, want := range map[string]string{"a": "", "b": "", "c": `needs "gpu", which this server does not offer`} {
		if entry, ok := r.Lookup(name, nil); !ok || entry.Unavailable != want {
			t.Errorf("%s: %+v, want unavailable %q", name, entry, want)
		}
	}
}

// TestRegistryReadersSeeOneSet looks tools up while they are replaced: what is
// found is all of the old set or all of the new one.
func TestRegistryReadersSeeOneSet(t *testing.T) {
	var r tools.Registry
	mustReplace(t, &r, "fixed", tool("fixed"))
	mustReplace(t, &r, "mcp", tool("odd_1"), tool("odd_2"))
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := names(&r); got != "fixed odd_1 odd_2" && got != "even_1 even_2 fixed" {
					t.Errorf("a mixture: %s", got)
					return
				}
				if _, ok := r.Lookup("fixed", nil); !ok {
					t.Error("a tool of another source was away")
					return
				}
				r.Lookup("odd_1", nil)
			}
		})
	}
	var writers sync.WaitGroup
	for source := range 2 {
		writers.Go(func() {
			for i := range 200 {
				list := []tools.Tool{tool("odd_1"), tool("odd_2")}
				if i%2 == 0 {
					list = []tools.Tool{tool("even_1"), tool("even_2")}
				}
				if err := r.Replace("mcp", list...); err != nil {
					t.Error(err)
				}
				if err := r.Replace(fmt.Sprint("bad ", source), tool("fixed")); err == nil {
					t.Error("a clash was taken")
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	group.Wait()
	if _, revision := r.All(); revision != 802 {
		t.Errorf("revision %d after 802 changes", revision)
	}
}

func TestSelection(t *testing.T) {
	list := []tools.Spec{
		{Name: "edit_file", Aliases: []string{"Edit"}},
		{Name: "read_file", Aliases: []string{"Read"}},
		{Name: "read_image"},
		{Name: "remote", Kind: tools.MCP, Server: "hub"},
	}
	for _, test := range []struct {
		name             string
		include, exclude []string
		want             string
	}{
		{"everything", nil, nil, "edit_file read_file read_image remote"},
		{"a name", []string{"read_file"}, nil, "read_file"},
		{"an alias", []string{"Read"}, nil, "read_file"},
		{"the case counts", []string{"READ_FILE", "edit"}, nil, ""},
		{"a glob", []string{"read_*"}, nil, "read_file read_image"},
		{"a glob is over names only", []string{"R*"}, nil, ""},
		{"one letter", []string{"?emote"}, nil, "remote"},
		{"a class", []string{"[a-e]*_file"}, nil, "edit_file"},
		{"a kind", []string{"@builtin"}, nil, "edit_file read_file read_image"},
		{"another kind", []string{"@mcp"}, nil, "remote"},
		{"a kind without tools", []string{"@openapi", "@dynamic"}, nil, ""},
		{"several", []string{"@mcp", "edit_file"}, nil, "edit_file remote"},
		{"a server", []string{"@hub"}, nil, "remote"},
		{"another server", []string{"@bub"}, nil, ""},
		{"a tool of a server", []string{"@hub/remote", "@hub/read_file"}, nil, "remote"},
		{"a glob of a server", []string{"@hub/r*", "@builtin/edit_*"}, nil, "edit_file remote"},
		{"all but one", nil, []string{"read_file"}, "edit_file read_image remote"},
		{"all but an alias", nil, []string{"Read"}, "edit_file read_image remote"},
		{"all but a kind", nil, []string{"@builtin"}, "remote"},
		{"exclude wins", []string{"read_*"}, []string{"*_image"}, "read_file"},
		{"exclude everything", []string{"read_file"}, []string{"*"}, ""},
		{"unknown names", []string{"nope"}, []string{"nope"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			selection := tools.Selection{Include: test.include, Exclude: test.exclude}
			if err := selection.Check(); err != nil {
				t.Error(err)
			}
			var got []string
			for _, spec := range list {
				if selection.Has(&spec) {
					got = append(got, spec.Name)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%v, want %s", got, test.want)
			}
			if all := len(test.include)+len(test.exclude) == 0; selection.All() != all {
				t.Errorf("All is %t", !all)
			}
		})
	}
}

func TestSelectionCheck(t *testing.T) {
	for _, pattern := range []string{"", "[", "a[", "*[", "*[b", "[]", "[a-]", "a*b[", `\`, `a\`, "@", "@/x", "@a b", "@mcp ", "@mcp/", "@mcp/[", "@mcp/a/b"} {
		for _, selection := range []tools.Selection{
			{Include: []string{"fine", pattern}}, {Exclude: []string{pattern}},
		} {
			if err := selection.Check(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", pattern)) {
				t.Errorf("%q: %v", pattern, err)
			}
		}
		if tools.Matches(pattern, &tools.Spec{Name: "a"}) {
			t.Errorf("%q matches something", pattern)
		}
	}
	err := tools.Selection{Include: []string{"@"}}.Check()
	if err == nil || !strings.Contains(err.Error(), "builtin, mcp, openapi, dynamic") {
		t.Errorf("%v does not list the kinds", err)
	}
}

func TestSelectionNames(t *testing.T) {
	spec := &tools.Spec{Name: "read_file", Aliases: []string{"Read"}}
	for _, test := range []struct {
		selection tools.Selection
		want      bool
	}{
		{tools.Selection{}, false},
		{tools.Selection{Include: []string{"*"}}, false},
		{tools.Selection{Include: []string{"@builtin", "read_*"}}, false},
		{tools.Selection{Include: []string{"*", "read_file"}}, true},
		{tools.Selection{Include: []string{"Read"}}, true},
		{tools.Selection{Include: []string{"Read"}, Exclude: []string{"read_*"}}, false},
	} {
		if got := test.selection.Names(spec); got != test.want {
			t.Errorf("%+v: %t", test.selection, got)
		}
	}
}
