// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// ErrLeftOut is what an error is about calls that a session is without.
var ErrLeftOut = errors.New("left out of the session")

// leftOutError says so in words for the caller.
type leftOutError string

func (e leftOutError) Error() string        { return string(e) }
func (e leftOutError) Is(target error) bool { return target == ErrLeftOut }

// The tools that calls of WorkspaceService are judged as. They are in no
// registry, for no model calls them; CheckCall knows them.
var (
	ReadsFiles = transferTool(tools.Spec{
		Name: "workspace_read", Label: "Read files", Summary: "Send files of the workspace to the caller.", Level: tools.ReadOnly,
	}, func(env tools.Env, in TransferInput) []tools.Effect {
		if in.Recursive {
			return env.ReadsTree(in.Path)
		}
		return env.Reads(in.Path)
	})
	WritesFiles = transferTool(tools.Spec{
		Name: "workspace_write", Label: "Write files", Summary: "Take files of the caller into the workspace.", Level: tools.WorkspaceWrite,
	}, func(env tools.Env, in TransferInput) []tools.Effect { return env.Writes(in.Path) })
	RemovesFiles = transferTool(tools.Spec{
		Name: "workspace_remove", Label: "Remove files", Summary: "Remove files of the workspace.", Level: tools.WorkspaceWrite,
	}, func(env tools.Env, in TransferInput) []tools.Effect {
		return effects.Removes(env, in.Path, in.Recursive)
	})

	transferTools = map[string]*tools.Entry{
		ReadsFiles.Spec.Name: ReadsFiles, WritesFiles.Spec.Name: WritesFiles, RemovesFiles.Spec.Name: RemovesFiles,
	}
)

// TransferInput is what conditions of a policy see as the input of a transfer.
type TransferInput struct {
	Path      string `json:"path" check:"min=1,max=4096" jsonschema:"what is read, written or removed, relative to the workspace"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"a directory is meant with everything in it; default false"`
}

func transferTool(spec tools.Spec, effects func(tools.Env, TransferInput) []tools.Effect) *tools.Entry {
	spec.Category, spec.ConcurrencySafe = "workspace", true
	tool := tools.New(spec, effects, func(context.Context, tools.Env, TransferInput, tools.Sink) (tools.Result, error) {
		return tools.Result{}, tools.Failf("no_such_tool", "%s is not called as a tool: it is what calls of WorkspaceService are judged as.", spec.Name)
	})
	return &tools.Entry{Tool: tool, Spec: tool.Spec()}
}

// Selected returns an error where the session is without calls of this kind: its
// selection of tools excludes them by a pattern, or the operator has sessions name
// what they want and it does not. What the selection includes is what a model is
// shown, and says nothing about them.
func Selected(p *policy.Policy, settings *session.Settings, spec *tools.Spec) error {
	excludes := tools.Selection{Exclude: settings.Tools.Exclude}
	if excludes.Has(spec) && (!p.ExplicitOnly(spec) || settings.Tools.Names(spec)) {
		return nil
	}
	return leftOutError(fmt.Sprintf("There is no tool %q in this session: its selection of tools leaves it out.", spec.Name))
}
