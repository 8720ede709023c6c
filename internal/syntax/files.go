// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/search/workers"
)

// Scope says which files are meant: those of a directory, or one, that are neither
// hidden nor ignored.
type Scope struct {
	Path     string // as [workspace.Workspace.Resolve] returned it; "." for all
	Language string // "" for all

	// Exclude, if set, reports what must not be told of. It is safe for concurrent use.
	Exclude func(path string) bool
}

// A source is a file with source code.
type source struct {
	path     string
	language *language
	stamp    uint64 // 0: the file has to be read
	text     []byte // nil: it has to be read as well
	at       int    // where its symbols go

	parts []index.Span // of the text that may have what is looked for; nil: all
}

// pathSymbols are the symbols of a file, which has a path. They are nil as long as
// they are not known.
type pathSymbols struct {
	path string
	*fileSymbols
}

// maxSources is how many files are looked at.
const maxSources = 400_000

// sources returns the files of a scope whose symbols are the workspace's, as they
// are now, and of which the symbols have to be found.
func (e *Engine) sources(ctx context.Context, s Scope) (files []pathSymbols, missing []source, err error) {
	only := languageNamed(s.Language)
	takes := func(l *language, path string) bool {
		return l != nil && (!l.data || l == only) && (only == nil || only.like(l)) && s.has(path) && (s.Exclude == nil || !s.Exclude(path))
	}
	if e.index != nil {
		if err := e.index.Warm(ctx); err != nil {
			return nil, nil, err
		}
		ok, err := e.index.Search(ctx, true, func(t *index.Tree) bool {
			all := e.symbols.snapshot(t)
			files = make([]pathSymbols, 0, len(t.Order))
			for i, f := range t.Order {
				if f.Binary || !takes(all.files[i].language, f.Path) {
					continue
				}
				known := all.files[i].symbols
				if known == nil || known.stale() {
					known = nil
					x := source{path: f.Path, language: all.files[i].language, stamp: f.Stamp(), text: f.Text, at: len(files)}
					if t.Unsure(f) {
						x.stamp, x.text = 0, nil
					}
					missing = append(missing, x)
				}
				files = append(files, pathSymbols{f.Path, known})
			}
			return true
		})
		if err != nil || ok {
			return files, missing, err
		}
	}
	found, _, err := e.search.Glob(ctx, search.Scope{Path: s.Path, Exclude: s.Exclude}, search.ByName)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found[:min(len(found), maxSources)] {
		if l := languageOf(f.Path, nil); takes(l, f.Path) {
			missing = append(missing, source{path: f.Path, language: l, at: len(files)})
			files = append(files, pathSymbols{path: f.Path})
		}
	}
	return files, missing, nil
}

// A snapshot is what is known of the files of a tree in one state, in its order: then
// nothing has to be looked up for the next question.
type snapshot struct {
	state, changes uint64 // of the tree, and of the symbols; 0: there is none
	files          []snapshotFile
}

type snapshotFile struct {
	language *language
	symbols  *fileSymbols // nil: they are not known
}

// size is how many bytes it takes.
func (s *snapshot) size() int64 { return int64(cap(s.files)) * int64(unsafe.Sizeof(snapshotFile{})) }

// snapshot returns that of a tree. It must not be changed.
func (s *symbols) snapshot(t *index.Tree) snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.state == t.State() && s.all.changes == s.changes {
		return s.all
	}
	now := snapshot{state: t.State(), changes: s.changes, files: make([]snapshotFile, len(t.Order))}
	for i, f := range t.Order {
		x := &now.files[i]
		x.language = languageOf(f.Path, nil)
		if known := s.files[f.Path]; known != nil && known.stamp.Load() == f.Stamp() && !t.Unsure(f) {
			x.symbols = known
		}
	}
	s.keepSnapshot(now)
	return now
}

// keepSnapshot keeps a snapshot in place of the last one, if there is room. It is
// called with mu locked.
func (s *symbols) keepSnapshot(now snapshot) {
	if s.memory.Add(now.size()-s.all.size()) > s.max || s.closed {
		s.memory.Add(-now.size())
		now = snapshot{}
	}
	s.all = now
}

// has reports whether a path lies in a scope.
func (s Scope) has(path string) bool {
	return s.Path == "" || s.Path == "." || path == s.Path || strings.HasPrefix(path, s.Path+"/")
}

// like reports whether files of another language are meant too: those of TypeScript
// with those of TSX, and headers of C++, which are taken for C by their names.
func (l *language) like(other *language) bool {
	return l == other || l.name == "typescript" && other.name == "tsx" || l.name == "cpp" && other.name == "c"
}

// indexed returns the symbols of a file, and parses it if they are not known. It
// returns nil for a file that is gone.
func (e *Engine) indexed(ctx context.Context, with *parsers, x source) (*fileSymbols, error) {
	if f := e.symbols.known(x.path, x.stamp); f != nil {
		return f, nil
	}
	text, err := x.read(e)
	if err != nil || text == nil {
		return unparsed(err)
	}
	if f := e.symbols.same(x.path, text, x.stamp); f != nil {
		return f, nil
	}
	var f *fileSymbols
	if t, err := with.skim(ctx, languageOf(x.path, text), text); err == nil {
		f = e.symbols.pack(t, x.stamp)
	} else if ctx.Err() == nil && (errors.Is(err, ErrLimit) || errors.Is(err, ErrCrashed)) {
		f = tooMuch(e.symbols.sum(text), x.stamp)
	} else {
		return nil, err
	}
	e.symbols.keep(x.path, f)
	return f, nil
}

// read returns the text of a file; nil where it is gone.
func (x source) read(e *Engine) ([]byte, error) {
	if x.text != nil {
		return x.text, nil
	}
	text, err := e.Read(x.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// unparsed is what is known of a file that cannot be read.
func unparsed(err error) (*fileSymbols, error) {
	switch {
	case err == nil || errors.Is(err, ErrBinary):
		return nil, nil
	case errors.Is(err, ErrLimit), errors.Is(err, fs.ErrPermission):
		return &fileSymbols{unparsed: true}, nil
	}
	return nil, err
}

// each does something to files, several at once, until the context is done or
// something fails.
func each[T any](ctx context.Context, list []T, do func(i int, x T) error) error {
	var next atomic.Int64
	var mu sync.Mutex
	var failed error
	workers.Run(min(workers.Count(), len(list)), func(int) {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			mu.Lock()
			over := failed != nil
			mu.Unlock()
			if i >= len(list) || over {
				return
			}
			if err := do(i, list[i]); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
		}
	})
	if failed == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed
}

// fill parses files in the background.
type fill struct {
	cancel context.CancelFunc
	done   chan struct{}
	parsed atomic.Int64
	total  int
	err    error // read after done
}

// inBackground has files parsed, unless some are, and returns what does it.
func (e *Engine) inBackground(list []source) *fill {
	s := &e.symbols
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fill != nil || s.closed {
		return s.fill
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &fill{cancel: cancel, done: make(chan struct{}), total: len(list)}
	s.fill = f
	go func() {
		defer cancel()
		f.err = each(ctx, list, func(_ int, x source) error {
			defer f.parsed.Add(1)
			_, err := e.indexed(ctx, e.quiet, x)
			return err
		})
		s.mu.Lock()
		s.fill = nil
		s.mu.Unlock()
		close(f.done)
	}()
	return f
}
