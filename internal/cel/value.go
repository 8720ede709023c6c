// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
)

// kind is what a value is, or what kind of type a type is.
type kind int

const (
	kindError kind = iota
	kindNull
	kindBool
	kindInt
	kindUint
	kindDouble
	kindString
	kindList
	kindMap
	kindType
	// Of types only: no value is one of these.
	kindBytes
	kindDuration
	kindTimestamp
	kindDyn
	kindVar
)

var kindNames = [...]string{"error", "null_type", "bool", "int", "uint", "double", "string", "list", "map", "type",
	"bytes", "duration", "timestamp", "dyn", "dyn"}

func (k kind) String() string { return kindNames[k] }

// A Value is a value of CEL. The zero Value is an error.
type Value struct {
	kind kind
	num  uint64 // of a bool, an int, a uint, the bits of a double, the kind of a type
	str  string // of a string or an error
	box  any    // the list or map, which is never changed; the error of the host
}

// entries is a map that was written in an expression: a few keys of one kind,
// each once.
type entries []entry

type entry struct{ key, value Value }

// Bool returns a bool of CEL.
func Bool(b bool) Value {
	if b {
		return Value{kind: kindBool, num: 1}
	}
	return Value{kind: kindBool}
}

// Int returns an int of CEL.
func Int(n int64) Value { return Value{kind: kindInt, num: uint64(n)} }

// Double returns a double of CEL.
func Double(f float64) Value { return Value{kind: kindDouble, num: math.Float64bits(f)} }

// String returns a string of CEL.
func String(s string) Value { return Value{kind: kindString, str: s} }

// Of returns the value of CEL that is nil, a bool, an int64, a float64, a
// string, a []string, a map[string]string, or a []any or map[string]any of
// these. A list or map must not be changed afterwards. Anything else is an error
// to whoever looks at it.
func Of(v any) Value {
	switch x := v.(type) {
	case nil:
		return Value{kind: kindNull}
	case bool:
		return Bool(x)
	case int64:
		return Int(x)
	case float64:
		return Double(x)
	case string:
		return String(x)
	case []any, []string:
		return Value{kind: kindList, box: v}
	case map[string]any, map[string]string:
		return Value{kind: kindMap, box: v}
	}
	return failed("a value of the host is of an unknown type")
}

func failed(text string) Value { return Value{str: text} }

// overload is the error of an operation that does not take such values.
func overload(what string) Value { return failed("no such overload: " + what) }

func (v Value) bool() bool      { return v.num != 0 }
func (v Value) double() float64 { return math.Float64frombits(v.num) }
func (v Value) isNaN() bool     { return v.kind == kindDouble && math.IsNaN(v.double()) }
func (v Value) isNumber() bool  { return v.kind >= kindInt && v.kind <= kindDouble }

// err returns the error that a value is.
func (v Value) err() error {
	if err, ok := v.box.(error); ok {
		return err
	}
	return errors.New(v.str)
}

// asError returns v if it is an error, and otherwise that it should be a bool.
func (v Value) asError() Value {
	if v.kind == kindError {
		return v
	}
	return overload("want a bool, not " + v.kind.String())
}

// len returns the number of elements of a list or map.
func (v Value) len() int {
	switch x := v.box.(type) {
	case []any:
		return len(x)
	case []string:
		return len(x)
	case []Value:
		return len(x)
	case map[string]any:
		return len(x)
	case map[string]string:
		return len(x)
	case entries:
		return len(x)
	}
	return 0
}

// at returns an element of a list.
func (v Value) at(i int) Value {
	switch x := v.box.(type) {
	case []any:
		return Of(x[i])
	case []string:
		return String(x[i])
	}
	return v.box.([]Value)[i]
}

// keys returns the keys of a map as a list, always in the same order.
func (v Value) keys() Value {
	switch x := v.box.(type) {
	case map[string]any:
		return Of(slices.Sorted(maps.Keys(x)))
	case map[string]string:
		return Of(slices.Sorted(maps.Keys(x)))
	}
	var keys []Value
	for _, e := range v.box.(entries) {
		keys = append(keys, e.key)
	}
	return Value{kind: kindList, box: keys}
}

