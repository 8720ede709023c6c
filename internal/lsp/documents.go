// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.lsp.dev/protocol"
	"go.lsp.dev/uri"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

const (
	// maxText is the largest file that a server is asked about, in bytes.
	maxText = 8 << 20

	// maxOpen is how many texts a server has at once, and maxOpenSize how many bytes of them.
	maxOpen     = 256
	maxOpenSize = 256 << 20
)

// errStale says that a server may not know of changes: a new one does.
var errStale = errors.New("it missed changes of files")

// A document is a text that a server has.
type document struct {
	path    string
	file    workspace.File // it was read as
	text    *text
	version int32
	used    int // when, by the number of uses
}

func (p *process) uri(path string) uri.URI { return uri.File(filepath.Join(p.files.Dir(), path)) }

// sync tells the server of all that has changed until now.
func (q *question) sync() error {
	made, err := q.tellChanges(q.ctx)
	if err != nil || q.can.HoverProvider == nil {
		return err
	}
	// Being told of a new file, or given it, is not enough for every server: gopls takes
	// no note of a package that is new until somebody asks about it.
	for _, path := range made {
		_, err := within(q, func(ctx context.Context) (*protocol.Hover, error) {
			return q.remote.Hover(ctx, &protocol.HoverParams{TextDocumentPositionParams: protocol.TextDocumentPositionParams{TextDocument: protocol.TextDocumentIdentifier{URI: q.uri(path)}}})
		})
		if code, refused := errors.AsType[*tools.Failure](err); err != nil && (!refused || code.Code != codeRefused) {
			return err
		}
	}
	return nil
}

