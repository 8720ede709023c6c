// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import "slices"

// A Type is what is known of a value before there is one.
type Type struct {
	kind kind
	key  *Type // of a map
	elem *Type // of a list, the values of a map, the type of a type
	id   int   // of a variable
}

// The types of variables that the host declares.
var (
	DynType    = &Type{kind: kindDyn} // any type
	BoolType   = &Type{kind: kindBool}
	IntType    = &Type{kind: kindInt}
	StringType = &Type{kind: kindString}
)

// ListType is the type of lists of elem.
func ListType(elem *Type) *Type { return &Type{kind: kindList, elem: elem} }

// MapType is the type of maps from key to elem.
func MapType(key, elem *Type) *Type { return &Type{kind: kindMap, key: key, elem: elem} }

func (t *Type) String() string {
	switch t.kind {
	case kindList:
		return "list(" + t.elem.String() + ")"
	case kindMap:
		return "map(" + t.key.String() + ", " + t.elem.String() + ")"
	}
	return t.kind.String()
}

// typeType is the type of a type.
func typeType(elem *Type) *Type { return &Type{kind: kindType, elem: elem} }

// parts returns the types that t is made of. The type of all types has none.
func (t *Type) parts() []*Type {
	switch {
	case t.kind == kindMap:
		return []*Type{t.key, t.elem}
	case t.elem != nil:
		return []*Type{t.elem}
	}
	return nil
}

func (t *Type) same(u *Type) bool {
	return t == u || t.kind == u.kind && t.id == u.id && slices.EqualFunc(t.parts(), u.parts(), (*Type).same)
}

func (t *Type) hasVariable() bool {
	return t.kind == kindVar || slices.ContainsFunc(t.parts(), (*Type).hasVariable)
}

// types holds what is known of type variables: those of an overload, the
// elements of an empty list, what is found in a dyn. These are the rules of
// cel-go, of which some are odd; a checker that is laxer than it would accept
// what is not CEL.
type types struct {
	bound []*Type // by id
	undo  []Type  // variables with what they were bound to, to go back
}

func (ts *types) variable() *Type {
	ts.bound = append(ts.bound, nil)
	return &Type{kind: kindVar, id: len(ts.bound) - 1}
}

// fits reports whether every one of some types can be used for another, and
// binds variables so that it is so. If not, nothing is bound.
func (ts *types) fits(have, want []*Type) bool {
	ts.undo = ts.undo[:0]
	if ts.allAssignable(have, want) {
		return true
	}
	for _, old := range slices.Backward(ts.undo) {
		ts.bound[old.id] = old.elem
	}
	return false
}

func (ts *types) set(variable, t *Type) {
	ts.undo = append(ts.undo, Type{id: variable.id, elem: ts.bound[variable.id]})
	ts.bound[variable.id] = t
}

func (ts *types) allAssignable(have, want []*Type) bool {
	if len(have) != len(want) {
		return false
	}
	for i := range have {
		if !ts.assignable(have[i], want[i]) {
			return false
		}
	}
	return true
}

func (ts *types) assignable(t, u *Type) bool {
	if u.kind == kindVar {
		if valid, known := ts.bind(u, t); valid || known {
			return valid
		}
	}
	if t.kind == kindVar {
		valid, _ := ts.bind(t, u)
		return valid
	}
	if t.kind == kindDyn || u.kind == kindDyn {
		return true
	}
	if t.kind != u.kind {
		return false
	}
	if t.kind == kindType {
		switch {
		case t.elem == nil || u.elem == nil:
			return u.elem == nil
		case !t.hasVariable() && !u.hasVariable():
			return true // type(1) == string is a question that can be asked
		}
	}
	return ts.allAssignable(t.parts(), u.parts())
}

// bind makes a variable stand for t, if it can. known says whether it stood for
// something before.
func (ts *types) bind(variable, t *Type) (valid, known bool) {
	if variable.same(t) {
		return true, true
	}
	if old := ts.bound[variable.id]; old != nil {
		if t.same(old) {
			return true, true
		}
		if !ts.assignable(t, old) {
			return false, true
		}
		if general := moreGeneral(t, old); !ts.occurs(variable, general) {
			ts.set(variable, general)
		}
		return true, true
	}
	if ts.occurs(variable, t) {
		return false, false
	}
	ts.set(variable, t)
	return true, false
}

// occurs reports whether a variable is part of t.
func (ts *types) occurs(variable, t *Type) bool {
	if variable.same(t) {
		return true
	}
	if t.kind == kindVar {
		return ts.bound[t.id] != nil && ts.occurs(variable, ts.bound[t.id])
	}
	return slices.ContainsFunc(t.parts(), func(part *Type) bool { return ts.occurs(variable, part) })
}

// resolved returns t with what its variables stand for.
func (ts *types) resolved(t *Type) *Type {
	switch t.kind {
	case kindVar:
		if ts.bound[t.id] != nil {
			return ts.resolved(ts.bound[t.id])
		}
	case kindList, kindType:
		if t.elem != nil {
			return &Type{kind: t.kind, elem: ts.resolved(t.elem)}
		}
	case kindMap:
		return MapType(ts.resolved(t.key), ts.resolved(t.elem))
	}
	return t
}

// moreGeneral returns the one of two types that says less.
func moreGeneral(t, u *Type) *Type {
	if t.atMost(u) {
		return t
	}
	return u
}

// atMost reports whether t says as much as u, or less.
func (t *Type) atMost(u *Type) bool {
	switch {
	case t.kind == kindDyn || t.kind == kindVar:
		return true
	case u.kind == kindDyn || u.kind == kindVar:
		return false
	case t.kind == kindType && t.elem == nil:
		return u.kind == kindType
	}
	return t.kind == u.kind && slices.EqualFunc(t.parts(), u.parts(), (*Type).atMost)
}
