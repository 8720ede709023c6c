// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Any compiles an expression of any type.
func (env *Env) Any(text string) (*Program, error) {
	root, _, err := env.compile(text)
	return &Program{root, env.MaxCost}, err
}

// Show evaluates a program and returns what it gives as text: equal texts are
// equal values of the same type.
func (p *Program) Show(vars Variables) (string, error) {
	r := run{vars: vars, left: p.maxCost}
	v := r.eval(p.root)
	switch {
	case r.left < 0:
		return "", ErrCost
	case v.kind == kindError:
		return "", v.err()
	}
	return v.show(), nil
}

func (v Value) show() string {
	switch v.kind {
	case kindNull:
		return "null"
	case kindBool:
		return strconv.FormatBool(v.bool())
	case kindInt:
		return strconv.FormatInt(int64(v.num), 10)
	case kindUint:
		return strconv.FormatUint(v.num, 10) + "u"
	case kindDouble:
		return fmt.Sprintf("%gd", v.double())
	case kindString:
		return strconv.Quote(v.str)
	case kindType:
		return kind(v.num).String()
	case kindMap:
		var parts []string
		keys := v.keys()
		for i := range keys.len() {
			r := run{left: 1000}
			value, _ := r.find(v, keys.at(i))
			parts = append(parts, keys.at(i).show()+":"+value.show())
		}
		return "{" + Sorted(parts) + "}"
	}
	var parts []string
	for i := range v.len() {
		parts = append(parts, v.at(i).show())
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Sorted joins parts whose order does not matter.
func Sorted(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
