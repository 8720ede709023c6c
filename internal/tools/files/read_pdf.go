// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A pageRange is pages of a document, counted from 1; last is 0 for the end.
type pageRange struct{ first, last int }

const goodPages = `is a list of pages and ranges such as "3", "1-5,9" or "20-", counted from 1 and in ascending order`

// parsePages reads a list of pages.
func parsePages(list string) ([]pageRange, bool) {
	var ranges []pageRange
	before := 0 // the last page so far
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, ok := pageNumber(from)
		r := pageRange{first, first}
		if to = strings.TrimSpace(to); isRange && to == "" {
			r.last = 0
		} else if isRange {
			last, lastOK := pageNumber(to)
			r.last, ok = last, ok && lastOK && last >= first
		}
		if !ok || first <= before || before < 0 {
			return nil, false
		}
		if before = r.last; r.last == 0 {
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

// pagesOf returns the pages that are asked for, of so many.
func pagesOf(op readOp, count int) ([]pageRange, error) {
	ranges := []pageRange{{1, 0}}
	if op.Pages != "" {
		ranges, _ = parsePages(op.Pages) // it was checked
	} else if op.Offset != 0 || op.Limit != 0 {
		first := cmp.Or(op.Offset, 1)
		if first < 0 {
			first = max(1, count+1+first)
		}
		ranges[0] = pageRange{first, first - 1 + cmp.Or(op.Limit, count)}
	}
	for i, r := range ranges {
		if r.first > count {
			return nil, tools.Failf("no_such_page", "There is no page %d: %s has %s.", r.first, op.Path, plural(count, "page"))
		}
		if r.last == 0 || r.last > count {
			ranges[i].last = count
		}
	}
	return ranges, nil
}

// listPages writes ranges as they are asked for.
func listPages(ranges []pageRange) string {
	parts := make([]string, len(ranges))
	for i, r := range ranges {
		if parts[i] = itoa(r.first); r.last != r.first {
			parts[i] += "-" + itoa(r.last)
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

// pdf shows the pages of a document as text. One that is too long for the room is
// shown all the same where it is alone in the answer.
func (r reader) pdf(ctx context.Context, file *workspace.Opened, op readOp, size int64, room int, alone bool) ([]tools.Content, any, error) {
	// Reading a page may take some memory, and a hostile one as much as is
	// allowed: as with images, a few are read at once.
	select {
	case r.decoding <- struct{}{}:
		defer func() { <-r.decoding }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	document, err := pdf.Open(ctx, file, size)
	if err != nil {
		return nil, nil, badPDF(op.Path, err)
	}
	ranges, err := pagesOf(op, document.Pages())
	if err != nil {
		return nil, nil, err
	}
	d := pdfDetails{Path: op.Path, Pages: document.Pages()}
	var b strings.Builder
	fmt.Fprintf(&b, "(%s: PDF document of %s)\n", plain(op.Path), plural(d.Pages, "page"))
	if document.Repaired() {
		b.WriteString("(it is damaged: what could be found of it is shown)\n")
	}
	for len(ranges) > 0 {
		number := ranges[0].first
		page, err := document.Page(ctx, number-1, maxPDFPage)
		if err != nil && (d.Shown == 0 || !errors.Is(err, pdf.ErrLimit)) {
			return nil, nil, badPDF(op.Path, err)
		}
		full := b.Len()+len(page.Text) > room
		if full && d.Shown == 0 && !alone {
			return nil, nil, answerFull(op)
		}
		if err != nil || full && d.Shown > 0 {
			break
		}
		d.show(&b, number, page)
		if ranges[0].first++; ranges[0].first > ranges[0].last {
			ranges = ranges[1:]
		}
	}
	if d.Rest = listPages(ranges); d.Rest != "" {
		op.Offset, op.Limit, op.Pages = 0, 0, d.Rest
		fmt.Fprintf(&b, "(there is more: go on with %s)\n", tools.GoOn("read_file", op))
	}
	if d.Scanned == d.Shown {
		b.WriteString("(all of these pages are images, as after scanning: to see one, turn it into an image file first, for example with pdftoppm in a shell)\n")
	}
	return []tools.Content{tools.Text(visible(b.String()))}, d, nil
}

// show writes a page for a model.
func (d *pdfDetails) show(b *strings.Builder, number int, page pdf.Page) {
	d.Shown++
	d.Unknown += page.Unknown
	fmt.Fprintf(b, "--- page %d of %d ---\n%s", number, d.Pages, page.Text)
	switch {
	case page.Text != "":
	case page.Images > 0:
		d.Scanned++
		fmt.Fprintf(b, "(no text on this page, but %s)\n", plural(page.Images, "image"))
	default:
		b.WriteString("(this page is empty)\n")
	}
	if page.Unknown > 0 {
		fmt.Fprintf(b, "(the document does not tell what %s of this page mean: shown as \uFFFD)\n", plural(page.Unknown, "character"))
	}
	if page.Cut != nil {
		fmt.Fprintf(b, "(not all of this page could be read: %v)\n", page.Cut)
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
