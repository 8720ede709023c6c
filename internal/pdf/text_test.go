// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/toolserver/toolserver/internal/pdf"
)

// at shows text at a place.
func at(x, y int, text string) string {
	return fmt.Sprintf("BT /F 10 Tf %d %d Td (%s) Tj ET\n", x, y, text)
}

// ligatures shows text with glyphs that stand for several characters, as Chromium does.
func ligatures(where string) string {
	drawn := func(text, glyph string) string {
		return "/Span <</ActualText (" + text + ")>> BDC (" + glyph + ") Tj EMC "
	}
	return "BT " + where + " (of) Tj " + drawn("fi", "n") + "(ce a) Tj " + drawn("ffl", "M") + "(uent ) Tj " + drawn("fi", "n") + " ( end) Tj ET\n"
}

func TestOrder(t *testing.T) {
	const font = "/F 10 Tf "
	column := func(x, y int, words ...string) (all string) {
		for i, word := range words {
			all += at(x, y-12*i, word)
		}
		return all
	}
	type orderTest struct{ name, content, want string }
	var tests []orderTest
	var contents []string
	for _, test := range []orderTest{
		{"Td and TD", "BT " + font + "50 700 Td (one) Tj 0 -12 TD (two) Tj T* (three) Tj ET", "one\ntwo\nthree\n"},
		{"TL, ' and \"", "BT " + font + "12 TL 50 700 Td (one) Tj (two) ' 1 0.5 (three) \" ET", "one\ntwo\nthree\n"},
		{"Tm", "BT " + font + "1 0 0 1 50 700 Tm (one) Tj 1 0 0 1 50 688 Tm (two) Tj ET", "one\ntwo\n"},
		{"words by their places", at(50, 700, "one") + at(70, 700, "two") + at(89, 700, "x"), "one two x\n"},
		{"letters by their places", at(50, 700, "o") + at(56, 700, "n") + at(61, 700, "e"), "one\n"},
		{"TJ", "BT " + font + "50 700 Td [(o) -20 (n) 30 (e) -300 (two ) -300 (three)] TJ ET", "one two three\n"},
		{"space in place of a blank", "BT " + font + "2.5 Tc 50 700 Td [(at) 250] TJ 0 Tc (wo) Tj ET", "a two\n"},
		{"space that is taken back", "BT " + font + "11 Tc 50 700 Td [(1H) 1100 (o) 1100 (w) 700 (t) 1100 (o) 700 (u) 1100 (s) 1100 (e)] TJ ET", "1 How to use\n"},
		{"an exponent and an index", "BT " + font + "50 700 Td (x) Tj /F 7 Tf 4 Ts (2) Tj /F 10 Tf 0 Ts ( + y) Tj /F 7 Tf -3 Ts (i) Tj ET", "x2 + yi\n"},
		{"accents that are drawn apart", "BT " + font + "50 700 Td [(na) -20 (\\250) 333 (i) -60 (ve caf) (\\264) 444 (e) ( c) 417 (\\270) ( a\\264e)] TJ ET", "naïve café ç a´e\n"},
		{"ligatures whose text is told", ligatures("/F 10 Tf 50 700 Td"), "office affluent fi end\n"},
		{"the same, upwards", ligatures("/F 10 Tf 0 1 -1 0 100 100 Tm"), "office affluent fi end\n"},
		{"cells", at(50, 700, "a") + at(200, 700, "b") + at(300, 700, "c") + at(50, 688, "d") + at(200, 688, "e"), "a\tb\tc\nd\te\n"},
		{"from right to left", at(300, 700, "second") + at(50, 700, "first"), "first\tsecond\n"},
		{"from bottom to top", at(50, 676, "three") + at(50, 688, "two") + at(50, 700, "one"), "one\ntwo\nthree\n"},
		{"a gap", at(50, 700, "one") + at(50, 650, "two"), "one\n\ntwo\n"},
		{"two columns", column(50, 700, "a1", "a2", "a3") + column(300, 700, "b1", "b2", "b3"), "a1\na2\na3\n\nb1\nb2\nb3\n"},
		{"two columns under a heading, over a footer",
			at(50, 750, "A heading that goes over both of the columns, so that there is no gap") +
				column(50, 700, "a1", "a2") + column(50, 650, "a3", "a4") + column(300, 700, "b1", "b2") + column(300, 650, "b3", "b4") +
				at(50, 100, "A footer that goes over both of the columns, so that there is no gap"),
			"A heading that goes over both of the columns, so that there is no gap\n\na1\na2\n\na3\na4\n\nb1\nb2\n\nb3\nb4\n\nA footer that goes over both of the columns, so that there is no gap\n"},
		{"an address above a letter", column(300, 700, "To", "you") + column(50, 600, "Dear", "you"), "To\nyou\n\nDear\nyou\n"},
		{"what is drawn twice", at(50, 700, "bold") + "1 0 0 1 0.3 0 cm " + at(50, 700, "bold"), "bold\n"},
		{"turned", "BT " + font + "0 1 -1 0 100 100 Tm (up) Tj 0 1 -1 0 112 100 Tm (next) Tj ET " + at(50, 700, "a") + at(50, 688, "b") + at(50, 676, "c"), "a\nb\nc\n\nup\nnext\n"},
		{"upside down twice", "1 0 0 -1 0 800 cm BT " + font + "1 0 0 -1 50 100 Tm (one) Tj 1 0 0 -1 50 112 Tm (two) Tj ET", "one\ntwo\n"},
		{"states", "q 2 0 0 2 0 0 cm " + at(25, 350, "one") + "Q Q Q " + at(50, 676, "two"), "one\ntwo\n"},
	} {
		tests = append(tests, test)
		contents = append(contents, test.content)
	}
	for i, p := range readAll(t, document(contents...), pdf.Request{MaxText: limit}) {
		if p.Text != tests[i].want || p.Cut != "" {
			t.Errorf("%s: %q, %s, want %q", tests[i].name, p.Text, p.Cut, tests[i].want)
		}
	}
}

