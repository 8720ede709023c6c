// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed undo.md
var undoDoc string

//go:embed undo_help.md
var undoHelp string

type undoInput struct {
	Call   string `json:"call,omitempty" check:"min=1,max=256" jsonschema:"take back this call alone; default the last"`
	BackTo string `json:"back_to,omitempty" check:"min=1,max=256" jsonschema:"take back this call and all after it"`
}

// Check refuses to take back in two ways at once.
func (in undoInput) Check() []tools.Problem {
	if in.Call != "" && in.BackTo != "" {
		return []tools.Problem{{Message: "give call or back_to, not both"}}
	}
	return nil
}

// Undo returns the tool that takes changes back.
func Undo() tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:            "undo",
			Aliases:         []string{"Undo", "undo_edit", "undoEdit"},
			Label:           "Undo",
			Summary:         "Take back what calls changed in files.",
			Description:     undoDoc,
			Help:            undoHelp,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "The last change", Input: json.RawMessage(`{}`)},
				{Summary: "One call", Input: json.RawMessage(`{"call":"toolu_01"}`)},
				{Summary: "A call and all after it", Input: json.RawMessage(`{"back_to":"toolu_01"}`)},
			},
		},
		func(env tools.Env, in undoInput) []tools.Effect {
			records, err := in.records(env)
			if err != nil {
				return env.ReadsEntries(".") // nothing is changed, and Run says why
			}
			env.Pin("undo", idsOf(records))
			return undoEffects(env, records)
		},
		runUndo)
	return tools.WithPreview(tool, func(_ context.Context, env tools.Env, in undoInput) tools.Preview {
		records, err := in.records(env)
		if err != nil {
			return wouldFail(err)
		}
		var b strings.Builder
		b.WriteString("Takes back:\n")
		for _, r := range slices.Backward(records) {
			b.WriteString("\n" + describe(r))
		}
		return tools.Preview{Kind: tools.PreviewText, Text: visible(b.String())}
	})
}

// records returns what is to be taken back. What a model takes back without naming it
// is its own work, never what the client brought.
func (in undoInput) records(env tools.Env) ([]*history.Record, error) {
	all := env.Changes.Records()
	calls := slices.DeleteFunc(slices.Clone(all), (*history.Record).Transfer)
	id := in.Call + in.BackTo
	known := id == "" && len(calls) > 0 || slices.ContainsFunc(all, func(r *history.Record) bool { return r.ID == id })
	if !known && env.Changes.Forgot() {
		return nil, tools.Failf("undo_forgotten", "What calls changed before the server was last started, or before the session came to this server, cannot be taken back: that is kept in memory alone. Since then %s. %s shows what is different, and git takes it back.", changedSince(all), env.Words.Tool("git_diff"))
	}
	if len(calls) == 0 && id == "" || len(all) == 0 {
		return nil, tools.Failf("nothing_to_undo", "No call of this session has changed a file that could be taken back. What commands changed is not known here: %s shows it, and git takes it back.", env.Words.Tool("git_diff"))
	}
	if id == "" {
		return calls[len(calls)-1:], nil
	}
	i := slices.IndexFunc(all, func(r *history.Record) bool { return r.ID == id })
	if i < 0 {
		return nil, tools.Failf("unknown_call", "There is no call %q to take back. These have changed files: %s.", id, strings.Join(lastIDs(all), ", "))
	}
	if in.BackTo != "" {
		return slices.DeleteFunc(slices.Clone(all[i:]), func(r *history.Record) bool { return r.ID != id && r.Transfer() }), nil
	}
	return all[i : i+1], nil
}

// changedSince tells which calls can be taken back.
func changedSince(all []*history.Record) string {
	if len(all) == 0 {
		return "no call has changed a file"
	}
	return "these calls have changed files: " + strings.Join(lastIDs(all), ", ")
}

// lastIDs returns the ids of the last records, the last first.
func lastIDs(records []*history.Record) []string {
	var ids []string
	for _, r := range slices.Backward(records) {
		if len(ids) == 20 {
			return append(ids, "…")
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func idsOf(records []*history.Record) string {
	var ids []string
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, "\x00")
}

// undoEffects returns the effects of taking records back.
func undoEffects(env tools.Env, records []*history.Record) []tools.Effect {
	var list []tools.Effect
	for _, r := range records {
		folders := make(map[string]bool)
		for _, change := range r.Changes {
			if change.Before.Kind == workspace.Directory || change.After.Kind == workspace.Directory {
				folders[change.Path] = true
			}
		}
		for _, change := range r.Changes {
			switch {
			case change.MovedFrom != "":
				list = append(list, effects.Moves(env, change.Path, change.MovedFrom)...)
			case !inOne(change.Path, folders): // and otherwise part of the tree
				list = append(list, effects.Removes(env, change.Path, folders[change.Path])...)
			}
		}
	}
	return list
}

// inOne reports whether a path is below one of the folders.
func inOne(path string, folders map[string]bool) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if folders[dir] {
			return true
		}
	}
	return false
}

