// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf_test

import (
	"bytes"
	"encoding/ascii85"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

type fontTest struct {
	file    []byte
	want    string
	unknown int
}

// fonts are documents whose characters are found in different ways.
func fonts() map[string]fontTest {
	show := func(codes string) string { return "BT /F 12 Tf 72 700 Td " + codes + " Tj ET" }
	simple := func(encoding string) string { return "<</Type /Font /Subtype /Type1 /BaseFont /X " + encoding + ">>" }
	const composite = "<</Type /Font /Subtype /Type0 /BaseFont /X /Encoding %s /ToUnicode 6 0 R /DescendantFonts [<</Subtype /CIDFontType2 /DW 500 /W [1 [250 300] 5 9 700]>>]>>"
	identity := fmt.Sprintf(composite, "/Identity-H")
	cmap := func(body string) string {
		return "stream:/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n1 begincodespacerange <0000> <FFFF> endcodespacerange\n" + body + "\nendcmap"
	}
	type1 := "%!PS-AdobeFont-1.0\n/Encoding 256 array 0 1 255 {1 index exch /.notdef put} for\ndup 1 /ffi put\ndup 2 /Omega put\nreadonly def\ncurrentfile eexec \xff\x01"
	return map[string]fontTest{
		"WinAnsi":               {withFont(simple("/Encoding /WinAnsiEncoding"), show(`(caf\351 \200 \223x\224 \225)`)), "café € “x” •\n", 0},
		"MacRoman":              {withFont(simple("/Encoding /MacRomanEncoding"), show(`(caf\216 \333 \336ve)`)), "café € five\n", 0},
		"Standard":              {withFont(simple("/Encoding /StandardEncoding"), show("(it's \\256x \\341 \\255)")), "it’s fix Æ ›\n", 0},
		"none":                  {withFont(simple(""), show("(`x' \\201)")), "‘x’ \uFFFD\n", 1},
		"Symbol":                {withFont("<</Subtype /Type1 /BaseFont /Symbol>>", show(`(a \243 W)`)), "α ≤ Ω\n", 0},
		"Differences":           {withFont(simple("/Encoding <</BaseEncoding /WinAnsiEncoding /Differences [65 /eacute /f_i /uni20AC /u1F600 /a.sc /nothing 97 /ffl]>>"), show("(ABCDEFa G)")), "éfi€😀a\uFFFDffl G\n", 1},
		"Differences elsewhere": {withFont(simple("/Encoding 6 0 R"), show("(A)"), "<</Differences 7 0 R>>", "[8 0 R /Zcaron]", "65"), "Ž\n", 0},
		"a font program": {withFont(simple("/FontDescriptor <</Flags 4 /FontFile 6 0 R>>"), show(`(\001\002)`),
			"stream:"+type1), "ffiΩ\n", 0},
		"Type3": {withFont("<</Type /Font /Subtype /Type3 /FontMatrix [0.1 0 0 0.1 0 0] /FirstChar 65 /Widths [5 5] /Encoding <</Differences [65 /H /i]>>>>",
			"BT /F 10 Tf 72 700 Td (A) Tj 5 0 Td (B) Tj 8 0 Td (A) Tj ET"), "Hi H\n", 0},
		"ToUnicode of a simple font": {withFont(simple("/ToUnicode 6 0 R"), show("(abx)"), cmap("2 beginbfchar <61> <0041> <62> <00660066> endbfchar")), "Affx\n", 0},
		"bfchar":                     {withFont(identity, show("<000100020003>"), cmap("3 beginbfchar <0001> <0048> <0002> <D83DDE00> <0003> <0000> endbfchar")), "H😀\uFFFD\n", 1},
		"bfrange":                    {withFont(identity, show("<000100020005000600070100>"), cmap("2 beginbfrange <0001> <0003> <0041> <0005> <0007> [<0058> <00590059> <005A>] endbfrange")), "ABXYYZ\uFFFD\n", 1},
		"a later mapping":            {withFont(identity, show("<0001>"), cmap("1 beginbfchar <0001> <0041> endbfchar 1 beginbfchar <0001> <0042> endbfchar")), "B\n", 0},
		"no ToUnicode":               {withFont(identity, show("<00010002>")), "\uFFFD\uFFFD\n", 2},
		"UCS2":                       {withFont(fmt.Sprintf(composite, "/UniGB-UCS2-H"), show("<6F225B57>")), "漢字\n", 0},
		"codes of one byte and two": {withFont(fmt.Sprintf(composite, "7 0 R"), show("<41 8140 42>"),
			cmap("3 beginbfchar <41> <0061> <8140> <3042> <42> <0062> endbfchar"),
			"stream:2 begincodespacerange <00> <7F> <8140> <9FFC> endcodespacerange 1 begincidrange <00> <7f> 1 endcidrange"), "aあb\n", 0},
		"from top to bottom": {withFont(fmt.Sprintf(composite, "/Identity-V"), "BT /F 12 Tf 500 700 Td <00010002> Tj -20 0 Td <00020001> Tj ET",
			cmap("1 beginbfrange <0001> <0002> <3041> endbfrange")), "ぁあ\nあぁ\n", 0},
		"what is not there":  {withFont("null", show("(abc)")), "abc\n", 0},
		"odd characters":     {withFont(simple("/ToUnicode 6 0 R"), show("(abcdef)"), cmap("1 beginbfrange <61> <66> [<00A0> <00AD> <F0B7> <E000> <200B> <000900580059>] endbfrange")), "-•\uFFFD XY\n", 1},
		"codes that are cut": {withFont(identity, show("<000100>"), cmap("1 beginbfchar <0001> <0041> endbfchar")), "A\uFFFD\n", 1},
	}
}

func TestFonts(t *testing.T) {
	for name, test := range fonts() {
		t.Run(name, func(t *testing.T) {
			if p := onePage(t, test.file); p.Text != test.want || p.Unknown != test.unknown || p.Cut != nil {
				t.Errorf("%q, %d unknown, %v; want %q, %d", p.Text, p.Unknown, p.Cut, test.want, test.unknown)
			}
		})
	}
}

// packLZW compresses as PDF does, with codes of up to 12 bits.
func packLZW(data string, early int) string {
	var out []byte
	bits, have := uint32(0), 0
	put := func(code, width int) {
		bits, have = bits<<width|uint32(code), have+width
		for ; have >= 8; have -= 8 {
			out = append(out, byte(bits>>(have-8)))
		}
	}
	var known map[string]int
	width := 9
	reset := func() {
		known = make(map[string]int)
		for c := range 256 {
			known[string([]byte{byte(c)})] = c
		}
		put(256, width)
		width = 9
	}
	reset()
	word := ""
	for i := range len(data) {
		next := word + data[i:i+1]
		if _, ok := known[next]; ok {
			word = next
			continue
		}
		put(known[word], width)
		known[next] = len(known) + 2
		if len(known)+1+early >= 1<<width && width < 12 {
			width++
		}
		if word = data[i : i+1]; len(known) > 4090 {
			put(known[word], width)
			word = ""
			reset()
		}
	}
	if word != "" {
		put(known[word], width)
	}
	put(257, 12)
	return string(append(out, byte(bits<<(8-have)), 0, 0))
}

func TestFilters(t *testing.T) {
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "%% %d\n", i*i)
	}
	content := many.String() + hello("Hello")
	if n := len(content) % 4; n > 0 {
		content += strings.Repeat(" ", 4-n)
	}
	var base85 bytes.Buffer
	w := ascii85.NewEncoder(&base85)
	_, _ = w.Write([]byte(content))
	_ = w.Close()
	var runs strings.Builder
	for i := 0; i < len(content); i += 128 {
		part := content[i:min(i+128, len(content))]
		runs.WriteByte(byte(len(part) - 1))
		runs.WriteString(part)
	}
	runs.WriteString("\xff \x80 and what is not read")

	// Rows of four bytes, each predicted in another way.
	var png, tiff []byte
	var above, corner [4]byte
	for row := 0; row < len(content); row += 4 {
		kind := byte(row / 4 % 5)
		png = append(png, kind)
		var left byte
		corner = [4]byte{}
		copy(corner[1:], above[:3])
		for i := range 4 {
			c := content[row+i]
			up := above[i]
			predicted := [5]byte{0, left, up, byte((int(left) + int(up)) / 2), paeth(int(left), int(up), int(corner[i]))}[kind]
			png = append(png, c-predicted)
			tiff = append(tiff, c-left)
			left = c
		}
		copy(above[:], content[row:row+4])
	}
	hexed := hex.EncodeToString([]byte(content))
	for name, test := range map[string]struct{ dict, data string }{
		"none":                     {"", content},
		"Flate":                    {"/Filter /FlateDecode", deflate(content)},
		"Flate in an array":        {"/Filter [/FlateDecode] /DecodeParms [null]", deflate(content)},
		"Flate, cut at the end":    {"/Filter /FlateDecode", deflate(content + many.String())[:len(deflate(content+many.String()))-200]},
		"PNG":                      {"/Filter /FlateDecode /DecodeParms <</Predictor 15 /Columns 4>>", deflate(string(png))},
		"PNG of LZW":               {"/Filter /LZWDecode /DecodeParms <</Predictor 12 /Columns 4>>", packLZW(string(png), 1)},
		"TIFF":                     {"/Filter [/FlateDecode] /DecodeParms [<</Predictor 2 /Columns 2 /Colors 1 /Columns 4>>]", deflate(string(tiff))},
		"LZW":                      {"/Filter /LZWDecode", packLZW(content, 1)},
		"LZW without early change": {"/Filter /LZWDecode /DecodeParms <</EarlyChange 0>>", packLZW(content, 0)},
		"hexadecimal":              {"/Filter /ASCIIHexDecode", hexed[:1000] + "\n " + strings.ToUpper(hexed[1000:]) + ">zz"},
		"base 85":                  {"/Filter /ASCII85Decode", base85.String() + "~>"},
		"run lengths":              {"/Filter /RunLengthDecode", runs.String()},
		"three":                    {"/Filter [/ASCIIHexDecode /LZWDecode /FlateDecode]", hex.EncodeToString([]byte(packLZW(deflate(content), 1))) + ">"},
	} {
		t.Run(name, func(t *testing.T) {
			p := onePage(t, start("").stream(4, test.dict, test.data).table("/Root 1 0 R").Bytes())
			if p.Text != "Hello\n" || p.Cut != nil {
				t.Errorf("%q, %v", p.Text, p.Cut)
			}
		})
	}
	if p := onePage(t, start("").stream(4, "/Filter /JPXDecode", "x").table("/Root 1 0 R").Bytes()); p.Cut == nil || !strings.Contains(p.Cut.Error(), "JPXDecode") {
		t.Errorf("%+v", p)
	}
}

