// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// An Edit is what a server would change: nothing was changed yet. It is made of the files
// as they were when the server was asked.
type Edit struct {
	About
	Files []FileEdit // sorted by path

	// Name is what is renamed, and Left are files of the language that have it as a word and
	// are not changed, the first ones of many; both are empty where nothing is renamed.
	Name string
	Left []string
}

// A FileEdit is what becomes of one file.
type FileEdit struct {
	Path string         // of the workspace
	Old  workspace.File // as it is; the zero File for one that is made
	New  []byte         // what it will have
	Gone bool           // it will not be there
}

// Bounds of one edit.
const (
	maxEdited  = 5000     // files
	maxPlanned = 64 << 20 // bytes of them, as they are and as they would be
)

var errGone = errors.New("the language server has ended")

// Diff returns the edit as a unified diff, with paths as shown returns them.
func (e *Edit) Diff(shown func(path string) string) string {
	var b strings.Builder
	for _, f := range e.Files {
		from, to := "a/"+shown(f.Path), "b/"+shown(f.Path)
		if !f.Old.Exists() {
			from = "/dev/null"
		}
		if f.Gone {
			to = "/dev/null"
		}
		b.WriteString(udiff.Unified(from, to, string(f.Old.Data), string(f.New)))
	}
	return b.String()
}

// Paths returns what the edit writes.
func (e *Edit) Paths() []string {
	paths := make([]string, len(e.Files))
	for i, f := range e.Files {
		paths[i] = f.Path
	}
	return paths
}

// Apply carries the edit out, all of it or nothing: a file that has changed since the server
// was asked, or cannot be written, leaves all as they were. What was done can be undone by
// the record.
func (e *Edit) Apply(env tools.Env, tool string) (*history.Record, error) {
	unlock := env.Workspace.Lock(e.Paths()...)
	defer unlock()
	for _, f := range e.Files {
		if env.Protected(f.Path) {
			return nil, tools.Failf("protected", "%s is protected: no call may write it. Nothing was changed.", f.Path)
		}
	}
	batch := history.Begin(env.Workspace, env.Changes, env.CallID, tool)
	for _, f := range e.Files {
		var err error
		if f.Gone {
			err = batch.Remove(f.Path, f.Old)
		} else {
			_, err = batch.Write(f.Path, f.New, workspace.KeepMode, f.Old)
		}
		if err == nil {
			continue
		}
		back := batch.Rollback()
		switch {
		case back != nil:
			err = errors.Join(err, back)
		case errors.Is(err, workspace.ErrChanged):
			err = tools.Failf("stale_file", "%s has changed since the language server was asked. Nothing was changed: repeat the call.", f.Path)
		case errors.Is(err, fs.ErrPermission):
			err = tools.Failf("not_writable", "%s may not be written. Nothing was changed.", f.Path)
		default:
			err = fmt.Errorf("nothing was changed: %w", err)
		}
		return nil, err
	}
	return batch.Commit(), nil
}

// Rename returns what renaming a target would change, in all files.
func (a *Asker) Rename(ctx context.Context, t Target, name string) (*Edit, error) {
	if strings.TrimSpace(name) == "" || len(name) > 500 || strings.ContainsAny(name, "\n\r") {
		return nil, tools.Failf("no_name", "%.40q is no name that something could have.", name)
	}
	var e *Edit
	about, err := a.askAt(ctx, t, func(q *question, d document, at protocol.Position) (err error) {
		if q.can.RenameProvider == nil {
			return q.cannot("rename")
		}
		if err := q.checkName(&d, at, name); err != nil {
			return err
		}
		place := position(q, &d, at)
		if options, ok := q.can.RenameProvider.(*protocol.RenameOptions); ok && options.PrepareProvider != nil && *options.PrepareProvider {
			can, err := within(q, func(ctx context.Context) (protocol.PrepareRenameResult, error) {
				return q.remote.PrepareRename(ctx, &protocol.PrepareRenameParams{TextDocumentPositionParams: place})
			})
			if err != nil {
				return err
			}
			if can == nil {
				line, column := d.text.place(at, q.encoding)
				return tools.Failf("cannot_rename", "There is nothing at %s:%d:%d that %s could rename. The line is: %s", d.path, line, column, q.server.Name, clip(d.text.line(line-1)))
			}
		}
		old := d.text.wordAt(at, q.encoding)
		if err := q.giveUsers(old); err != nil {
			return err
		}
		change, err := within(q, func(ctx context.Context) (*protocol.WorkspaceEdit, error) {
			return q.remote.Rename(ctx, &protocol.RenameParams{TextDocumentPositionParams: place, NewName: name})
		})
		if err != nil {
			return err
		}
		if e, err = q.edit(change); err != nil {
			return err
		}
		return q.checkRename(e, old, d.path)
	})
	return finished(e, about, err)
}

