// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// fields expands words as the shell does for a command: braces, tildes,
// parameters and substitutions, splitting what is not quoted. Every substitution
// in them is analysed on the way.
func (a *analysis) fields(words []*syntax.Word, s *state) []word {
	out := make([]word, 0, len(words))
	for _, w := range words {
		if text, plain := plainText(w); plain {
			out = append(out, lit(text))
			continue
		}
		if text := literal(w); isAddress(text) {
			out = append(out, lit(text))
			continue
		}
		variants, braces := a.splitBraces(w)
		if len(variants) == 0 {
			a.parts(w.Parts, s) // for its substitutions
			out = append(out, anything)
			continue
		}
		for _, parts := range variants {
			b := field{a: a, s: s, splits: true, braces: braces}
			b.add(parts, false)
			out = append(out, b.end()...)
		}
	}
	return out
}

// single expands a word that is neither split nor brace-expanded: a value, a
// text, the word of a case.
func (a *analysis) single(w *syntax.Word, s *state) word {
	if w == nil {
		return word{}
	}
	if text, plain := plainText(w); plain {
		return lit(text)
	}
	b := field{a: a, s: s, value: true}
	b.add(w.Parts, false)
	b.started = true
	return b.end()[0]
}

// hereDoc expands the body of a here-document.
func (a *analysis) hereDoc(w *syntax.Word, s *state, quoted bool) word {
	if w == nil {
		return word{}
	}
	if l, ok := w.Parts[0].(*syntax.Lit); ok && quoted && len(w.Parts) == 1 {
		return lit(l.Value) // taken as it stands
	}
	b := field{a: a, s: s, value: true, started: true, hdoc: true}
	b.add(w.Parts, true)
	return b.end()[0]
}

// parts analyses what substitutions are in parts, for words whose own value does
// not matter.
func (a *analysis) parts(parts []syntax.WordPart, s *state) {
	b := field{a: a, s: s, started: true}
	b.add(parts, true)
}

// plainText returns the text of a word that needs no expansion.
func plainText(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		switch part.Value {
		case "[", "]", "{}":
			return part.Value, true
		}
		special := strings.ContainsAny(part.Value, "\\*?[]~{}") || strings.HasPrefix(part.Value, "=")
		return part.Value, !special
	case *syntax.SglQuoted:
		return part.Value, !part.Dollar
	}
	return "", false
}

// A field collects the words that one word of the source becomes.
type field struct {
	a      *analysis
	s      *state
	splits bool // split what is not quoted
	value  bool // expand tildes as in an assignment
	braces bool // the word had braces: bash expands them before it reads names
	hdoc   bool

	out     []word
	cur     word
	plain   []byte // literal text behind cur
	started bool   // cur is a word, even if it is empty
	bracket bool   // an unquoted [ was seen
}

// end returns the collected words.
func (f *field) end() []word {
	f.settle()
	if f.started || f.cur.unknown || f.cur.glob || f.cur.text != "" {
		f.out = append(f.out, f.cur)
	}
	f.cur, f.started, f.bracket = word{}, false, false
	return f.out
}

