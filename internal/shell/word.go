// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// A word is what is known of one word of a command, after the shell expanded it.
type word struct {
	// text is the word, with its quotes gone. Of an unknown word it is the known
	// beginning, of a glob the pattern, in which a backslash quotes.
	text string

	unknown bool   // only running the command would tell
	number  bool   // unknown, but a number
	glob    bool   // a pattern of file names
	many    bool   // stands for any number of words
	data    bool   // a glob that is no pattern: its stars are what programs print, which begins with a letter or a digit and has no slash
	digits  bool   // its stars are digits
	made    bool   // the name of a file that mktemp makes: it is like text
	pipe    bool   // names the end of a process substitution
	likely  string // what an unknown word may well be, for rules that deny
	cut     string // of a pattern of names that find printed and that were cut into words: where it was
	equals  bool   // begins with an unquoted =, as zsh's =program does
	array   bool   // an assignment of (…), which was followed
}

// lit is a known word.
func lit(text string) word { return word{text: text} }

// anything is a word, or none, or several, that nobody knows.
var anything = word{unknown: true, many: true}

func (w word) known() bool { return !w.unknown && !w.glob && !w.pipe && !w.made }

// is reports whether the word is known to be text.
func (w word) is(text string) bool { return w.known() && w.text == text }

// arg is the word as it stands in an effect.
func (w word) arg() string {
	if !w.known() {
		return tools.UnknownWord
	}
	return w.text
}

// mayBeOption reports whether a program could take the word for an option. The
// files that a pattern finds may have any name.
func (w word) mayBeOption() bool {
	switch {
	case w.pipe, w.number, w.data && w.text[0] == '*':
		return false
	case w.made:
		return w.text[0] == '-'
	case w.glob && w.text != "":
		return strings.ContainsRune("-*?[!@+", rune(w.text[0]))
	case w.unknown && !w.many && w.text != "", w.known():
		return len(w.text) > 1 && w.text[0] == '-'
	}
	return true
}

// hidesOption reports whether the word could turn out to be an option that
// cannot be seen. One of which only digits are not known, such as -j$(nproc), can.
func (w word) hidesOption() bool {
	return !w.known() && w.mayBeOption() && !(w.digits && len(w.text) > 2 && w.text[0] == '-' && w.text[1] != '*')
}

// args turns words into what stands in an effect.
func args(words []word) []string {
	argv := make([]string, len(words))
	for i, w := range words {
		argv[i] = w.arg()
	}
	return argv
}

// lits turns texts into known words.
func lits(texts []string) []word {
	words := make([]word, len(texts))
	for i, text := range texts {
		words[i] = lit(text)
	}
	return words
}

// quoteGlob quotes what would be special in a pattern.
func quoteGlob(s string) string {
	if !strings.ContainsAny(s, `*?[\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`*?[\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// joined is the word whose text is a and then b.
func joined(a, b word) word {
	switch {
	case b == word{}:
		return a
	case a == word{}:
		return b
	}
	if (a.number || a.data && a.text == "*") && strings.HasPrefix(b.text, "/") {
		return word{unknown: true, many: a.many || b.many} // where it prints nothing, the path begins at the root
	}
	if a.number {
		a = word{text: "*", glob: true, many: a.many} // it may be negative
	}
	if b.number {
		b = word{text: "*", glob: true, data: true, digits: true, many: b.many}
	}
	w := word{glob: a.glob || b.glob, many: a.many || b.many, unknown: a.unknown || b.unknown}
	w.data = w.glob && !w.unknown && (a.data || !a.glob) && (b.data || !b.glob)
	w.digits = w.data && (a.digits || !a.glob) && (b.digits || !b.glob)
	w.made = (a.made || b.made) && !w.unknown
	switch {
	case a.pipe || b.pipe, a.cut != "", b.cut != "":
		return word{unknown: true, many: w.many}
	case a.unknown:
		w.text, w.likely = a.text, a.likelyText()+b.likelyText()
	case b.unknown:
		w.text, w.likely = a.text+b.text, a.likelyText()+b.likelyText()
	case w.glob:
		w.text = pattern(a) + pattern(b)
	default:
		w.text = a.text + b.text
	}
	if w.glob && len(w.text) > maxPath {
		return word{unknown: true, many: w.many}
	}
	if len(w.likely) > maxPath {
		w.likely = ""
	}
	return w
}

// sentence joins words with blanks between them.
func sentence(words []word) word {
	var texts []string
	for i, w := range words {
		if !w.known() {
			rest := joined(lit(strings.Join(append(texts, ""), " ")), word{unknown: true, text: w.text, likely: w.likely})
			for _, w := range words[i+1 : min(len(words), i+maxGuessWords)] {
				rest = joined(joined(rest, lit(" ")), w)
			}
			return rest
		}
		texts = append(texts, w.text)
	}
	return lit(strings.Join(texts, " "))
}

// likelyText is the best guess of what a word is: its text, where unknown parts
// are nothing.
func (w word) likelyText() string {
	if w.unknown && w.likely != "" {
		return w.likely
	}
	return w.text
}

// pattern is the text of a word as a pattern.
func pattern(w word) string {
	if w.glob {
		return w.text
	}
	return quoteGlob(w.text)
}
