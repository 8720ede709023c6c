// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"strconv"
	"strings"
)

// glyphNames tells what glyphs mean by their names: those of the Adobe Glyph
// List that Latin, Greek and Cyrillic text, mathematics and TeX use. Letters
// have their own names. It is searched as it is, which needs no set-up.
const glyphNames = "" +
	" AE:C6 Aacute:C1 Abreve:102 Acircumflex:C2 Adieresis:C4 Agrave:C0 Alpha:391 Alphatonos:386 Amacron:100 " +
	" Aogonek:104 Aring:C5 Atilde:C3 Beta:392 Cacute:106 Ccaron:10C Ccedilla:C7 Chi:3A7 Dcaron:10E Dcroat:110 " +
	" Delta:394 Eacute:C9 Ecaron:11A Ecircumflex:CA Edieresis:CB Edotaccent:116 Egrave:C8 Emacron:112 Eng:14A " +
	" Eogonek:118 Epsilon:395 Epsilontonos:388 Eta:397 Etatonos:389 Eth:D0 Euro:20AC Gamma:393 Gbreve:11E " +
	" Gcommaaccent:122 Hbar:126 IJ:132 Iacute:CD Icircumflex:CE Idieresis:CF Idotaccent:130 Ifraktur:2111 Igrave:CC " +
	" Imacron:12A Iogonek:12E Iota:399 Iotatonos:38A Kappa:39A Kcommaaccent:136 Lacute:139 Lambda:39B Lcaron:13D " +
	" Lcommaaccent:13B Lslash:141 Mu:39C Nacute:143 Ncaron:147 Ncommaaccent:145 Ntilde:D1 Nu:39D OE:152 Oacute:D3 " +
	" Ocircumflex:D4 Odieresis:D6 Ograve:D2 Ohungarumlaut:150 Omacron:14C Omega:3A9 Omegatonos:38F Omicron:39F " +
	" Omicrontonos:38C Oslash:D8 Otilde:D5 Phi:3A6 Pi:3A0 Psi:3A8 Racute:154 Rcaron:158 Rcommaaccent:156 " +
	" Rfraktur:211C Rho:3A1 Sacute:15A Scaron:160 Scedilla:15E Scommaaccent:218 Sigma:3A3 Tau:3A4 Tbar:166 " +
	" Tcaron:164 Tcommaaccent:162 Theta:398 Thorn:DE Uacute:DA Ucircumflex:DB Udieresis:DC Ugrave:D9 " +
	" Uhungarumlaut:170 Umacron:16A Uogonek:172 Upsilon:3A5 Upsilon1:3D2 Upsilontonos:38E Uring:16E Xi:39E Yacute:DD " +
	" Ydieresis:178 Zacute:179 Zcaron:17D Zdotaccent:17B Zeta:396 aacute:E1 abreve:103 acircumflex:E2 acute:B4 " +
	" adieresis:E4 ae:E6 afii10017:410 afii10018:411 afii10019:412 afii10020:413 afii10021:414 afii10022:415 " +
	" afii10023:401 afii10024:416 afii10025:417 afii10026:418 afii10027:419 afii10028:41A afii10029:41B " +
	" afii10030:41C afii10031:41D afii10032:41E afii10033:41F afii10034:420 afii10035:421 afii10036:422 " +
	" afii10037:423 afii10038:424 afii10039:425 afii10040:426 afii10041:427 afii10042:428 afii10043:429 " +
	" afii10044:42A afii10045:42B afii10046:42C afii10047:42D afii10048:42E afii10049:42F afii10050:490 " +
	" afii10051:402 afii10052:403 afii10053:404 afii10054:405 afii10055:406 afii10056:407 afii10057:408 " +
	" afii10058:409 afii10059:40A afii10060:40B afii10061:40C afii10062:40E afii10065:430 afii10066:431 " +
	" afii10067:432 afii10068:433 afii10069:434 afii10070:435 afii10071:451 afii10072:436 afii10073:437 " +
	" afii10074:438 afii10075:439 afii10076:43A afii10077:43B afii10078:43C afii10079:43D afii10080:43E " +
	" afii10081:43F afii10082:440 afii10083:441 afii10084:442 afii10085:443 afii10086:444 afii10087:445 " +
	" afii10088:446 afii10089:447 afii10090:448 afii10091:449 afii10092:44A afii10093:44B afii10094:44C " +
	" afii10095:44D afii10096:44E afii10097:44F afii10098:491 afii10099:452 afii10100:453 afii10101:454 " +
	" afii10102:455 afii10103:456 afii10104:457 afii10105:458 afii10106:459 afii10107:45A afii10108:45B " +
	" afii10109:45C afii10110:45E afii10145:40F afii10146:462 afii10147:472 afii10148:474 afii10193:45F " +
	" afii10194:463 afii10195:473 afii10196:475 afii10846:4D9 afii61289:2113 afii61352:2116 agrave:E0 aleph:2135 " +
	" alpha:3B1 alphatonos:3AC amacron:101 ampersand:26 angbracketleft:27E8 angbracketright:27E9 angle:2220 " +
	" angleleft:2329 angleright:232A aogonek:105 approxequal:2248 aring:E5 arrowboth:2194 arrowdblboth:21D4 " +
	" arrowdbldown:21D3 arrowdblleft:21D0 arrowdblright:21D2 arrowdblup:21D1 arrowdown:2193 arrowhookleft:21A9 " +
	" arrowleft:2190 arrowright:2192 arrowup:2191 asciicircum:5E asciitilde:7E asterisk:2A asteriskmath:2217 at:40 " +
	" atilde:E3 backslash:5C bar:7C bardbl:2016 beta:3B2 blacksquare:25A0 braceleft:7B braceright:7D bracketleft:5B " +
	" bracketright:5D breve:2D8 brokenbar:A6 bullet:2022 bulletoperator:2219 cacute:107 caron:2C7 " +
	" carriagereturn:21B5 ccaron:10D ccedilla:E7 cedilla:B8 ceilingleft:2308 ceilingright:2309 cent:A2 " +
	" checkmark:2713 chi:3C7 circle:25CB circledot:2299 circlemultiply:2297 circleplus:2295 circumflex:2C6 club:2663 " +
	" colon:3A comma:2C compwordmark:200C congruent:2245 coproduct:2210 copyright:A9 currency:A4 cwm:200C " +
	" dagger:2020 daggerdbl:2021 dcaron:10F dcroat:111 degree:B0 delta:3B4 diamond:2666 dieresis:A8 divide:F7 " +
	" dollar:24 dotaccent:2D9 dotlessi:131 dotlessj:237 dotmath:22C5 eacute:E9 ecaron:11B ecircumflex:EA " +
	" edieresis:EB edotaccent:117 egrave:E8 eight:38 eightinferior:2088 eightsuperior:2078 element:2208 " +
	" ellipsis:2026 emacron:113 emdash:2014 emptyset:2205 endash:2013 eng:14B eogonek:119 epsilon:3B5 epsilon1:3F5 " +
	" epsilontonos:3AD equal:3D equivalence:2261 equivasymptotic:224D eta:3B7 etatonos:3AE eth:F0 exclam:21 " +
	" exclamdown:A1 existential:2203 ff:FB00 ffi:FB03 ffl:FB04 fi:FB01 filledbox:25A0 five:35 fiveeighths:215D " +
	" fiveinferior:2085 fivesuperior:2075 fl:FB02 floorleft:230A floorright:230B florin:192 follows:227B four:34 " +
	" fourinferior:2084 foursuperior:2074 fraction:2044 franc:20A3 gamma:3B3 gbreve:11F gcommaaccent:123 " +
	" germandbls:DF gradient:2207 grave:60 greater:3E greaterequal:2265 greatermuch:226B guillemetleft:AB " +
	" guillemetright:BB guillemotleft:AB guillemotright:BB guilsinglleft:2039 guilsinglright:203A hbar:127 " +
	" heart:2665 hungarumlaut:2DD hyphen:2D hyphenchar:2D iacute:ED icircumflex:EE idieresis:EF igrave:EC ij:133 " +
	" imacron:12B infinity:221E integral:222B integralbt:2321 integraltp:2320 intersection:2229 intersectionsq:2293 " +
	" iogonek:12F iota:3B9 iotadieresis:3CA iotatonos:3AF kappa:3BA kcommaaccent:137 kgreenlandic:138 lacute:13A " +
	" lambda:3BB latticetop:22A4 lcaron:13E lcommaaccent:13C leftarrow:2190 less:3C lessequal:2264 lessmuch:226A " +
	" lira:20A4 logicaland:2227 logicalnot:AC logicalor:2228 longs:17F lozenge:25CA lscript:2113 lslash:142 " +
	" macron:AF mapsto:21A6 middot:B7 minus:2212 minusplus:2213 minute:2032 mu:B5 multiply:D7 nacute:144 nbspace:20 " +
	" ncaron:148 ncommaaccent:146 negationslash:338 nine:39 nineinferior:2089 ninesuperior:2079 nonbreakingspace:20 " +
	" notelement:2209 notequal:2260 notsubset:2284 nsuperior:207F ntilde:F1 nu:3BD numbersign:23 oacute:F3 " +
	" ocircumflex:F4 odieresis:F6 oe:153 ogonek:2DB ograve:F2 ohungarumlaut:151 omacron:14D omega:3C9 omega1:3D6 " +
	" omegatonos:3CE omicron:3BF omicrontonos:3CC one:31 oneeighth:215B onehalf:BD oneinferior:2081 onequarter:BC " +
	" onesuperior:B9 onethird:2153 openbullet:25E6 ordfeminine:AA ordmasculine:BA oslash:F8 otilde:F5 overscore:AF " +
	" owner:220B paragraph:B6 parenleft:28 parenright:29 partialdiff:2202 percent:25 period:2E periodcentered:B7 " +
	" perpendicular:22A5 perthousand:2030 perthousandzero:2030 peseta:20A7 phi:3C6 phi1:3D5 pi:3C0 plus:2B " +
	" plusminus:B1 polishlcross:142 precedes:227A product:220F propersubset:2282 propersuperset:2283 " +
	" proportional:221D psi:3C8 question:3F questiondown:BF quotedbl:22 quotedblbase:201E quotedblleft:201C " +
	" quotedblright:201D quoteleft:2018 quoteright:2019 quotesinglbase:201A quotesingle:27 racute:155 radical:221A " +
	" rcaron:159 rcommaaccent:157 reflexsubset:2286 reflexsuperset:2287 registered:AE rho:3C1 rightarrow:2192 " +
	" ring:2DA sacute:15B scaron:161 scedilla:15F scommaaccent:219 second:2033 section:A7 semicolon:3B seven:37 " +
	" seveneighths:215E seveninferior:2087 sevensuperior:2077 sfthyphen:2D sigma:3C3 sigma1:3C2 similar:223C " +
	" similarequal:2243 six:36 sixinferior:2086 sixsuperior:2076 slash:2F softhyphen:2D space:20 spade:2660 " +
	" square:25A1 star:22C6 sterling:A3 subsetsqequal:2291 suchthat:220B summation:2211 tau:3C4 tbar:167 tcaron:165 " +
	" tcommaaccent:163 therefore:2234 theta:3B8 theta1:3D1 thorn:FE three:33 threeeighths:215C threeinferior:2083 " +
	" threequarters:BE threesuperior:B3 tilde:2DC trademark:2122 trianglesolid:25B2 turnstileleft:22A2 " +
	" turnstileright:22A3 two:32 twoinferior:2082 twosuperior:B2 twothirds:2154 uacute:FA ucircumflex:FB " +
	" udieresis:FC ugrave:F9 uhungarumlaut:171 umacron:16B underscore:5F union:222A unionsq:2294 universal:2200 " +
	" uogonek:173 upsilon:3C5 upsilondieresis:3CB upsilontonos:3CD uring:16F vector:20D7 visiblespace:20 " +
	" weierstrass:2118 won:20A9 wreathproduct:2240 xi:3BE yacute:FD ydieresis:FF yen:A5 zacute:17A zcaron:17E " +
	" zdotaccent:17C zero:30 zeroinferior:2080 zerosuperior:2070 zeta:3B6 "