func paeth(left, up, corner int) byte {
	p := left + up - corner
	abs := func(n int) int { return max(n, -n) }
	switch {
	case abs(p-left) <= abs(p-up) && abs(p-left) <= abs(p-corner):
		return byte(left)
	case abs(p-up) <= abs(p-corner):
		return byte(up)
	}
	return byte(corner)
}

// at shows text at a place.
func at(x, y int, text string) string {
	return fmt.Sprintf("BT /F 10 Tf %d %d Td (%s) Tj ET\n", x, y, text)
}

func TestOrder(t *testing.T) {
	const font = "/F 10 Tf "
	column := func(x, y int, words ...string) (all string) {
		for i, word := range words {
			all += at(x, y-12*i, word)
		}
		return all
	}
	for _, test := range []struct{ name, content, want string }{
		{"Td and TD", "BT " + font + "50 700 Td (one) Tj 0 -12 TD (two) Tj T* (three) Tj ET", "one\ntwo\nthree\n"},
		{"TL, ' and \"", "BT " + font + "12 TL 50 700 Td (one) Tj (two) ' 1 0.5 (three) \" ET", "one\ntwo\nthree\n"},
		{"Tm", "BT " + font + "1 0 0 1 50 700 Tm (one) Tj 1 0 0 1 50 688 Tm (two) Tj ET", "one\ntwo\n"},
		{"words by their places", at(50, 700, "one") + at(70, 700, "two") + at(89, 700, "x"), "one two x\n"},
		{"letters by their places", at(50, 700, "o") + at(56, 700, "n") + at(61, 700, "e"), "one\n"},
		{"TJ", "BT " + font + "50 700 Td [(o) -20 (n) 30 (e) -300 (two ) -300 (three)] TJ ET", "one two three\n"},
		{"space between all letters", "BT " + font + "8 Tc 50 700 Td (letters) Tj ET", "letters\n"},
		{"space in place of a blank", "BT " + font + "2.5 Tc 50 700 Td [(at) 250] TJ 0 Tc (wo) Tj ET", "a two\n"},
		{"space that is taken back", "BT " + font + "11 Tc 50 700 Td [(1H) 1100 (o) 1100 (w) 700 (t) 1100 (o) 700 (u) 1100 (s) 1100 (e)] TJ ET", "1 How to use\n"},
		{"Tz and Tw", "BT " + font + "50 Tz 100 Tw 50 700 Td (a b) Tj (c) Tj ET", "a bc\n"},
		{"an exponent and an index", "BT " + font + "50 700 Td (x) Tj /F 7 Tf 4 Ts (2) Tj /F 10 Tf 0 Ts ( + y) Tj /F 7 Tf -3 Ts (i) Tj ET", "x2 + yi\n"},
		{"accents that are drawn apart", "BT " + font + "50 700 Td [(na) -20 (\\250) 333 (i) -60 (ve caf) (\\264) 444 (e) ( c) 417 (\\270) ( a\\264e)] TJ ET", "naïve café ç a´e\n"},
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
		{"nothing that can be seen", "BT /F 0 Tf (zero) Tj /F 10 Tf 1000000000 0 0 1 99999999999999999999 0 Tm (far) Tj ET" + at(50, 700, "   "), ""},
		{"operators without operands", "Td TD Tm Tf Tj TJ ' \" cm Do gs Tc Q ET BT ] >> } ) " + at(50, 700, "one"), "one\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if p := onePage(t, document(test.content)); p.Text != test.want || p.Cut != nil {
				t.Errorf("%q, %v, want %q", p.Text, p.Cut, test.want)
			}
		})
	}
}
