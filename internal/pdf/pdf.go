// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package pdf reads PDF documents: the text of their pages in the order of
// reading, and pages as images. PDFium understands the documents. It is a
// WebAssembly program, and it runs in a process of its own in the sandbox, one
// for each reading: a hostile document can take that process, not the server.
//
// [Reader] starts the process and reads its answer; [Main] is the process.
package pdf

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// What can be wrong with a document. Errors wrap one of these, or are of the
// sandbox or the context.
var (
	ErrNotPDF    = errors.New("it is not a PDF document")
	ErrBroken    = errors.New("it is damaged")
	ErrEncrypted = errors.New("it is encrypted")
	ErrLimit     = errors.New("it is too large to be read here")
)

// What one reading may take.
const (
	maxFile   = 512 << 20
	maxMemory = 768 << 20 // of the process; see maxWasmPages
	maxTime   = 30 * time.Second
	maxAnswer = 64 << 20 // bytes of an answer
	maxCut    = 10_000   // bytes of why a page is cut
)

// A Range is pages of a document, counted from 1. A negative first page counts
// from the end; a last page of 0 is the end.
type Range struct{ First, Last int }

// In returns the range in a document of so many pages: its last page is known, and
// not beyond the end.
func (r Range) In(count int) Range {
	if r.First < 0 {
		r.First = max(1, count+1+r.First)
	}
	if r.Last == 0 || r.Last > count {
		r.Last = count
	}
	return r
}

// A Request says what to read of a document.
type Request struct {
	Pages   []Range // in the order of the answer; beyond the end there are none
	MaxText int     // bytes of one page's text
	Side    int     // pages are images whose longer side has so many pixels; 0: text

	// Preparing, if not nil, is called before the reading waits for machine code to be
	// made, which takes seconds, once on each machine.
	Preparing func() `json:"-"`
}

// A Page is what a document has on one page.
type Page struct {
	Number  int    // from 1
	Text    string // lines in the order of reading; cells of a table have tabs between
	Unknown int    // characters that the document does not give a meaning, U+FFFD in Text
	Images  int
	Cut     string // why Text is not all of it, where it is not

	Image         []byte // PNG, where images were asked for
	Width, Height int    // of the image
}

// Config is how documents are read.
type Config struct {
	Sandbox *sandbox.Sandbox

	// Cache is a directory for PDFium as machine code, which takes seconds to
	// make. Only the server's user may write there: what is in it is executed.
	Cache string

	// Program is what runs [Main] when its first argument is [Name]; empty
	// means the program that is running.
	Program string
}

// A Reader reads documents. It is safe for concurrent use.
type Reader struct {
	config Config

	compiling chan struct{} // has a token while somebody fills the cache
	ready     atomic.Bool   // the cache is filled
	empty     atomic.Bool   // it had nothing when somebody began to fill it
}

// NewReader returns a reader. Nothing is started before the first document.
func NewReader(config Config) *Reader {
	return &Reader{config: config, compiling: make(chan struct{}, 1)}
}

// Read reads pages of a document and hands them over, in order, until yield
// returns false. It returns how many pages the document has.
func (r *Reader) Read(ctx context.Context, file *os.File, request Request, yield func(Page) bool) (pages int, err error) {
	if err := check(file); err != nil {
		return 0, err
	}
	if err := r.prepare(ctx, request.Preparing); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("%w: reading took longer than %v", ErrLimit, maxTime))
	defer cancel()
	err = r.run(ctx, file, request, func(answer *bufio.Reader) error {
		var begin opened
		if err := receive(answer, &begin); err != nil {
			return err
		}
		if err := begin.err(); err != nil {
			return err
		}
		pages = begin.Pages
		return request.each(pages, answer, yield)
	})
	return pages, err
}

// each hands over the pages of an answer. The process that sends it is in the hands
// of the document: nothing is taken that was not asked for.
func (request Request) each(count int, answer *bufio.Reader, yield func(Page) bool) error {
	total := 0
	for number := range request.numbers(count) {
		var page Page
		err := receive(answer, &page)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if request.Side == 0 {
			page.Image = nil
		}
		total += len(page.Text) + len(page.Image)
		switch {
		case page.Number != number || len(page.Text) > maxAnswer || len(page.Cut) > maxCut:
			return fmt.Errorf("%w: the process that read it did not answer what it was asked", ErrBroken)
		case total > maxAnswer:
			return fmt.Errorf("%w: its pages take more than %d bytes to tell", ErrLimit, maxAnswer)
		}
		if !yield(page) {
			return nil
		}
	}
	return nil
}

