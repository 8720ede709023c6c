// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/search/plain"
	"github.com/toolserver/toolserver/internal/workspace"
)

const (
	// maxWhole is the size up to which a file is read as a whole.
	maxWhole = 16 << 20

	// window is how much of a larger file is read at once.
	window = 4 << 20

	// maxLine is how long a line may be.
	maxLine = 64 << 20

	// maxMulti is how large a file may be that is searched for matches over
	// several lines, or that is not UTF-8.
	maxMulti = 64 << 20

	// sniff is how much of a file is looked at to know early that it is binary.
	sniff = 8 << 10

	// firstBuffer is how much of a file is read at first.
	firstBuffer = 256 << 10

	// maxKept is how large a buffer is kept between files, and between searches.
	maxKept = 4 << 20
)

// A searcher looks for a pattern in files. It is for one goroutine.
type searcher struct {
	options Options
	exclude func(path string) bool // nil where nothing is excluded, or nothing of it gets here
	match   *matcher
	buffer  []byte
	decoded []byte
	counts  Summary

	reading *index.Reading // of files that an index knows
	found   output         // in the files that are being searched
}

func newSearcher(q *query, o Options, halted func() bool) *searcher {
	return &searcher{options: o, match: q.matcher(halted)}
}

// visit searches a file of a directory.
func (s *searcher) visit(ctx context.Context, d *workspace.Dir, f target, out *output) error {
	if f.plain {
		return s.visitListed(ctx, d, f, out)
	}
	r, stat, err := d.Open(f.name)
	if err != nil {
		return gone(err)
	}
	defer r.Close()
	s.counts.Files++
	return s.file(ctx, r, f.path, stat, out)
}

// visitListed is visit in three calls, for files that can be read in one: where
// there was room for more, that was all.
func (s *searcher) visitListed(ctx context.Context, d *workspace.Dir, f target, out *output) error {
	r, err := d.OpenListed(f.name)
	if err != nil {
		return gone(err)
	}
	defer r.Close()
	return s.listed(ctx, r, f.path, out)
}

// listed is visitListed for a file that is open.
func (s *searcher) listed(ctx context.Context, r workspace.Reader, path string, out *output) error {
	s.fit()
	n, err := r.Read(s.buffer[:firstBuffer]) // not more: it may be binary
	if err != nil {
		return gone(err)
	}
	s.counts.Files++
	text, whole := s.buffer[:n], n < firstBuffer
	if !whole && !s.binary(text) {
		stat, err := r.Stat()
		if err != nil {
			return err
		}
		if stat.Size <= maxWhole {
			if size := int(stat.Size) + 4096; size > len(s.buffer) {
				s.grow(n, max(size, 4*firstBuffer))
			}
			if text, whole, err = s.fill(r, n, stat.Size); err != nil {
				return err
			}
		}
	}
	return s.goOn(ctx, r, path, text, whole, out)
}

// binary reports whether a file is known to be binary by how it begins.
func (s *searcher) binary(text []byte) bool {
	return !plain.IsUTF16(text) && plain.IsBinary(text[:min(len(text), sniff)])
}

// gone returns nil for the errors of what is not there any more.
func gone(err error) error {
	if errors.Is(err, workspace.ErrNotRegular) || isGone(err) {
		return nil
	}
	return err
}

func (s *searcher) file(ctx context.Context, r workspace.Reader, path string, stat workspace.Stat, out *output) error {
	first, whole, err := s.begin(r, stat)
	if err != nil {
		return err
	}
	return s.goOn(ctx, r, path, first, whole, out)
}

// goOn searches a file of which the beginning was read, or the whole.
func (s *searcher) goOn(ctx context.Context, r workspace.Reader, path string, first []byte, whole bool, out *output) error {
	switch {
	case s.binary(first):
		s.counts.Binary++
		return nil
	case whole:
		s.text(first, path, nil, out)
		return nil
	case plain.IsUTF16(first) || s.match.Multiline:
		text, err := s.rest(ctx, r, first)
		if err != nil {
			return err
		}
		s.text(text, path, nil, out)
		return nil
	}
	return s.windows(ctx, r, path, first, out)
}

// buffers are those that searches have left to others, as *[]byte.
var buffers sync.Pool

// fit takes a buffer if there is none.
func (s *searcher) fit() {
	if s.buffer != nil {
		return
	}
	if left, ok := buffers.Get().(*[]byte); ok {
		s.buffer = *left
	} else {
		s.buffer = make([]byte, firstBuffer)
	}
}

// done leaves the buffer to others, when nothing is searched any more.
func (s *searcher) done() {
	if left := s.buffer; left != nil && len(left) <= maxKept {
		buffers.Put(&left)
	}
	s.buffer = nil
}

