// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/pdf/pdftest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// pdfOf returns a document whose pages have these contents.
func pdfOf(contents ...string) string {
	kids := ""
	objects := []string{
		"<</Type /Catalog /Pages 2 0 R>>", "", "<</Type /Font /Subtype /Type1 /BaseFont /Times-Roman>>",
		"<</Subtype /Image /Length 0>> stream\n\nendstream",
	}
	for _, content := range contents {
		var b bytes.Buffer
		w, _ := zlib.NewWriterLevel(&b, zlib.BestSpeed)
		_, _ = w.Write([]byte(content))
		_ = w.Close()
		kids += fmt.Sprintf("%d 0 R ", len(objects)+1)
		objects = append(objects, fmt.Sprintf("<</Type /Page /Parent 2 0 R /Contents %d 0 R>>", len(objects)+2),
			fmt.Sprintf("<</Filter /FlateDecode /Length %d>> stream\n%s\nendstream", b.Len(), b.String()))
	}
	objects[1] = "<</Type /Pages /Kids [" + kids + "] /Resources <</Font <</F 3 0 R>> /XObject <</X 4 0 R>>>>>>"
	all, table := "%PDF-1.4\n", fmt.Sprintf("xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for i, object := range objects {
		table += fmt.Sprintf("%010d 00000 n \n", len(all))
		all += fmt.Sprintf("%d 0 obj %s endobj\n", i+1, object)
	}
	return fmt.Sprintf("%s%strailer <</Root 1 0 R>>\nstartxref\n%d\n", all, table, len(all))
}

func pdfLine(text string) string { return "BT /F 10 Tf 50 700 Td (" + text + ") Tj ET" }

