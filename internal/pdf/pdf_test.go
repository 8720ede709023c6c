// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/pdf/pdftest"
)

func TestMain(m *testing.M) { pdftest.Main(m) }

const limit = 1 << 20 // bytes of a page, more than any test has

// read reads a document; by default all pages, as text.
func read(t *testing.T, ctx context.Context, data []byte, request pdf.Request) (pages []pdf.Page, count int, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "document.pdf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if request.Pages == nil {
		request.Pages = []pdf.Range{{First: 1}}
	}
	count, err = pdftest.Documents{}.Read(ctx, file, request, func(p pdf.Page) bool {
		pages = append(pages, p)
		return true
	})
	return pages, count, err
}

func readAll(t *testing.T, data []byte, request pdf.Request) []pdf.Page {
	t.Helper()
	pages, count, err := read(t, t.Context(), data, request)
	if err != nil || len(pages) != count {
		t.Fatalf("%d of %d pages, %v", len(pages), count, err)
	}
	return pages
}

// TestSamples reads what real programs wrote. The texts have the words that
// pdftotext finds, in its order; but the form, whose labels and fields are two
// columns here. Pango and Cairo have written arabic and cjk, Chromium chromium,
// ReportLab form and scan, which is the image of a page.
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
			var texts []string
			for _, p := range readAll(t, data, pdf.Request{MaxText: limit}) {
				texts = append(texts, p.Text)
			}
			got := strings.Join(texts, "---\n")
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

func TestPagesChosen(t *testing.T) {
	data := document(hello("1"), hello("2"), hello("3"), hello("4"), hello("5"))
	for _, test := range []struct {
		ranges []pdf.Range
		want   string
	}{
		{[]pdf.Range{{First: 1}}, "12345"},
		{[]pdf.Range{{First: 2, Last: 3}, {First: 5, Last: 5}}, "235"},
		{[]pdf.Range{{First: 4, Last: 99}}, "45"},
		{[]pdf.Range{{First: -2}}, "45"},
		{[]pdf.Range{{First: -9, Last: 2}}, "12"},
		{[]pdf.Range{{First: 6, Last: 7}}, ""},
	} {
		pages, count, err := read(t, t.Context(), data, pdf.Request{Pages: test.ranges, MaxText: limit})
		got := ""
		for _, p := range pages {
			got += strings.TrimSpace(p.Text)
			if p.Text != fmt.Sprintf("%d\n", p.Number) {
				t.Errorf("page %d is %q", p.Number, p.Text)
			}
		}
		if got != test.want || count != 5 || err != nil {
			t.Errorf("%v: %s of %d, %v; want %s", test.ranges, got, count, err, test.want)
		}
	}
	file, err := os.Open(filepath.Join("testdata", "lib.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	shown := 0
	_, err = pdftest.Documents{}.Read(t.Context(), file, pdf.Request{Pages: []pdf.Range{{First: 1}}, MaxText: limit}, func(pdf.Page) bool {
		shown++
		return false
	})
	if err != nil || shown != 1 {
		t.Errorf("%d pages after the first was enough, %v", shown, err)
	}
}

func TestRefused(t *testing.T) {
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
		{"a header alone", []byte("%PDF-1.7\n"), pdf.ErrBroken, "no pages"},
		{"cut in its first object", document(hello("Hello"))[:20], pdf.ErrBroken, "no pages"},
		{"no page", newFile().object(1, catalog).object(2, "<</Type /Pages /Kids []>>").table("/Root 1 0 R").Bytes(), pdf.ErrBroken, "no pages"},
		{"a password", encrypted("<</Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O (12345678901234567890123456789012) /U (12345678901234567890123456789012)>>"), pdf.ErrEncrypted, "password"},
		{"another handler", encrypted("<</Filter /Other /V 2>>"), pdf.ErrEncrypted, "password"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := read(t, t.Context(), test.data, pdf.Request{MaxText: limit}); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v; want %v with %q", err, test.want, test.text)
			}
		})
	}
}

