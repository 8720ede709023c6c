// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"strings"

	"golang.org/x/text/unicode/bidi"
)

// logical returns a line in the order in which it is spoken. On a page characters
// stand from left to right; Arabic and Hebrew are read the other way, but for the
// numbers and the foreign words in them. bidi goes from the spoken order to that of a
// page, and has nothing for the way back.
func logical(line string) string {
	var first, last bidi.Direction = bidi.Neutral, bidi.Neutral // of the letters at the ends
	sum := 0                                                    // above 0 where most go from right to left
	mixed := false
	for _, r := range line {
		d := directionOf(r)
		if d == bidi.Neutral || isNumber(r) {
			continue
		}
		if first == bidi.Neutral {
			first = d
		}
		last = d
		if d == bidi.RightToLeft {
			sum, mixed = sum+1, true
		} else {
			sum--
		}
	}
	switch {
	case !mixed:
		return line
	case first == last && first == bidi.RightToLeft, first != last && sum >= 0:
		return inverted(bidi.ReverseString(line), bidi.LeftToRight)
	default:
		return inverted(line, bidi.RightToLeft)
	}
}

// inverted returns text with the runs of a direction reversed. A run begins and ends
// with a character that has the direction; those without one go with it in between.
func inverted(text string, direction bidi.Direction) string {
	var out strings.Builder
	var run, rest strings.Builder // the run, and what follows it and may belong to it
	end := func() {
		reversed := bidi.ReverseString(run.String())
		if direction == bidi.RightToLeft { // numbers stay as they are
			reversed = inverted(reversed, bidi.LeftToRight)
		}
		out.WriteString(reversed)
		out.WriteString(rest.String())
		run.Reset()
		rest.Reset()
	}
	for _, r := range text {
		switch d := directionOf(r); {
		case d == direction, d == bidi.LeftToRight && isNumber(r) && run.Len() > 0:
			if run.Len() > 0 {
				run.WriteString(rest.String())
				rest.Reset()
			} else {
				end()
			}
			run.WriteRune(r)
		case d == bidi.Neutral && run.Len() > 0:
			rest.WriteRune(r)
		default:
			end()
			out.WriteRune(r)
		}
	}
	end()
	return out.String()
}

// directionOf returns the direction that a character is written in; Neutral for those
// that go with their neighbours. Numbers are written from left to right everywhere.
func directionOf(r rune) bidi.Direction {
	properties, _ := bidi.LookupRune(r)
	switch properties.Class() {
	case bidi.R, bidi.AL:
		return bidi.RightToLeft
	case bidi.L, bidi.EN, bidi.AN:
		return bidi.LeftToRight
	}
	return bidi.Neutral
}

func isNumber(r rune) bool {
	properties, _ := bidi.LookupRune(r)
	return properties.Class() == bidi.EN || properties.Class() == bidi.AN
}
