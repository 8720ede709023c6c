// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"cmp"
	"io"
	"slices"
	"sort"
	"strings"
)

const (
	maxFonts    = 16 << 20 // bytes of fonts that are kept, about
	maxWidths   = 70_000   // of a font
	maxType1    = 64 << 10 // bytes of a font program in which its encoding is looked for
	fontCost    = 8 << 10  // bytes of a font without its maps
	mappingCost = 64
)

// A font tells what the codes of a string mean, and how wide they are.
type font struct {
	codes    *cmap // how strings are taken apart; nil where each byte is a code
	wide     bool  // codes are UTF-16
	toText   *cmap // what codes mean, as the font says
	means    encoding
	widths   []widthRange // by the number of the glyph
	standard string       // widths of ASCII where the font has none
	missing  float64      // width of the others
	scale    float64      // of a unit of width
	vertical bool
}

// A widthRange is the width of some glyphs.
type widthRange struct {
	low, high int
	width     float32
}

// font returns a font of a document, once read.
func (d *Document) font(o object) *font {
	id, indirect := o.(ref)
	if f := d.fonts[id]; f != nil && indirect {
		return f
	}
	f, weight := d.readFont(d.dict(o))
	if indirect && d.failure == nil {
		if d.weight += weight; d.weight > maxFonts {
			clear(d.fonts)
			d.weight = weight
		}
		d.fonts[id] = f
	}
	return f
}

func (d *Document) readFont(described dict) (f *font, weight int) {
	f = &font{scale: 0.001}
	f.toText = d.readMap(described["ToUnicode"])
	kind, _ := d.resolve(described["Subtype"]).(name)
	if kind == "Type0" {
		d.readComposite(f, described)
	} else {
		d.readSimple(f, described, kind)
	}
	weight = fontCost + len(f.widths)*mappingCost/4
	for _, m := range []*cmap{f.toText, f.codes} {
		if m != nil {
			weight += len(m.mappings) * mappingCost
		}
	}
	return f, weight
}

// readMap reads a map of codes, where there is one.
func (d *Document) readMap(o object) *cmap {
	s, ok := d.resolve(o).(stream)
	if !ok {
		return nil
	}
	data, err := d.decode(s)
	if err != nil {
		return nil
	}
	return readCMap(data)
}

// readComposite reads a font of many glyphs.
func (d *Document) readComposite(f *font, described dict) {
	if f.codes = d.readMap(described["Encoding"]); f.codes == nil {
		// Two bytes, each of them a glyph: other maps that have only a name are
		// not known here, but for those whose codes are characters.
		f.codes = &cmap{spaces: []codeSpace{{0, 0xffff, 2}}, mappings: []mapping{{low: 0, high: 0xffff}}}
		named, _ := d.resolve(described["Encoding"]).(name)
		f.wide = strings.Contains(string(named), "UCS2") || strings.Contains(string(named), "UTF16")
		f.vertical = strings.HasSuffix(string(named), "-V")
	}
	f.vertical = f.vertical || f.codes.vertical
	var descendant dict
	if list := d.list(described["DescendantFonts"]); len(list) > 0 {
		descendant = d.dict(list[0])
	}
	f.missing = 1000
	if width, ok := d.resolve(descendant["DW"]).(float64); ok {
		f.missing = width
	}
	list, _ := d.resolve(descendant["W"]).(array)
	for i := 0; i+1 < len(list) && len(f.widths) < maxWidths; {
		first, _ := integer(d.resolve(list[i]))
		switch second := d.resolve(list[i+1]).(type) {
		case array: // one for each
			for n, width := range second {
				f.widths = append(f.widths, widthRange{first + n, first + n, float32(decimal(d.resolve(width)))})
			}
			i += 2
		default: // one for all up to second
			last, _ := integer(second)
			if i+2 < len(list) {
				f.widths = append(f.widths, widthRange{first, last, float32(decimal(d.resolve(list[i+2])))})
			}
			i += 3
		}
	}
	slices.SortStableFunc(f.widths, func(a, b widthRange) int { return cmp.Compare(a.low, b.low) })
}

// readSimple reads a font whose codes are bytes.
func (d *Document) readSimple(f *font, described dict, kind name) {
	descriptor := d.dict(described["FontDescriptor"])
	called, _ := d.resolve(described["BaseFont"]).(name)
	d.readEncoding(f, described, descriptor, string(called))

	first, _ := integer(d.resolve(described["FirstChar"]))
	list, ok := d.resolve(described["Widths"]).(array)
	for i, width := range list[:min(len(list), 256)] {
		f.widths = append(f.widths, widthRange{first + i, first + i, float32(decimal(d.resolve(width)))})
	}
	f.missing = decimal(d.resolve(descriptor["MissingWidth"]))
	if !ok {
		f.missing = 556
		switch {
		case strings.Contains(string(called), "Courier"):
			f.missing = 600
		case strings.Contains(string(called), "Times"):
			f.standard, f.missing = timesWidths, 500
		default:
			f.standard = helveticaWidths
		}
	}
	if kind == "Type3" {
		matrix, _ := d.resolve(described["FontMatrix"]).(array)
		if len(matrix) == 6 {
			f.scale = decimal(d.resolve(matrix[0]))
		}
	}
}

