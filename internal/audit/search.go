// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoFile says that a log is kept in no file that could be read.
var ErrNoFile = errors.New("this server keeps no audit log in a file: set audit.file")

// maxSearched is how many bytes one search looks through at most.
const maxSearched = 64 << 20

// A Query chooses records. What is set must match.
type Query struct {
	Principal, SessionID, ExecutionID, Tool string
	Step                                    Step

	Text   string // that the line has, in any case
	Before uint64 // the number that those are below; 0: any
	Limit  int    // of records
}

// Found is a record, and its line.
type Found struct {
	Record
	Line string
}

// Search returns records of the log, the newest first, and the number below which to search
// on; 0 where there is nothing older. Lines that are no records are passed over: they are
// what [Log.Verify] is about.
func (l *Log) Search(ctx context.Context, q Query) (found []Found, next uint64, err error) {
	files, err := l.files()
	if err != nil {
		return nil, 0, err
	}
	text, searched := []byte(strings.ToLower(q.Text)), 0
	for _, name := range slices.Backward(files) {
		err := backward(ctx, name, q.Before, func(line []byte) bool {
			var r Record
			if json.Unmarshal(line, &r) != nil || q.Before > 0 && r.Seq >= q.Before {
				return true
			}
			if len(found) == q.Limit || searched > maxSearched {
				next = r.Seq + 1
				return false
			}
			searched += len(line)
			if q.matches(&r) && bytes.Contains(bytes.ToLower(line), text) {
				found = append(found, Found{r, string(line)})
			}
			return true
		})
		if err != nil || next > 0 {
			return found, next, err
		}
	}
	return found, 0, nil
}

func (q *Query) matches(r *Record) bool {
	same := func(want, is string) bool { return want == "" || want == is }
	return same(q.Principal, r.Principal) && same(q.SessionID, r.SessionID) && same(q.ExecutionID, r.ExecutionID) &&
		same(q.Tool, r.Tool) && same(string(q.Step), string(r.Step))
}

// Verify reads the log to where it is written by now, and says what is wrong with it.
func (l *Log) Verify(ctx context.Context) (Report, error) {
	files, err := l.files()
	if err != nil {
		return Report{}, err
	}
	var v Verifier
	for i, name := range files {
		if err := verifyFile(ctx, &v, name, i == len(files)-1); err != nil {
			return v.report, err
		}
	}
	return v.Report()
}

// verifyFile reads a file; of the newest as much as has come to the end of a line.
func verifyFile(ctx context.Context, v *Verifier, name string, newest bool) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	whole := io.Reader(file)
	if newest {
		size, err := wholeLines(file)
		if err != nil {
			return err
		}
		whole = io.LimitReader(file, size)
	}
	return v.Read(filepath.Base(name), interrupted{ctx, whole})
}

// wholeLines returns how many bytes of a file are before the end of its last whole line.
func wholeLines(file *os.File) (int64, error) {
	about, err := file.Stat()
	if err != nil {
		return 0, err
	}
	end := make([]byte, min(about.Size(), maxLine))
	if _, err := file.ReadAt(end, about.Size()-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if last := bytes.LastIndexByte(end, '\n'); last >= 0 {
		return about.Size() - int64(len(end)-last-1), nil
	}
	return about.Size(), nil
}

// interrupted reads until a context is over.
type interrupted struct {
	ctx  context.Context //nolint:containedctx // it is that of one reading
	from io.Reader
}

func (i interrupted) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.from.Read(p)
}

// files returns those of the log, the oldest first, once everything is in them that was
// appended by now.
func (l *Log) files() ([]string, error) {
	if l == nil || l.options.File == "" {
		return nil, ErrNoFile
	}
	if err := l.Flush(); err != nil {
		return nil, err
	}
	return append(fullFiles(l.options.File), l.options.File), nil
}

// backward calls take with the lines of a file, the last first, until it returns false. With
// a number, it begins before the records that are not below it.
func backward(ctx context.Context, name string, before uint64, take func(line []byte) bool) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went when a newer one was full
	}
	if err != nil {
		return err
	}
	defer file.Close()
	at, err := wholeLines(file)
	if err != nil {
		return err
	}
	if before > 0 {
		at = below(file, at, before)
	}
	var rest []byte // the beginning of it is still to be read
	for at > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := make([]byte, min(at, 1<<20), min(at, 1<<20)+int64(len(rest)))
		at -= int64(len(block))
		if _, err := file.ReadAt(block, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		block = append(block, rest...)
		for {
			begin := bytes.LastIndexByte(bytes.TrimSuffix(block, []byte("\n")), '\n')
			if begin < 0 {
				break
			}
			if !take(bytes.TrimSuffix(block[begin+1:], []byte("\n"))) {
				return nil
			}
			block = block[:begin+1]
		}
		if rest = block; len(rest) > 2*maxLine {
			rest = nil // no record is so long
		}
	}
	if line := bytes.TrimSuffix(rest, []byte("\n")); len(line) > 0 {
		take(line)
	}
	return nil
}

// below returns where the records of a file end that are below a number: they are in order.
func below(file io.ReaderAt, size int64, number uint64) int64 {
	begin, end := int64(0), size // those before begin are, those from end on are not
	for begin < end {
		middle := begin + (end-begin)/2
		from := max(begin, middle-1) // a line that begins at middle is one after it
		lines := bufio.NewScanner(io.NewSectionReader(file, from, size-from))
		lines.Buffer(nil, maxLine+1)
		next, is := from, false
		for first := from < middle; lines.Scan() && next < end; first = false {
			next += int64(len(lines.Bytes())) + 1
			var r struct{ Seq uint64 }
			if !first && json.Unmarshal(lines.Bytes(), &r) == nil && r.Seq > 0 {
				is = r.Seq < number
				break
			}
		}
		switch {
		case lines.Err() != nil:
			return size // all of it is read
		case is:
			begin = next
		default:
			end = middle
		}
	}
	return begin
}
