// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/picture"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

const goodPages = `is a list of pages and ranges such as "3", "1-5,9" or "20-", counted from 1 and in ascending order`

// parsePages reads a list of pages.
func parsePages(list string) ([]pdf.Range, bool) {
	var ranges []pdf.Range
	before := 0 // the last page so far
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, ok := pageNumber(from)
		r := pdf.Range{First: first, Last: first}
		if to = strings.TrimSpace(to); isRange && to == "" {
			r.Last = 0
		} else if isRange {
			last, lastOK := pageNumber(to)
			r.Last, ok = last, ok && lastOK && last >= first
		}
		if !ok || first <= before || before < 0 {
			return nil, false
		}
		if before = r.Last; r.Last == 0 {
			before = -1 // nothing follows the end
		}
		ranges = append(ranges, r)
	}
	return ranges, true
}

func pageNumber(text string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, err == nil && n >= 1 && n <= 1_000_000_000 && !strings.ContainsAny(text, "+")
}

func checkPages(list string, offset, limit int) []tools.Problem {
	if list == "" {
		return nil
	}
	if offset != 0 || limit != 0 {
		return []tools.Problem{{Pointer: "/pages", Message: "takes the place of offset and limit"}}
	}
	if _, ok := parsePages(list); !ok {
		return []tools.Problem{{Pointer: "/pages", Message: goodPages}}
	}
	return nil
}

// wantedPages returns the pages that are asked for; a negative first page counts
// from the end.
func wantedPages(op readOp) []pdf.Range {
	if op.Pages != "" {
		ranges, _ := parsePages(op.Pages) // it was checked
		return ranges
	}
	r := pdf.Range{First: cmp.Or(op.Offset, 1)}
	if op.Limit != 0 && r.First > 0 {
		r.Last = r.First - 1 + op.Limit
	}
	return []pdf.Range{r}
}

// pagesOf returns those of the wanted pages that a document of so many has.
func pagesOf(op readOp, count int) ([]pdf.Range, error) {
	ranges := wantedPages(op)
	for i, r := range ranges {
		if r = r.In(count); r.First > count {
			return nil, tools.Failf("no_such_page", "There is no page %d: %s has %s.", r.First, op.Path, tools.Count(count, "page", "pages"))
		}
		if ranges[i].First < 0 && op.Limit != 0 {
			r.Last = min(r.Last, r.First-1+op.Limit)
		}
		ranges[i] = r
	}
	return ranges, nil
}

// listPages writes ranges as they are asked for.
func listPages(ranges []pdf.Range) string {
	parts := make([]string, len(ranges))
	for i, r := range ranges {
		if parts[i] = itoa(r.First); r.Last != r.First {
			parts[i] += "-" + itoa(r.Last)
		}
	}
	return strings.Join(parts, ",")
}

// maxPDFPage is how much text of a page is taken out of a document, in bytes.
const maxPDFPage = 256_000

// pdfDetails is what an agent runtime may want to know about a document.
type pdfDetails struct {
	Path    string `json:"path"`
	Pages   int    `json:"pages"`
	Shown   int    `json:"shown_pages"`
	Rest    string `json:"pages_left,omitempty"` // that were asked for
	Unknown int    `json:"unknown_characters"`
	Scanned int    `json:"pages_of_images"`
}

// A Documents reads PDF documents; see package pdf.
type Documents interface {
	Read(ctx context.Context, file *os.File, request pdf.Request, yield func(pdf.Page) bool) (pages int, err error)
}

// maxPageImages is how many pages are shown as images by one call.
const maxPageImages = 4

