// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// A need is a set of literals, one of which is in everything that matches.
type need struct {
	any   []literal
	exact bool // whatever has one of them matches
}

// maxAny is how many literals are looked for at once.
const maxAny = 8

// needs returns what everything that a regular expression matches has in it:
// all of these. There may be none.
func needs(re *syntax.Regexp) []need {
	switch re.Op {
	case syntax.OpLiteral:
		return literalNeeds(re)
	case syntax.OpCapture:
		return needs(re.Sub[0])
	case syntax.OpPlus:
		return inexact(needs(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return inexact(needs(re.Sub[0]))
		}
	case syntax.OpConcat:
		var all []need
		for _, sub := range re.Sub {
			all = append(all, needs(sub)...)
		}
		return inexact(all)
	case syntax.OpAlternate:
		joined := need{exact: true}
		for _, sub := range re.Sub {
			best, ok := choose(needs(sub))
			if !ok {
				return nil
			}
			joined.any = append(joined.any, best.any...)
			joined.exact = joined.exact && best.exact
		}
		if len(joined.any) > maxAny {
			return nil
		}
		return []need{joined}
	}
	return nil
}

func inexact(list []need) []need {
	for i := range list {
		list[i].exact = false
	}
	return list
}

// literalNeeds returns what of a literal can be looked for byte by byte. Where
// case does not matter, that ends at letters whose other case is not one byte.
func literalNeeds(re *syntax.Regexp) []need {
	if re.Flags&syntax.FoldCase == 0 {
		if slices.Contains(re.Rune, utf8.RuneError) {
			return nil // it may stand for what is no UTF-8
		}
		return []need{{any: []literal{{text: string(re.Rune)}}, exact: true}}
	}
	var list []need
	pieces := strings.FieldsFunc(string(re.Rune), func(r rune) bool {
		// The Kelvin sign is a K, and the long s is an S.
		return r >= utf8.RuneSelf || r == 'k' || r == 'K' || r == 's' || r == 'S'
	})
	for _, piece := range pieces {
		list = append(list, need{any: []literal{{text: strings.ToLower(piece), fold: true}}, exact: len(piece) == len(string(re.Rune))})
	}
	return list
}

// choose returns the need that is met most rarely.
func choose(list []need) (best need, ok bool) {
	rarest := 0
	for _, n := range list {
		if s := n.rarity(); s > rarest {
			best, rarest, ok = n, s, true
		}
	}
	return best, ok
}

// rarity tells how well a need tells texts apart; the higher the better.
func (n *need) rarity() int {
	least := 1 << 20
	for _, l := range n.any {
		rare := uint8(255)
		for i := range len(l.text) {
			rare = min(rare, frequency[l.text[i]])
		}
		least = min(least, 64*min(len(l.text), 12)-int(rare)/4)
	}
	return least/len(n.any) + 1
}