// numbers are the pages of the request that a document of so many has.
func (request Request) numbers(count int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range request.Pages {
			r = r.In(count)
			for n := r.First; n <= r.Last; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// prepare sees to it that the cache is filled. One caller does it, the others wait;
// if it fails, the next one tries again. Who has to wait for machine code to be made is
// told so.
func (r *Reader) prepare(ctx context.Context, preparing func()) error {
	if r.ready.Load() {
		return nil
	}
	if preparing == nil {
		preparing = func() {}
	}
	if r.empty.Load() {
		preparing()
	}
	select {
	case r.compiling <- struct{}{}:
		defer func() { <-r.compiling }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.ready.Load() {
		return nil
	}
	if entries, _ := os.ReadDir(r.config.Cache); len(entries) == 0 && !r.empty.Swap(true) {
		preparing()
	}
	err := r.compile(ctx)
	r.ready.Store(err == nil)
	return err
}

// check refuses what is no document without starting a process.
func check(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxFile {
		return fmt.Errorf("%w: the file has %d bytes, and %d are the most", ErrLimit, info.Size(), maxFile)
	}
	head := make([]byte, 1024)
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return err
	}
	if !startsPDF(head[:n]) {
		return fmt.Errorf("%w: there is no %%PDF- at its beginning", ErrNotPDF)
	}
	return nil
}

// compile has a process make the machine code. It has no document, so nothing
// hostile can write what later processes execute; those only read it.
func (r *Reader) compile(ctx context.Context) error {
	if err := os.MkdirAll(r.config.Cache, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(r.config.Cache)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s is not the server's own: what is in it is executed, so it has to belong to uid %d. Remove it, and it is made again", r.config.Cache, os.Geteuid())
	case info.Mode()&0o022 != 0:
		return fmt.Errorf("%s can be written by others, its mode is %#o: what is in it is executed. Remove it, and it is made again with 0700", r.config.Cache, info.Mode().Perm())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("PDFium could not be made ready within two minutes"))
	defer cancel()
	return r.run(ctx, nil, Request{}, func(answer *bufio.Reader) error {
		var done opened
		if err := receive(answer, &done); err != nil {
			return err
		}
		return done.err()
	})
}

// run runs the process and has its answer read. Without a file it may write
// the cache. When it returns, the process is gone.
func (r *Reader) run(ctx context.Context, file *os.File, request Request, read func(*bufio.Reader) error) error {
	program := r.config.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	what, err := json.Marshal(request)
	if err != nil {
		return err
	}
	space := r.config.Sandbox.Space(sandbox.SpaceConfig{})
	defer space.Close()
	cache, err := filepath.EvalSymlinks(r.config.Cache)
	if err != nil {
		return err
	}
	profile := sandbox.Profile{View: sandbox.View{Read: append(sandbox.SystemPaths(), program, cache)}}
	if file == nil {
		profile.View.Write, profile.Write = []string{cache}, []string{cache}
	}
	jail, err := space.Jail(profile)
	if err != nil {
		return err
	}
	defer jail.Close()
	dir, err := os.Open(cache)
	if err != nil {
		return err
	}
	defer dir.Close()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	process, err := jail.Start(sandbox.Command{
		Path: program, Args: []string{Name, cache, string(what)}, Dir: dir, Stdin: file, Stdout: theirs,
		Limits: sandbox.Limits{Memory: maxMemory, Processes: 64, CPU: maxTime + time.Minute, OpenFiles: 64},
	})
	theirs.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, process.Kill)
	failure := read(bufio.NewReaderSize(ours, 64<<10))
	stop()
	process.Kill()
	end, err := process.Wait()
	switch {
	case failure == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("the process that reads documents could not be started: %w", err)
	case end.Reason == sandbox.OutOfMemory || end.Reason == sandbox.OutOfTime:
		return fmt.Errorf("%w: reading needs more memory or time than it may", ErrLimit)
	case errors.Is(failure, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the process that read it ended before it was done", ErrBroken)
	}
	return failure
}
