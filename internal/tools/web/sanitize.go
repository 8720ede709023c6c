// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/tools"
)

var errConversion = errors.New("it cannot be converted")

// maxLink is how long the address of a link may be that is shown.
const maxLink = 2000

// A sanitizer takes out of a page what a person would not see: it is where words for models
// are hidden. Links become whole addresses.
type sanitizer struct {
	base    *url.URL
	based   bool
	body    *html.Node
	title   string
	refresh string
}

func (s *sanitizer) clean(n *html.Node) {
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		switch {
		case child.Type == html.CommentNode, child.Type == html.ElementNode && s.isHidden(child):
			n.RemoveChild(child)
		case child.Type == html.TextNode:
			child.Data = tools.Visible(child.Data)
		default:
			if child.Type == html.ElementNode {
				s.element(child)
			}
			if child.DataAtom == atom.Img && attribute(child, "src") == "" {
				n.InsertBefore(&html.Node{Type: html.TextNode, Data: attribute(child, "alt")}, child)
				n.RemoveChild(child)
				break
			}
			s.clean(child)
		}
		child = next
	}
}

// isHidden reports whether a person does not see an element, or it is no text. What tells of
// the page as a whole stays for those who look for it.
func (s *sanitizer) isHidden(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Html, atom.Body, atom.Head, atom.Meta, atom.Title:
		return false
	case atom.Script:
		return attribute(n, "type") != "application/ld+json"
	case atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Object, atom.Embed, atom.Svg, atom.Canvas, atom.Frame, atom.Frameset:
		return true
	case atom.Input:
		return true
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			if strings.EqualFold(strings.TrimSpace(a.Val), "true") {
				return true
			}
		case "style":
			if hides(a.Val) {
				return true
			}
		}
	}
	return false
}

// element looks at one that stays.
func (s *sanitizer) element(n *html.Node) {
	switch n.DataAtom {
	case atom.Body:
		s.body = n
	case atom.Base:
		if to, err := s.base.Parse(attribute(n, "href")); err == nil && !s.based {
			s.base, s.based = to, true
		}
	case atom.Title:
		if n.FirstChild != nil && s.title == "" && n.Namespace == "" {
			s.title = line(n.FirstChild.Data)
		}
	case atom.Meta:
		if strings.EqualFold(attribute(n, "http-equiv"), "refresh") {
			if at := refreshURL.FindStringIndex(attribute(n, "content")); at != nil {
				s.refresh = s.next(attribute(n, "content")[at[1]:])
			}
		}
	}
	kept := n.Attr[:0]
	for _, a := range n.Attr {
		switch a.Key {
		case "title", "style", "srcset", "data-srcset":
			continue
		case "href", "src":
			if a.Val = s.address(a.Val, a.Key == "src"); a.Val == "" {
				continue
			}
		case "alt", "content":
			a.Val = tools.Visible(a.Val)
		}
		kept = append(kept, a)
	}
	n.Attr = kept
}

// next returns where a page asks to go on, as an address and no other words: it is told beside
// what the page says. "" where that is no page.
func (s *sanitizer) next(text string) string {
	to, err := s.base.Parse(strings.Trim(text, `'" `))
	if err != nil || len(text) > maxLink {
		return ""
	}
	u, _, _, err := egress.ParseURL(to.String())
	if err != nil {
		return ""
	}
	return u.String()
}

// address returns where a link leads as a whole; "" where it leads nowhere a model could go.
func (s *sanitizer) address(text string, picture bool) string {
	to, err := s.base.Parse(strings.TrimSpace(text))
	if err != nil || len(text) > maxLink {
		return ""
	}
	switch to.Scheme {
	case "http", "https":
		return to.String()
	case "mailto", "tel":
		if !picture {
			return to.String()
		}
	}
	return ""
}

var (
	styleComment = regexp.MustCompile(`/\*.*?\*/`)
	styleEscape  = regexp.MustCompile(`\\([0-9a-f]{1,6}) ?`)
	refreshURL   = regexp.MustCompile(`(?i)url\s*=`)
	manyBreaks   = regexp.MustCompile(`\n{3,}`)
)

// hides reports whether a style has an element not seen.
func hides(style string) bool {
	style = strings.ToLower(style)
	if strings.ContainsAny(style, `\/`) {
		style = styleComment.ReplaceAllString(style, "")
		style = styleEscape.ReplaceAllStringFunc(style, func(escaped string) string {
			n, err := strconv.ParseUint(strings.Trim(escaped, `\ `), 16, 32)
			if err != nil || n > utf8.MaxRune {
				return ""
			}
			return string(rune(n))
		})
	}
	values := make(map[string]string)
	for declaration := range strings.SplitSeq(style, ";") {
		name, value, _ := strings.Cut(declaration, ":")
		value, _, _ = strings.Cut(value, "!")
		values[strings.TrimSpace(name)] = strings.Join(strings.Fields(value), "")
	}
	moved := values["position"] == "absolute" || values["position"] == "fixed"
	clipped := strings.HasPrefix(values["overflow"], "hidden")
	switch {
	case values["display"] == "none",
		values["visibility"] == "hidden", values["visibility"] == "collapse", values["content-visibility"] == "hidden",
		isNone(values["opacity"], 0.05), isNone(values["font-size"], 1), strings.HasPrefix(values["font"], "0/") || strings.HasPrefix(values["font"], "0px"),
		values["color"] == "transparent", strings.HasPrefix(values["transform"], "scale(0)"),
		moved && (strings.HasPrefix(values["clip"], "rect(0") || strings.HasPrefix(values["clip"], "rect(1px,1px")),
		strings.HasPrefix(values["clip-path"], "inset(50%") || strings.HasPrefix(values["clip-path"], "inset(100%"),
		clipped && (isNone(values["height"], 1) || isNone(values["width"], 1) || isNone(values["max-height"], 1) || isNone(values["max-width"], 1)),
		isFar(values["text-indent"]), moved && (isFar(values["left"]) || isFar(values["top"]) || isFar(values["right"]) || isFar(values["bottom"])):
		return true
	}
	return false
}

// isNone reports whether a length or share is at most so much of its unit.
func isNone(value string, most float64) bool {
	if strings.HasSuffix(value, "em") || strings.HasSuffix(value, "%") { // of which one is a whole letter
		most = 0.05
	}
	n, err := strconv.ParseFloat(strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyz%"), 64)
	return err == nil && n <= most
}

// isFar reports whether a length leads out of every screen.
func isFar(value string) bool {
	n, err := strconv.ParseFloat(strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyz%"), 64)
	if strings.HasSuffix(value, "em") {
		n *= 16
	}
	if strings.HasSuffix(value, "%") || strings.HasSuffix(value, "vw") {
		n *= 10
	}
	return err == nil && (n <= -900 || n >= 9000)
}

// line returns a text as one line that is not too long.
func line(text string) string {
	text = strings.Join(strings.Fields(tools.Visible(text)), " ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return text
}
