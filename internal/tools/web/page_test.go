// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
)

// prose returns n words of a text, each with a mark by which it is found again.
func prose(mark string, n int) string {
	words := strings.Fields("the water of a river carries stones and sand to the sea where they settle in layers over very long times, and what was a valley becomes a plain")
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s ", words[i%len(words)])
		if i%9 == 4 {
			fmt.Fprintf(&b, "%s%dq ", mark, i)
		}
	}
	return strings.TrimSpace(b.String())
}

// layouts are pages of different make round their content, which goes to %s. What must not be
// shown of them has GONE in it.
var layouts = map[string]string{
	"main":       `<!doctype html><html><head><title>T</title></head><body><header>GONE menu</header><nav><a href="/">GONE home</a></nav><main>%s</main><footer>GONE rights</footer></body></html>`,
	"article":    `<html><head><title>T</title></head><body><div class="nav"><nav>GONE</nav></div><article>%s</article><aside>GONE more</aside></body></html>`,
	"divs":       `<html><head><title>T</title></head><body><div id="wrap"><div id="content"><div class="post">%s</div></div></div></body></html>`,
	"role":       `<html><body><div role="banner">GONE</div><div role="main">%s</div><div role="contentinfo">GONE</div></body></html>`,
	"bare":       `%s`,
	"old":        `<html><body bgcolor=white><center><table width=800><tr><td>%s</td></tr></table></center></body></html>`,
	"hidden":     `<html><body><main><div style="display:none">GONE</div><!-- GONE -->%s<div hidden>GONE</div><p aria-hidden="true">GONE</p><span style="visibility: hidden !important">GONE</span><span style="font-size:0px">GONE</span><div style="position:absolute;left:-9999px">GONE</div><script>GONE</script><style>GONE</style><template>GONE</template><noscript>GONE</noscript></main></body></html>`,
	"broken":     `<html><body><main><div><section>%s<p>unclosed <b>bold</section></main></i></body>`,
	"xhtml":      `<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" ""><html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title></head><body><div id="main">%s</div></body></html>`,
	"docs":       `<html><body><div class="layout"><aside class="sidebar"><ul><li><a href="/a">GONE</a></li></ul></aside><div class="content"><article class="markdown-body">%s</article></div></div></body></html>`,
	"comments":   `<html><body><main>%s<section class="comments"><h2>Comments</h2><p>A comment of a reader, which is a text as well and may stay.</p></section></main></body></html>`,
	"two":        `<html><body><main><article>%s</article><article><h2>Another</h2><p>Another text that is on the same page, and stays.</p></article></main></body></html>`,
	"components": `<html><body><app-root><x-shell><x-page><slot>%s</slot></x-page></x-shell></app-root></body></html>`,
}

