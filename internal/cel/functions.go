// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import "strings"

// A function is an operator or function with its overloads, each the types of
// its arguments and of its result: b is bool, i int, u uint, d double, s string,
// l list(A), m map(A, B), t type(A), * dyn. They are those of CEL in the order of
// cel-go, because what a type variable is bound to depends on it; hence also y
// bytes, D duration and T timestamp, which nothing here ever is.
type function struct {
	name      string
	overloads string
	style     style
}

// style is how a function may be called.
type style int

const (
	global style = 1 << iota // f(x), and all operators
	member                   // x.f()
)

const (
	ordered    = "bb:b ii:b id:b iu:b uu:b ud:b ui:b dd:b di:b du:b ss:b yy:b TT:b DD:b"
	multiplied = "dd:d ii:i uu:u"
)

var functions = [...]function{
	{"?:", "bAA:A", global},
	{"!", "b:b", global},
	{"-", "d:d i:i", global},
	{"==", "AA:b", global},
	{"!=", "AA:b", global},
	{"<", ordered, global},
	{"<=", ordered, global},
	{">", ordered, global},
	{">=", ordered, global},
	{"in", "Al:b Am:b", global},
	{"[]", "li:A mA:B", global},
	{"+", "yy:y dd:d DD:D DT:T TD:T ii:i ll:l ss:s uu:u", global},
	{"-", "dd:d DD:D ii:i TD:T TT:D uu:u", global},
	{"*", multiplied, global},
	{"/", multiplied, global},
	{"%", "ii:i uu:u", global},
	{"size", "y:i l:i m:i s:i", global | member},
	{"contains", "ss:b", member},
	{"startsWith", "ss:b", member},
	{"endsWith", "ss:b", member},
	{"matches", "ss:b", global | member},
	{"dyn", "A:*", global},
	{"type", "A:t", global},
	{"bool", "b:b s:b", global},
	{"int", "i:i d:i D:i s:i T:i u:i", global},
	{"uint", "u:u d:u i:u s:u", global},
	{"double", "d:d i:d s:d u:d", global},
	{"string", "s:s b:s y:s d:s D:s i:s T:s u:s", global},
}

// functionOf finds the function that e calls.
func functionOf(e *expr) *function {
	want := global
	if e.member {
		want = member
	}
	for i := range functions {
		f := &functions[i]
		if f.name == e.name && f.style&want != 0 && (e.name != "-" || len(e.args) == strings.IndexByte(f.overloads, ':')) {
			return f
		}
	}
	return nil
}

// converts reports whether it is one of the conversions, of which only the
// overloads that the types allow are tried.
func (f *function) converts() bool {
	return strings.Contains(" bool int uint double string ", " "+f.name+" ")
}

// overload returns the types of one overload, with variables of its own.
func (ts *types) overload(signature string) (params []*Type, result *Type) {
	var a, b *Type
	if strings.ContainsAny(signature, "ABlmt") {
		a, b = ts.variable(), ts.variable()
	}
	for i := range len(signature) {
		switch letter := signature[i]; letter {
		case ':':
		case 'A':
			result = a
		case 'B':
			result = b
		case 'l':
			result = ListType(a)
		case 'm':
			result = MapType(a, b)
		case 't':
			result = typeType(a)
		default:
			result = &Type{kind: kindOf(letter)}
		}
		if i < len(signature)-2 {
			params = append(params, result)
		}
	}
	return params, result
}

// kindOf returns the kind that a letter of an overload stands for.
func kindOf(letter byte) kind { return kind(strings.IndexByte("-nbiudslmtyDT*A", letter)) }

// usage lists what a function takes, for people.
func (f *function) usage() string {
	var uses []string
	for signature := range strings.SplitSeq(f.overloads, " ") {
		args, _, _ := strings.Cut(signature, ":")
		var names []string
		for i := range len(args) {
			names = append(names, kindOf(args[i]).String())
		}
		if !strings.ContainsAny(args, "yDT") {
			uses = append(uses, "("+strings.Join(names, ", ")+")")
		}
	}
	return strings.Join(uses, " or ")
}