func TestReadPDF(t *testing.T) {
	const image = "q /X Do Q"
	five := pdfOf(pdfLine("one"), pdfLine("two"), pdfLine(`thr\201e`), image, "")
	env := toolstest.Env(t, map[string]string{
		"five.pdf": five, "wrong-name.txt": five, "scan.pdf": pdfOf(image, image+" "+image), "text.txt": "text\n",
		"empty.pdf": "", "cut.pdf": five[:80], "half.pdf": five[:strings.Index(five, "9 0 obj")], "header.pdf": "%PDF-1.7\n", "other.pdf": "PK\x03\x04\x00\x00",
		"locked.pdf": strings.Replace(five, "<</Root", "<</Encrypt <</Filter /Standard /V 1 /R 2 /O (o) /U (u) /P 0>> /Root", 1),
	})
	const head, page1, page2 = "(five.pdf: PDF document of 5 pages)\n", "--- page 1 of 5 ---\none\n", "--- page 2 of 5 ---\ntwo\n"
	const page3 = "--- page 3 of 5 ---\nthr\uFFFDe\n(the document does not tell what 1 character of this page mean: shown as \uFFFD)\n"
	const page4, page5 = "--- page 4 of 5 ---\n(no text on this page, but 1 image)\n", "--- page 5 of 5 ---\n(this page is empty)\n"
	for _, test := range []struct{ input, want string }{
		{`{"path":"five.pdf"}`, head + page1 + page2 + page3 + page4 + page5},
		{`{"path":"five.pdf","mode":"pdf"}`, head + page1 + page2 + page3 + page4 + page5},
		{`{"path":"wrong-name.txt","pages":"2"}`, strings.Replace(head, "five.pdf", "wrong-name.txt", 1) + page2},
		{`{"path":"five.pdf","pages":"1, 3-4"}`, head + page1 + page3 + page4},
		{`{"path":"five.pdf","pages":"4-"}`, head + page4 + page5},
		{`{"path":"five.pdf","pages":"5-99"}`, head + page5},
		{`{"path":"five.pdf","offset":2,"limit":1}`, head + page2},
		{`{"path":"five.pdf","offset":-1}`, head + page5},
		{`{"path":"scan.pdf"}`, "(scan.pdf: PDF document of 2 pages)\n--- page 1 of 2 ---\n(no text on this page, but 1 image)\n--- page 2 of 2 ---\n(no text on this page, but 2 images)\n" +
			"(all of these pages are images, as after scanning: to see them, read with mode image and the pages)\n"},
		{`{"operations":[{"path":"five.pdf","pages":"1"},{"path":"text.txt"}]}`, "== 1: five.pdf ==\n" + head + page1 + "== 2: text.txt ==\n1\ttext\n"},
		{`{"path":"empty.pdf"}`, "(the file is empty)\n"},
		{`{"path":"empty.pdf","mode":"pdf"}`, "! not_a_pdf\nempty.pdf cannot be read as a PDF: it is not a PDF document: there is no %PDF- at its beginning. To see it as what it is, leave mode out."},
		{`{"path":"other.pdf"}`, "! binary_file\nother.pdf is a binary file: a ZIP archive, or a document that is one inside. Only text can be read: a command such as file or xxd tells more of the others."},
		{`{"path":"other.pdf","mode":"pdf"}`, "! not_a_pdf\n"},
		{`{"path":"header.pdf"}`, "! bad_pdf\nheader.pdf is a PDF document that cannot be read: it is damaged: no pages are found in it."},
		{`{"path":"cut.pdf"}`, "! bad_pdf\ncut.pdf is a PDF document that cannot be read: it is damaged: no pages are found in it. Was all of it written?"},
		{`{"path":"half.pdf"}`, "! bad_pdf\nhalf.pdf is a PDF document that cannot be read: it is damaged: no pages are found in it. Was all of it written?"},
		{`{"path":"locked.pdf"}`, "! encrypted_pdf\nlocked.pdf cannot be read: it is encrypted, and a password is needed to open it. Only documents that open without"},
		{`{"path":"text.txt","pages":"1"}`, "! not_a_pdf\ntext.txt is no PDF document, and only those have pages. Choose lines with offset and limit."},
		{`{"path":"five.pdf","pages":"6"}`, "! no_such_page\nThere is no page 6: five.pdf has 5 pages."},
		{`{"path":"five.pdf","pages":"1,9-12"}`, "! no_such_page\nThere is no page 9: five.pdf has 5 pages."},
		{`{"path":"five.pdf","offset":6}`, "! no_such_page\nThere is no page 6: five.pdf has 5 pages."},
	} {
		if got := answer(t, env, "read_file", test.input); got != test.want && (!strings.HasPrefix(test.want, "! ") || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s:\n%s\nwant\n%s", test.input, got, test.want)
		}
	}
	for _, pages := range []string{"0", "x", "-3", "3-1", "1,,2", "2,1", "1-,5", "1-3,3", "1.5", "+1", " ", ",", "99999999999999999999", "1-2-3"} {
		_, err := files.Read(pdftest.Documents{}, nil).Decode(&env, json.RawMessage(`{"path":"five.pdf","pages":"`+pages+`"}`))
		if err == nil || !strings.Contains(err.Error(), `such as "3", "1-5,9" or "20-"`) {
			t.Errorf("pages %q: %v", pages, err)
		}
	}
	if _, err := files.Read(pdftest.Documents{}, nil).Decode(&env, json.RawMessage(`{"path":"five.pdf","pages":"1","limit":5}`)); err == nil || !strings.Contains(err.Error(), "takes the place of offset and limit") {
		t.Error(err)
	}
	result, _, err := toolstest.Run(t, files.Read(pdftest.Documents{}, nil), env, `{"path":"five.pdf","pages":"3-4"}`)
	if want := `{"path":"five.pdf","pages":5,"shown_pages":2,"unknown_characters":1,"pages_of_images":1}`; err != nil || string(result.Details) != want {
		t.Errorf("details %s, %v", result.Details, err)
	}
}

// TestReadPDFInParts follows the notes through a document that is longer than
// an answer, and shows every page once.
func TestReadPDFInParts(t *testing.T) {
	const count = 160
	var contents []string
	for i := range count {
		var page strings.Builder
		for line := range 40 {
			fmt.Fprintf(&page, "BT /F 10 Tf 50 %d Td (page %d, line %d of words that fill a page) Tj ET\n", 700-12*line, i+1, line)
		}
		contents = append(contents, page.String())
	}
	env := toolstest.Env(t, map[string]string{"long.pdf": pdfOf(contents...)})
	next, answers := `{"path":"long.pdf","pages":"1-"}`, 0
	var all strings.Builder
	for ; next != ""; answers++ {
		got := answer(t, env, "read_file", next)
		if len(got) > tools.DefaultAnswer || strings.HasPrefix(got, "!") || answers > count {
			t.Fatalf("%d bytes for pages %s: %.100s", len(got), next, got)
		}
		all.WriteString(got)
		_, next = toolstest.GoOn(got)
	}
	if answers < 2 {
		t.Errorf("%d answers", answers)
	}
	operations := strings.Repeat(`{"path":"long.pdf"},`, 20)
	got := answer(t, env, "read_file", `{"operations":[`+strings.TrimSuffix(operations, ",")+`]}`)
	if len(got) > tools.DefaultAnswer || !strings.Contains(got, "answer_full") {
		t.Errorf("%d bytes for twenty at once", len(got))
	}
	for i := range count {
		if n := strings.Count(all.String(), fmt.Sprintf("\npage %d, line 7 ", i+1)); n != 1 {
			t.Errorf("page %d is shown %d times", i+1, n)
		}
	}
}