// TestScripts reads documents that name their characters by the encodings of
// their countries, without fonts in them.
func TestScripts(t *testing.T) {
	for _, test := range []struct{ name, encoding, order, codes, want string }{
		{"simplified Chinese", "GBK-EUC-H", "GB1", hex.EncodeToString([]byte("\xc4\xe3\xba\xc3\xca\xc0\xbd\xe7")), "你好世界\n"},
		{"traditional Chinese", "ETen-B5-H", "CNS1", hex.EncodeToString([]byte("\xa7A\xa6n\xa5@\xac\xc9")), "你好世界\n"},
		{"Japanese", "90ms-RKSJ-H", "Japan1", hex.EncodeToString([]byte("\x93\xfa\x96{\x8c\xea")), "日本語\n"},
		{"Korean", "KSCms-UHC-H", "Korea1", hex.EncodeToString([]byte("\xc7\xd1\xb1\xb9\xbe\xee")), "한국어\n"},
		{"Japanese in Unicode", "UniJIS-UCS2-H", "Japan1", "65e5672c8a9e", "日本語\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			font := fmt.Sprintf("<</Type /Font /Subtype /Type0 /BaseFont /X /Encoding /%s /DescendantFonts [<</Type /Font /Subtype /CIDFontType0 /BaseFont /X /CIDSystemInfo <</Registry (Adobe) /Ordering (%s) /Supplement 2>> /DW 1000 /FontDescriptor <</Type /FontDescriptor /FontName /X /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80>>>>]>>", test.encoding, test.order)
			if got := readAll(t, withFont(font, "BT /F 12 Tf 72 700 Td <"+test.codes+"> Tj ET"), pdf.Request{MaxText: limit}); got[0].Text != test.want {
				t.Errorf("%q, want %q", got[0].Text, test.want)
			}
		})
	}
}