// checkRename notes which files have a name that is renamed and are not changed. It refuses what
// may be half of a rename: where there are files that the server does not know.
func (q *question) checkRename(e *Edit, old, path string) error {
	list, err := q.filesWith(old)
	if err != nil {
		return err
	}
	isEdited := func(path string) bool {
		return slices.ContainsFunc(e.Files, func(f FileEdit) bool { return f.Path == path })
	}
	e.Name, e.Left = old, slices.DeleteFunc(list, isEdited)
	q.unseen = slices.DeleteFunc(q.unseen, isEdited)
	if len(q.unseen) > 0 && !q.hasProject(path) {
		return tools.Failf("partial_rename", "Nothing was changed: %d files beside those that %s was given have the name %s, such as %s, and whether they use what is renamed is not known. Have a session in a smaller part of the workspace, or a %s that names the files that belong together.",
			len(q.unseen), q.server.Name, old, q.unseen[0], cmp.Or(strings.Join(q.server.projects, " or "), "project file of the language"))
	}
	return nil
}

// hasProject reports whether a file says which files belong together with another one.
func (q *question) hasProject(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		for _, name := range q.server.projects {
			if info, err := q.files.Stat(filepath.Join(dir, name)); err == nil && info.Exists() {
				return true
			}
		}
		if dir == "." {
			return false
		}
	}
}

func finished(e *Edit, about About, err error) (*Edit, error) {
	if err != nil {
		return nil, err
	}
	if e == nil {
		e = new(Edit)
	}
	e.About = about
	return e, nil
}

// Format returns what formatting a file would change.
func (a *Asker) Format(ctx context.Context, path string) (*Edit, error) {
	var e *Edit
	about, err := a.ask(ctx, path, func(q *question) error {
		if q.can.DocumentFormattingProvider == nil {
			return q.cannot("format")
		}
		path, err := q.inside(path)
		if err != nil {
			return err
		}
		d, err := q.open(q.ctx, path)
		if err != nil {
			return err
		}
		width, spaces := indentOf(d.text.all)
		edits, err := within(q, func(ctx context.Context) ([]protocol.TextEdit, error) {
			return q.remote.Formatting(ctx, &protocol.DocumentFormattingParams{
				TextDocument: protocol.TextDocumentIdentifier{URI: q.uri(path)},
				Options:      protocol.FormattingOptions{TabSize: width, InsertSpaces: spaces},
			})
		})
		if err != nil {
			return err
		}
		e, err = q.edit(&protocol.WorkspaceEdit{Changes: map[uri.URI][]protocol.TextEdit{q.uri(path): edits}})
		return err
	})
	return finished(e, about, err)
}

// indentOf returns how a text is indented: by its first line that is.
func indentOf(text string) (width uint32, spaces bool) {
	for line := range strings.Lines(text) {
		rest := strings.TrimLeft(line, " ")
		switch n := len(line) - len(rest); {
		case strings.HasPrefix(line, "\t"):
			return 4, false
		case n >= 2 && n <= 8 && strings.TrimSpace(rest) != "" && !strings.HasPrefix(rest, "*"):
			return uint32(n), true
		}
	}
	return 4, true
}

// edit returns what a server would change, by the files as they are.
func (q *question) edit(change *protocol.WorkspaceEdit) (*Edit, error) {
	e := new(Edit)
	if change == nil {
		return e, nil
	}
	b := builder{question: q, edits: make(map[string]*FileEdit)}
	// Where there are both, they say the same.
	if len(change.DocumentChanges) == 0 {
		for _, at := range slices.Sorted(maps.Keys(change.Changes)) {
			if err := b.write(at, change.Changes[at]); err != nil {
				return nil, err
			}
		}
	}
	for _, one := range change.DocumentChanges {
		if err := b.do(one); err != nil {
			return nil, err
		}
	}
	size := 0
	changed, missed := q.changes.pending()
	if missed && len(b.edits) > 0 {
		return nil, stale("A file")
	}
	for _, path := range slices.Sorted(maps.Keys(b.edits)) {
		f := b.edits[path]
		if changed[path] {
			return nil, stale(path)
		}
		if f.Gone && !f.Old.Exists() || !f.Gone && f.Old.Exists() && string(f.Old.Data) == string(f.New) {
			continue
		}
		if size += len(f.Old.Data) + len(f.New); size > maxPlanned {
			return nil, b.wrong("it would change files of more than %d MiB together", maxPlanned>>20)
		}
		e.Files = append(e.Files, *f)
	}
	return e, nil
}

