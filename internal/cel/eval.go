// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

// A run is one evaluation. Errors are values until its end, for && and ||, all
// and exists may not care about them; that the cost is spent is final.
type run struct {
	vars   Variables
	left   int // of the cost
	locals [maxLocals]Value
}

// pay counts steps. Who gets false may return anything, but soon.
func (r *run) pay(steps int) bool {
	r.left -= steps
	return r.left >= 0
}

// scan counts a look at some bytes, which is quick.
func (r *run) scan(bytes int) bool { return r.pay(bytes / 64) }

func (r *run) eval(e *expr) Value {
	if !r.pay(1) {
		return Value{}
	}
	switch e.op {
	case opConst:
		return e.value
	case opLocal:
		return r.locals[e.slot]
	case opName:
		v, err := r.vars.Variable(e.name)
		if err != nil {
			return Value{box: err}
		}
		return v
	case opAnd:
		return r.logic(e.args, false)
	case opOr:
		return r.logic(e.args, true)
	case opCondition:
		v := r.eval(e.args[0])
		switch {
		case v.kind != kindBool:
			return v.asError()
		case v.bool():
			return r.eval(e.args[1])
		}
		return r.eval(e.args[2])
	case opList:
		return r.list(e)
	case opMap:
		return r.mapping(e)
	}
	a := r.eval(e.args[0])
	if a.kind == kindError {
		return a
	}
	switch e.op {
	case opSelect, opHas:
		return r.field(e, a)
	case opMacro:
		return r.macro(e, a)
	}
	var b Value
	if len(e.args) == 2 {
		if b = r.eval(e.args[1]); b.kind == kindError {
			return b
		}
	}
	return r.call(e, a, b)
}

// logic evaluates && and ||: the first operand that is stop decides, and only
// where there is none does it matter that another is no bool.
func (r *run) logic(args []*expr, stop bool) Value {
	result := Bool(!stop)
	for _, arg := range args {
		v := r.eval(arg)
		if v.decides(stop, &result) {
			return v
		}
	}
	return result
}

// decides reports whether v is stop, and otherwise keeps the first error.
func (v Value) decides(stop bool, result *Value) bool {
	if v.kind != kindBool && result.kind != kindError {
		*result = v.asError()
	}
	return v.kind == kindBool && v.bool() == stop
}

func (r *run) field(e *expr, a Value) Value {
	if e.op == opHas && a.kind != kindMap {
		if a.kind == kindList {
			return overload("a list has no fields")
		}
		return Bool(false)
	}
	v, ok := r.find(a, String(e.name))
	switch {
	case e.op == opHas:
		return Bool(ok)
	case !ok:
		return failed("no such key: " + e.name)
	}
	return v
}

func (r *run) list(e *expr) Value {
	list := make([]Value, len(e.args))
	for i, arg := range e.args {
		if list[i] = r.eval(arg); list[i].kind == kindError {
			return list[i]
		}
	}
	return Value{kind: kindList, box: list}
}

func (r *run) mapping(e *expr) Value {
	m := make(entries, 0, len(e.args)/2)
next:
	for i := 0; i < len(e.args); i += 2 {
		key, value := r.eval(e.args[i]), r.eval(e.args[i+1])
		switch {
		case key.kind == kindError:
			return key
		case key.kind == kindNull || key.kind > kindString:
			return overload("a key of type " + key.kind.String())
		case value.kind == kindError:
			return value
		}
		for j := range m {
			if m[j].key.kind == key.kind && r.equal(m[j].key, key) {
				m[j].value = value // the last one counts
				continue next
			}
		}
		m = append(m, entry{key, value})
	}
	return Value{kind: kindMap, box: m}
}

// macro evaluates a macro over a list or the keys of a map.
func (r *run) macro(e *expr, over Value) Value {
	switch {
	case over.kind == kindMap && r.pay(over.len()):
		over = over.keys()
	case over.kind == kindString && over.str == "": // to cel-go it is a range, and empty
	case over.kind != kindList:
		return overload("cannot go through " + over.kind.String())
	}
	var list []Value
	stop := e.name == "exists"
	quantifier, result := stop || e.name == "all", Bool(!stop)
	for i := range over.len() {
		element := over.at(i)
		r.locals[e.slot] = element
		v := r.eval(e.args[1])
		switch {
		case r.left < 0:
			return Value{}
		case quantifier:
			if v.decides(stop, &result) {
				return v
			}
			continue
		case e.name == "map" && len(e.args) == 2:
		case v.kind != kindBool:
			return v.asError()
		case !v.bool():
			continue
		case e.name == "map":
			v = r.eval(e.args[2])
		default:
			v = element
		}
		if v.kind == kindError {
			return v
		}
		list = append(list, v)
	}
	switch {
	case quantifier:
		return result
	case e.name == "exists_one":
		return Bool(len(list) == 1)
	}
	return Value{kind: kindList, box: list}
}