// TestReadPDFBomb reads a small file that is large inside.
func TestReadPDFBomb(t *testing.T) {
	blank := pdfLine("first") + strings.Repeat(" ", 30<<20)
	env := toolstest.Env(t, map[string]string{"bomb.pdf": pdfOf(blank, blank, blank), "late.pdf": pdfOf(pdfLine("x"))})
	got := answer(t, env, "read_file", `{"path":"bomb.pdf"}`)
	if !strings.HasSuffix(got, "--- page 3 of 3 ---\nfirst\n") {
		t.Error(got)
	}
	if err := os.Truncate(filepath.Join(env.Workspace.Dir(), "late.pdf"), 1<<40); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	if got := answer(t, env, "read_file", `{"path":"late.pdf"}`); !strings.HasPrefix(got, "! pdf_too_large\n") {
		t.Error(got)
	}
}

func TestReadPDFStops(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"long.pdf": pdfOf(strings.Repeat("q Q ", 2_000_000))})
	toolstest.StopsSoon(t, files.Read(pdftest.Documents{}, nil), `{"path":"long.pdf"}`, env)
}

// TestReadPDFAsImages shows pages as images, a few in each answer.
func TestReadPDFAsImages(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"six.pdf": pdfOf(pdfLine("1"), pdfLine("2"), pdfLine("3"), pdfLine("4"), pdfLine("5"), pdfLine("6"))})
	result, _, err := toolstest.Run(t, files.Read(pdftest.Documents{}, nil), env, `{"path":"six.pdf","mode":"image"}`)
	if err != nil {
		t.Fatal(err)
	}
	images := 0
	for _, c := range result.Content {
		if image, ok := c.(tools.Image); ok && image.MediaType == "image/png" && len(image.Data) > 0 {
			images++
		}
	}
	if text := toolstest.Text(result); images != 4 || !strings.HasSuffix(text, `(there is more: go on with read_file {"path":"six.pdf","pages":"5-6","mode":"image"})`+"\n") {
		t.Errorf("%d images, %s", images, text)
	}
}

// newMachine reads documents as on a machine that has read none.
type newMachine struct{ pdftest.Documents }

func (n newMachine) Read(ctx context.Context, file *os.File, request pdf.Request, yield func(pdf.Page) bool) (int, error) {
	request.Preparing()
	request.Preparing = nil
	return n.Documents.Read(ctx, file, request, yield)
}

// TestReadPDFPreparing: the first document of a machine takes seconds, and says so.
func TestReadPDFPreparing(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"one.pdf": pdfOf(pdfLine("one"))})
	_, reports, err := toolstest.Run(t, files.Read(newMachine{}, nil), env, `{"path":"one.pdf"}`)
	if err != nil || len(reports) != 1 || !strings.Contains(reports[0].(tools.Progress).Message, "preparing the PDF reader") {
		t.Errorf("told %v, %v", reports, err)
	}
}

// TestPageAsNumber: a page is a page, written as a number or as a string.
func TestPageAsNumber(t *testing.T) {
	for input, want := range map[string]string{
		`{"path":"a.pdf","pages":3}`:                    `{"path":"a.pdf","pages":"3"}`,
		`{"operations":[{"path":"a.pdf","pages": 12}]}`: `{"operations":[{"path":"a.pdf","pages": "12"}]}`,
		`{"path":"a.pdf","pages":1.5}`:                  `{"path":"a.pdf","pages":1.5}`,
	} {
		if got := string(tools.Settle(files.Read(nil, nil), []byte(input))); got != want {
			t.Errorf("%s becomes %s", input, got)
		}
	}
}