// maxSaid is how many changes of a record are told one by one.
const maxSaid = 10

// describe tells what a record changed. Of much that was deleted with its
// directory the directory is told.
func describe(r *history.Record) string {
	folders := make(map[string]bool)
	if len(r.Changes)+r.Omitted > maxSaid {
		for _, change := range r.Changes {
			if change.Before.Kind == workspace.Directory && change.After.Kind == workspace.Absent {
				folders[change.Path] = true
			}
		}
	}
	var said []string
	more, below := 0, r.Omitted
	for _, change := range r.Changes {
		switch {
		case len(folders) > 0 && change.After.Kind == workspace.Absent && inOne(change.Path, folders):
			below++
		case len(said) == maxSaid:
			more++
		default:
			said = append(said, sayChange(change))
		}
	}
	if len(folders) == 0 {
		more, below = more+below, 0
	}
	by := r.Tool
	if r.Transfer() {
		by = "by the client, no call"
	}
	text := fmt.Sprintf("%s (%s): %s", plain(r.ID), by, strings.Join(said, ", "))
	if below > 0 {
		text += fmt.Sprintf(", with %d below", below)
	}
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if r.Lost != "" {
		text += fmt.Sprintf(" (cannot be undone: %s)", r.Lost)
	}
	return text + "\n"
}

func sayChange(change history.Change) string {
	switch {
	case change.MovedFrom != "":
		return fmt.Sprintf("moved %s to %s", plain(change.MovedFrom), plain(change.Path))
	case change.Before.Kind == workspace.Absent:
		return "created " + plain(change.Path)
	case change.After.Kind == workspace.Absent:
		return "deleted " + plain(change.Path)
	}
	return "changed " + plain(change.Path)
}

func runUndo(ctx context.Context, env tools.Env, in undoInput, _ tools.Sink) (tools.Result, error) {
	defer env.Workspace.LockAll()()
	records, err := in.records(env)
	if err != nil {
		return tools.Result{}, err
	}
	if was, ok := env.Pinned("undo"); !ok || was != idsOf(records) {
		return tools.Result{}, tools.Failf("stale_call", "Other calls have changed files since this one was judged. Nothing was taken back. Call again.")
	}
	if err := history.Undo(ctx, env.Workspace, env.Changes, records); err != nil {
		if errors.Is(err, workspace.ErrChanged) {
			return tools.Result{}, tools.Failf("stale_file", "%v. Nothing was taken back.", err)
		}
		return tools.Result{}, explain(err)
	}
	var b strings.Builder
	b.WriteString("Took back:\n")
	ids := []string{}
	for _, r := range slices.Backward(records) {
		b.WriteString(describe(r))
		ids = append(ids, r.ID)
	}
	details := map[string]any{"calls": ids}
	result, err := tools.Detailed(visible(b.String()), details)
	left := hashesOf(env, records)
	result.Restate = func() (tools.Result, bool) {
		now, again := hashesOf(env, records), false
		for _, path := range slices.Sorted(maps.Keys(left)) {
			if hash, ok := now[path]; ok && hash == left[path] {
				continue
			}
			again = true
			fmt.Fprintf(&b, "(%s was changed once more after that, by a hook of the server: it is not what it was before)\n", plain(path))
		}
		result, err := tools.Detailed(visible(b.String()), details)
		return result, err == nil && again
	}
	return result, err
}

// maxFollowed is of how many files it is told that hooks changed them again.
const maxFollowed = 100

// hashesOf returns the hashes that files of records have now.
func hashesOf(env tools.Env, records []*history.Record) map[string]workspace.Hash {
	hashes := make(map[string]workspace.Hash)
	for _, r := range records {
		for _, change := range r.Changes {
			path, err := env.Path(change.Path)
			if _, seen := hashes[change.Path]; err != nil || seen || len(hashes) == maxFollowed {
				continue
			}
			if now, err := env.Workspace.ReadFile(path, maxEdited); err == nil {
				hashes[change.Path] = now.Hash()
			}
		}
	}
	return hashes
}
