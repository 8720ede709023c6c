// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// maxEdited is the largest file that is read to be changed, in bytes.
const maxEdited = 64 << 20

// A plan is what a call would change, made without changing anything: the same
// plan is shown to who is asked and carried out.
type plan struct {
	changes []fileChange
	notes   []string // for the model
	again   string   // what was changed of new files since
	record  *history.Record
}

// fileChange is what happens to one file.
type fileChange struct {
	name string // as the call named it
	path string // where it leads
	old  workspace.File
	data []byte // what it will be
	gone bool   // it will not be there

	before, after string       // as text; empty where it is binary
	edits         []udiff.Edit // from before to after, where they are known
	binary        bool
	mode          fs.FileMode // what to write it with, where that is not the mode it has; 0 for none
	modes         string      // that, as git tells it
	copied        bool        // it was copied
	movedFrom     string      // it has the content of a file that goes
	movedTo       string      // the other side of that
}

// setMode sets the mode a file will have, as git tells it. was is the file it
// is made from.
func (c *fileChange) setMode(mode string, was workspace.File) {
	executable := mode != "" && mode[len(mode)-1]&1 != 0
	perm := was.Mode.Perm()
	switch {
	case mode == "" || executable == (was.Exists() && perm&0o111 != 0):
	case !was.Exists():
		c.mode, c.modes = workspace.Executable, "new file mode 100755\n"
	case executable:
		c.mode, c.modes = perm|perm&0o444>>2, "old mode 100644\nnew mode 100755\n"
	default:
		c.mode, c.modes = perm&^0o111, "old mode 100755\nnew mode 100644\n"
	}
}

// diff tells the change, with that of its mode.
func (c *fileChange) diff() diff {
	d := c.contentDiff()
	if c.modes == "" || c.gone {
		return d
	}
	head, rest, ok := strings.Cut(d.text, "\n")
	if !ok || !strings.HasPrefix(head, "diff --git ") {
		a, _ := diffNames(cmp.Or(c.movedFrom, c.path), true, true)
		_, b := diffNames(c.path, true, true)
		head, rest = visible("diff --git "+a+" "+b), d.text
	}
	d.text = head + "\n" + c.modes + rest
	return d
}

func (c *fileChange) contentDiff() diff {
	from, to := diffNames(c.path, c.old.Exists(), !c.gone)
	if c.movedFrom != "" && !c.old.Exists() {
		from, _ = diffNames(c.movedFrom, true, true)
	}
	switch {
	case c.movedTo != "":
		return diff{} // told where it comes to lie
	case c.movedFrom != "" && c.before == c.after && !c.old.Exists():
		return diff{text: renamed(c.movedFrom, c.path)}
	case c.binary:
		return diff{text: fmt.Sprintf("Binary files %s and %s differ\n", from, to)}
	}
	return diffOf(from, to, c.before, c.after, c.edits)
}

// renamed tells a move as git does.
func renamed(from, to string) string {
	a, _ := diffNames(from, true, true)
	_, b := diffNames(to, true, true)
	return visible(fmt.Sprintf("diff --git %s %s\nsimilarity index 100%%\nrename from %s\nrename to %s\n", a, b, a[2:], b[2:]))
}

// verb says what happens to the file.
func (c *fileChange) verb() string {
	switch {
	case c.movedTo != "":
		return "moved away"
	case c.gone:
		return "deleted"
	case c.old.Exists():
		return "changed"
	}
	return "created"
}

// load reads a file that is to be changed. One that is not there is the zero
// File.
func load(env tools.Env, name string) (fileChange, error) {
	path, err := env.Path(name)
	if err != nil {
		return fileChange{}, err
	}
	c := fileChange{name: name, path: path}
	c.old, err = env.Workspace.ReadFile(path, maxEdited)
	if errors.Is(err, fs.ErrNotExist) {
		if strings.HasSuffix(name, "/") {
			return c, tools.Failf("not_a_file", "%s ends with a slash, as the name of a directory does. Name a file, or use make_dir.", name)
		}
		return c, nil
	}
	return c, err
}