func (f *field) add(parts []syntax.WordPart, quoted bool) {
	for i, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			switch {
			case f.hdoc:
				f.literal(unquoteIn(part.Value, "$`\\"))
			case quoted:
				f.literal(unquoteIn(part.Value, "$`\"\\"))
			default:
				f.unquoted(part.Value, i == 0)
			}
		case *syntax.SglQuoted:
			f.started = true
			switch text, ok := part.Value, true; {
			case !part.Dollar:
				f.literal(text)
			default:
				if text, ok = decodeANSI(part.Value); !ok {
					f.unknown(word{unknown: true})
				} else {
					f.literal(text)
				}
			}
		case *syntax.DblQuoted:
			f.started = true
			hdoc := f.hdoc
			f.hdoc = false
			if part.Dollar { // translated, by files of the locale
				f.a.parts(part.Parts, f.s)
				f.unknown(word{unknown: true})
			} else {
				f.started = !onlyAll(part.Parts)
				f.add(part.Parts, true)
			}
			f.hdoc = hdoc
		case *syntax.ParamExp:
			f.param(part, quoted)
		case *syntax.CmdSubst:
			f.a.printed, f.a.piped, f.a.output = nil, nil, output{}
			f.a.substitution(part, f.s)
			if whole := len(parts) == 1 && !f.started && f.cur == (word{}) && len(f.plain) == 0; whole && !quoted && f.splits {
				if names := f.a.substituted(part, f.s); names != nil {
					f.words(names)
					continue
				}
			}
			if f.s.counts(part) {
				f.unknown(word{unknown: true, number: true})
				continue
			}
			if w, ok := f.a.printsOne(part, f.s); ok {
				w.many = w.many && !quoted && f.splits
				f.unknown(w)
				continue
			}
			f.unknown(word{unknown: true, many: !quoted && f.splits})
		case *syntax.ArithmExp:
			f.a.arithmetic(part.X, f.s)
			f.unknown(word{unknown: true, number: true})
		case *syntax.ProcSubst:
			t := f.s.fork()
			t.stdin = input{}
			f.a.stmts(part.Stmts, t)
			f.settle()
			if len(parts) == 1 && !f.started && f.cur == (word{}) {
				f.cur.pipe = true
				f.started = true
			} else {
				f.unknown(word{unknown: true})
			}
		case *syntax.ExtGlob:
			if strings.ContainsAny(part.Pattern.Value, "$`<>") {
				f.a.unclear("an extended pattern has an expansion in it")
				f.unknown(word{unknown: true, many: true})
				continue
			}
			f.unknown(word{unknown: true, many: f.splits})
		default:
			f.unknown(anything)
		}
	}
}

// words adds words that are complete.
func (f *field) words(words []word) {
	for i, w := range words {
		if i > 0 {
			f.end()
		}
		f.unknown(w)
	}
}

// onlyAll reports whether quoted parts are nothing but "$@", which can become no
// word at all.
func onlyAll(parts []syntax.WordPart) bool {
	if len(parts) != 1 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && (p.Param != nil && p.Param.Value == "@" || p.Index != nil)
}

// literal adds text that is taken as it stands.
func (f *field) literal(text string) {
	f.join(word{text: text})
}

// unknown adds something that is not known.
func (f *field) unknown(w word) {
	f.started = true
	f.join(w)
}

// join adds w to the word at hand.
func (f *field) join(w word) {
	if w == (word{text: w.text}) {
		f.plain = append(f.plain, w.text...) // joined when it is looked at
		return
	}
	f.settle()
	f.extend(w)
}

// settle makes the literal text that was added part of the word at hand.
func (f *field) settle() {
	if len(f.plain) > 0 {
		f.extend(word{text: string(f.plain)})
		f.plain = f.plain[:0]
	}
}

func (f *field) extend(w word) {
	if f.cur == (word{}) {
		f.cur = w
		return
	}
	equals := f.cur.equals
	f.cur = joined(f.cur, w)
	f.cur.equals = equals
}

// unquoted adds a literal outside quotes: backslashes quote, and patterns and
// tildes are special.
func (f *field) unquoted(text string, first bool) {
	if first && strings.HasPrefix(text, "~") && !f.started {
		end := strings.IndexAny(text, "/:")
		if end < 0 {
			end = len(text)
		}
		if home := f.a.place.Home; end == 1 && home != "" && !f.a.assigns("HOME") {
			f.literal(home)
		} else {
			f.unknown(word{unknown: true})
		}
		text = text[end:]
	}
	if f.value && strings.Contains(text, ":~") || !f.value && strings.Contains(text, "=~") && isAssignment(text) || strings.Contains(text, ":~") && isAssignment(text) {
		f.unknown(word{unknown: true})
		return
	}
	if first && !f.started && len(text) > 1 && text[0] == '=' && text[1] != '=' {
		f.cur.equals = true
		f.started = true
	}
	start := 0
	flush := func(end int) {
		if end > start {
			f.join(word{text: text[start:end]})
		}
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			flush(i)
			i++
			start = i
			f.started = true
		case '*', '?':
			flush(i)
			f.special(text[i : i+1])
			start = i + 1
		case '[':
			flush(i)
			f.bracket = true
			start = i
		case ']':
			if f.bracket {
				flush(i)
				f.special("")
				f.bracket = false
				start = i + 1
			}
		}
	}
	flush(len(text))
}