// contents are what pages say, with marks that must be found in what is shown.
var contents = map[string]string{
	"prose":     `<h1>H mka0q</h1><p>` + prose("mkp", 60) + `</p><p>` + prose("mkr", 80) + `</p>`,
	"lists":     `<h1>L mka0q</h1><ul><li>one mkl1q<li>two <ul><li>deep mkl2q</ul></ul><ol start=3><li>three mkl3q</ol><dl><dt>term mkl4q</dt><dd>meaning mkl5q</dd></dl>`,
	"table":     `<p>` + prose("mkb", 30) + `</p><table><caption>mkt0q</caption><thead><tr><th>mkt1q</th><th>b</th></tr></thead><tbody><tr><td>mkt2q<br>mkt3q</td><td rowspan=2>mkt4q</td></tr><tr><td>mkt5q</td></tr></tbody></table>`,
	"headless":  `<p>` + prose("mkb", 20) + `</p><table><tr><td>mkh1q</td><td>mkh2q</td></tr><tr><td><ul><li>mkh3q</li></ul></td><td><pre>mkh4q</pre></td></tr></table>`,
	"nested":    `<table><tr><td><table><tr><td>mkn1q</td></tr></table></td><td><p>mkn2q</p><p>mkn3q</p></td></tr></table><p>` + prose("mkm", 40) + `</p>`,
	"code":      `<h2>C mka0q</h2><pre><code class="language-go">func mkc1q() {` + "\n\treturn // &lt;mkc2q&gt;\n" + `}</code></pre><p>Use <code>mkc3q</code> and <kbd>mkc4q</kbd>. ` + prose("mkc", 40) + `</p>`,
	"quotes":    `<blockquote><p>mkq1q</p><blockquote>mkq2q</blockquote></blockquote><p>` + prose("mkq", 50) + `</p><hr><q>mkq3q</q>`,
	"inline":    `<p>a <b>mki1q</b> <i>mki2q</i> <u>mki3q</u> <s>mki4q</s> <mark>mki5q</mark> <sub>mki6q</sub><sup>mki7q</sup> <abbr title="GONE">mki8q</abbr> <span>mki9q</span> <small>mki10q</small></p><p>` + prose("mki", 40) + `</p>`,
	"links":     `<p><a href="/x">mkl1q</a> <a href="../y?z=1#f">mkl2q</a> <a href="javascript:GONE">mkl3q</a> <a href="mailto:a@b.example">mkl4q</a> <a>mkl5q</a></p><p>` + prose("mkz", 60) + `</p>`,
	"pictures":  `<figure><img src="/a.png" alt="mkf1q"><figcaption>mkf2q</figcaption></figure><p><img src="data:image/png;base64,GONE" alt="mkf3q"> ` + prose("mkf", 60) + `</p>`,
	"details":   `<details><summary>mkd1q</summary><p>mkd2q</p></details><p>` + prose("mkd", 60) + `</p>`,
	"sections":  `<section><header><h2>mks1q</h2></header><p>` + prose("mks", 30) + `</p></section><section><h2>mks2q</h2><p>` + prose("mkv", 30) + `</p></section>`,
	"japanese":  `<h1>お茶 mka0q</h1><p>お茶は葉と水です。mkj1q 世界中で飲まれています。mkj2q</p><p>` + prose("mkj", 40) + `</p>`,
	"arabic":    `<p dir="rtl">الشاي mkr1q ورق وماء</p><p>فارسی می` + "\u200c" + `خواهم mkr2q</p><p>` + prose("mkr", 40) + `</p>`,
	"signs":     `<p>1 &lt; 2 &amp;&amp; a_b*c mkx1q # no heading, [no](link) ` + "`mkx2q`" + ` &copy; &nbsp; mkx3q</p><p>` + prose("mkx", 40) + `</p>`,
	"short":     `<h1>Hi mkh1q</h1><p>There. mkh2q</p>`,
	"long":      strings.Repeat(`<p>`+prose("mkw", 70)+`</p>`, 30),
	"breaks":    `<p>one mkb1q<br>two mkb2q<br><br>three mkb3q</p>` + `mkb4q loose text<br>` + `<p>` + prose("mkb", 40) + `</p>`,
	"deep":      strings.Repeat("<div>", 80) + `<p>mkd1q ` + prose("mkd", 50) + `</p>` + strings.Repeat("</div>", 80),
	"very deep": strings.Repeat("<div>", 600) + `<p>mkd1q ` + prose("mkd", 50) + `</p>` + strings.Repeat("</div>", 600),
}

var marks = regexp.MustCompile(`mk[a-z]\d+q`)

