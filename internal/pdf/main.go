// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"slices"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
	"github.com/klippa-app/go-pdfium/structs"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
)

// Name is the first argument of the process that reads documents.
const Name = "toolserver-pdf"

// maxWasmPages bounds PDFium's memory: 256 MiB. While it grows there are two
// copies of it, so the process may have more; see maxMemory.
const maxWasmPages = 4096

// Main is the process that reads a document: it is standard input, and the
// answer is standard output. Without one it fills the cache and ends.
func Main() {
	if err := answer(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func answer(args []string, file *os.File, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("this is started by toolserver, for one document")
	}
	var request Request
	if err := json.Unmarshal([]byte(args[1]), &request); err != nil {
		return err
	}
	library, err := load(args[0])
	if err != nil {
		return send(out, opened{Fault: faultOurs, Why: err.Error()})
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() { // there is no document
		return send(out, opened{})
	}
	d, err := open(library, file, info.Size())
	if err != nil {
		return send(out, refusal(err))
	}
	if err := send(out, opened{Pages: d.pages}); err != nil {
		return err
	}
	for number := range request.numbers(d.pages) {
		page, err := d.page(number, request)
		if err != nil {
			page.Cut = err.Error()
		}
		if err := send(out, page); err != nil {
			return err
		}
	}
	_, err = out.Write(make([]byte, 4)) // the end
	return err
}

// load starts PDFium, which sees no file system. Nothing interrupts it but the
// end of the process: checks inside would take three times as long.
func load(cache string) (pdfium.Pdfium, error) {
	compiled, err := wazero.NewCompilationCacheWithDir(cache)
	if err != nil {
		return nil, err
	}
	pool, err := webassembly.Init(webassembly.Config{
		MinIdle: 1, MaxIdle: 1, MaxTotal: 1,
		FSConfig:      wazero.NewFSConfig(),
		RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(compiled).WithMemoryLimitPages(maxWasmPages),
		Stdout:        io.Discard,
		Stderr:        io.Discard,
	})
	if err != nil {
		return nil, err
	}
	return pool.GetInstanceWithContext(context.Background())
}

func refusal(err error) opened {
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return opened{Fault: faultEncrypted}
	case errors.Is(err, pdfiumerrors.ErrFormat), errors.Is(err, pdfiumerrors.ErrFile):
		return opened{Fault: faultBroken, Why: "no pages are found in it"}
	}
	return opened{Fault: faultBroken, Why: err.Error()}
}

// A document is open in PDFium.
type document struct {
	library pdfium.Pdfium
	handle  references.FPDF_DOCUMENT
	pages   int
}

func open(library pdfium.Pdfium, file io.ReadSeeker, size int64) (*document, error) {
	got, err := library.OpenDocument(&requests.OpenDocument{FileReader: file, FileReaderSize: size})
	if err != nil {
		return nil, err
	}
	count, err := library.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: got.Document})
	if err != nil {
		return nil, err
	}
	if count.PageCount == 0 {
		return nil, pdfiumerrors.ErrFormat
	}
	return &document{library, got.Document, count.PageCount}, nil
}

func (d *document) page(number int, request Request) (Page, error) {
	p := Page{Number: number}
	at := requests.Page{ByIndex: &requests.PageByIndex{Document: d.handle, Index: number - 1}}
	if request.Side > 0 {
		return p, d.draw(&p, at, request.Side)
	}
	loaded, err := d.library.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: d.handle, Index: number - 1})
	if err != nil {
		return p, err
	}
	// What is filled into forms becomes part of the page.
	flat, err := d.library.FPDFPage_Flatten(&requests.FPDFPage_Flatten{
		Page: requests.Page{ByReference: &loaded.Page}, Usage: requests.FPDFPage_FlattenUsageNormalDisplay,
	})
	if err == nil && flat.Result == responses.FPDFPage_FlattenResultSuccess {
		again, err := d.library.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: d.handle, Index: number - 1})
		if err != nil {
			return p, err
		}
		loaded = again
	}
	defer d.library.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page})
	at = requests.Page{ByReference: &loaded.Page}
	p.Images = d.images(at)
	return p, d.text(&p, at, request.MaxText)
}

// images counts the images that the page itself shows.
func (d *document) images(at requests.Page) (n int) {
	count, err := d.library.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: at})
	if err != nil {
		return 0
	}
	for i := range min(count.Count, 10_000) {
		object, err := d.library.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: at, Index: i})
		if err != nil {
			continue
		}
		kind, err := d.library.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: object.PageObject})
		if err == nil && kind.Type == enums.FPDF_PAGEOBJ_IMAGE {
			n++
		}
	}
	return n
}

// draw makes an image of a page.
func (d *document) draw(p *Page, at requests.Page, side int) error {
	drawn, err := d.library.RenderPageInPixels(&requests.RenderPageInPixels{
		Page: at, Width: side, Height: side, RenderFlags: enums.FPDF_RENDER_FLAG_ANNOT,
	})
	if err != nil {
		return err
	}
	defer drawn.Cleanup()
	var out bytes.Buffer
	if err := png.Encode(&out, drawn.Result.Image); err != nil {
		return err
	}
	p.Image, p.Width, p.Height = out.Bytes(), drawn.Result.Width, drawn.Result.Height
	return nil
}