// loadText is load of a text that must be there.
func loadText(env tools.Env, name, expected string) (c fileChange, e encoding, err error) {
	c, err = load(env, name)
	if err == nil && !c.old.Exists() {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return c, 0, err
	}
	if err := c.demand(env, expected); err != nil {
		return c, 0, err
	}
	c.before, e, err = decodeText(name, c.old.Data)
	return c, e, err
}

// demand refuses a file that is not the one the caller has seen.
func (c *fileChange) demand(env tools.Env, expected string) error {
	if expected == "" || c.old.Exists() && c.old.Hash().Matches(expected) {
		return nil
	}
	if !c.old.Exists() {
		return tools.Failf("stale_file", "%s is not there any more: its hash cannot be %s.%s", c.name, expected, whoChanged(env, c.path))
	}
	return tools.Failf("stale_file", "%s has changed: its hash is %s, not %s. Nothing was written.%s%s\nRead it again, then repeat the call.",
		c.name, c.old.Hash().Short(), expected, whoChanged(env, c.path), c.whatChanged(env, expected))
}

// whoChanged tells of the last call that changed a file.
func whoChanged(env tools.Env, path string) string {
	records := env.Changes.Records()
	for i := len(records) - 1; i >= 0; i-- {
		for _, change := range records[i].Changes {
			within := change.Before.Kind == workspace.Directory && strings.HasPrefix(path, change.Path+"/")
			if change.Path == path || change.MovedFrom == path || within {
				return fmt.Sprintf(" It was last changed here by call %s of %s, %s ago.", records[i].ID, records[i].Tool, time.Since(records[i].Time).Round(time.Second))
			}
		}
	}
	return " No call of this session has changed it."
}

// whatChanged returns the difference to the version the caller has seen, where
// that is still known.
func (c *fileChange) whatChanged(env tools.Env, expected string) string {
	var seen string
	found := false
	env.Changes.Older(c.path, c.old.Data, func(old []byte, exists bool) bool {
		found = exists && workspace.HashOf(old).Matches(expected)
		seen = string(old)
		return !found
	})
	if found {
		from, to := diffNames(c.path, true, true)
		return " Since the version you have seen:\n" + shorten(diffOf(from, to, seen, string(c.old.Data), nil).text, env.Shown()-1000)
	}
	return " It was last written at " + c.old.ModTime.UTC().Format(time.RFC3339) + "."
}

// become sets the text a file will have.
func (c *fileChange) become(after string, e encoding) {
	c.after = after
	c.data = encodeText(after, e)
}

// show returns the diff of the whole plan, and pins the versions it was made
// from: what is approved is what runs.
func (p *plan) show(env tools.Env) string {
	var b strings.Builder
	for i := range p.changes {
		c := &p.changes[i]
		env.Pin(c.path, c.seen())
		b.WriteString(c.diff().text)
	}
	return b.String()
}

// seen stands for the version of a file the change was made from.
func (c *fileChange) seen() string {
	if !c.old.Exists() {
		return "nothing"
	}
	return c.old.Hash().String()
}

// maxDetailed is how many bytes of a diff the runtime gets.
const maxDetailed = 256 << 10

// changeDetails is what an agent runtime may want to know about a change.
type changeDetails struct {
	Change   string        `json:"change,omitempty"` // what undo calls it
	Undoable bool          `json:"undoable"`
	Files    []fileDetails `json:"files"`
	Diff     string        `json:"diff"`
}