// truncated returns a number as an int without its fraction. Of the doubles, CEL
// takes neither end of the range.
func (v Value) truncated() (n int64, ok bool) {
	switch f := v.double(); v.kind {
	case kindInt:
		return int64(v.num), true
	case kindUint:
		return int64(v.num), v.num <= math.MaxInt64
	case kindDouble:
		return int64(f), f > math.MinInt64 && f < math.MaxInt64
	}
	return 0, false
}

// truncatedUint is the same for a uint.
func (v Value) truncatedUint() (n uint64, ok bool) {
	switch f := v.double(); v.kind {
	case kindInt:
		return v.num, int64(v.num) >= 0
	case kindDouble:
		return uint64(f), f >= 0 && f < math.MaxUint64
	}
	return v.num, v.kind == kindUint
}

// exactInt returns a number as an int, if it is one.
func (v Value) exactInt() (int64, bool) {
	n, ok := v.truncated()
	return n, ok && (v.kind != kindDouble || float64(n) == v.double())
}

// find looks a key up in a map. A number finds the same number of another kind.
func (r *run) find(m, key Value) (Value, bool) {
	r.scan(len(key.str))
	switch x := m.box.(type) {
	case map[string]any:
		v, ok := x[key.str]
		return Of(v), ok && key.kind == kindString
	case map[string]string:
		v, ok := x[key.str]
		return String(v), ok && key.kind == kindString
	case entries:
		for i := range x {
			if r.pay(1) && r.sameKey(x[i].key, key) {
				return x[i].value, true
			}
		}
	}
	return Value{}, false
}

// sameKey compares a key of a map with one that is looked for.
func (r *run) sameKey(have, key Value) bool {
	switch {
	case have.kind == key.kind:
		return r.equal(have, key)
	case have.kind == kindUint && key.kind == kindDouble:
		n, ok := key.truncatedUint()
		return ok && n == have.num && float64(n) == key.double()
	}
	a, ok := have.exactInt()
	b, okToo := key.exactInt()
	return ok && okToo && a == b
}

// equal is the == of CEL: of what is not alike it is false.
func (r *run) equal(a, b Value) bool {
	switch {
	case !r.pay(1):
		return false
	case a.isNumber() && b.isNumber():
		return !a.isNaN() && !b.isNaN() && compareNumbers(a, b) == 0
	case a.kind != b.kind || len(a.str) != len(b.str) || a.len() != b.len():
		return false
	case a.kind == kindString:
		return r.scan(len(a.str)) && a.str == b.str
	case a.kind == kindList:
		for i := range a.len() {
			if !r.equal(a.at(i), b.at(i)) {
				return false
			}
		}
		return true
	case a.kind == kindMap:
		keys := a.keys()
		for i := range keys.len() {
			key := keys.at(i)
			mine, _ := r.find(a, key)
			other, ok := r.find(b, key)
			if !ok || !r.equal(mine, other) {
				return false
			}
		}
		return true
	}
	return a.num == b.num // null, bool, type
}

// compareNumbers orders numbers that are not NaN. As in cel-go, an int or uint
// is rounded to a double to be compared with one.
func compareNumbers(a, b Value) int {
	switch {
	case a.kind == kindDouble || b.kind == kindDouble:
		return cmp.Compare(a.float(), b.float())
	case a.kind == kindInt && b.kind == kindInt:
		return cmp.Compare(int64(a.num), int64(b.num))
	case a.kind == kindInt && int64(a.num) < 0:
		return -1
	case b.kind == kindInt && int64(b.num) < 0:
		return 1
	}
	return cmp.Compare(a.num, b.num)
}

func (v Value) float() float64 {
	switch v.kind {
	case kindInt:
		return float64(int64(v.num))
	case kindUint:
		return float64(v.num)
	}
	return v.double()
}

// order reports whether the sign of a compared with b is between two. Nothing is
// before or after NaN.
func (r *run) order(a, b Value, from, to int) Value {
	var sign int
	switch {
	case a.kind < kindBool || a.kind > kindString:
		return overload(a.kind.String() + " is not ordered")
	case a.isNaN() || b.isNaN():
		return Bool(false)
	case a.isNumber() && b.isNumber():
		sign = compareNumbers(a, b)
	case a.kind != b.kind:
		return overload("cannot order " + a.kind.String() + " and " + b.kind.String())
	case a.kind == kindString:
		r.scan(min(len(a.str), len(b.str)))
		sign = strings.Compare(a.str, b.str)
	default:
		sign = cmp.Compare(a.num, b.num)
	}
	return Bool(sign >= from && sign <= to)
}
