// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// call evaluates an operator or a function.
func (r *run) call(e *expr, a, b Value) Value {
	switch e.name {
	case "==":
		return Bool(r.equal(a, b))
	case "!=":
		return Bool(!r.equal(a, b))
	case "<":
		return r.order(a, b, -1, -1)
	case "<=":
		return r.order(a, b, -1, 0)
	case ">":
		return r.order(a, b, 1, 1)
	case ">=":
		return r.order(a, b, 0, 1)
	case "in":
		return r.in(a, b)
	case "[]":
		return r.index(a, b)
	case "+":
		return r.add(a, b)
	case "-", "*", "/", "%":
		if len(e.args) == 1 {
			return negate(a)
		}
		return arithmetic(e.name, a, b)
	case "contains", "startsWith", "endsWith", "matches":
		return r.text(e, a, b)
	case "dyn":
		return a
	case "type":
		return Value{kind: kindType, num: uint64(a.kind)}
	case "size":
		switch a.kind {
		case kindString:
			r.scan(len(a.str))
			return Int(int64(utf8.RuneCountInString(a.str)))
		case kindList, kindMap:
			return Int(int64(a.len()))
		}
	case "!":
		if a.kind == kindBool {
			return Bool(!a.bool())
		}
	default:
		return r.convert(e, a)
	}
	return overload(e.name + "(" + a.kind.String() + ")")
}

func (r *run) in(a, b Value) Value {
	switch b.kind {
	case kindMap:
		_, ok := r.find(b, a)
		return Bool(ok)
	case kindList:
		for i := range b.len() {
			if r.equal(a, b.at(i)) || r.left < 0 {
				return Bool(true)
			}
		}
		return Bool(false)
	}
	return overload("in " + b.kind.String())
}

func (r *run) index(a, b Value) Value {
	n, whole := b.exactInt()
	switch {
	case a.kind == kindMap:
		if v, ok := r.find(a, b); ok {
			return v
		}
		return failed("no such key: " + b.str[:min(len(b.str), 100)])
	case a.kind != kindList || !whole:
		return overload(a.kind.String() + "[" + b.kind.String() + "]")
	case n < 0 || n >= int64(a.len()):
		return failed("index out of bounds: " + strconv.FormatInt(n, 10))
	}
	return a.at(int(n))
}

// text evaluates contains, startsWith, endsWith and matches.
func (r *run) text(e *expr, a, b Value) Value {
	if a.kind != kindString || b.kind != kindString {
		return overload(a.kind.String() + "." + e.name + "(" + b.kind.String() + ")")
	}
	r.scan(len(b.str))
	switch e.name {
	case "startsWith":
		return Bool(strings.HasPrefix(a.str, b.str))
	case "endsWith":
		return Bool(strings.HasSuffix(a.str, b.str))
	case "contains": // at worst, as a search hardly ever is
		return Bool(r.pay((len(a.str)/64+1)*(len(b.str)/64+1)) && strings.Contains(a.str, b.str))
	}
	return r.match(e.re, a.str, b.str)
}

func (r *run) add(a, b Value) Value {
	switch {
	case a.kind == kindString && b.kind == kindString:
		if r.scan(len(a.str) + len(b.str)) {
			return String(a.str + b.str)
		}
		return Value{}
	case a.kind != kindList || b.kind != kindList:
		return arithmetic("+", a, b)
	}
	count := a.len()
	if !r.pay(count + b.len()) {
		return Value{}
	}
	list := make([]Value, count+b.len())
	for i := range list {
		if i < count {
			list[i] = a.at(i)
		} else {
			list[i] = b.at(i - count)
		}
	}
	return Value{kind: kindList, box: list}
}

var overflow = Value{str: "integer overflow"}

func negate(a Value) Value {
	if a.kind == kindDouble {
		return Double(-a.double())
	}
	return arithmetic("-", Int(0), a)
}

// arithmetic evaluates + - * / % of two numbers of one kind.
func arithmetic(sign string, a, b Value) Value {
	switch {
	case a.kind != b.kind:
	case a.kind == kindDouble && sign != "%":
		return doubles(sign, a.double(), b.double())
	case a.kind != kindInt && a.kind != kindUint:
	case (sign == "/" || sign == "%") && b.num == 0:
		return failed("division by zero")
	case a.kind == kindInt:
		return ints(sign, int64(a.num), int64(b.num))
	default:
		return uints(sign, a.num, b.num)
	}
	return overload(a.kind.String() + " " + sign + " " + b.kind.String())
}

func ints(sign string, a, b int64) Value {
	switch n := int64(0); sign {
	case "+":
		if n = a + b; (n > a) == (b > 0) {
			return Int(n)
		}
	case "-":
		if n = a - b; (n < a) == (b > 0) {
			return Int(n)
		}
	case "*":
		if n = a * b; a == 0 || n/a == b && !(a == -1 && b == math.MinInt64) {
			return Int(n)
		}
	default:
		switch {
		case a == math.MinInt64 && b == -1:
		case sign == "/":
			return Int(a / b)
		default:
			return Int(a % b)
		}
	}
	return overflow
}

func uints(sign string, a, b uint64) Value {
	var n, over uint64
	switch sign {
	case "+":
		n, over = bits.Add64(a, b, 0)
	case "-":
		n, over = bits.Sub64(a, b, 0)
	case "*":
		over, n = bits.Mul64(a, b)
	case "/":
		n = a / b
	default:
		n = a % b
	}
	if over != 0 {
		return overflow
	}
	return Value{kind: kindUint, num: n}
}

func doubles(sign string, a, b float64) Value {
	switch sign {
	case "+":
		return Double(a + b)
	case "-":
		return Double(a - b)
	case "*":
		return Double(a * b)
	}
	return Double(a / b)
}

// convert evaluates bool(), int(), uint(), double() and string().
func (r *run) convert(e *expr, a Value) Value {
	switch {
	case e.only != kindDyn && e.only != a.kind:
	case e.name == a.kind.String():
		return a
	case a.kind == kindString:
		if !r.pay(len(a.str) / 8) {
			return Value{}
		}
		return parse(e.name, a.str)
	case e.name == "string" && a.kind == kindBool:
		return String(strconv.FormatBool(a.bool()))
	case !a.isNumber() || e.name == "bool":
	case e.name == "double":
		return Double(a.float())
	case e.name == "string":
		switch a.kind {
		case kindInt:
			return String(strconv.FormatInt(int64(a.num), 10))
		case kindUint:
			return String(strconv.FormatUint(a.num, 10))
		}
		return String(strconv.FormatFloat(a.double(), 'g', -1, 64))
	case e.name == "int":
		if n, ok := a.truncated(); ok {
			return Int(n)
		}
		return overflow
	case e.name == "uint":
		if n, ok := a.truncatedUint(); ok {
			return Value{kind: kindUint, num: n}
		}
		return overflow
	}
	return overload(e.name + "(" + a.kind.String() + ")")
}

// parse converts a string.
func parse(to, text string) (v Value) {
	var err error
	switch to {
	case "bool":
		var b bool
		b, err = strconv.ParseBool(text)
		v = Bool(b)
	case "int":
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v = Int(n)
	case "uint":
		v.kind = kindUint
		v.num, err = strconv.ParseUint(text, 10, 64)
	case "double":
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v = Double(f)
	}
	if err != nil {
		return failed("type conversion error: " + to + " of " + strconv.Quote(text[:min(len(text), 100)]))
	}
	return v
}