type fileDetails struct {
	Path    string `json:"path"`
	Was     string `json:"moved_from,omitempty"`
	Kind    string `json:"kind"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Size    int64  `json:"size"`
	Hash    string `json:"hash,omitempty"`
	Mode    string `json:"mode,omitempty"`
}

// apply carries a plan out, all of it or nothing. Who calls it holds the locks
// of its paths since before the plan was made.
func (p *plan) apply(env tools.Env, tool string) (tools.Result, error) {
	for i := range p.changes {
		c := &p.changes[i]
		if was, ok := env.Pinned(c.path); ok && was != c.seen() {
			return tools.Result{}, tools.Failf("stale_file", "%s has changed since the call was shown for approval. Nothing was written. Read it again, then repeat the call.", c.name)
		}
	}
	batch := history.Begin(env.Workspace, env.Changes, env.CallID, tool)
	details := changeDetails{Files: make([]fileDetails, len(p.changes))}
	for i := range p.changes {
		c := &p.changes[i]
		details.Files[i] = fileDetails{Path: c.path, Was: c.movedFrom, Kind: c.verb(), Size: int64(len(c.data))}
		var err error
		switch {
		case c.gone:
			err = batch.Remove(c.path, c.old)
		case c.unchanged():
			details.Files[i].Kind, details.Files[i].Hash, details.Files[i].Mode = "unchanged", c.old.Hash().Short(), c.old.Mode.String()
		default:
			mode := workspace.KeepMode
			if c.movedFrom != "" && !c.old.Exists() {
				mode = p.modeOf(c.movedFrom)
			}
			mode = cmp.Or(c.mode, mode)
			var now history.State
			now, err = batch.Write(c.path, c.data, mode, c.old)
			details.Files[i].Hash, details.Files[i].Mode = now.Hash.Short(), now.Mode.String()
		}
		if err != nil {
			return tools.Result{}, errors.Join(explain(err), batch.Rollback())
		}
	}
	p.record = batch.Commit()
	return p.result(env, details, p.record)
}

// restate returns the result of the plan with what its files have now, where that is
// something else than what the plan wrote.
func (p *plan) restate(env tools.Env, before *tools.Result) (tools.Result, bool) {
	var details changeDetails
	if json.Unmarshal(before.Details, &details) != nil || len(details.Files) != len(p.changes) {
		return tools.Result{}, false
	}
	changed := false
	for i := range p.changes {
		c, file := &p.changes[i], &details.Files[i]
		if c.gone {
			continue
		}
		now, err := env.Workspace.ReadFile(c.path, maxEdited)
		if err != nil || bytes.Equal(now.Data, c.data) {
			continue
		}
		p.record = env.Changes.Extend(p.record, c.path, c.data, now)
		text, _, err := decodeText(c.name, now.Data)
		if err != nil || c.binary {
			continue
		}
		changed = true
		if !c.old.Exists() || c.unchanged() { // else the difference to what was there before tells it
			from, to := diffNames(c.path, true, true)
			p.again += diffOf(from, to, c.after, text, nil).hunks
		}
		p.notes = append(p.notes, plain(c.path)+" was changed once more after this call wrote it, by a hook of the server: this is what it has now")
		c.data, c.after, c.edits = now.Data, text, nil
		file.Size, file.Hash, file.Mode = int64(len(now.Data)), now.Hash().Short(), now.Mode.String()
	}
	if !changed {
		return tools.Result{}, false
	}
	result, err := p.result(env, details, p.record)
	return result, err == nil
}

// unchanged reports whether a file stays as it is.
func (c *fileChange) unchanged() bool {
	return c.old.Exists() && !c.gone && c.mode == 0 && bytes.Equal(c.data, c.old.Data)
}

// modeOf returns the mode of a file of the plan.
func (p *plan) modeOf(path string) fs.FileMode {
	for i := range p.changes {
		if p.changes[i].path == path && p.changes[i].old.Exists() {
			return p.changes[i].old.Mode.Perm()
		}
	}
	return workspace.KeepMode
}

func (p *plan) result(env tools.Env, details changeDetails, record *history.Record) (tools.Result, error) {
	var head, diffs, all strings.Builder
	for i := range p.changes {
		c, file := &p.changes[i], &details.Files[i]
		d := c.diff()
		file.Added, file.Removed = d.added, d.removed
		head.WriteString(c.sentence(file, d))
		all.WriteString(d.text)
		if c.old.Exists() && !c.gone || c.movedFrom != "" {
			diffs.WriteString(c.shown(d, len(p.changes) > 1)) // what was made or deleted as a whole, the model knows
		}
	}
	for _, note := range p.notes {
		head.WriteString("(" + note + ")\n")
	}
	if record.Lost != "" {
		head.WriteString("(this cannot be undone: " + record.Lost + ")\n")
	}
	diffs.WriteString(p.again)
	if diffs.Len() > 0 {
		head.WriteString("\n" + shorten(diffs.String(), max(0, env.Shown()-head.Len())))
	}
	details.Change, details.Undoable = record.ID, record.Lost == ""
	details.Diff = shorten(all.String(), maxDetailed)
	return tools.Detailed(visible(head.String()), details)
}

// shown returns what the model is shown of a change, with the name of the file
// where there are others.
func (c *fileChange) shown(d diff, named bool) string {
	text := d.hunks
	if c.binary {
		text = d.text
	} else if c.modes != "" {
		text = c.modes + text
	}
	if text != "" && named {
		text = "== " + plain(c.path) + "\n" + text
	}
	return text
}

// sentence tells the model what happened to a file.
func (c *fileChange) sentence(file *fileDetails, d diff) string {
	switch {
	case c.movedTo != "":
		return ""
	case c.gone:
		return fmt.Sprintf("Deleted %s (%s).\n", plain(c.path), tools.Count(d.removed, "line", "lines"))
	case !c.old.Exists() && c.movedFrom != "":
		return fmt.Sprintf("Moved %s to %s: +%d -%d lines, hash %s.\n", plain(c.movedFrom), plain(c.path), d.added, d.removed, file.Hash)
	case !c.old.Exists():
		return fmt.Sprintf("Created %s: %s, %s, hash %s.\n", plain(c.path), tools.Count(lineCount(c.after), "line", "lines"), tools.Count(len(c.data), "byte", "bytes"), file.Hash)
	case d.text == "":
		return fmt.Sprintf("%s is unchanged: it had this content already, hash %s.\n", plain(c.path), file.Hash)
	}
	return fmt.Sprintf("Changed %s: +%d -%d lines, hash %s.\n", plain(c.path), d.added, d.removed, file.Hash)
}

// planned returns a tool whose calls make a plan and carry it out.
func planned[In any](
	spec tools.Spec,
	names func(in In) []string,
	make func(ctx context.Context, env tools.Env, in In) (*plan, error),
) tools.Tool {
	tool := tools.New(spec,
		func(env tools.Env, in In) []tools.Effect { return env.Edits(names(in)...) },
		func(ctx context.Context, env tools.Env, in In, _ tools.Sink) (tools.Result, error) {
			unlock, err := lock(env, names(in))
			if err != nil {
				return tools.Result{}, explainOf(env, err, names(in)...)
			}
			defer unlock()
			p, err := make(ctx, env, in)
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err == nil {
				err = p.unmasked()
			}
			if err != nil {
				return tools.Result{}, explainOf(env, err, names(in)...)
			}
			result, err := p.apply(env, spec.Name)
			if err == nil {
				result.Restate = func() (tools.Result, bool) { return p.restate(env, &result) }
			}
			return result, err
		})
	return tools.WithPreview(tool, func(ctx context.Context, env tools.Env, in In) tools.Preview {
		p, err := make(ctx, env, in)
		if err != nil {
			return wouldFail(explainOf(env, err, names(in)...))
		}
		if shown := p.show(env); shown != "" {
			return tools.Preview{Kind: tools.PreviewDiff, Text: shown}
		}
		return tools.Preview{Kind: tools.PreviewText, Text: "The call would change nothing."}
	})
}

// wouldFail is the preview of a call that will not work.
func wouldFail(err error) tools.Preview {
	return tools.Preview{Kind: tools.PreviewText, Text: "The call would fail as things are now:\n\n" + visible(err.Error())}
}

// lock keeps other calls of the session from the files that names lead to.
func lock(env tools.Env, names []string) (unlock func(), err error) {
	paths := make([]string, len(names))
	for i, name := range names {
		if paths[i], err = env.Path(name); err != nil {
			return nil, err
		}
	}
	return env.Workspace.Lock(paths...), nil
}
