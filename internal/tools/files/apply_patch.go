// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed apply_patch.md
var applyPatchDoc string

//go:embed apply_patch_help.md
var applyPatchHelp string

type applyPatchInput struct {
	Patch string `json:"patch" check:"min=1" jsonschema:"the changes, from *** Begin Patch to *** End Patch, or a unified diff"`
	Dir   string `json:"dir,omitempty" check:"max=4096" jsonschema:"of its paths"`
}

// files returns what the patch does to each file.
func (in applyPatchInput) files() ([]filePatch, error) {
	files, err := parsePatch(in.Patch)
	for i := range files {
		f := &files[i]
		for _, name := range []*string{&f.name, &f.moveTo} {
			if *name != "" && in.Dir != "" && !path.IsAbs(*name) {
				*name = path.Join(in.Dir, *name)
			}
		}
	}
	return files, err
}

// Check finds patches that are none.
func (in applyPatchInput) Check() []tools.Problem {
	files, err := in.files()
	if err != nil {
		return []tools.Problem{{Pointer: "/patch", Message: visible(err.Error())}}
	}
	for _, file := range files {
		for _, name := range []string{file.name, file.moveTo} {
			if len(name) > 4096 {
				return []tools.Problem{{Pointer: "/patch", Message: fmt.Sprintf("has a path of %d bytes: at most 4096", len(name))}}
			}
		}
	}
	return nil
}

// names returns the files a patch touches.
func (in applyPatchInput) names() []string {
	files, _ := in.files()
	var names []string
	for _, file := range files {
		names = append(names, file.name)
		if file.moveTo != "" {
			names = append(names, file.moveTo)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ApplyPatch returns the tool that changes several files at once.
func ApplyPatch() tools.Tool {
	return planned(
		tools.Spec{
			Name:            "apply_patch",
			Aliases:         []string{"ApplyPatch", "patch"},
			Label:           "Apply patch",
			Summary:         "Change several files at once by a patch, all or none.",
			Description:     applyPatchDoc,
			Help:            applyPatchHelp,
			Category:        category,
			Level:           tools.WorkspaceWrite,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "Change a line and add a file", Input: json.RawMessage(`{"patch":"*** Begin Patch\n*** Update File: main.go\n@@ func main() {\n-\tfmt.Println(1)\n+\tfmt.Println(2)\n*** Add File: notes.txt\n+Two is better.\n*** End Patch\n"}`)},
				{Summary: "A unified diff", Input: json.RawMessage(`{"patch":"--- a/VERSION\n+++ b/VERSION\n@@ -1 +1 @@\n-1.0\n+1.1\n"}`)},
			},
		},
		applyPatchInput.names,
		planPatch)
}

func planPatch(ctx context.Context, env tools.Env, in applyPatchInput) (*plan, error) {
	files, err := in.files()
	if err != nil {
		return nil, tools.Failf("invalid_patch", "%v", err)
	}
	p := &patched{plan: new(plan), env: env, encodings: make(map[int]encoding)}
	for i := range files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := p.file(&files[i]); err != nil {
			return nil, err
		}
	}
	// A file that was made and deleted again never was, and one that was only
	// copied has not changed.
	p.changes = slices.DeleteFunc(p.changes, func(c fileChange) bool { return c.gone && !c.old.Exists() || c.copied && c.unchanged() })
	if len(p.changes) == 0 {
		p.notes = append(p.notes, "the patch changes nothing")
	}
	return p.plan, nil
}

// patched is a plan that a patch makes, file by file.
type patched struct {
	*plan
	env       tools.Env
	encodings map[int]encoding // of changes
}

// change returns the place in the plan of the change of a file, as it is so far.
func (p *patched) change(name string) (int, error) {
	path, err := p.env.Path(name)
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(p.changes, func(c fileChange) bool { return c.path == path }); i >= 0 {
		return i, nil
	}
	c, err := load(p.env, name)
	if err != nil {
		return 0, err
	}
	c.gone = !c.old.Exists()
	var e encoding
	if c.old.Exists() {
		if c.before, e, err = decodeText(name, c.old.Data); err != nil {
			return 0, err
		}
		c.become(c.before, e)
	}
	p.changes = append(p.changes, c)
	p.encodings[len(p.changes)-1] = e
	return len(p.changes) - 1, nil
}

func (p *patched) file(f *filePatch) error {
	i, err := p.change(f.name)
	if err != nil {
		return err
	}
	c := &p.changes[i]
	switch {
	case f.kind == patchAdd && !c.gone:
		return tools.Failf("file_exists", "The patch adds %s, which exists already. Nothing was changed. Use *** Update File: to change it.", f.name)
	case f.kind != patchAdd && c.gone:
		return fmt.Errorf("%s: %w", f.name, fs.ErrNotExist)
	}
	text := c.after
	if f.kind == patchAdd {
		text = ""
	}
	after, notes, err := f.apply(text)
	if err != nil {
		return err
	}
	p.notes = append(p.notes, notes...)
	if f.kind == patchDelete {
		if len(f.hunks) > 0 && after != "" {
			return tools.Failf("patch_failed", "The patch deletes %s, but not all that is in it: read it again. Nothing was changed.", f.name)
		}
		c.gone, c.after, c.data = true, "", nil
		return nil
	}
	if f.moveTo == "" || f.moveTo == f.name {
		c.gone, c.movedTo = false, ""
		c.become(after, p.encodings[i])
		c.setMode(f.mode, c.old)
		return nil
	}
	return p.move(f, i, after)
}

// move gives the text of a file to another name.
func (p *patched) move(f *filePatch, from int, text string) error {
	to, err := p.change(f.moveTo)
	if err != nil {
		return err
	}
	source, target := &p.changes[from], &p.changes[to] // after change: it may have moved them
	if !target.gone {
		return tools.Failf("file_exists", "The patch moves %s to %s, which exists already. Nothing was changed.", f.name, f.moveTo)
	}
	target.gone = false
	if f.copied {
		source.copied = true
		if source.old.Exists() {
			target.mode = source.old.Mode.Perm()
		}
	} else {
		source.gone, source.after, source.data, source.movedTo = true, "", nil, target.path
		target.movedFrom = source.path
		if source.movedFrom != "" && !source.old.Exists() { // moved on
			target.movedFrom = source.movedFrom
			if origin := p.origin(source.movedFrom); origin.gone {
				origin.movedTo = target.path
			}
		}
		if !target.old.Exists() {
			target.before = source.before
		}
	}
	target.setMode(f.mode, source.old)
	target.become(text, p.encodings[from])
	p.encodings[to] = p.encodings[from]
	return nil
}

// origin returns the change of a file that was moved away.
func (p *patched) origin(path string) *fileChange {
	return &p.changes[slices.IndexFunc(p.changes, func(c fileChange) bool { return c.path == path })]
}
