// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/pdf"
)

const limit = 1 << 20 // bytes of a page, more than any test has

// read returns the text of all pages, each with a line of dashes before it
// but the first.
func read(data []byte) (string, error) {
	d, err := pdf.Open(context.Background(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	var all []string
	for i := range d.Pages() {
		p, err := d.Page(context.Background(), i, limit)
		if err != nil {
			return "", err
		}
		all = append(all, p.Text)
	}
	return strings.Join(all, "---\n"), nil
}

// onePage returns the first page.
func onePage(t *testing.T, data []byte) pdf.Page {
	t.Helper()
	d, err := pdf.Open(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Page(t.Context(), 0, limit)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compressed is a document with object streams and a cross-reference stream.
func compressed() *file {
	f := newFile().stream(4, "", hello("Hello")).objects(10, map[int]string{1: catalog, 2: pages, 3: page, 5: helvetica})
	offset := f.xrefStream(11, "/Root 1 0 R", map[int][]int{10: {1, 2, 3, 5}})
	fmt.Fprintf(f, "startxref\n%d\n%%%%EOF\n", offset)
	return f
}

// structures are documents that all show the same word.
func structures() map[string][]byte {
	all := make(map[string][]byte)
	add := func(name string, f *file) { all[name] = f.Bytes() }

	classic := document(hello("Hello"))
	all["classic"] = classic
	add("compressed", compressed())
	all["something before the header"] = append([]byte("HTTP/1.1 200 OK\r\n\r\n"), classic...)
	all["no startxref"] = classic[:bytes.LastIndex(classic, []byte("xref\n0 1"))]
	all["startxref beyond the end"] = bytes.Replace(classic, []byte("startxref\n"), []byte("startxref\n9"), 1)
	all["offsets that are wrong"] = bytes.Replace(classic, []byte("obj\n<</Type /Catalog"), []byte("obj\n\n\n\n<</Type /Catalog"), 1)
	all["line endings changed"] = bytes.ReplaceAll(classic, []byte("\n"), []byte("\r\n"))
	all["cut after its objects"] = classic[:bytes.LastIndex(classic, []byte("endobj"))]
	c := compressed().Bytes()
	all["compressed and cut"] = c[:bytes.LastIndex(c, []byte("startxref"))]
	all["compressed and without a table"] = c[:bytes.LastIndex(c, []byte("11 0 obj"))]
	all["no length"] = bytes.Replace(classic, []byte("/Length"), []byte("/Longth"), 1)
	all["a length that is too long"] = bytes.Replace(classic, []byte("/Length 3"), []byte("/Length 9"), 1)
	all["a length in another object"] = start("").
		object(4, "<</Length 6 0 R>>\nstream\n"+hello("Hello")+"\nendstream").
		object(6, fmt.Sprint(len(hello("Hello")))).table("/Root 1 0 R").Bytes()

	add("saved again", start(hello("Bye")).table("/Root 1 0 R").stream(4, "", hello("Hello")).table("/Root 1 0 R"))
	add("saved again as a stream", func() *file {
		f := start(hello("Bye")).table("/Root 1 0 R").stream(4, "", hello("Hello"))
		offset := f.xrefStream(11, fmt.Sprintf("/Root 1 0 R /Prev %d", f.last), nil)
		fmt.Fprintf(f, "startxref\n%d\n%%%%EOF\n", offset)
		return f
	}())
	add("hybrid", func() *file {
		f := newFile().object(1, catalog).object(3, page).stream(4, "", hello("Hello")).objects(10, map[int]string{2: pages, 5: helvetica})
		known := f.offsets
		f.offsets = map[int]int{10: known[10]}
		offset := f.xrefStream(11, "", map[int][]int{10: {2, 5}})
		f.offsets = known
		return f.table(fmt.Sprintf("/Root 1 0 R /XRefStm %d", offset))
	}())
	add("an older object that was freed", func() *file {
		f := start(hello("Hello")).object(7, "(old)").table("/Root 1 0 R")
		at := f.Len()
		f.WriteString("xref\n7 1\n0000000000 00001 f \n")
		f.end(at, "/Root 1 0 R")
		return f
	}())
	add("tables in a circle", func() *file {
		f := start(hello("Hello"))
		return f.table(fmt.Sprintf("/Root 1 0 R /Prev %d", f.Len()))
	}())

	add("a tree with what is inherited", start(hello("Hello")).
		object(2, "<</Type /Pages /Kids [6 0 R] /Count 1 /Resources <</Font <</F 5 0 R>>>>>>").
		object(6, "<</Type /Pages /Parent 2 0 R /Kids [3 0 R]>>").
		object(3, "<</Type /Page /Parent 6 0 R /Contents 4 0 R>>").table("/Root 1 0 R"))
	add("a tree in a circle", start(hello("Hello")).object(2, "<</Type /Pages /Kids [2 0 R 3 0 R 3 0 R 2 0 R]>>").table("/Root 1 0 R"))
	add("no tree", start(hello("Hello")).object(2, "<<>>").object(1, "<</Type /Catalog>>").table("/Root 1 0 R"))
	add("contents in parts", start("").
		object(3, "<</Type /Page /Contents [4 0 R 99 0 R 6 0 R] /Resources <</Font <</F 5 0 R>>>>>>").
		stream(4, "", "BT /F 12 Tf 72 700").stream(6, "", "Td [(Hel) 20 (lo)] TJ ET").table("/Root 1 0 R"))
	add("a form", start("q 1 0 0 1 50 50 cm /X Do Q").
		object(3, "<</Type /Page /Contents 4 0 R /Resources <</XObject <</X 6 0 R>>>>>>").
		stream(6, "/Subtype /Form /Matrix [1 0 0 1 10 10] /Resources <</Font <</F 5 0 R>>>>", hello("Hello")).table("/Root 1 0 R"))
	add("a form that draws itself", start("/X Do").
		object(3, "<</Type /Page /Contents 4 0 R /Resources <</Font <</F 5 0 R>> /XObject <</X 6 0 R>>>>>>").
		stream(6, "/Subtype /Form", hello("Hello")+" /X Do").table("/Root 1 0 R"))
	add("an image in the program", start("BI /W 2 /H 2 ID \x00EI\x01 EI \xff\xfe\nEI Q "+hello("Hello")).table("/Root 1 0 R"))
	add("names and strings with escapes", start("").
		object(3, "<</Type /Page /Contents 4 0 R /Resources <</Font <</F#20x 5 0 R>>>>>>").
		stream(4, "", "BT /F#20x 12 Tf % a comment )\n72 700 Td <48 65 6C6C> Tj (\\\n\\157) Tj <2> Tj ET").table("/Root 1 0 R"))
	return all
}

func TestStructures(t *testing.T) {
	for name, data := range structures() {
		t.Run(name, func(t *testing.T) {
			got, err := read(data)
			if strings.ReplaceAll(got, "Hello\n", "") != "" || got == "" || err != nil {
				t.Errorf("%q, %v\n%s", got, err, data)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	classic := document(hello("Hello"))
	encrypted := func(encryption string) []byte {
		return start("").object(8, encryption).table("/Root 1 0 R /Encrypt 8 0 R /ID [(x) (x)]").Bytes()
	}
	for _, test := range []struct {
		name string
		data []byte
		want error
		text string
	}{
		{"nothing", nil, pdf.ErrNotPDF, ""},
		{"something else", []byte("PK\x03\x04 and more of it"), pdf.ErrNotPDF, "%PDF-"},
		{"a header alone", []byte("%PDF-1.7\n"), pdf.ErrBroken, "no objects"},
		{"cut in its first object", classic[:20], pdf.ErrBroken, ""},
		{"no page", newFile().object(1, catalog).object(2, "<</Type /Pages /Kids []>>").table("/Root 1 0 R").Bytes(), pdf.ErrBroken, "no pages"},
		{"a password", encrypted("<</Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O (12345678901234567890123456789012) /U (12345678901234567890123456789012)>>"), pdf.ErrEncrypted, "password"},
		{"a password of version 5", encrypted("<</Filter /Standard /V 5 /R 6 /Length 256 /P -4 /O (x) /U (" + strings.Repeat("u", 48) + ") /UE (" + strings.Repeat("u", 32) + ")>>"), pdf.ErrEncrypted, "password"},
		{"another handler", encrypted("<</Filter /Other /V 2>>"), pdf.ErrEncrypted, `"Other"`},
		{"another version", encrypted("<</Filter /Standard /V 9>>"), pdf.ErrEncrypted, "version 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := read(test.data); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%q, %v; want %v with %q", got, err, test.want, test.text)
			}
		})
	}
	d, err := pdf.Open(t.Context(), bytes.NewReader(classic), int64(len(classic)))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []int{-1, 1} {
		if _, err := d.Page(t.Context(), page, limit); err == nil {
			t.Errorf("there is a page %d", page)
		}
	}
	if _, err := pdf.Open(t.Context(), bytes.NewReader(nil), 1<<40); !errors.Is(err, pdf.ErrLimit) {
		t.Errorf("a file of a terabyte: %v", err)
	}
}

// TestSamples reads what real programs wrote. The texts have the words that
// pdftotext finds, in its order.
func TestSamples(t *testing.T) {
	samples, err := filepath.Glob("testdata/*.pdf")
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, sample := range samples {
		t.Run(filepath.Base(sample), func(t *testing.T) {
			data, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			got, err := read(data)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(sample, ".pdf") + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestPageWithoutText(t *testing.T) {
	f := start("q 100 0 0 100 0 0 cm /X Do Q /X Do").
		object(3, "<</Type /Page /Contents 4 0 R /Resources <</XObject <</X 6 0 R>>>>>>").
		stream(6, "/Subtype /Image /Width 1 /Height 1 /Filter /DCTDecode", "\xff\xd8").table("/Root 1 0 R")
	if p := onePage(t, f.Bytes()); p.Text != "" || p.Images != 2 {
		t.Errorf("%+v", p)
	}
	if p := onePage(t, start("").object(3, "<</Type /Page>>").table("/Root 1 0 R").Bytes()); p != (pdf.Page{}) {
		t.Errorf("an empty page: %+v", p)
	}
}

// allocated returns how much memory do took, all of it together.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBombs reads small files that are large inside. Each ends with an error
// that tells the limit, or with what was read before it, in little memory.
func TestBombs(t *testing.T) {
	text := hello("Hello") + "\n"
	blanks := strings.Repeat(" ", 1<<20)
	bomb := deflate(deflate(repeated(text, blanks, 40)))
	objects := repeated("1 0 2 20 ", blanks, 30)
	operators := repeated(text, strings.Repeat("q ", 10_000), 310)
	long := repeated(text+"[", strings.Repeat("(x) ", 10_000), 200)
	wide := repeated(text+"(", strings.Repeat("x", 1<<20), 20)
	entries := repeated("", strings.Repeat("\x01\x00\x00\x00\x00", 10_000), 60)
	pieces := repeated("BT /F 12 Tf ", strings.Repeat("1 0 0 1 9 9 Tm (x) Tj 1 0 0 1 500 500 Tm (y) Tj ", 1000), 200)
	mappings := repeated("", strings.Repeat("beginbfrange <0000> <ffff> <0041> endbfrange ", 1000), 150)
	forms := start("").object(3, "<</Type /Page /Contents 4 0 R /Resources 7 0 R>>").
		object(7, "<</Font <</F 5 0 R>> /XObject <</X 6 0 R>>>>").
		stream(4, "", text+"/X Do").stream(6, "/Subtype /Form", strings.Repeat("/X Do ", 20)).table("/Root 1 0 R")
	everything := newFile().object(1, catalog).object(5, helvetica)
	kids := strings.Builder{}
	blank := repeated("", blanks, 30)
	for i := range 4 {
		fmt.Fprintf(&kids, "%d 0 R ", 20+i)
		everything.object(20+i, fmt.Sprintf("<</Type /Page /Contents %d 0 R>>", 50+i)).
			stream(50+i, "/Filter /FlateDecode", blank)
	}
	everything.object(2, "<</Type /Pages /Kids ["+kids.String()+"]>>").table("/Root 1 0 R")

	for _, test := range []struct {
		name    string
		data    []byte
		refused bool   // not even its structure is read, or not all pages are
		text    string // of the first page, where it is not
	}{
		{"nested Flate", start("").stream(4, "/Filter [/FlateDecode /FlateDecode /FlateDecode]", bomb).table("/Root 1 0 R").Bytes(), false, "Hello\n"},
		{"many filters", start("").stream(4, "/Filter ["+strings.Repeat("/FlateDecode ", 9)+"]", bomb).table("/Root 1 0 R").Bytes(), false, ""},
		{"many operators", start("").stream(4, "/Filter /FlateDecode", operators).table("/Root 1 0 R").Bytes(), false, "Hello\n"},
		{"a long array", start("").stream(4, "/Filter /FlateDecode", long).table("/Root 1 0 R").Bytes(), false, "Hello\n"},
		{"a long string", start("").stream(4, "/Filter /FlateDecode", wide).table("/Root 1 0 R").Bytes(), false, "Hello\n"},
		{"a predictor with wide rows", start("").stream(4, "/Filter /FlateDecode /DecodeParms <</Predictor 15 /Columns 2000000000>>", operators).table("/Root 1 0 R").Bytes(), false, ""},
		{"arrays inside arrays", document(text + strings.Repeat("[", 1_000_000)), false, "Hello\n"},
		{"dictionaries inside dictionaries", start("").object(1, strings.Repeat("<</A ", 1_000_000)).table("/Root 1 0 R").Bytes(), false, ""},
		{"a large object stream", newFile().stream(10, "/Type /ObjStm /N 2 /First 9 /Filter /FlateDecode", objects).Bytes(), true, ""},
		{"many entries", func() []byte {
			f := start(hello("Hello"))
			at := f.Len()
			f.stream(9, "/Type /XRef /W [1 3 1] /Size 600000 /Root 1 0 R /Filter /FlateDecode", entries)
			fmt.Fprintf(f, "startxref\n%d\n", at)
			return f.Bytes()
		}(), false, "Hello\n"},
		{"a form with forms", forms.Bytes(), false, "Hello\n"},
		{"many pieces", start("").stream(4, "/Filter /FlateDecode", pieces).table("/Root 1 0 R").Bytes(), false, "y"},
		{"a large map", start(hello("Hello")).object(5, "<</Type /Font /Subtype /TrueType /ToUnicode 6 0 R>>").
			stream(6, "/Filter /FlateDecode", mappings).table("/Root 1 0 R").Bytes(), false, ""},
		{"all pages together", everything.Bytes(), true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if len(test.data) > 8<<20 {
				t.Fatalf("the file itself has %d bytes", len(test.data))
			}
			var first pdf.Page
			var err error
			took := allocated(func() {
				var d *pdf.Document
				if d, err = pdf.Open(t.Context(), bytes.NewReader(test.data), int64(len(test.data))); err != nil {
					return
				}
				first, err = d.Page(t.Context(), 0, limit)
				for i := 1; i < d.Pages() && err == nil; i++ {
					_, err = d.Page(t.Context(), i, limit)
				}
			})
			switch {
			case test.refused && !errors.Is(err, pdf.ErrLimit) && !errors.Is(err, pdf.ErrBroken):
				t.Errorf("%v, want a limit", err)
			case !test.refused && (err != nil || !strings.HasPrefix(first.Text, test.text)):
				t.Errorf("%.50q, %v, %v", first.Text, first.Cut, err)
			}
			t.Logf("%d bytes of file, %d MiB allocated, cut: %v, error: %v", len(test.data), took>>20, first.Cut, err)
			if took > 400<<20 {
				t.Errorf("%d MiB were allocated", took>>20)
			}
		})
	}
}

// fewLooks is a context that is done after a number of looks at it.
type fewLooks struct {
	context.Context
	left int
}

func (c *fewLooks) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestStops(t *testing.T) {
	data := start("").stream(4, "/Filter /FlateDecode", repeated("", strings.Repeat("q Q ", 10_000), 100)).table("/Root 1 0 R").Bytes()
	for _, looks := range []int{0, 1, 2, 3, 5, 10, 20, 50, 100} {
		ctx := &fewLooks{Context: t.Context(), left: looks}
		d, err := pdf.Open(ctx, bytes.NewReader(data), int64(len(data)))
		if err == nil {
			_, err = d.Page(ctx, 0, limit)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d looks: %v", looks, err)
		}
	}
	// Repairing goes through all of the file.
	long := append([]byte("%PDF-1.4\n"), bytes.Repeat([]byte("x"), 2<<20)...)
	if _, err := pdf.Open(&fewLooks{Context: t.Context(), left: 10}, bytes.NewReader(long), int64(len(long))); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
