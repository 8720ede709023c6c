// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrBroken is wrapped by the error of [Verifier.Report] about a log that is not as it
// was written.
var ErrBroken = errors.New("the audit log is broken")

// Report is what was found in a log.
type Report struct {
	Records     uint64
	First, Last Head
	Begins, End time.Time // of the first and the last record

	// Ended says that the last record closes the log, or its file. Where it does
	// not, the server still writes, or was killed, or the end was removed.
	Ended bool

	// Lost is how many records the server says it could not write, Recovered how
	// often it found a torn end.
	Lost      uint64
	Recovered int

	// Problems are the first of what is wrong, More how many more there are.
	Problems []Problem
	More     int
}

// Head is a place in a chain: the number of a record and its hash.
type Head struct {
	Seq  uint64
	Hash Digest
}

// A Problem is one thing that is wrong with a log.
type Problem struct {
	File string // as it was named to [Verifier.Read]
	Line int    // 0 where it is about the whole
	Kind ProblemKind
	Text string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// ProblemKind is what is wrong.
type ProblemKind string

const (
	Changed   ProblemKind = "changed"   // the record is not what was hashed
	Missing   ProblemKind = "missing"   // records before it are gone
	Misplaced ProblemKind = "misplaced" // the record was moved, repeated or inserted
	Unlinked  ProblemKind = "unlinked"  // the record follows another one than the one before it
	Garbled   ProblemKind = "garbled"   // the line is no record
	Torn      ProblemKind = "torn"      // the last line has no end
	Absent    ProblemKind = "absent"    // a hash that must be there is not
)

// maxProblems bounds the problems of a report.
const maxProblems = 100

// A Verifier reads the files of a log, the oldest first, and says what is wrong with it.
// Memory is bounded, whatever is read. The zero value is ready to use.
//
// A chain cannot tell that its end is missing: for that, give the hash that was last.
type Verifier struct {
	// Last is what the hash of the last record must be; Has is one that some
	// record must have. Zero means any.
	Last, Has Digest

	report Report
	begun  bool
	found  bool // Has
	last   Head
	file   string
	line   int
}

// Read reads a file. The error is about reading alone.
func (v *Verifier) Read(name string, r io.Reader) error {
	v.file, v.line = name, 0
	reader := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			v.line++
		}
		switch {
		case err == nil:
			v.take(line[:len(line)-1])
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				v.complain(Torn, "the last line is torn: a record was not written to its end")
			}
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			v.complain(Garbled, "this is not a record: the line has more than %d bytes", maxLine)
			if err := skipLine(reader); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func skipLine(reader *bufio.Reader) error {
	for {
		_, err := reader.ReadSlice('\n')
		if err == nil || errors.Is(err, io.EOF) {
			return nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// take judges the next line.
func (v *Verifier) take(line []byte) {
	m, changed, err := parseLine(line)
	if err != nil {
		if len(bytes.TrimSpace(line)) == 0 {
			v.complain(Garbled, "this is not a record: the line is empty")
		} else {
			v.complain(Garbled, "%v", err)
		}
		return
	}
	head := Head{m.Seq, m.Hash}
	next := v.last.Seq + 1
	switch {
	case changed:
		v.complain(Changed, "record %d was changed: its hash is not that of its content", m.Seq)
		if v.begun {
			head.Seq = next // its own number may be what was changed
		}
	case !v.begun && m.Seq == 1 && !m.Prev.IsZero():
		v.complain(Unlinked, "record 1 follows another record, but is the first")
	case !v.begun && m.Seq != 1 && m.Step != Continued:
		v.complain(Missing, "the beginning is missing: record %d comes first", m.Seq)
	case !v.begun:
	case m.Seq > next:
		v.complain(Missing, "%s missing before record %d", numbers(next, m.Seq-1), m.Seq)
	case m.Seq < next:
		v.complain(Misplaced, "record %d comes after record %d: it was moved, repeated or inserted", m.Seq, v.last.Seq)
		head = v.last // the chain goes on after that
	case m.Prev != v.last.Hash:
		v.complain(Unlinked, "record %d does not follow the record before it: one of them was replaced", m.Seq)
	}
	if !v.begun {
		v.begun, v.report.First, v.report.Begins = true, head, m.Time
	}
	v.last = head
	v.found = v.found || m.Hash == v.Has
	v.report.Records++
	v.report.Last, v.report.End = head, m.Time
	v.report.Ended = m.Step == Closed || m.Step == Rotated
	switch m.Step {
	case Gap:
		v.report.Lost += m.Count
	case Recovered:
		v.report.Recovered++
	}
}

func numbers(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("record %d is", from)
	}
	return fmt.Sprintf("records %d to %d are", from, to)
}

func (v *Verifier) complain(kind ProblemKind, format string, args ...any) {
	v.add(Problem{v.file, v.line, kind, fmt.Sprintf(format, args...)})
}

func (v *Verifier) add(p Problem) {
	if len(v.report.Problems) == maxProblems {
		v.report.More++
		return
	}
	v.report.Problems = append(v.report.Problems, p)
}

// Report tells what was found, after the last file was read. The error wraps
// [ErrBroken] if anything is wrong.
func (v *Verifier) Report() (Report, error) {
	final := *v
	report := &final.report
	if final.Last != (Digest{}) && report.Last.Hash != final.Last {
		final.add(Problem{Kind: Absent, Text: fmt.Sprintf("the last record is not the one with hash %s: the end was removed, or more was written", final.Last)})
	}
	if final.Has != (Digest{}) && !final.found {
		final.add(Problem{Kind: Absent, Text: fmt.Sprintf("no record has the hash %s", final.Has)})
	}
	if n := len(report.Problems) + report.More; n > 0 {
		return *report, fmt.Errorf("%w: %s", ErrBroken, report.Problems[0])
	}
	return *report, nil
}