// pdf shows the pages of a document: as text, or as images. One that is too long for
// the room is shown all the same where it is alone in the answer.
func (r reader) pdf(ctx context.Context, words tools.Words, file *workspace.Opened, op readOp, room int, alone, images bool) ([]tools.Content, any, error) {
	if r.documents == nil {
		return nil, nil, tools.Failf("no_pdf", "%s is a PDF document, and this server cannot read those. Turn it into text first, for example with pdftotext in a shell.", op.Path)
	}
	// Reading a document takes some memory: as with images, a few are read at once.
	select {
	case r.decoding <- struct{}{}:
		defer func() { <-r.decoding }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	shared, err := file.Share()
	if err != nil {
		return nil, nil, err
	}
	defer shared.Close()
	request := pdf.Request{MaxText: maxPDFPage, Pages: wantedPages(op), Preparing: func() {
		r.sink.Emit(tools.Progress{Message: "preparing the PDF reader, once on this machine"})
	}}
	if images {
		request.Side = picture.MaxSide
	}
	var pages []pdf.Page
	size, full := 0, false
	count, err := r.documents.Read(ctx, shared, request, func(page pdf.Page) bool {
		size += len(pageHead(page.Number, page.Number)) + len(page.Text)
		if full = size > room && len(pages) > 0 || images && len(pages) == maxPageImages; full {
			return false
		}
		pages = append(pages, page)
		return !(op.Limit != 0 && len(pages) == op.Limit)
	})
	if err != nil && (len(pages) == 0 || !errors.Is(err, pdf.ErrLimit)) {
		return nil, nil, badPDF(op.Path, err)
	}
	left, err := pagesOf(op, count)
	if err != nil {
		return nil, nil, err
	}
	if size > room && len(pages) == 1 && !alone {
		return nil, nil, answerFull(words, op)
	}
	d := pdfDetails{Path: op.Path, Pages: count}
	content := d.content(words, op, pages, left, images)
	return content, d, nil
}

// content returns what a model is shown of the pages, the first of those that are
// left to show.
func (d *pdfDetails) content(words tools.Words, op readOp, pages []pdf.Page, left []pdf.Range, images bool) (content []tools.Content) {
	var b strings.Builder
	fmt.Fprintf(&b, "(%s: PDF document of %s)\n", plain(d.Path), tools.Count(d.Pages, "page", "pages"))
	for _, page := range pages {
		if d.show(&b, page); len(page.Image) > 0 {
			content = append(content, tools.Text(visible(b.String())), tools.Image{MediaType: "image/png", Data: page.Image})
			b.Reset()
		}
		if left[0].First++; left[0].First > left[0].Last {
			left = left[1:]
		}
	}
	if d.Rest = listPages(left); d.Rest != "" {
		op.Offset, op.Limit, op.Pages = 0, 0, d.Rest
		fmt.Fprintf(&b, "(there is more: go on with %s)\n", words.GoOn("read_file", op))
	}
	if d.Scanned > 0 && d.Scanned == d.Shown && !images {
		b.WriteString("(all of these pages are images, as after scanning: to see them, read with mode image and the pages)\n")
	}
	if b.Len() > 0 {
		content = append(content, tools.Text(visible(b.String())))
	}
	return content
}

func pageHead(number, count int) string { return fmt.Sprintf("--- page %d of %d ---\n", number, count) }

// show writes a page for a model.
func (d *pdfDetails) show(b *strings.Builder, page pdf.Page) {
	d.Shown++
	d.Unknown += page.Unknown
	b.WriteString(pageHead(page.Number, d.Pages) + page.Text)
	switch {
	case page.Text != "" || len(page.Image) > 0:
	case page.Images > 0:
		d.Scanned++
		fmt.Fprintf(b, "(no text on this page, but %s)\n", tools.Count(page.Images, "image", "images"))
	default:
		b.WriteString("(this page is empty)\n")
	}
	if page.Unknown > 0 {
		fmt.Fprintf(b, "(the document does not tell what %s of this page mean: shown as \uFFFD)\n", tools.Count(page.Unknown, "character", "characters"))
	}
	if page.Cut != "" {
		fmt.Fprintf(b, "(not all of this page could be read: %s)\n", page.Cut)
	}
}

// badPDF says what is wrong with a document, and what would be right.
func badPDF(name string, err error) error {
	switch {
	case errors.Is(err, pdf.ErrNotPDF):
		return tools.Failf("not_a_pdf", "%s cannot be read as a PDF: %v. To see it as what it is, leave mode out.", name, err)
	case errors.Is(err, pdf.ErrEncrypted):
		return tools.Failf("encrypted_pdf", "%s cannot be read: %v. Only documents that open without a password can be read: have it decrypted first, for example with qpdf --decrypt in a shell.", name, err)
	case errors.Is(err, pdf.ErrLimit):
		return tools.Failf("pdf_too_large", "%s cannot be read: %v. Ask for fewer pages, or turn it into text first, for example with pdftotext in a shell.", name, err)
	case errors.Is(err, pdf.ErrBroken):
		return tools.Failf("bad_pdf", "%s is a PDF document that cannot be read: %v. Was all of it written? Get it again from where it came from.", name, err)
	}
	return err
}
