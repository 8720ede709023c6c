// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"slices"
	"strings"
)

// A checker finds out what the names in an expression mean and whether its types
// fit, and prepares it to be evaluated.
type checker struct {
	source
	types
	env    *Env
	locals []local // those in scope
	all    []local
}

// A local is the variable of a macro: where it is named, and its type.
type local struct {
	*expr
	typ *Type
}

// program checks a whole expression and returns its type.
func (c *checker) program(root *expr) *Type {
	result := c.resolved(c.check(root))
	for _, l := range c.all {
		if c.resolved(l.typ).kind == kindType { // cel-go takes the name for one of a type
			c.fail(l.pos, "%s would stand for a type, which is not supported: call type() where you use it", l.name)
		}
	}
	return result
}

// check returns the type of e.
func (c *checker) check(e *expr) *Type {
	switch e.op {
	case opConst:
		return &Type{kind: e.value.kind}
	case opName, opSelect:
		return c.name(e)
	case opHas:
		c.field(e)
		return BoolType
	case opAnd, opOr:
		for _, arg := range e.args {
			c.want(arg, c.check(arg), BoolType)
		}
		return BoolType
	case opList:
		return c.list(e)
	case opMap:
		return c.mapping(e)
	case opMacro:
		return c.macro(e)
	}
	fn := functionOf(e)
	if fn == nil {
		c.unknown(e.pos, e.name)
		return DynType
	}
	args := make([]*Type, len(e.args))
	for i := range args {
		if e.member { // what it is called on comes last, as in cel-go
			i = (i + 1) % len(args)
		}
		args[i] = c.check(e.args[i])
	}
	if c.err != nil {
		return DynType
	}
	result := c.resolve(e, fn, args)
	switch {
	case c.err != nil:
	case fn.converts():
		return c.folded(e, result)
	case e.name == "matches" && e.args[1].op == opConst:
		var err error
		if e.re, err = compilePattern(e.args[1].value.str); err != nil {
			c.fail(e.args[1].pos, "%v", err)
		}
	}
	return result
}

// resolve finds the overloads that take the arguments and returns what they give.
func (c *checker) resolve(e *expr, fn *function, args []*Type) *Type {
	if fn.converts() && len(args) == 1 && c.resolved(args[0]).kind == kindVar {
		c.fail(e.pos, "the type of this is not known, so that %s() would take one type only: write %s(dyn(…))", e.name, e.name)
		return DynType
	}
	var found *Type
	for signature := range strings.SplitSeq(fn.overloads, " ") {
		params, result := c.overload(signature)
		if !c.fits(args, params) {
			continue
		}
		result = c.resolved(result)
		switch {
		case found == nil:
			found, e.only = result, params[0].kind
			continue
		case !found.same(result):
			found = DynType
		}
		e.only = kindDyn
	}
	if found == nil {
		var names []string
		for _, arg := range args {
			names = append(names, c.resolved(arg).String())
		}
		c.fail(e.pos, "%s does not take (%s), but %s", e.name, strings.Join(names, ", "), fn.usage())
		return DynType
	}
	return found
}

// name checks a variable or a field: names of variables have dots too.
func (c *checker) name(e *expr) *Type {
	path, root := e.name, e
	for root.op == opSelect {
		root = root.args[0]
		path = root.name + "." + path
	}
	if root.op != opName {
		return c.field(e)
	}
	if slot := c.slot(root.name); slot >= 0 {
		if e != root {
			return c.field(e)
		}
		e.op, e.slot = opLocal, slot
		return c.locals[slot].typ
	}
	for _, v := range c.env.Variables {
		if v.Name == path {
			*e = expr{op: opName, pos: e.pos, name: path}
			return v.Type
		}
		if strings.HasPrefix(path, v.Name+".") {
			return c.field(e)
		}
	}
	kind := kind(slices.Index(kindNames[:kindBytes], path))
	*e = expr{pos: e.pos, value: Value{kind: kindType, num: uint64(kind)}}
	switch kind {
	case -1, kindError:
		c.unknown(e.pos, path)
		return DynType
	case kindList:
		return typeType(ListType(DynType))
	case kindMap:
		return typeType(MapType(DynType, DynType))
	}
	return typeType(&Type{kind: kind})
}

// slot returns where the variable of a macro is, or -1.
func (c *checker) slot(name string) int {
	for i := len(c.locals) - 1; i >= 0; i-- {
		if c.locals[i].name == name {
			return i
		}
	}
	return -1
}

// field checks the selection of a field.
func (c *checker) field(e *expr) *Type {
	t := c.resolved(c.check(e.args[0]))
	switch t.kind {
	case kindMap:
		return t.elem
	case kindVar:
		c.fits([]*Type{DynType}, []*Type{t})
	case kindDyn:
	default:
		c.fail(e.pos, "a %s has no field %s: only a map has", t, e.name)
	}
	return DynType
}

