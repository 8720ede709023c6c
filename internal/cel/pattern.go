// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxPattern is how many instructions a regular expression may have.
const maxPattern = 1000

// A pattern is a regular expression with what it costs.
type pattern struct {
	*regexp.Regexp
	size int // about as many instructions
}

func compilePattern(text string) (*pattern, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := instructions(tree)
	if size > maxPattern {
		return nil, fmt.Errorf("the regular expression has more than %d instructions: over the limit", maxPattern)
	}
	re, err := regexp.Compile(text)
	return &pattern{re, size}, err
}

// instructions estimates how large the program of an expression is, before
// somebody makes it. It stops soon after the limit.
func instructions(tree *syntax.Regexp) int {
	size := 1 + len(tree.Rune)
	if tree.Op == syntax.OpCharClass {
		size = 1
	}
	for _, sub := range tree.Sub {
		if size > maxPattern {
			return size
		}
		size += instructions(sub)
	}
	if tree.Op == syntax.OpRepeat {
		size *= max(tree.Min, tree.Max, 1)
	}
	return size
}

// match evaluates matches. Where the pattern is not constant it is compiled for
// this once, which is dear.
func (r *run) match(p *pattern, text, expression string) Value {
	if p == nil {
		if !r.pay(100 * len(expression)) {
			return Value{}
		}
		var err error
		if p, err = compilePattern(expression); err != nil {
			return failed(err.Error())
		}
	}
	return Bool(r.pay((len(text)+1)*p.size/8) && p.MatchString(text))
}
