// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

// What the codes of simple fonts mean, from 32 or 128 on; NUL where that is
// nothing.
const (
	ascii = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

	// From 160 on it is as Latin-1.
	winAnsi128 = "€•‚ƒ„…†‡ˆ‰Š‹Œ•Ž••‘’“”•–—˜™š›œ•žŸ"

	macRoman128 = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø" +
		"¿¡¬√ƒ≈∆«»… ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\x00ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"

	// From 160 on.
	standard160 = "\x00¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ\x00–†‡·\x00¶•‚„”»…‰\x00¿\x00`´ˆ˜¯˘˙¨\x00˚¸\x00˝˛ˇ—" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00Æ\x00ª\x00\x00\x00\x00ŁØŒº\x00\x00\x00\x00\x00æ\x00\x00\x00ı\x00\x00łøœß"

	symbol32 = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_\x00αβχδεφγηιϕκλµνοπθρστυϖωξψζ{|}∼"

	// The pieces of tall brackets mean nothing by themselves.
	symbol160 = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…\x00\x00↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00〉∫⌠\x00⌡"
)

// An encoding is what each code of a simple font means.
type encoding [256]string

// put sets codes from first on.
func (e *encoding) put(first int, meanings string) {
	for _, r := range meanings {
		if e[first] = string(r); r == 0 {
			e[first] = ""
		}
		first++
	}
}

// setBase sets all codes to those of an encoding that has a name.
func (e *encoding) setBase(base name) {
	*e = encoding{}
	if base == "Symbol" {
		e.put(32, symbol32)
		e.put(160, symbol160)
		return
	}
	e.put(32, ascii)
	switch base {
	case "MacRomanEncoding":
		e.put(128, macRoman128)
	case "StandardEncoding":
		e.put(160, standard160)
		e['\''], e['`'] = "’", "‘"
	default:
		e.put(128, winAnsi128)
		for c := 160; c < 256; c++ {
			e[c] = string(rune(c))
		}
	}
}