// begin reads a file from its beginning: the whole of it, unless it is large.
func (s *searcher) begin(r workspace.Reader, stat workspace.Stat) (text []byte, whole bool, err error) {
	s.fit()
	if want := stat.Size + 1; want > int64(len(s.buffer)) && stat.Size <= maxWhole {
		// One look first: what is binary need not be read.
		n, err := r.Read(s.buffer)
		if err != nil || n == 0 || s.binary(s.buffer[:n]) {
			return s.buffer[:n], true, err
		}
		s.grow(n, int(want)+4096)
		return s.fill(r, n, stat.Size)
	}
	return s.fill(r, 0, stat.Size)
}

// fill reads until the buffer is full or the file ends. It ends for certain
// where nothing more is read, and also where less is than there is room for,
// after as much as the file has by its size.
func (s *searcher) fill(r workspace.Reader, n int, size int64) (text []byte, whole bool, err error) {
	for n < len(s.buffer) {
		k, err := r.Read(s.buffer[n:])
		if err != nil {
			return nil, false, err
		}
		n += k
		if k == 0 || n < len(s.buffer) && size > 0 && int64(n) >= size {
			return s.buffer[:n], true, nil
		}
	}
	return s.buffer[:n], false, nil
}

// grow makes the buffer larger and keeps its first n bytes.
func (s *searcher) grow(n, size int) {
	larger := make([]byte, size)
	copy(larger, s.buffer[:n])
	s.buffer = larger
}

// settle gives a large buffer back.
func (s *searcher) settle() {
	if len(s.buffer) > maxKept {
		s.buffer = nil
	}
	if cap(s.decoded) > maxKept {
		s.decoded = nil
	}
}

// rest reads all of a file that must be in memory as a whole.
func (s *searcher) rest(ctx context.Context, r workspace.Reader, first []byte) ([]byte, error) {
	n := len(first)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if n > maxMulti {
			return nil, fmt.Errorf("it has more than %d MiB: too large for this search", maxMulti>>20)
		}
		s.grow(n, min(4*n, maxMulti+1))
		text, whole, err := s.fill(r, n, 0)
		if err != nil || whole {
			return text, err
		}
		n = len(text)
	}
}

// text searches a text as it is in a file. With spans, lines outside of them are
// known not to match.
func (s *searcher) text(raw []byte, path string, spans []index.Span, out *output) {
	if plain.IsUTF16(raw) {
		s.decoded = plain.Text(raw, s.decoded[:0])
		raw = s.decoded
	} else {
		raw = plain.Text(raw, nil)
	}
	s.utf8(raw, path, spans, false, out)
	s.settle()
}

// utf8 is text for what is UTF-8; checked says that it is known not to be
// binary.
func (s *searcher) utf8(text []byte, path string, spans []index.Span, checked bool, out *output) {
	scan := fileScan{searcher: s, out: out, text: text, number: 1, checked: checked}
	s.match.begin()
	switch {
	case s.match.multi != nil:
		scan.multi()
	case spans != nil:
		for _, b := range spans {
			if scan.full() {
				break
			}
			scan.from, scan.counted, scan.number = b.Start, b.Start, b.Line
			scan.run(b.End)
		}
		scan.ends(len(text))
	default:
		scan.run(len(text))
		scan.ends(len(text))
	}
	scan.finish(path)
}

// windows searches a large file piece by piece.
func (s *searcher) windows(ctx context.Context, r workspace.Reader, path string, first []byte, out *output) error {
	scan := fileScan{searcher: s, out: out, number: 1}
	skip := len(first) - len(plain.Text(first, nil)) // a byte order mark
	n := len(first)
	s.grow(n, max(len(s.buffer), window))
	defer s.settle()
	scan.from, scan.counted, scan.printed = skip, skip, skip
	for whole := false; !whole; {
		if ctx.Err() != nil {
			scan.finish(path)
			return context.Cause(ctx)
		}
		var text []byte
		var err error
		if text, whole, err = s.fill(r, n, 0); err != nil {
			return err
		}
		if plain.IsBinary(text[scan.from:]) {
			// What comes before in the file was searched already.
			scan.checked = true
			scan.finish(path)
			s.counts.Binary++
			return nil
		}
		scan.checked = true
		scan.text = text
		limit := len(text)
		if !whole {
			limit = bytes.LastIndexByte(text, '\n') + 1
		}
		s.match.begin()
		scan.run(max(limit, scan.from))
		scan.ends(limit)
		if scan.full() {
			if scan.after == 0 || s.options.Mode != Lines {
				break
			}
			scan.from = max(scan.from, scan.printed)
		}
		if whole {
			break
		}
		n = scan.shift()
		if n == len(s.buffer) {
			if n > maxLine {
				scan.finish(path)
				return fmt.Errorf("it has a line of more than %d MiB: what follows was not searched", maxLine>>20)
			}
			s.grow(n, 2*n)
		}
	}
	scan.finish(path)
	return nil
}

// A fileScan is a search in one file.
type fileScan struct {
	*searcher
	out     *output
	text    []byte
	from    int // where the next line to look at begins
	printed int // up to here all is shown or not to be shown
	after   int // lines still to be shown after a match
	counted int // number is that of the line that begins here
	number  int
	count   int
	checked bool // the text is known not to be binary
	binary  bool
}