// The widths of the fonts that are everywhere and so may have none, from the
// space on: a letter is how far it is from '0', in steps of widthStep.
const (
	helveticaWidths = "DDIXXp`@HHLZDHDDXXXXXXXXXXDDZZZXx``dd`\\hdDT`Xldh`hd`\\d`s``\\DDDRX@XXTXXDXX@@T@lXXXXHTDXTdTTTHCHZ"
	timesWidths     = "BHMTTlhHHHTXBHBDTTTTTTTTTTDDXXXPrd``d\\XddHLd\\pddXd`X\\ddsdd\\HDHRTHPTPTPHTTDDTDhTTTTHLDTTdTTPR>RW"
	widthStep       = 0.014
)

// readEncoding finds what the codes of a simple font mean.
func (d *Document) readEncoding(f *font, described, descriptor dict, called string) {
	var differences array
	base := name("StandardEncoding")
	if strings.Contains(called, "Symbol") {
		base = "Symbol"
	} else if flags, _ := integer(d.resolve(descriptor["Flags"])); flags&4 == 0 && d.resolve(described["Subtype"]) == name("TrueType") {
		base = "WinAnsiEncoding"
	}
	named := false
	switch e := d.resolve(described["Encoding"]).(type) {
	case name:
		base, named = e, true
	case dict:
		if b, ok := d.resolve(e["BaseEncoding"]).(name); ok {
			base, named = b, true
		}
		differences, _ = d.resolve(e["Differences"]).(array)
	}
	f.means.setBase(base)
	if program, ok := d.resolve(descriptor["FontFile"]).(stream); ok && !named {
		d.readType1(f, program)
	}
	code := 0
	for _, o := range differences {
		switch o := d.resolve(o).(type) {
		case float64:
			code, _ = integer(o)
		case name:
			if code >= 0 && code < len(f.means) {
				f.means[code] = glyphText(string(o))
			}
			code++
		}
	}
}

// readType1 reads the encoding that is in a font program, which is a program
// in PostScript up to the part that is encrypted.
func (d *Document) readType1(f *font, program stream) {
	data, err := d.decode(program)
	if err != nil {
		return
	}
	l := newLexer(io.LimitReader(data, maxType1), lexerBuf)
	inside := false
	var last [2]object
	for {
		l.room = maxObject
		token, err := l.token()
		if err != nil || token == keyword("eexec") {
			return
		}
		switch {
		case token == name("Encoding"):
			inside = true
		case inside && token == keyword("StandardEncoding"), inside && token == keyword("def"):
			return
		case inside && token == keyword("array"):
			f.means = encoding{}
		case inside && token == keyword("put"):
			code, ok1 := integer(last[0])
			glyph, ok2 := last[1].(name)
			if ok1 && ok2 && code >= 0 && code < len(f.means) {
				f.means[code] = glyphText(string(glyph))
			}
		}
		last = [2]object{last[1], token}
	}
}

// width returns that of a glyph, in parts of the size of the font.
func (f *font) width(glyph int) float64 {
	i := sort.Search(len(f.widths), func(i int) bool { return f.widths[i].low > glyph }) - 1
	if i >= 0 && f.widths[i].high >= glyph {
		return float64(f.widths[i].width) * f.scale
	}
	if at := glyph - ' '; at >= 0 && at < len(f.standard) {
		return float64(f.standard[at]-'0') * widthStep
	}
	return f.missing * f.scale
}

// A shown is a character of a string.
type shown struct {
	size  int // bytes of its code
	code  uint32
	width float64
	known bool // what it means
}

// next takes the first character off a string and appends what it means.
func (f *font) next(s text, out []rune) (shown, []rune) {
	c := shown{size: 1, code: uint32(s[0])}
	glyph := int(s[0])
	if f.codes != nil {
		c.code, c.size = f.codes.next(s)
		glyph = f.codes.glyph(c.code)
	}
	c.width = f.width(glyph)
	before := len(out)
	if out, c.known = f.toText.appendText(out, c.code); c.known && !slices.Contains(out[before:], 0) {
		return c, out
	}
	out, c.known = out[:before], false
	switch {
	case f.wide:
		out, c.known = append(out, rune(c.code)), true
	case f.codes == nil && f.means[byte(c.code)] != "":
		out, c.known = append(out, []rune(f.means[byte(c.code)])...), true
	}
	return c, out
}
