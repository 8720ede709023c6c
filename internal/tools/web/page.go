// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/toolserver/toolserver/internal/tools"
)

// A document is what was fetched, as text for a model.
type document struct {
	title, byline       string
	published, modified string // dates, as far as they are known
	text                string
	notes               []string
	refresh             string // where the page asks to go on
}

// newConverter returns what makes Markdown of HTML: tables stay tables, whatever is in their
// cells.
func newConverter() *converter.Converter {
	return converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(),
		strikethrough.NewStrikethroughPlugin(),
		table.NewTablePlugin(
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			table.WithHeaderPromotion(true),
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
			table.WithSkipEmptyRows(true),
		),
	))
}

var markdown = newConverter()

// maxEffort is how much is done to make Markdown of what was fetched: each element counts as
// often as it has others round it, and one in lists or quotations as often as its lines are
// indented again. Pages have some hundred thousand at most; libraries spend minutes on more.
const maxEffort = 4_000_000

// effort returns what a node and those below it count.
func effort(n *html.Node, depth, indented int) (sum int) {
	switch n.DataAtom {
	case atom.Ul, atom.Ol, atom.Blockquote:
		indented++
	}
	sum = depth + indented*indented
	for child := range n.ChildNodes() {
		sum += effort(child, depth+1, indented)
	}
	return sum
}

// htmlPage makes a document of a page: of its main content, or of all of it.
func htmlPage(text string, at *url.URL, all bool) document {
	left := maxEffort
	return htmlPart(text, at, all, &left)
}

// htmlPart is htmlPage of one of several parts, which share what may be done.
func htmlPart(text string, at *url.URL, all bool, left *int) document {
	root, err := html.Parse(strings.NewReader(text))
	if err != nil { // elements are nested too deeply
		return document{text: plainOf(text), notes: []string{"the page is nested too deeply to be made Markdown of: this is its plain text"}}
	}
	s := sanitizer{base: at}
	s.clean(root)
	d := document{title: s.title, refresh: s.refresh}
	body := s.body
	if body == nil {
		body = root
	}
	if *left -= effort(root, 0, 0); *left < 0 {
		d.text, d.notes = plainBelow(body), []string{"the page has too many elements in others to be made Markdown of: this is its plain text"}
		return d
	}
	node := body
	if article, err := parseArticle(root, at); err == nil {
		d.title = cmp.Or(line(article.Title()), d.title)
		d.byline = line(article.Byline())
		d.published, d.modified = dateOf(article.PublishedTime()), dateOf(article.ModifiedTime())
		if !all {
			node = mainOf(body, article.Node)
		}
	} else if !all {
		node = mainOf(body, nil)
	}
	converted, err := convert(node)
	if err != nil {
		return document{title: d.title, text: plainOf(text), notes: []string{"the page could not be made Markdown of: this is its plain text"}}
	}
	d.text = converted
	return d
}

// parseArticle finds the main content of a page. A page that the library fails on has none.
func parseArticle(root *html.Node, at *url.URL) (article readability.Article, err error) {
	defer func() {
		if recover() != nil {
			err = errConversion
		}
	}()
	parser := readability.NewParser()
	return parser.ParseDocument(root, at)
}

// convert makes Markdown of an element, which it changes.
func convert(node *html.Node) (text string, err error) {
	defer func() {
		if recover() != nil {
			err = errConversion
		}
	}()
	out, err := markdown.ConvertNode(node)
	return strings.TrimSpace(string(bytes.ReplaceAll(out, []byte("\u00a0"), []byte(" ")))), err
}

// mainOf chooses what is shown of a page: what readability found, unless that leaves out
// something of what the page itself calls its content, or more than a fiftieth of what is not round
// it. Texts of links count little: what is left out is mostly menus then.
func mainOf(body, article *html.Node) *html.Node {
	if article == nil {
		article = new(html.Node)
	}
	found := textLength(article, nil)
	if own := ownMain(body); own != nil {
		if length := textLength(own, nil); length > 0 && (found*10 < length*9 || missing(own, article, isLink) > 0 || found*20 > length*21) {
			return own
		}
	} else {
		apart := func(n *html.Node) bool { return around(n) || isLink(n) }
		if missing(body, article, apart)*50 > textLength(body, apart) {
			drop(body, around)
			return body
		}
	}
	if found == 0 {
		return body
	}
	return article
}

func isLink(n *html.Node) bool { return n.DataAtom == atom.A && attribute(n, "href") != "" }

// missing counts the bytes of texts below a node that are not below another one, without those
// elements that without reports.
func missing(n, from *html.Node, without func(*html.Node) bool) (length int) {
	has := make(map[string]bool)
	texts(from, nil, func(text string) { has[text] = true })
	texts(n, without, func(text string) {
		if !has[text] {
			length += len(text)
		}
	})
	return length
}

