// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package pdf reads the text of PDF documents. It trusts nothing in them: what
// a document may take, in memory and in work, has an end wherever the document
// itself could say how much it is.
package pdf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// What can be wrong with a document. Errors wrap one of these, or are of the
// reader or the context.
var (
	ErrNotPDF    = errors.New("it is not a PDF document")
	ErrBroken    = errors.New("it is damaged")
	ErrEncrypted = errors.New("it is encrypted")
	ErrLimit     = errors.New("it is too large to be read here")
)

// What a document may take, all its pages together. Memory follows from them:
// what is decoded is read as it comes and not kept, but for object streams.
const (
	maxFile    = 512 << 20 // bytes of a file
	maxRead    = 1 << 30   // bytes read of it: some are read more than once
	maxDecoded = 64 << 20  // bytes that come out of filters
	maxLoaded  = 2_000_000 // objects that are looked up
	maxPages   = 100_000
)

// A Document is a PDF whose structure is known. It is used by one goroutine at
// a time.
type Document struct {
	file    io.ReaderAt // counted
	size    int64
	entries map[int]entry // where objects are
	trailer dict
	crypt   *crypt // nil where nothing is encrypted
	nodes   []node // of the tree of pages
	pages   []int  // their nodes

	repaired bool
	depth    int    // of loading objects for the sake of others
	lexer    *lexer // of objects, one after the other
	held     []heldStream
	fonts    map[ref]*font
	weight   int // of the fonts

	stop                  func() error // whether to go on
	read, decoded, loaded int64
	failure               error // the end of all work: a limit, or the context
}

// Open finds the pages of a document. It reads as much of the file as it needs
// and keeps none of it.
func Open(ctx context.Context, file io.ReaderAt, size int64) (*Document, error) {
	if size > maxFile {
		return nil, fmt.Errorf("%w: the file has %d bytes, and %d are the most", ErrLimit, size, maxFile)
	}
	d := &Document{size: size, entries: make(map[int]entry), fonts: make(map[ref]*font)}
	d.during(ctx)
	head := make([]byte, min(size, 1024))
	if _, err := file.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, err
	}
	start := bytes.Index(head, []byte("%PDF-"))
	if start < 0 {
		return nil, fmt.Errorf("%w: there is no %%PDF- at its beginning", ErrNotPDF)
	}
	// What was put before the document is not counted by its offsets.
	d.size -= int64(start)
	d.file = &countedFile{io.NewSectionReader(file, int64(start), d.size), d}
	return d, d.open()
}

// open reads the structure, by its tables or, where those are wrong, by what is
// in the file.
func (d *Document) open() error {
	err := d.readTables()
	if err == nil {
		err = d.findPages()
	}
	if err != nil && d.failure == nil && !errors.Is(err, ErrEncrypted) && !d.repaired {
		if err = d.repair(); err == nil {
			err = d.findPages()
		}
	}
	if d.failure != nil {
		return d.failure
	}
	return err
}

// Pages returns how many pages there are.
func (d *Document) Pages() int { return len(d.pages) }

// Repaired tells whether something was wrong with the structure, so that the
// pages are those that could be found in the file, perhaps not all.
func (d *Document) Repaired() bool { return d.repaired }

// during has the context say when work ends.
func (d *Document) during(ctx context.Context) {
	d.stop = func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
}

// spend counts work of one kind and fails when there was too much of it, or the
// context is done.
func (d *Document) spend(counter *int64, n int, limit int64, what string) error {
	if d.failure != nil {
		return d.failure
	}
	if *counter += int64(n); *counter > limit {
		d.failure = fmt.Errorf("%w: more than %d %s", ErrLimit, limit, what)
	} else {
		d.failure = d.stop()
	}
	return d.failure
}

// countedFile is the file of a document, read within its limit.
type countedFile struct {
	file io.ReaderAt
	d    *Document
}

func (f *countedFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.d.spend(&f.d.read, len(p), maxRead, "bytes of the file would have to be read"); err != nil {
		return 0, err
	}
	return f.file.ReadAt(p, offset)
}

// from returns a reader of the file from an offset on.
func (d *Document) from(offset int64) io.Reader {
	return io.NewSectionReader(d.file, offset, max(0, d.size-offset))
}