// text brings the characters of a page into the order of reading. PDFium's own
// order is that of drawing, and it knows no tables.
func (d *document) text(p *Page, at requests.Page, limit int) error {
	loaded, err := d.library.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: at})
	if err != nil {
		return err
	}
	defer d.library.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: loaded.TextPage})
	count, err := d.library.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: loaded.TextPage})
	if err != nil {
		return err
	}
	c := &collector{limit: limit}
	started := time.Now()
	var last glyph
	for i := 0; i < count.Count && c.full == nil; i++ {
		g, ok := d.glyph(loaded.TextPage, i)
		if !ok {
			continue
		}
		if utf16.IsSurrogate(g.meaning) && i+1 < count.Count { // half of a character
			i++
			if rest, ok := d.glyph(loaded.TextPage, i); ok {
				g.meaning = utf16.DecodeRune(g.meaning, rest.meaning)
				g.widen(rest.box)
			}
		}
		if !last.joinSlice(g) {
			c.take(last)
			if last.below(g) {
				g.turnDown()
			}
			last = g
		}
		if i%1000 == 0 && time.Since(started) > maxTime/2 {
			c.full = fmt.Errorf("%w: it has too many characters", ErrLimit)
		}
	}
	c.take(last)
	p.Text, p.Unknown = c.String(), c.unknown
	return c.full
}

// lineHyphen is what PDFium has for a hyphen at the end of a line.
const lineHyphen = 2

// bearing is how wide the white space on each side of a letter mostly is.
const bearing = 0.08

// A glyph is a character in its place, or several that are drawn as one.
type glyph struct {
	meaning rune
	slices  []rune // all of several, from left to right
	where   matrix // its origin, direction and size
	width   float64
	box     structs.FPDF_FS_RECTF
}

// take takes what a glyph stands for; nothing for one that is none.
func (c *collector) take(g glyph) {
	switch {
	case len(g.slices) > 0:
		c.add(g.where, g.width, g.slices)
	case g.meaning != 0:
		c.add(g.where, g.width, []rune{g.meaning})
	}
}

// joinSlice makes next a part of g, if both are drawn as one. Where a document
// says itself what something stands for (/ActualText: ligatures, mostly), PDFium
// has each character at the origin of the whole, with a slice of the box around
// the ink.
func (g *glyph) joinSlice(next glyph) bool {
	near := float32(math.Hypot(g.where[2], g.where[3])) / 100
	right, left := next.box.Left > g.box.Right-near, next.box.Right < g.box.Left+near
	if g.where != next.where || g.box.Left == g.box.Right || !right && !left {
		return false
	}
	if len(g.slices) == 0 {
		g.slices = []rune{g.meaning}
	}
	if right {
		g.slices = append(g.slices, next.meaning)
	} else {
		g.slices = slices.Insert(g.slices, 0, next.meaning)
	}
	g.widen(next.box)
	g.width += 2 * bearing
	return true
}

// widen has the box of a glyph take in another.
func (g *glyph) widen(box structs.FPDF_FS_RECTF) {
	g.box.Left, g.box.Right = min(g.box.Left, box.Left), max(g.box.Right, box.Right)
	g.box.Bottom, g.box.Top = min(g.box.Bottom, box.Bottom), max(g.box.Top, box.Top)
	g.measure()
}

// measure finds the width of a glyph by its box.
func (g *glyph) measure() {
	across := g.box.Right - g.box.Left
	if math.Abs(g.where[1]) > math.Abs(g.where[0]) {
		across = g.box.Top - g.box.Bottom
	}
	if long := math.Hypot(g.where[0], g.where[1]); long > 0 {
		g.width = float64(across) / long
	}
}

// glyph returns a character of the page; false for what PDFium made up.
func (d *document) glyph(page references.FPDF_TEXTPAGE, i int) (glyph, bool) {
	code, err := d.library.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: page, Index: i})
	if err != nil {
		return glyph{}, false
	}
	g := glyph{meaning: rune(code.Unicode)}
	if unicode.IsSpace(g.meaning) { // all that is made up is space
		made, err := d.library.FPDFText_IsGenerated(&requests.FPDFText_IsGenerated{TextPage: page, Index: i})
		if err != nil || made.IsGenerated {
			return glyph{}, false
		}
	}
	if bad, err := d.library.FPDFText_HasUnicodeMapError(&requests.FPDFText_HasUnicodeMapError{TextPage: page, Index: i}); err == nil && bad.HasUnicodeMapError {
		g.meaning = unicode.ReplacementChar
	}
	if g.meaning == lineHyphen {
		g.meaning = '-'
	}
	origin, err := d.library.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: page, Index: i})
	if err != nil {
		return glyph{}, false
	}
	box, err := d.library.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: page, Index: i})
	if err != nil {
		return glyph{}, false
	}
	size, err := d.library.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: page, Index: i})
	if err != nil {
		return glyph{}, false
	}
	turned, err := d.library.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: page, Index: i})
	if err != nil {
		return glyph{}, false
	}
	m := turned.Matrix
	em := max(size.FontSize, 1e-3)
	g.where = matrix{float64(m.A) * em, float64(m.B) * em, float64(m.C) * em, float64(m.D) * em, origin.X, origin.Y}
	g.box = box.Rect
	g.measure()
	return g, true
}

// below tells whether next stands below g, as in Chinese and Japanese that is
// written from top to bottom.
func (g *glyph) below(next glyph) bool {
	if g.meaning < 0x2e80 || next.meaning < 0x2e80 || next.where[0] <= 0 || next.where[1] != 0 {
		return false
	}
	size := next.where[3]
	down := g.where[5] - next.where[5]
	return math.Abs(g.where[4]-next.where[4]) < size/4 && down > size/2 && down < 1.5*size
}

// turnDown gives a glyph the direction of writing from top to bottom.
func (g *glyph) turnDown() {
	size := g.where[3]
	g.where[0], g.where[1], g.width = 0, -size, 1
}

// A matrix is a place and a size, as PDF has them.
type matrix [6]float64

func finite(numbers ...float64) bool {
	for _, n := range numbers {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return false
		}
	}
	return true
}