// texts calls f with each text below a node that is not blank.
func texts(n *html.Node, without func(*html.Node) bool, f func(string)) {
	if n.Type == html.TextNode {
		if text := strings.Join(strings.Fields(n.Data), " "); text != "" {
			f(text)
		}
		return
	}
	if n.Type == html.ElementNode && (isCode(n.DataAtom) || n.DataAtom == atom.Head || without != nil && without(n)) {
		return
	}
	for child := range n.ChildNodes() {
		texts(child, without, f)
	}
}

// around reports whether an element is round the content of a page.
func around(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Footer, atom.Aside:
		return true
	case atom.Header: // of the page, not of a part of it
		for parent := n.Parent; parent != nil; parent = parent.Parent {
			if parent.DataAtom == atom.Article || parent.DataAtom == atom.Section || parent.DataAtom == atom.Main {
				return false
			}
		}
		return true
	}
	role := attribute(n, "role")
	return role == "navigation" || role == "banner" || role == "contentinfo" || role == "complementary" || role == "search"
}

// ownMain returns the element that a page calls its content: main, the only article, or what
// has such an id.
func ownMain(body *html.Node) *html.Node {
	var main, article, named *html.Node
	articles := 0
	for n := range body.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch {
		case n.DataAtom == atom.Main || attribute(n, "role") == "main":
			if main == nil {
				main = n
			}
		case n.DataAtom == atom.Article:
			article = n
			articles++
		case named == nil && slices.Contains([]string{"main", "content", "main-content"}, attribute(n, "id")):
			named = n
		}
	}
	switch {
	case main != nil:
		return main
	case articles == 1:
		return article
	}
	return named
}

// textLength counts the bytes of texts below a node, without those elements that without
// reports.
func textLength(n *html.Node, without func(*html.Node) bool) (length int) {
	texts(n, without, func(text string) { length += len(text) })
	return length
}

// drop removes the elements below a node that which reports.
func drop(n *html.Node, which func(*html.Node) bool) {
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		if child.Type == html.ElementNode && which(child) {
			n.RemoveChild(child)
		} else {
			drop(child, which)
		}
		child = next
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// plainBelow returns the text below a node.
func plainBelow(n *html.Node) string {
	var b strings.Builder
	var write func(n *html.Node)
	write = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		if isBlock(n.DataAtom) {
			b.WriteByte('\n')
		}
		for child := range n.ChildNodes() {
			if !isCode(child.DataAtom) {
				write(child)
			}
		}
		if isBlock(n.DataAtom) {
			b.WriteByte('\n')
		}
	}
	write(n)
	return strings.TrimSpace(manyBreaks.ReplaceAllString(b.String(), "\n\n"))
}

// plainOf returns the text of a page that cannot be parsed as a tree. What is hidden ends with
// the tag that ends it, as far as tags are paired.
func plainOf(text string) string {
	var b strings.Builder
	tokens := html.NewTokenizer(strings.NewReader(text))
	hidden, depth := "", 0 // the element that is not shown, and how many of its name are open
	for {
		kind := tokens.Next()
		switch kind {
		case html.ErrorToken:
			return strings.TrimSpace(manyBreaks.ReplaceAllString(tools.Visible(b.String()), "\n\n"))
		case html.TextToken:
			if hidden == "" {
				b.Write(tokens.Text())
			}
		case html.StartTagToken, html.EndTagToken:
			token := tokens.Token()
			element := html.Node{Type: html.ElementNode, Data: token.Data, DataAtom: token.DataAtom, Attr: token.Attr}
			switch {
			case hidden != "":
				if token.Data == hidden && kind == html.StartTagToken {
					depth++
				} else if token.Data == hidden {
					if depth--; depth == 0 {
						hidden = ""
					}
				}
			case kind == html.StartTagToken && !isVoid(token.DataAtom) && (isCode(token.DataAtom) || new(sanitizer).isHidden(&element)):
				hidden, depth = token.Data, 1
			case isBlock(token.DataAtom):
				b.WriteByte('\n')
			}
		}
	}
}

// isVoid reports whether an element has nothing in it and no end.
func isVoid(a atom.Atom) bool {
	switch a {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Frame, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Source, atom.Track, atom.Wbr:
		return true
	}
	return false
}

func isCode(a atom.Atom) bool {
	return a == atom.Script || a == atom.Style || a == atom.Template || a == atom.Noscript
}

func isBlock(a atom.Atom) bool {
	switch a {
	case atom.P, atom.Div, atom.Br, atom.Li, atom.Ul, atom.Ol, atom.Tr, atom.Table, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6,
		atom.Section, atom.Article, atom.Pre, atom.Blockquote, atom.Dt, atom.Dd, atom.Title, atom.Header, atom.Footer, atom.Main, atom.Nav:
		return true
	}
	return false
}

func dateOf(at time.Time, err error) string {
	if err != nil || at.IsZero() {
		return ""
	}
	if at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0 {
		return at.Format(time.DateOnly)
	}
	return at.Format(time.RFC3339)
}