// glyphText returns what a glyph means by its name, or nothing.
func glyphText(glyph string) string {
	glyph, _, _ = strings.Cut(glyph, ".") // "a.small" is an a
	if len(glyph) > 100 {
		return ""
	}
	var all strings.Builder
	for part := range strings.SplitSeq(glyph, "_") { // "f_i" is a ligature
		r, ok := glyphRune(part)
		if !ok {
			return ""
		}
		all.WriteRune(r)
	}
	return all.String()
}

func glyphRune(glyph string) (rune, bool) {
	if len(glyph) == 1 {
		c := glyph[0]
		return rune(c), c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	if i := strings.Index(glyphNames, " "+glyph+":"); i >= 0 && glyph != "" {
		code, _, _ := strings.Cut(glyphNames[i+len(glyph)+2:], " ")
		r, err := strconv.ParseUint(code, 16, 32)
		return rune(r), err == nil
	}
	for _, size := range []string{"display", "text", "big", "Big", "bigg", "Bigg"} { // of TeX
		if small, ok := strings.CutSuffix(glyph, size); ok && small != "" {
			return glyphRune(small)
		}
	}
	digits := ""
	switch rest, unicode := strings.CutPrefix(glyph, "uni"); {
	case unicode && len(rest) >= 4:
		digits = rest[:4]
	case glyph != "" && glyph[0] == 'u' && len(glyph) >= 5 && len(glyph) <= 7:
		digits = glyph[1:]
	}
	r, err := strconv.ParseUint(digits, 16, 32)
	return rune(r), err == nil && r < 0x110000
}
