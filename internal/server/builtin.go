// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/memory"
	"github.com/toolserver/toolserver/internal/schedule"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
	agenttools "github.com/toolserver/toolserver/internal/tools/agent"
	browsertools "github.com/toolserver/toolserver/internal/tools/browser"
	"github.com/toolserver/toolserver/internal/tools/catalog"
	"github.com/toolserver/toolserver/internal/tools/code"
	"github.com/toolserver/toolserver/internal/tools/dynamic"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/git"
	scheduletools "github.com/toolserver/toolserver/internal/tools/schedule"
	searchtools "github.com/toolserver/toolserver/internal/tools/search"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/skill"
	"github.com/toolserver/toolserver/internal/tools/turn"
	"github.com/toolserver/toolserver/internal/tools/web"
	workflowtools "github.com/toolserver/toolserver/internal/tools/workflow"
	"github.com/toolserver/toolserver/internal/workflow"
)

// families is what the tools that are part of the server work with.
type families struct {
	runners    *command.Runners
	companions *companion.Set
	browsers   *browser.Set
	documents  files.Documents
	engines    *search.Pool
	syntax     *syntax.Pool
	servers    *lsp.Set
	made       *dynamic.Set
	skills     *skill.Set
	web        *web.Family
	memory     *memory.Store
	workflows  workflowtools.Workflows
	schedules  scheduletools.Schedules
}

// tools returns the tools that are part of the server.
func (f families) tools() []tools.Tool {
	writes := append(files.Tools(f.documents, f.syntax), code.Tools(f.syntax, f.servers)...)
	for i, tool := range writes {
		if tool.Spec().Level == tools.WorkspaceWrite {
			writes[i] = tools.Around(tool, f.runners.Writing)
		}
		if slices.Contains([]string{"write_file", "edit_file", "multi_edit", "apply_patch"}, tool.Spec().Name) {
			writes[i] = code.WithNewErrors(writes[i], f.servers)
		}
	}
	list := slices.Concat(
		writes,
		shell.Tools(f.runners, f.companions),
		git.Tools(f.runners),
		browsertools.Tools(f.browsers),
		searchtools.Tools(f.engines),
		turn.Tools(),
		f.made.Tools(),
		f.skills.Tools(),
		f.web.Tools(),
		memoryTools(f.memory, f.engines, f.web),
		workflowtools.Tools(f.workflows),
		scheduletools.Tools(f.schedules),
		catalog.Tools(func() ([]catalog.Skill, uint64) { return found(f.skills) }),
	)
	return append(list, benchTools(len(list))...)
}

// BuiltinSpecs describes the tools that are part of the server.
func BuiltinSpecs() []*tools.Spec {
	var specs []*tools.Spec
	for _, tool := range builtinTools() {
		spec := tool.Spec()
		specs = append(specs, &spec)
	}
	return specs
}

// builtinTools returns the tools that are part of the server, of which none can run.
func builtinTools() []tools.Tool {
	runners := command.New(command.Config{})
	made, _ := dynamic.New(dynamic.Config{}, new(tools.Registry), runners) // which keeps nothing
	pages, _ := web.New(web.Config{}, nil)                                 // which has nothing to read
	builtin := families{
		runners:    runners,
		companions: companion.New(runners, companion.Config{}),
		browsers:   browser.New(runners, browser.Config{}),
		engines:    search.NewPool(nil),
		syntax:     syntax.NewPool(syntax.Config{}, nil, nil, search.NewPool(nil)),
		servers:    lsp.New(runners, search.NewPool(nil), lsp.Config{}),
		made:       made,
		skills:     skill.New(nil),
		web:        pages,
		memory:     memory.New(memory.Options{}),
		workflows:  workflow.New(workflow.Options{}),
		schedules:  schedule.New(schedule.Options{}),
	}
	return append(builtin.tools(), agenttools.Tools(agent.New(agent.Config{}, agent.Options{}), "")...)
}

// found returns the skills as searches know them.
func found(skills *skill.Set) ([]catalog.Skill, uint64) {
	all, revision := skills.All()
	list := make([]catalog.Skill, len(all))
	for i, s := range all {
		list[i] = catalog.Skill{Name: s.Name, Description: s.Description}
	}
	return list, revision
}

// timeFields are the inputs, in milliseconds, that ask for the time of a call.
var timeFields = map[string]string{
	"bash": "timeout_ms", "powershell": "timeout_ms", "repl": "timeout_ms", "sleep": "duration_ms",
}

// withMaxTimeout has the schemas of tools tell the longest time that a call may have.
func withMaxTimeout(list []tools.Tool, longest time.Duration) []tools.Tool {
	for i, tool := range list {
		if field, ok := timeFields[tool.Spec().Name]; ok {
			list[i] = tools.WithMaximum(tool, field, float64(longest.Milliseconds()))
		}
	}
	return list
}

// indexesOf returns what keeps workspaces in memory; nil where nothing is kept.
func indexesOf(c index.Config) *index.Pool {
	if c.MaxText == 0 { // which is a default there
		return nil
	}
	return index.NewPool(c)
}
