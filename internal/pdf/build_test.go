// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A file is a PDF document in the making.
type file struct {
	bytes.Buffer
	offsets map[int]int
	last    int // offset of the last cross-reference table, or -1
}

func newFile() *file {
	f := &file{offsets: make(map[int]int), last: -1}
	f.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	return f
}

// object writes an object.
func (f *file) object(num int, body string) *file {
	f.offsets[num] = f.Len()
	fmt.Fprintf(f, "%d 0 obj\n%s\nendobj\n", num, body)
	return f
}

// stream writes a stream; its dictionary is given without brackets and length.
func (f *file) stream(num int, dict, data string) *file {
	return f.object(num, fmt.Sprintf("<<%s /Length %d>>\nstream\n%s\nendstream", dict, len(data), data))
}

// objects writes an object stream.
func (f *file) objects(num int, held map[int]string) *file {
	var head, body strings.Builder
	for _, n := range slices.Sorted(maps.Keys(held)) {
		fmt.Fprintf(&head, "%d %d ", n, body.Len())
		body.WriteString(held[n] + " ")
	}
	return f.stream(num, fmt.Sprintf("/Type /ObjStm /N %d /First %d /Filter /FlateDecode", len(held), head.Len()), deflate(head.String()+body.String()))
}

// table ends the file, or a part of it, with a table.
func (f *file) table(trailer string) *file {
	start := f.Len()
	f.WriteString("xref\n0 1\n0000000000 65535 f \n")
	for _, num := range slices.Sorted(maps.Keys(f.offsets)) {
		fmt.Fprintf(f, "%d 1\n%010d 00000 n \n", num, f.offsets[num])
	}
	f.end(start, trailer)
	return f
}

func (f *file) end(start int, trailer string) {
	if f.last >= 0 {
		trailer += fmt.Sprintf(" /Prev %d", f.last)
	}
	fmt.Fprintf(f, "trailer\n<<%s /Size 100>>\nstartxref\n%d\n%%%%EOF\n", trailer, start)
	f.last = start
	clear(f.offsets)
}

// xrefStream writes a table that is a stream, with a predictor, and returns its
// offset. Held tells which object streams hold other objects, in their order.
func (f *file) xrefStream(num int, trailer string, held map[int][]int) int {
	start := f.Len()
	f.offsets[num] = start
	rows := map[int][]byte{0: {0, 0, 0, 0, 0}}
	for n, offset := range f.offsets {
		rows[n] = []byte{1, byte(offset >> 16), byte(offset >> 8), byte(offset), 0}
	}
	for holder, numbers := range held {
		for i, n := range numbers {
			rows[n] = []byte{2, 0, 0, byte(holder), byte(i)}
		}
	}
	var index, data strings.Builder
	above := make([]byte, 5)
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&index, "%d 1 ", n)
		data.WriteByte(2)
		for i, c := range rows[n] {
			data.WriteByte(c - above[i])
		}
		above = rows[n]
	}
	f.stream(num, fmt.Sprintf("/Type /XRef /W [1 3 1] /Index [%s] /Size 100 /Filter /FlateDecode /DecodeParms <</Predictor 12 /Columns 5>> %s",
		index.String(), trailer), deflate(data.String()))
	return start
}

func deflate(data string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(data))
	_ = w.Close()
	return b.String()
}

// repeated returns what deflate would make of head and many times a part,
// without compressing all of it.
func repeated(head, part string, times int) string {
	compress := func(data string) string {
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, flate.BestSpeed)
		_, _ = w.Write([]byte(data))
		_ = w.Flush()
		return b.String()
	}
	const zlibHead, lastBlock = "\x78\x01", "\x03\x00"
	return zlibHead + compress(head) + strings.Repeat(compress(part), times) + lastBlock
}

const (
	helvetica = "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding>>"
	catalog   = "<</Type /Catalog /Pages 2 0 R>>"
	pages     = "<</Type /Pages /Kids [3 0 R] /Count 1>>"
	page      = "<</Type /Page /Parent 2 0 R /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>>>>"
)

// start begins a document of one page that shows content in Helvetica, whose
// name is F.
func start(content string) *file {
	return newFile().object(1, catalog).object(2, pages).object(3, page).stream(4, "", content).object(5, helvetica)
}

// document is a whole document of one page.
func document(content string) []byte { return start(content).table("/Root 1 0 R").Bytes() }

// hello shows a line of text.
func hello(text string) string { return "BT /F 12 Tf 72 700 Td (" + text + ") Tj ET" }

// withFont is a document that shows content in another font, with more objects
// from 6 on.
func withFont(font, content string, more ...string) []byte {
	f := newFile().object(1, catalog).object(2, pages).object(3, page).stream(4, "", content).object(5, font)
	for i, body := range more {
		if data, ok := strings.CutPrefix(body, "stream:"); ok {
			f.stream(6+i, "", data)
		} else {
			f.object(6+i, body)
		}
	}
	return f.table("/Root 1 0 R").Bytes()
}
