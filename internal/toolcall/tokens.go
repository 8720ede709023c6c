// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"math"
	"sort"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// A Family is the tokenizers of the models of one maker. What a text costs is estimated
// by what it is made of: words, and letters beyond the sixth of one; digits, three at a
// time; marks; breaks of lines; and characters of two bytes, and of more. The weights were fitted to
// public tokenizers over code, prose, JSON and the output of commands, for relative
// errors; docs/decisions/0087 tells how.
type Family struct {
	Name string

	// Error is how far the true number may be from an estimate, in percent of the true
	// one, for nineteen of twenty texts of a hundred bytes and more: English, code and data.
	// In other languages it may be half of it or, in family any, nearly all.
	Error int

	// Basis is what Error was measured with. Where it begins with "not measured", Error is
	// a guess.
	Basis string

	word, letter, digits, mark, line, wide, wider int // in hundredths of a token
}

// Families lists the families. Of Anthropic only the tokenizer of older models is public,
// and of Google none. The weights of gemini are those of openai, but that digits are tokens.
var Families = []*Family{
	{"any", 35, "o200k_base, Llama 3, Mistral 7B and Claude 2", 108, 16, 130, 60, 110, 45, 80},
	{"openai", 20, "o200k_base", 105, 13, 130, 52, 114, 27, 66},
	{"anthropic", 35, "not measured for Claude 3 and later; Claude 2 is within 12 %", 111, 16, 115, 70, 99, 60, 86},
	{"gemini", 35, "not measured", 105, 13, 260, 52, 114, 27, 66},
	{"llama", 20, "Llama 3", 106, 16, 130, 49, 116, 32, 67},
	{"mistral", 25, "Mistral 7B", 110, 23, 247, 76, 160, 45, 108},
}

// familyOf has the families of dialects.
var familyOf = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "openai-responses": "openai", "gemini": "gemini", "bedrock": "anthropic",
	"mistral": "mistral", "mistral-text": "mistral", "llama": "llama",
}

// Family returns the family of the models that a dialect is for, as far as it tells.
func (d *Dialect) Family() *Family { return FamilyNamed(familyOf[d.Name]) }

// FamilyNamed returns a family: [AnyFamily] where there is none of that name.
func FamilyNamed(name string) *Family {
	for _, f := range Families {
		if f.Name == name {
			return f
		}
	}
	return AnyFamily()
}

// AnyFamily is for texts of which nobody knows what model reads them.
func AnyFamily() *Family { return Families[0] }

// MaxCounted is how many bytes of a text [Family.Count] counts: it takes a microsecond for
// a byte at worst.
const MaxCounted = 512 << 10

// o200k is the tokenizer of OpenAI's models. It takes 24 MiB from its first use on, and so
// is used only where somebody asks for true numbers.
var o200k = sync.OnceValue(codec.NewO200kBase)

// Count returns the true number of tokens of a text, and the tokenizer that was used. It
// reports false where the family has no public tokenizer in Go, or the text is too long.
func (f *Family) Count(text string) (tokens int, tokenizer string, ok bool) {
	if f.Name != "openai" || len(text) > MaxCounted {
		return 0, "", false
	}
	tokens, err := o200k().Count(text)
	return tokens, o200k().GetName(), err == nil
}

// Kinds of bytes.
const (
	other = iota
	letter
	capital
	digit
	space
	mark
)

var kindOf = func() (kinds [256]byte) {
	for c := range kinds {
		switch c := byte(c); {
		case c >= 'a' && c <= 'z':
			kinds[c] = letter
		case c >= 'A' && c <= 'Z':
			kinds[c] = capital
		case c >= '0' && c <= '9':
			kinds[c] = digit
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			kinds[c] = space
		case c < 0x80:
			kinds[c] = mark
		}
	}
	return kinds
}()

// Tokens returns about how many tokens a text costs.
func (f *Family) Tokens(text string) int {
	_, cost := f.scan(text, math.MaxInt)
	if cost == 0 && text != "" {
		return 1
	}
	return (cost + 99) / 100
}

// Prefix returns how many bytes of a text cost at most so many tokens.
func (f *Family) Prefix(text string, tokens int) int {
	size, _ := f.scan(text, min(tokens, math.MaxInt/100)*100)
	return size
}

// scan adds up what a text costs, in hundredths of a token, and tells how much of it costs
// at most so much. It takes words and numbers as a whole: their ends are what is slow.
func (f *Family) scan(text string, most int) (size, sum int) {
	before := byte(space)
	for i := 0; i < len(text); {
		begin, c := i, text[i]
		kind, cost := kindOf[c], 0
		i++
		switch kind {
		case letter, capital:
			for kind == capital && i < len(text) && kindOf[text[i]] == capital {
				i++
			}
			for i < len(text) && kindOf[text[i]] == letter {
				i++
			}
			cost = f.word + f.letter*max(0, i-begin-6)
		case digit:
			for i < len(text) && kindOf[text[i]] == digit {
				i++
			}
			cost = f.digits * ((i - begin + 2) / 3)
		case space:
			if c != ' ' && before != space {
				cost = f.line
			}
		case mark:
			cost = f.mark
		default:
			switch { // the first byte of a character counts
			case c >= 0xE0:
				cost = f.wider
			case c >= 0xC0:
				cost = f.wide
			}
		}
		if sum+cost > most { // as a whole, and so all but its last byte may fit
			return begin + sort.Search(i-begin-1, func(k int) bool {
				_, part := f.scan(text[begin:begin+k+1], math.MaxInt)
				return sum+part > most
			}), sum
		}
		sum += cost
		before = kind
	}
	return len(text), sum
}