// A builder makes an edit of what a server says.
type builder struct {
	*question
	edits map[string]*FileEdit // by path
}

func (b *builder) do(change protocol.DocumentChange) error {
	switch change := change.(type) {
	case *protocol.TextDocumentEdit:
		var edits []protocol.TextEdit
		for _, one := range change.Edits {
			switch one := one.(type) {
			case *protocol.TextEdit:
				edits = append(edits, *one)
			case *protocol.AnnotatedTextEdit:
				edits = append(edits, one.TextEdit)
			default:
				return b.wrong("it has an edit of a kind that it was not told to use")
			}
		}
		return b.write(change.TextDocument.URI, edits)
	case *protocol.CreateFile:
		f, err := b.file(change.URI)
		if err != nil {
			return err
		}
		if !f.Gone && (f.Old.Exists() || f.New != nil) {
			return b.wrong("it would make %s, which is there", f.Path)
		}
		f.Gone, f.New = false, []byte{}
	case *protocol.DeleteFile:
		f, err := b.file(change.URI)
		if err != nil {
			return err
		}
		f.Gone, f.New = true, nil
	case *protocol.RenameFile:
		from, err := b.file(change.OldURI)
		if err != nil {
			return err
		}
		to, err := b.file(change.NewURI)
		if err != nil {
			return err
		}
		if from.Gone || !to.Gone && (to.Old.Exists() || to.New != nil) {
			return b.wrong("it would move %s to %s, of which one is not there or the other is", from.Path, to.Path)
		}
		to.New, to.Gone = from.New, false
		from.New, from.Gone = nil, true
	}
	return nil
}

func (b *builder) wrong(format string, args ...any) error {
	return tools.Failf("wrong_edit", "Nothing was changed, and what %s would change cannot be done: "+format+".", append([]any{b.server.Name}, args...)...)
}

// file returns what becomes of a file.
func (b *builder) file(at uri.URI) (*FileEdit, error) {
	name, inside := b.nameOf(at.FsPath())
	if !inside {
		return nil, b.wrong("it would change %s, which is outside of the workspace", name)
	}
	if f := b.edits[name]; f != nil {
		return f, nil
	}
	if len(b.edits) == maxEdited {
		return nil, b.wrong("it would change more than %d files", maxEdited)
	}
	path, err := b.inside(name)
	if err != nil {
		return nil, err
	}
	if real, _ := b.env.Workspace.Resolve(name); real != name { // a server does not follow links, and nor do we for it
		return nil, b.wrong("it would change %s, which is a link", name)
	}
	f := &FileEdit{Path: path}
	info, err := b.files.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Exists() && !info.Mode.IsRegular():
		return nil, b.wrong("it would change %s, which is no file", name)
	case info.Exists():
		if f.Old, err = b.read(path); err != nil {
			return nil, err
		}
		f.New = f.Old.Data
	}
	b.edits[name] = f
	return f, nil
}

// read reads a file that is to be changed: as the server knows it.
func (b *builder) read(path string) (workspace.File, error) {
	file, _, err := readText(b.files, path)
	if err != nil {
		return file, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := b.docs[path]; d != nil && d.file.Version != file.Version {
		return file, stale(path)
	}
	return file, nil
}

// stale says that a file is not what the server took it to be.
func stale(path string) error {
	return tools.Failf("stale_file", "%s was changed while the language server was asked. Nothing was changed: repeat the call.", path)
}

// write adds edits of a text.
func (b *builder) write(at uri.URI, edits []protocol.TextEdit) error {
	f, err := b.file(at)
	if err != nil {
		return err
	}
	if f.Gone || f.New == nil {
		return b.wrong("it would write to %s, which is not there", f.Path)
	}
	text, err := newText(string(f.New)).edited(edits, b.encoding)
	if err != nil {
		return b.wrong("%s: %v", f.Path, err)
	}
	if !utf8.ValidString(text) {
		return b.wrong("%s would be no text any more", f.Path)
	}
	f.New = []byte(text)
	return nil
}
