// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/picture"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// mediaTypeOf returns what a body is, in small letters: as its header says, or as it looks
// where that says nothing.
func mediaTypeOf(header string, body []byte) string {
	mediaType, _, err := mime.ParseMediaType(header)
	if err != nil || mediaType == "" || mediaType == "application/octet-stream" || mediaType == "binary/octet-stream" {
		mediaType, _, _ = mime.ParseMediaType(http.DetectContentType(body))
	}
	// What is a PDF or a picture is that, whatever a header says of it as text.
	if bytes.HasPrefix(body, []byte("%PDF-")) {
		return "application/pdf"
	}
	if mediaType == "text/plain" && bytes.HasPrefix(bytes.TrimSpace(body[:min(len(body), 512)]), []byte("<?xml")) {
		return "text/xml"
	}
	return mediaType
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

func isXML(mediaType string) bool {
	return mediaType == "text/xml" || mediaType == "application/xml" || strings.HasSuffix(mediaType, "+xml")
}

// isText reports whether a body can be shown as it is.
func isText(mediaType string, body []byte) bool {
	switch {
	case strings.HasPrefix(mediaType, "text/"), isXML(mediaType), strings.HasSuffix(mediaType, "+json"), strings.HasSuffix(mediaType, "+yaml"):
		return true
	}
	switch mediaType {
	case "application/json", "application/javascript", "application/ecmascript", "application/yaml", "application/x-yaml", "application/toml", "application/sql",
		"application/x-sh", "application/x-ndjson", "application/jsonl", "application/graphql", "application/x-www-form-urlencoded", "application/rtf", "application/xhtml+xml":
		return true
	}
	head := body[:min(len(body), 8000)]
	return len(body) > 0 && !bytes.ContainsRune(head, 0) && utf8.Valid(trimRune(head))
}

// trimRune returns a text without a character that was cut.
func trimRune(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if b := text[len(text)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-i:]) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

var xmlEncoding = regexp.MustCompile(`^\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// decode returns a body as UTF-8: by its mark, its header, what it says itself, or as it
// looks.
func decode(body []byte, contentType, mediaType string) string {
	encoding, _, certain := charset.DetermineEncoding(body, contentType)
	if !certain {
		label := ""
		if match := xmlEncoding.FindSubmatch(body[:min(len(body), 1024)]); match != nil && isXML(mediaType) {
			label = string(match[1])
		}
		if named, _ := charset.Lookup(label); named != nil {
			encoding = named
		} else if utf8.Valid(trimRune(body)) { // the library looks at the first kilobyte alone
			encoding = nil
		}
	}
	if encoding != nil {
		if decoded, err := encoding.NewDecoder().Bytes(body); err == nil {
			body = decoded
		}
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	text = strings.TrimPrefix(text, "\uFEFF")
	if strings.Contains(text, "\r") {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	}
	return text
}

// convertBody makes a document of what was fetched.
func (f *Family) convertBody(ctx context.Context, c *copied, mode string) (document, []tools.Content, error) {
	mediaType := mediaTypeOf(c.header.Get("Content-Type"), c.body)
	switch {
	case mediaType == "application/pdf" && mode != modeRaw:
		d, err := f.pdfText(ctx, c.body)
		return d, nil, err
	case strings.HasPrefix(mediaType, "image/") && mediaType != "image/svg+xml" && mode != modeRaw:
		images, note, err := f.image(ctx, c.body)
		return document{text: note}, images, err
	case !isText(mediaType, c.body):
		return document{}, nil, tools.Failf("not_text", "It is %s of %s, which cannot be shown as text. To have the file, download it with a command such as curl, where the network allows.",
			cmp.Or(mediaType, "data of no known kind"), size.Bytes(len(c.body)))
	}
	text := decode(c.body, c.header.Get("Content-Type"), mediaType)
	switch {
	case mode == modeRaw:
		return document{text: tools.Visible(text)}, nil, nil
	case isHTML(mediaType):
		return htmlPage(text, c.url, mode == modeFull), nil, nil
	case isXML(mediaType):
		if d, ok := feedOf(text, c.url); ok {
			return d, nil, nil
		}
	}
	return document{text: strings.TrimRight(tools.Visible(text), "\n")}, nil, nil
}

// Bounds of a PDF document that is shown.
const (
	maxPages    = 300
	maxPageText = 256_000
	maxPDFText  = 4 << 20
)

// pdfText returns the text of a PDF document.
func (f *Family) pdfText(ctx context.Context, body []byte) (d document, err error) {
	if f.documents == nil {
		return d, tools.Failf("no_pdf", "It is a PDF document, and this server cannot read those.")
	}
	file, err := os.CreateTemp("", "toolserver-web-")
	if err != nil {
		return d, err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return d, err
	}
	if _, err := file.Write(body); err != nil {
		return d, err
	}
	if err := f.decodeSlot(ctx); err != nil {
		return d, err
	}
	defer func() { <-f.decoding }()
	var b strings.Builder
	count, err := f.documents.Read(ctx, file, pdf.Request{MaxText: maxPageText, Pages: []pdf.Range{{First: 1, Last: maxPages}}}, func(page pdf.Page) bool {
		fmt.Fprintf(&b, "--- page %d ---\n%s\n", page.Number, tools.Visible(page.Text))
		return b.Len() < maxPDFText
	})
	if err != nil && (b.Len() == 0 || !errors.Is(err, pdf.ErrLimit)) {
		if ctx.Err() != nil {
			return d, context.Cause(ctx)
		}
		return d, tools.Failf("bad_pdf", "It is a PDF document that cannot be read: %v.", err)
	}
	d.notes = append(d.notes, fmt.Sprintf("PDF document of %d pages", count))
	if count > maxPages || b.Len() >= maxPDFText {
		d.notes = append(d.notes, "only its beginning was read")
	}
	d.text = strings.TrimSpace(b.String())
	return d, nil
}

// decodeSlot waits until one more PDF document or picture may be decoded.
func (f *Family) decodeSlot(ctx context.Context) error {
	select {
	case f.decoding <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// image returns a picture that a model sees.
func (f *Family) image(ctx context.Context, body []byte) ([]tools.Content, string, error) {
	p, err := picture.Measure(body)
	if err != nil {
		return nil, "", tools.Failf("bad_image", "It is a picture that cannot be shown: %v.", err)
	}
	if err := f.decodeSlot(ctx); err != nil {
		return nil, "", err
	}
	defer func() { <-f.decoding }()
	data, mediaType, err := p.Encode(ctx)
	if err != nil {
		return nil, "", tools.Failf("bad_image", "It is a picture that cannot be shown: %v.", err)
	}
	note := fmt.Sprintf("(%s image of %d x %d pixels, shown with this answer)", p.Format, p.Width, p.Height)
	return []tools.Content{tools.Image{MediaType: mediaType, Data: data}}, note, nil
}

// A feed is RSS 0.9 to 2.0, or Atom.
type feed struct {
	XMLName  xml.Name
	Title    string      `xml:"title"`
	Subtitle string      `xml:"subtitle"`
	Updated  string      `xml:"updated"`
	Entries  []feedEntry `xml:"entry"`
	Items    []feedEntry `xml:"item"`
	Channel  struct {
		Title       string      `xml:"title"`
		Description string      `xml:"description"`
		Updated     string      `xml:"lastBuildDate"`
		Items       []feedEntry `xml:"item"`
	} `xml:"channel"`
}

type feedEntry struct {
	Title string `xml:"title"`
	Links []struct {
		Href string `xml:"href,attr"`
		Rel  string `xml:"rel,attr"`
		Text string `xml:",chardata"`
	} `xml:"link"`
	Date        string `xml:"pubDate"`
	Published   string `xml:"published"`
	Updated     string `xml:"updated"`
	DublinDate  string `xml:"http://purl.org/dc/elements/1.1/ date"`
	Description string `xml:"description"`
	Summary     inner  `xml:"summary"`
	Content     inner  `xml:"content"`
	Encoded     string `xml:"http://purl.org/rss/1.0/modules/content/ encoded"`
}

// inner is text, or elements.
type inner struct {
	Text string `xml:",chardata"`
	XML  string `xml:",innerxml"`
}

func (i inner) html() string {
	if strings.TrimSpace(i.Text) == "" {
		return i.XML
	}
	return i.Text
}

// maxEntries is how many entries of a feed are shown.
const maxEntries = 500

// feedOf makes a document of a feed. It reports false where the text is none.
func feedOf(text string, at *url.URL) (d document, ok bool) {
	decoder := xml.NewDecoder(strings.NewReader(text))
	decoder.Strict = false
	decoder.Entity = xml.HTMLEntity
	decoder.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8 by now
	var f feed
	if err := decoder.Decode(&f); err != nil {
		return d, false
	}
	switch strings.ToLower(f.XMLName.Local) {
	case "rss", "rdf", "feed":
	default:
		return d, false
	}
	d.title = line(cmp.Or(strings.TrimSpace(f.Title), f.Channel.Title))
	d.modified = line(cmp.Or(f.Updated, f.Channel.Updated))
	var b strings.Builder
	if about := line(cmp.Or(f.Subtitle, f.Channel.Description)); about != "" {
		b.WriteString(about + "\n\n")
	}
	entries := slices.Concat(f.Entries, f.Items, f.Channel.Items)
	if len(entries) > maxEntries {
		d.notes = append(d.notes, fmt.Sprintf("the feed has %d entries: these are the first %d", len(entries), maxEntries))
		entries = entries[:maxEntries]
	}
	left := maxEffort
	for _, e := range entries {
		e.write(&b, at, &left)
	}
	d.text = strings.TrimSpace(b.String())
	return d, true
}

func (e *feedEntry) write(b *strings.Builder, at *url.URL, left *int) {
	fmt.Fprintf(b, "## %s\n", cmp.Or(line(e.Title), "(no title)"))
	for _, link := range e.Links {
		if to, err := at.Parse(strings.TrimSpace(cmp.Or(link.Href, link.Text))); err == nil && to.Path != at.Path && (link.Rel == "" || link.Rel == "alternate") {
			b.WriteString(to.String() + "\n")
			break
		}
	}
	if date := line(cmp.Or(e.Date, e.Published, e.Updated, e.DublinDate)); date != "" {
		b.WriteString(date + "\n")
	}
	if text := cmp.Or(e.Encoded, e.Content.html(), e.Summary.html(), e.Description); strings.TrimSpace(text) != "" {
		b.WriteString("\n" + htmlPart(text, at, true, left).text + "\n")
	}
	b.WriteString("\n")
}