// join checks an element and returns the type that it has in common with those
// before it.
func (c *checker) join(before *Type, e *expr) *Type {
	t := c.check(e)
	switch {
	case before == nil:
		return t
	case c.fits([]*Type{before}, []*Type{t}):
		return moreGeneral(before, t)
	}
	return DynType
}

func (c *checker) list(e *expr) *Type {
	var elem *Type
	for _, arg := range e.args {
		elem = c.join(elem, arg)
	}
	if elem == nil {
		elem = c.variable()
	}
	return c.folded(e, ListType(elem))
}

func (c *checker) mapping(e *expr) *Type {
	if len(e.args) == 0 {
		return c.folded(e, MapType(c.variable(), c.variable()))
	}
	var key, elem *Type
	for i, arg := range e.args {
		if i%2 == 1 {
			elem = c.join(elem, arg)
			continue
		}
		t := c.resolved(c.check(arg))
		switch {
		case t.kind < kindBool || t.kind > kindString || t.kind == kindDouble:
			c.fail(arg.pos, "a key of type %s: want a string, an int, a uint or a bool, perhaps by string(…)", t)
		case key != nil && !key.same(t):
			c.fail(arg.pos, "a key of type %s beside one of type %s: want one type", t, key)
		}
		key = t
	}
	return c.folded(e, MapType(key, elem))
}

// macro checks all, exists, exists_one, filter and map, and takes their variable
// from the arguments.
func (c *checker) macro(e *expr) *Type {
	over := c.resolved(c.check(e.args[0]))
	var elem *Type
	switch over.kind {
	case kindList:
		elem = over.elem
	case kindMap:
		elem = over.key
	case kindVar, kindDyn:
		c.fits([]*Type{DynType}, []*Type{over})
		elem = DynType
	default:
		c.fail(e.args[0].pos, "%s goes through a list or the keys of a map, not a %s", e.name, over)
		return DynType
	}
	variable := e.args[1]
	switch {
	case variable.op != opName || variable.name == "__result__":
		c.fail(variable.pos, "%s wants a name for the element first, as in %s(x, x > 1)", e.name, e.name)
		return DynType
	case slices.Contains(kindNames[:], variable.name):
		c.fail(variable.pos, "%s is a type: take another name", variable.name)
		return DynType
	case len(c.locals) == maxLocals:
		c.fail(e.pos, "macros are nested too deep: at most %d levels", maxLocals)
		return DynType
	}
	e.slot = len(c.locals)
	e.args = slices.Delete(e.args, 1, 2)
	c.locals, c.all = append(c.locals, local{variable, elem}), append(c.all, local{variable, elem})
	defer func() { c.locals = c.locals[:e.slot] }()
	body := e.args[1:]
	if e.name != "map" || len(body) == 2 {
		c.want(body[0], c.check(body[0]), BoolType)
		body = body[1:]
	}
	switch e.name {
	case "filter":
		return ListType(elem)
	case "map":
		return ListType(c.check(body[0]))
	}
	return BoolType
}

// want checks the type of an argument.
func (c *checker) want(e *expr, have, want *Type) {
	if !c.fits([]*Type{have}, []*Type{want}) {
		c.fail(e.pos, "this gives %s: want %s", c.resolved(have), want)
	}
}

// folded evaluates e now if all its arguments are constants.
func (c *checker) folded(e *expr, t *Type) *Type {
	if c.err != nil || slices.ContainsFunc(e.args, func(arg *expr) bool { return arg.op != opConst }) {
		return t
	}
	r := run{left: c.env.MaxCost}
	v := r.eval(e)
	if v.kind == kindError {
		c.fail(e.pos, "this can never be evaluated: %v", v.err())
		return t
	}
	*e = expr{pos: e.pos, value: v}
	return t
}

// unknown says that there is no such name, and which it might have been.
func (c *checker) unknown(pos int, name string) {
	if strings.Contains(" timestamp duration bytes ", " "+name+" ") {
		c.fail(pos, "%s() is not supported", name)
	}
	names := []string{"has", "all", "exists", "exists_one", "filter", "map"}
	for i := range functions {
		names = append(names, functions[i].name)
	}
	for _, v := range c.env.Variables {
		names = append(names, v.Name)
	}
	best, length := "", 1
	for _, candidate := range names {
		same := 0
		for same < min(len(name), len(candidate)) && name[same] == candidate[same] {
			same++
		}
		if same == len(name) && same == len(candidate) {
			c.fail(pos, "%s is not called like this", name)
		}
		if same > length {
			best, length = " (did you mean '"+candidate+"'?)", same
		}
	}
	c.fail(pos, "undeclared reference to '%s'%s", name, best)
}