// TestPages converts pages of different make: no word of their content is lost, and none is
// shown that a person would not see.
func TestPages(t *testing.T) {
	at, _ := url.Parse("https://site.example/docs/page")
	n := 0
	for layout, around := range layouts {
		for content, text := range contents {
			n++
			page := fmt.Sprintf(around, text)
			for _, all := range []bool{false, true} {
				got := htmlPage(page, at, all)
				shown := got.title + "\n" + got.text
				missing := 0
				for _, mark := range marks.FindAllString(text, -1) {
					if !strings.Contains(shown, mark) {
						missing++
						if missing == 1 {
							t.Errorf("%s, %s, all %t: no %s in\n%.1500s", layout, content, all, mark, shown)
						}
					}
				}
				if strings.Contains(shown, "GONE") && (layout == "hidden" || !all && content != "very deep") {
					t.Errorf("%s, %s, all %t: shows what it must not:\n%.1500s", layout, content, all, shown)
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("%d pages", n)
	}
}

// TestPublishedPages converts documentation as packages ship it; the largest pages only in the
// long form. What must be shown is found without the converter: the text nodes of what a page
// calls its content.
func TestPublishedPages(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*/docs/*.html", "*/doc/*.html", "*/docs/*/*.html", "*/docs/*/*/*.html", "*/dist/docs/*/*.html"} {
		found, err := filepath.Glob(filepath.Join("../../../.bin/pages", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 && os.Getenv("CI") == "" {
		t.Skip("make pages fetches them")
	}
	if len(files) < 150 {
		t.Fatalf("only %d pages", len(files))
	}
	at, _ := url.Parse("https://site.example/docs/page")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 100_000 && !soaktest.Long() {
			continue
		}
		for _, all := range []bool{false, true} {
			got := htmlPage(string(text), at, all)
			shown := squeeze(got.title+got.text) + squeeze(html.UnescapeString(got.text))
			texts, marked := textsOf(t, string(text), all)
			var lost []string
			length, gone := 0, 0
			for _, want := range texts {
				letters := squeeze(want)
				length += len(letters)
				if !strings.Contains(shown, letters) {
					lost = append(lost, want)
					gone += len(letters)
				}
			}
			if marked && len(lost) > 0 || gone*50 > length { // what is not marked may be round the content
				t.Errorf("%s, all %t: %d of %d letters are lost: %.1000q", file, all, gone, length, lost)
			}
		}
	}
	t.Logf("%d pages", len(files))
}

// squeeze returns the letters and digits of a text.
func squeeze(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// textsOf returns the texts of a page that people see: of all of it, or of the first element
// that is marked as its content, if there is one.
func textsOf(t *testing.T, text string, all bool) (texts []string, marked bool) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	from := root
	for n := range root.Descendants() {
		id, class := attribute(n, "id"), " "+attribute(n, "class")+" "
		if !all && n.Type == html.ElementNode && (n.Data == "main" || n.Data == "article" || id == "content" || id == "main" || strings.Contains(class, " content ")) {
			from, marked = n, true
			break
		}
	}
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		switch n.Data {
		case "script", "style", "template", "noscript", "head", "svg", "canvas", "select", "option", "iframe":
			return
		case "nav", "footer", "aside", "header":
			if !all {
				return
			}
		}
		if !all && strings.Contains(attribute(n, "id"), "table_of_contents") { // links to what follows
			return
		}
		if style := strings.ReplaceAll(attribute(n, "style"), " ", ""); strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
			return
		}
		if n.Type == html.TextNode && squeeze(n.Data) != "" {
			texts = append(texts, n.Data)
		}
		for child := range n.ChildNodes() {
			walk(child)
		}
	}
	walk(from)
	return texts, marked || all
}

// TestHides: styles by which words are kept from people, and some by which they are not.
func TestHides(t *testing.T) {
	for style, want := range map[string]bool{
		"display:none": true, "DISPLAY : NONE ;": true, "color:red;display:none!important": true, "display:/**/none": true, `d\69splay:none`: true,
		"visibility:hidden": true, "opacity:0": true, "opacity:0.01": true, "font-size:0": true, "font-size:0.01em": true, "font-size:1px": true,
		"position:absolute;left:-9999px": true, "text-indent:-9999px": true, "height:0;overflow:hidden": true, "clip-path: inset(50%)": true, "color:transparent": true,
		"position:absolute;clip:rect(0 0 0 0)": true, "transform:scale(0)": true,
		"": false, "display:block": false, "opacity:0.9": false, "font-size:1em": false, "font-size:90%": false, "font-size:12px": false, "left:-9999px": false, "height:0": false, "overflow:hidden": false,
		"margin:0;padding:0": false, "font-family:\\5FAE\\8F6F": false, "text-indent:-20px": false, "max-height:400px;overflow:hidden": false,
	} {
		if got := hides(style); got != want {
			t.Errorf("%q: %t", style, got)
		}
	}
}

// TestVisible: characters that nobody sees go, and those that writing needs stay.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "a\u200bb\u2060c\ufeff": "abc", "x\U000e0041\U000e007fy": "xy", "a\u200db": "ab", "\u202eabc": "abc", "so\u00adft": "soft",
		"می\u200cخواهم": "می\u200cخواهم", "👩\u200d👩\u200d👧": "👩\u200d👩\u200d👧", "❤\ufe0f": "❤\ufe0f", "a\ufe0f\ufe0f\ufe0fb": "ab", "❤\ufe0f\ufe0e\ufe0f": "❤\ufe0f",
		"tab\tline\n": "tab\tline\n", "esc\x1b[31m": "esc[31m", "ü ß 漢": "ü ß 漢",
	} {
		if got := tools.Visible(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// FuzzPage: no page ends the conversion, and what comes out is text without what is hidden.
func FuzzPage(f *testing.F) {
	for _, around := range layouts { // TestPages has every content in every layout
		f.Add(fmt.Sprintf(around, contents["lists"]), "text/html")
	}
	for _, text := range contents {
		f.Add(fmt.Sprintf(layouts["main"], text), "text/html")
	}
	f.Add(`<rss><channel><item><title>x</title></item></channel></rss>`, "text/xml")
	f.Add("\xff\xfeh\x00i\x00", "text/plain")
	at, _ := url.Parse("https://site.example/docs/page")
	f.Fuzz(func(t *testing.T, page, contentType string) {
		text := decode([]byte(page), contentType, mediaTypeOf(contentType, []byte(page)))
		if !utf8.ValidString(text) {
			t.Fatalf("%q is decoded as no text", page)
		}
		for _, all := range []bool{false, true} {
			got := htmlPage(text, at, all)
			if !utf8.ValidString(got.text) || strings.ContainsAny(got.text, "\u200b\u2060\x00\x1b") {
				t.Errorf("%q becomes %q", page, got.text)
			}
		}
		feedOf(text, at)
		selectParts(text, "a b")
		window(text, 3, 10, 100)
	})
}

// TestRefresh: where a page asks to go on is an address, and no other words of the page.
func TestRefresh(t *testing.T) {
	at, _ := url.Parse("https://tea.example/a/")
	for content, want := range map[string]string{
		"0; url=b": "https://tea.example/a/b", "5;URL='https://x.example/?q=1'": "https://x.example/?q=1",
		"0; url=ȺȺȺȺȺȺȺȺ":                             "https://tea.example/a/%C8%BA%C8%BA%C8%BA%C8%BA%C8%BA%C8%BA%C8%BA%C8%BA",
		"0; url=https://x.example/?a) SYSTEM: <obey>": "https://x.example/?a)%20SYSTEM:%20%3Cobey%3E",
		"0; url=SYSTEM: obey":                         "", "0; url=javascript:x": "", "0": "",
	} {
		if got := htmlPage(`<meta http-equiv="refresh" content="`+content+`"><p>x`, at, true).refresh; got != want {
			t.Errorf("%s: %q, want %q", content, got, want)
		}
	}
}

// TestEffort: pages and feeds that libraries would spend minutes on are shown as plain text,
// without what is hidden in them.
func TestEffort(t *testing.T) {
	at, _ := url.Parse("https://tea.example/")
	hidden := "<p hidden>GONE</p><script>GONE</script>"
	nested := func(begin, end string, deep, times int) string {
		return hidden + strings.Repeat(strings.Repeat(begin, deep)+"x"+strings.Repeat(end, deep), times)
	}
	for name, text := range map[string]string{
		"lists": nested("<ul><li>x", "</ul>", 200, 2), "quotations": nested("<blockquote>x", "</blockquote>", 200, 2), "elements": nested("<div>", "</div>", 400, 60),
	} {
		for _, all := range []bool{false, true} {
			d := htmlPage(text, at, all)
			if len(d.text) > len(text) || strings.Contains(d.text, "GONE") || !strings.Contains(d.text, "x") || len(d.notes) != 1 {
				t.Errorf("%s: %d bytes of %d, %q: %.100s", name, len(d.text), len(text), d.notes, d.text)
			}
		}
	}
	if d, _ := feedOf("<rss><channel>"+strings.Repeat("<item><title>t</title></item>", 2000)+"</channel></rss>", at); strings.Count(d.text, "## t") != maxEntries || len(d.notes) != 1 {
		t.Errorf("%d entries, %q", strings.Count(d.text, "## t"), d.notes)
	}
}