// full reports whether there is no need for more.
func (f *fileScan) full() bool {
	return f.binary || f.count > 0 && f.options.Mode == Files || f.options.MaxPerFile > 0 && f.count >= f.options.MaxPerFile
}

// run looks at the lines up to limit.
func (f *fileScan) run(limit int) {
	for f.from < limit && !f.full() {
		line, at, ok := f.match.next(f.text, f.from, limit)
		if !f.match.Invert {
			if !ok {
				f.from = limit
				return
			}
			f.from = line.end + 1
			f.take(line, at)
			continue
		}
		upTo := limit
		if ok {
			upTo = line.start
		}
		for f.from < upTo && !f.full() {
			other := span{f.from, f.lineEnd(f.from)}
			f.from = other.end + 1
			f.take(other, other.start)
		}
		if f.full() {
			return
		}
		if f.from = limit; ok {
			f.from = line.end + 1
		}
	}
}

func (f *fileScan) lineEnd(from int) int {
	if i := bytes.IndexByte(f.text[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(f.text)
}

// take deals with a line that matches.
func (f *fileScan) take(line span, at int) {
	if !f.checked {
		f.checked = true
		if f.binary = plain.IsBinary(f.text); f.binary {
			return
		}
	}
	f.count++
	if f.options.Mode != Lines {
		return
	}
	f.ends(line.start)
	before := line.start
	for range f.options.Before {
		if before <= f.printed {
			break
		}
		before = bytes.LastIndexByte(f.text[:before-1], '\n') + 1
	}
	for before = max(before, f.printed); before < line.start; {
		end := f.lineEnd(before)
		f.show(span{before, end}, before, true)
		before = end + 1
	}
	f.show(line, at, false)
	f.after = f.options.After
}

// show adds a line to the output.
func (f *fileScan) show(line span, at int, context bool) {
	if line.start < f.counted {
		f.number -= bytes.Count(f.text[line.start:f.counted], newline)
	} else {
		f.number += bytes.Count(f.text[f.counted:line.start], newline)
	}
	f.counted = line.start
	f.out.addLine(f.number, f.text[line.start:line.end], at-line.start, f.options.MaxColumns, context)
	f.printed = min(line.end+1, len(f.text))
}

var newline = []byte{'\n'}

// ends shows lines after a match, up to limit.
func (f *fileScan) ends(limit int) {
	if f.binary {
		return
	}
	for ; f.after > 0 && f.printed < limit; f.after-- {
		f.show(span{f.printed, f.lineEnd(f.printed)}, f.printed, true)
	}
}

// shift drops from the buffer what is not needed any more and returns how much
// of it is left.
func (f *fileScan) shift() int {
	keep := f.from
	for range f.options.Before {
		if keep <= f.printed || keep == 0 {
			break
		}
		keep = bytes.LastIndexByte(f.text[:keep-1], '\n') + 1
	}
	if f.after > 0 {
		keep = min(keep, f.printed)
	}
	if keep > f.counted {
		f.number += bytes.Count(f.text[f.counted:keep], newline)
		f.counted = keep
	}
	n := copy(f.buffer, f.text[keep:])
	f.from -= keep
	f.counted = max(0, f.counted-keep)
	f.printed = max(0, f.printed-keep)
	return n
}

// multi looks for matches over several lines.
func (f *fileScan) multi() {
	if len(f.match.finders) > 0 && f.match.findAny(f.text, 0) < 0 {
		return
	}
	for from := 0; from <= len(f.text) && !f.full(); {
		at := f.match.multi.FindIndex(f.text[from:])
		if at == nil {
			break
		}
		start, end := from+at[0], from+at[1]
		if start == len(f.text) && (start == 0 || f.text[start-1] == '\n') {
			break // there is no line
		}
		first := bytes.LastIndexByte(f.text[:start], '\n') + 1
		if from = end; start == end {
			from++
		}
		if end > start && f.text[end-1] == '\n' {
			end--
		}
		last := f.lineEnd(end)
		f.takeMulti(first, last, start)
	}
	f.ends(len(f.text))
}

// takeMulti deals with a match that is in the lines from first to last.
func (f *fileScan) takeMulti(first, last, at int) {
	if f.options.Mode != Lines || first >= f.printed {
		end := f.lineEnd(first)
		f.take(span{first, end}, at)
		first = end + 1
	} else {
		f.count++
	}
	if f.options.Mode != Lines || f.binary {
		return
	}
	for first = max(first, f.printed); first <= last && first < len(f.text); {
		end := f.lineEnd(first)
		f.show(span{first, end}, first, false)
		first = end + 1
	}
	f.after = f.options.After
}

// finish adds the file to the output if something was found.
func (f *fileScan) finish(path string) {
	if f.binary {
		f.counts.Binary++
	}
	if f.binary || f.count == 0 || f.exclude != nil && f.exclude(path) {
		f.out.forget()
		return
	}
	f.counts.Matches += f.count
	f.out.files = append(f.out.files, foundFile{path: path, count: f.count, last: len(f.out.lines)})
}