// literal returns the text of a word without quotes and expansions; "" for any
// other.
func literal(w *syntax.Word) string {
	var b strings.Builder
	for _, part := range w.Parts {
		l, ok := part.(*syntax.Lit)
		if !ok {
			return ""
		}
		b.WriteString(l.Value)
	}
	return b.String()
}

// isAddress reports whether a word is the address of a host by its number in
// brackets, which is a pattern to the shell too: of what is in a directory that is
// called like the scheme of the address, of which there is none.
func isAddress(text string) bool {
	_, rest, ok := strings.Cut(text, "://[")
	host, rest, closed := strings.Cut(rest, "]")
	return ok && closed && strings.HasPrefix(text, "http") && strings.Trim(host, "0123456789abcdefABCDEF:.") == "" && !strings.ContainsAny(rest, `*?[\~`)
}

// special adds a character of a pattern. A pattern with brackets is not kept as
// it is: what is in them may be quoted in ways of its own.
func (f *field) special(c string) {
	f.started = true
	if !f.bracket {
		f.join(word{text: c, glob: true, many: f.splits})
		return
	}
	f.settle()
	text := pattern(f.cur)
	i := strings.Index(text, `\[`)
	if i < 0 {
		i = len(text)
	}
	if f.cur.unknown || strings.Contains(text[i:], "/") {
		f.join(anything)
		return
	}
	f.cur = word{text: strings.TrimRight(text[:i], "*") + "*", glob: true, many: f.splits}
}

// param adds the value of a parameter.
func (f *field) param(p *syntax.ParamExp, quoted bool) {
	values, ok := f.a.param(p, f.s)
	if f.braces && p.Short {
		ok = false // $x{a,b} is $xa $xb
	}
	split := f.splits && !quoted
	if !ok {
		list := p.Param != nil && (p.Param.Value == "@" || p.Param.Value == "*") || p.Index != nil || p.Names != 0 || p.Excl
		w := word{unknown: true, many: split || f.splits && list}
		if p.Exp != nil && p.Exp.Word != nil {
			w.likely, _ = staticText(p.Exp.Word)
		}
		f.unknown(w)
		return
	}
	for i, value := range values {
		if i > 0 {
			f.started = true
			f.end()
		}
		if split && value.made && strings.ContainsAny(value.text, " \t\n*?[\\") {
			value = word{unknown: true}
		}
		if !split || value.unknown || value.pipe || value.data || value.made {
			if value.unknown && split && !value.number {
				value.many = true
			}
			f.started = true
			f.join(value)
			continue
		}
		f.split(value)
	}
}

// split adds a known value outside quotes, which makes words of it.
func (f *field) split(value word) {
	if value.glob {
		value.many = true
		f.started = true
		f.join(value)
		return
	}
	if strings.ContainsAny(value.text, `*?[\`) {
		f.unknown(word{unknown: true, many: true})
		return
	}
	text := value.text
	for text != "" {
		n := strings.IndexAny(text, " \t\n")
		if n < 0 {
			n = len(text)
		}
		if n > 0 {
			f.join(word{text: text[:n]})
			f.started = true
			text = text[n:]
			continue
		}
		text = strings.TrimLeft(text, " \t\n")
		f.end()
	}
}

// unquoteIn removes the backslashes before the given characters, which is all
// that a backslash does inside double quotes and here-documents.
func unquoteIn(text, special string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			switch next := text[i+1]; {
			case next == '\n':
				i++
				continue
			case strings.IndexByte(special, next) >= 0:
				i++
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