// TestImages draws a page on which the lower half is black, counts the images of
// a scan, and reads what is filled into a form.
func TestImages(t *testing.T) {
	half := start("0 0 200 50 re f").object(3, "<</Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Contents 4 0 R>>").table("/Root 1 0 R").Bytes()
	p := readAll(t, half, pdf.Request{Side: 400})[0]
	drawn, err := png.Decode(bytes.NewReader(p.Image))
	if err != nil || p.Width != 400 || p.Height != 200 {
		t.Fatalf("%d x %d, %v", p.Width, p.Height, err)
	}
	if r, _, _, _ := drawn.At(200, 20).RGBA(); r != 0xffff {
		t.Errorf("the upper half is %x", r)
	}
	if r, _, _, _ := drawn.At(200, 180).RGBA(); r != 0 {
		t.Errorf("the lower half is %x", r)
	}
	scan := start("q 100 0 0 100 0 0 cm /X Do Q /X Do").
		object(3, "<</Type /Page /Parent 2 0 R /Contents 4 0 R /Resources <</XObject <</X 6 0 R>>>>>>").
		stream(6, "/Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8", "x").table("/Root 1 0 R").Bytes()
	if p := readAll(t, scan, pdf.Request{MaxText: limit})[0]; p.Text != "" || p.Images != 2 {
		t.Errorf("%+v", p)
	}
	form := start(hello("Name:")).object(1, "<</Type /Catalog /Pages 2 0 R /AcroForm <</Fields [6 0 R] /DA (/F 12 Tf)>>>>").
		object(3, "<</Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Annots [6 0 R] /Resources <</Font <</F 5 0 R>>>>>>").
		object(6, "<</Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ada) /F 4 /Rect [150 695 300 715] /AP <</N 7 0 R>>>>").
		stream(7, "/Type /XObject /Subtype /Form /BBox [0 0 150 20] /Resources <</Font <</F 5 0 R>>>>", "BT /F 12 Tf 2 5 Td (Ada) Tj ET").table("/Root 1 0 R").Bytes()
	if p := readAll(t, form, pdf.Request{MaxText: limit})[0]; p.Text != "Name:\tAda\n" {
		t.Errorf("a form: %q", p.Text)
	}
}

// TestBombs reads small files that are large inside. Each ends by itself, with
// what could be read or an error that says why not, and the next is read.
func TestBombs(t *testing.T) {
	text, blanks := hello("Hello")+"\n", strings.Repeat(" ", 1<<20)
	flate := func(data string) []byte {
		return start("").stream(4, "/Filter /FlateDecode", data).table("/Root 1 0 R").Bytes()
	}
	for name, data := range map[string][]byte{
		"a long stream":        flate(repeated(text, blanks, 1500)),
		"many operators":       flate(repeated(text, strings.Repeat("q ", 10_000), 200)),
		"a long array":         flate(repeated(text+"[", strings.Repeat("(x) ", 10_000), 200)),
		"many pieces":          flate(repeated("BT /F 12 Tf ", strings.Repeat("1 0 0 1 9 9 Tm (x) Tj 1 0 0 1 500 500 Tm (y) Tj ", 1000), 200)),
		"arrays inside arrays": document(text + strings.Repeat("[", 1_000_000)),
		"a form with forms": start("").object(3, "<</Type /Page /Parent 2 0 R /Contents 4 0 R /Resources 7 0 R>>").
			object(7, "<</Font <</F 5 0 R>> /XObject <</X 6 0 R>>>>").
			stream(4, "", text+"/X Do").stream(6, "/Subtype /Form /BBox [0 0 9 9] /Resources 7 0 R", strings.Repeat("/X Do ", 20)).table("/Root 1 0 R").Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			pages, _, err := read(t, t.Context(), data, pdf.Request{MaxText: 10_000})
			if err != nil && !errors.Is(err, pdf.ErrLimit) && !errors.Is(err, pdf.ErrBroken) {
				t.Errorf("%v", err)
			}
			for _, p := range pages {
				if len(p.Text) > 20_000 {
					t.Errorf("%d bytes of text", len(p.Text))
				}
			}
			t.Logf("%d bytes of file: %d pages, %v", len(data), len(pages), err)
		})
	}
	huge := start("").object(3, "<</Type /Page /Parent 2 0 R /MediaBox [0 0 1400000 1400000] /Contents 4 0 R>>").table("/Root 1 0 R").Bytes()
	if pages, _, err := read(t, t.Context(), huge, pdf.Request{Side: 500}); err != nil || len(pages) != 1 || pages[0].Cut == "" && (pages[0].Width > 500 || pages[0].Height > 500) {
		t.Errorf("a huge page: %v", err)
	}
	if p := readAll(t, document(hello("Hello")), pdf.Request{MaxText: limit}); p[0].Text != "Hello\n" {
		t.Errorf("afterwards: %q", p[0].Text)
	}
}

// TestStops ends a reading that would take long.
func TestStops(t *testing.T) {
	long := make([]string, 100)
	for i := range long {
		long[i] = strings.Repeat(hello("many words on a page that has many of them"), 300)
	}
	data := document(long...)
	for _, after := range []time.Duration{0, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), after, errors.New("enough"))
		if pages, _, err := read(t, ctx, data, pdf.Request{MaxText: limit}); err == nil || err.Error() != "enough" {
			t.Errorf("%d pages, %v", len(pages), err)
		}
		cancel()
	}
}
