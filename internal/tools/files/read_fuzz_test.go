// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/tools"
)

// FuzzReadPage reads any bytes as a file: what is shown is valid, bounded and
// no more than was asked for, and counting from the end agrees with counting
// from the beginning.
func FuzzReadPage(f *testing.F) {
	f.Add([]byte("one\ntwo\r\nthree"), 1, 2000)
	f.Add([]byte("\xEF\xBB\xBFone\n"), -1, 1)
	f.Add([]byte("\xFF\xFEo\x00\n\x00\x3d\xd8\x00\xde\x3d\xd8A\x00x"), -2, 10)
	f.Add([]byte("\xFE\xFF\xd8\x3d\xde\x00\x00\n\xde\x00\xd8"), 2, 10)
	f.Add([]byte("a\x00b"), 1, 1)
	f.Add([]byte("\xff\n\xf0\x9f\x98\n"), 1, 10)
	f.Add([]byte{}, -9223372036854775808, 100_000)
	f.Fuzz(func(t *testing.T, data []byte, offset, limit int) {
		in := readOp{Path: "f", Offset: offset, Limit: min(max(limit, 1), 100_000)}
		if in.Offset == 0 {
			in.Offset = 1
		}
		p, err := pageOf(data, in)
		if err != nil {
			if _, ok := errors.AsType[*tools.Failure](err); !ok {
				t.Fatal(err)
			}
			return
		}
		shown := 0
		if p.last > 0 {
			shown = p.last - p.first + 1
		}
		if shown > in.Limit || shown != bytes.Count(p.text, []byte("\n")) || p.first < 1 || p.last > p.lines {
			t.Errorf("lines %d to %d of %d seen are shown, %d were asked for", p.first, p.last, p.lines, in.Limit)
		}
		if p.more && p.lines != p.last+1 {
			t.Errorf("there is more after line %d, but line %d was seen", p.last, p.lines)
		}
		text, _ := p.result()
		if len(text) > fuzzRoom+1000 || !utf8.ValidString(text) {
			t.Errorf("%d bytes of text, valid UTF-8: %t", len(text), utf8.ValidString(text))
		}
		last, err := pageOf(data, readOp{Path: "f", Offset: -1, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if last.more || last.lines > 0 && (last.first != last.lines || last.last != last.lines) {
			t.Errorf("the last line is number %d: shown are %d to %d, more: %t", last.lines, last.first, last.last, last.more)
		}
	})
}

const fuzzRoom = 48_000

func pageOf(data []byte, in readOp) (*page, error) {
	r := bufio.NewReaderSize(bytes.NewReader(data), sniffLen)
	p := &page{op: in}
	return p, p.read(r, func() { r.Reset(bytes.NewReader(data)) }, fuzzRoom)
}
