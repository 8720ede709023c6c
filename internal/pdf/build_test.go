// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A file is a PDF document in the making.
type file struct {
	bytes.Buffer
	offsets map[int]int
}

func newFile() *file {
	f := &file{offsets: make(map[int]int)}
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

// table ends the file with its table.
func (f *file) table(trailer string) *file {
	start := f.Len()
	f.WriteString("xref\n0 1\n0000000000 65535 f \n")
	for _, num := range slices.Sorted(maps.Keys(f.offsets)) {
		fmt.Fprintf(f, "%d 1\n%010d 00000 n \n", num, f.offsets[num])
	}
	fmt.Fprintf(f, "trailer\n<<%s /Size 1000>>\nstartxref\n%d\n%%%%EOF\n", trailer, start)
	return f
}

// repeated returns head and many times a part, compressed for /FlateDecode, without
// compressing all of it.
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

// document is a whole document whose pages show contents.
func document(contents ...string) []byte {
	f, kids := newFile().object(1, catalog).object(5, helvetica), ""
	for i, content := range contents {
		number := 10 + 2*i
		kids += fmt.Sprintf("%d 0 R ", number)
		f.object(number, strings.Replace(page, "4 0 R", fmt.Sprintf("%d 0 R", number+1), 1)).stream(number+1, "", content)
	}
	return f.object(2, fmt.Sprintf("<</Type /Pages /Kids [%s] /Count %d>>", kids, len(contents))).table("/Root 1 0 R").Bytes()
}

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