// tellChanges tells the server of what has changed, and returns the files that were made and
// it was given.
func (p *process) tellChanges(ctx context.Context) (made []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes, missed, partial := p.changes.take()
	if missed {
		return nil, errStale
	}
	if partial && p.deny != nil {
		return nil, tools.Failf("too_many_files", "%s cannot be asked: a rule of the policy keeps some files from it, and the workspace has more files than can be watched for such ones. Do without a language server, or have a session in a smaller workspace.", p.server.Name)
	}
	p.unknown = partial
	if len(changes) == 0 {
		return nil, nil
	}
	p.changed = time.Now()
	events := make([]protocol.FileEvent, 0, len(changes))
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		events = append(events, protocol.FileEvent{URI: p.uri(path), Type: changes[path]})
		if p.deny != nil && p.deny.Denies(path) {
			return nil, errStale // what it must not see was covered when it began: another file in its place is not
		}
		if slices.Contains(p.server.projects, filepath.Base(path)) && !slices.ContainsFunc(foreign, func(dir string) bool { return strings.Contains("/"+path, "/"+dir+"/") }) {
			return nil, errStale // another one knows at once which files belong together
		}
		if changes[path] == protocol.FileChangeTypeCreated && p.server.languageOf(path) != "" {
			made = append(made, path)
		}
		if t := p.read[path]; t != nil {
			delete(p.read, path)
			p.readSize -= len(t.all)
		}
		if d := p.docs[path]; d != nil {
			if err := p.reload(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	if len(made) > maxFiles {
		return nil, errStale
	}
	if err := p.remote.DidChangeWatchedFiles(ctx, &protocol.DidChangeWatchedFilesParams{Changes: events}); err != nil {
		return nil, err
	}
	for _, path := range made {
		if p.docs[path] != nil {
			continue
		}
		if file, text, err := readText(p.files, path); err == nil {
			if _, err := p.give(ctx, path, file, text); err != nil {
				return nil, err
			}
		}
	}
	return made, nil
}

// unwatched reports whether there are files whose changes the server is not told of.
func (p *process) unwatched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unknown
}

// reload gives the server the text of a file that may have changed.
func (p *process) reload(ctx context.Context, d *document) error {
	file, text, err := readText(p.files, d.path)
	if err != nil { // it is gone, or no text any more
		return p.shut(ctx, d)
	}
	if d.file.Version == file.Version && d.text.all == text.all {
		return nil
	}
	d.file = file
	return p.setText(ctx, d, text)
}

// setText gives the server another text of a document.
func (p *process) setText(ctx context.Context, d *document, text *text) error {
	if d.text.all == text.all {
		return nil
	}
	p.opened++
	d.text, d.version, p.changed = text, int32(p.opened), time.Now()
	return p.remote.DidChange(ctx, &protocol.DidChangeTextDocumentParams{
		TextDocument:   protocol.VersionedTextDocumentIdentifier{TextDocumentIdentifier: protocol.TextDocumentIdentifier{URI: p.uri(d.path)}, Version: d.version},
		ContentChanges: []protocol.TextDocumentContentChangeEvent{&protocol.TextDocumentContentChangeWholeDocument{Text: text.all}},
	})
}

// shut takes a text from the server, which reads the file by itself again.
func (p *process) shut(ctx context.Context, d *document) error {
	delete(p.docs, d.path)
	return p.remote.DidClose(ctx, &protocol.DidCloseTextDocumentParams{TextDocument: protocol.TextDocumentIdentifier{URI: p.uri(d.path)}})
}

// open gives the server the text of a file, by a path that [workspace.Workspace.Resolve]
// returned, as it is now.
func (p *process) open(ctx context.Context, path string) (document, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.docs[path]; d != nil {
		info, err := p.files.Stat(path)
		if err == nil && info.Version != d.file.Version {
			err = p.reload(ctx, d)
		}
		if err != nil {
			return document{}, err
		}
		if p.docs[path] == d {
			p.use(d)
			return *d, nil
		}
	}
	file, text, err := readText(p.files, path)
	if err != nil {
		return document{}, err
	}
	d, err := p.give(ctx, path, file, text)
	if err != nil {
		return document{}, err
	}
	return *d, nil
}

// give gives the server a text that it does not have.
func (p *process) give(ctx context.Context, path string, file workspace.File, text *text) (*document, error) {
	for len(p.docs) >= maxOpen || len(p.docs) > 0 && p.openSize()+len(text.all) > maxOpenSize {
		oldest := slices.MinFunc(slices.Collect(maps.Values(p.docs)), func(a, b *document) int { return a.used - b.used })
		if err := p.shut(ctx, oldest); err != nil {
			return nil, err
		}
	}
	p.opened++
	p.changed = time.Now()
	d := &document{path: path, file: file, text: text, version: int32(p.opened)}
	p.docs[path] = d
	p.use(d)
	return d, p.remote.DidOpen(ctx, &protocol.DidOpenTextDocumentParams{TextDocument: protocol.TextDocumentItem{
		URI: p.uri(path), LanguageID: protocol.LanguageKind(p.server.languageOf(path)), Version: d.version, Text: text.all,
	}})
}

// openSize is how many bytes of texts the server has.
func (p *process) openSize() (n int) {
	for _, d := range p.docs {
		n += len(d.text.all)
	}
	return n
}

func (p *process) use(d *document) {
	p.opened++
	d.used = p.opened
}

// maxRead is how many bytes of files are kept that answers were about.
const maxRead = 32 << 20

// textOf returns the text of a file of the workspace as the server knows it; nil where it
// cannot be read.
func (p *process) textOf(path string) *text {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.known(path); t != nil {
		return t
	}
	_, t, err := readText(p.files, path)
	if err != nil {
		return nil
	}
	if p.readSize += len(t.all); p.readSize > maxRead {
		p.read, p.readSize = make(map[string]*text), len(t.all)
	}
	p.read[path] = t
	return t
}

// knownText returns the text of a file that was read before; nil for another.
func (p *process) knownText(path string) *text {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known(path)
}

func (p *process) known(path string) *text {
	if d := p.docs[path]; d != nil {
		return d.text
	}
	return p.read[path]
}

// readText reads a file of the workspace that a server is asked about.
func readText(ws *workspace.Workspace, path string) (workspace.File, *text, error) {
	file, err := ws.ReadFile(path, maxText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file, nil, tools.Failf("file_not_found", "There is no file %s.", path)
	case errors.Is(err, workspace.ErrTooLarge):
		return file, nil, tools.Failf("too_large", "%s is too large for a language server: at most %d MiB are possible.", path, maxText>>20)
	case err != nil:
		return file, nil, fmt.Errorf("%s: %w", path, err)
	case !utf8.Valid(file.Data):
		return file, nil, tools.Failf("not_text", "%s is no text in UTF-8, which is what language servers read.", path)
	}
	return file, newText(string(file.Data)), nil
}
