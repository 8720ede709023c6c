// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"strconv"
	"strings"
)

// op says what an expr does.
type op int

const (
	opConst     op = iota
	opName         // a variable of the host
	opLocal        // the variable of a macro
	opSelect       // args[0].name
	opHas          // has(args[0].name)
	opList         // [args…]
	opMap          // {args[0]: args[1], …}
	opAnd          // two arguments or more
	opOr           // the same
	opCondition    // args[0] ? args[1] : args[2]
	opCall         // an operator or a function
	opMacro        // args[0].name(…), of each element of args[0]
)

// An expr is a node of an expression: first as it is written, then as the
// checker has prepared it to be evaluated.
type expr struct {
	op     op
	pos    int
	depth  int
	name   string // of a variable, a field, a function, a macro; the sign of an operator
	args   []*expr
	member bool     // a call as in args[0].name(args[1:])
	value  Value    // of a constant
	slot   int      // of the variable that a macro or a local has
	only   kind     // the one type that a conversion takes here, or kindDyn
	re     *pattern // of matches, where the pattern is constant
}

// levels are the binary operators, from those that bind least.
var levels = [...]string{" || ", " && ", " == != < <= > >= in ", " + - ", " * / % "}

// reserved are words that CEL keeps for other languages.
const reserved = " as break const continue else for function if import let loop package namespace return var void while "

// A parser turns a text into an expr. After an error it sees only the end of
// the text, and what it returns is of no use.
type parser struct {
	lexer
	tok   token
	depth int
}

func (p *parser) node(op op, at token, args ...*expr) *expr {
	e := &expr{op: op, pos: at.pos, name: at.text, args: args}
	for _, arg := range args {
		e.depth = max(e.depth, arg.depth+1)
	}
	if e.depth > maxDepth {
		p.fail(at.pos, "too deep: at most %d levels", maxDepth)
	}
	return e
}

func (p *parser) is(sign string) bool { return p.tok.kind == tokenSign && p.tok.text == sign }

func (p *parser) advance() token {
	tok := p.tok
	p.tok = p.next()
	return tok
}

func (p *parser) accept(sign string) bool {
	if !p.is(sign) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(sign string) {
	if !p.accept(sign) {
		p.unexpected(sign)
	}
}

func (p *parser) unexpected(want string) {
	got := strconv.Quote(p.tok.text)
	if p.tok.kind == tokenEnd {
		got = "the end"
	}
	p.fail(p.tok.pos, "Syntax error: want %s here, not %s", want, got)
	p.tok = p.next()
}

func (p *parser) all() *expr {
	p.advance()
	e := p.expression()
	if p.tok.kind != tokenEnd {
		p.unexpected("an operator or the end")
	}
	return e
}

func (p *parser) expression() *expr {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.tok.pos, "too deep: at most %d levels", maxDepth)
		p.tok = p.next()
	}
	defer func() { p.depth-- }()
	e := p.binary(0)
	if !p.is("?") {
		return e
	}
	sign := p.advance()
	then := p.binary(0)
	p.expect(":")
	return p.node(opCondition, token{text: "?:", pos: sign.pos}, e, then, p.expression())
}

func (p *parser) binary(level int) *expr {
	if level == len(levels) {
		return p.unary()
	}
	e := p.binary(level + 1)
	for p.tok.kind == tokenSign && strings.Contains(levels[level], " "+p.tok.text+" ") {
		sign, op, args := p.advance(), opCall, []*expr{e}
		switch sign.text {
		case "&&":
			op = opAnd
		case "||":
			op = opOr
		}
		if op != opCall && e.op == op {
			args = e.args // a chain is flat, so that it may be long
		}
		e = p.node(op, sign, append(args, p.binary(level+1))...)
	}
	return e
}

func (p *parser) unary() *expr {
	first, count := p.tok, 0
	for (first.text == "!" || first.text == "-") && p.is(first.text) {
		p.advance()
		count++
	}
	if first.text == "-" && count == 1 && p.tok.kind == tokenNumber {
		return p.member(p.number(first.pos, "-"))
	}
	e := p.member(p.primary())
	if count%2 == 0 { // CEL drops pairs, whatever they stand before
		return e
	}
	return p.node(opCall, first, e)
}

// member reads the selections, indices and calls that follow e.
func (p *parser) member(e *expr) *expr {
	for {
		sign := p.tok
		switch {
		case p.accept("."):
			if p.tok.kind != tokenIdent {
				p.unexpected("a name")
				return e
			}
			name := p.advance()
			if p.accept("(") {
				e = p.call(name, append([]*expr{e}, p.list(")")...), true)
			} else {
				e = p.node(opSelect, token{text: name.text, pos: sign.pos}, e)
			}
		case p.accept("["):
			sign.text = "[]"
			e = p.node(opCall, sign, e, p.expression())
			p.expect("]")
		default:
			return e
		}
	}
}

// list reads what stands between commas, and the bracket that ends it. Only a
// list of arguments must not end with a comma.
func (p *parser) list(end string) []*expr {
	var list []*expr
	for !p.accept(end) {
		list = append(list, p.expression())
		if end == "}" {
			p.expect(":")
			list = append(list, p.expression())
		}
		if !p.accept(",") {
			p.expect(end)
			break
		}
		if end == ")" && p.is(end) {
			p.unexpected("an argument")
		}
	}
	return list
}

func (p *parser) primary() *expr {
	tok := p.tok
	switch {
	case tok.kind == tokenNumber:
		return p.number(tok.pos, "")
	case tok.kind == tokenString:
		p.advance()
		return &expr{pos: tok.pos, value: String(tok.text)}
	case tok.kind == tokenIdent:
		p.advance()
		if strings.Contains(reserved, " "+tok.text+" ") {
			p.fail(tok.pos, "%s is a word that CEL reserves", tok.text)
		}
		if p.accept("(") {
			return p.call(tok, p.list(")"), false)
		}
		return p.node(opName, tok)
	case p.accept("true"), p.accept("false"):
		return &expr{pos: tok.pos, value: Bool(tok.text == "true")}
	case p.accept("null"):
		return &expr{pos: tok.pos, value: Of(nil)}
	case p.accept("("):
		e := p.expression()
		p.expect(")")
		return e
	case p.accept("["):
		return p.node(opList, tok, p.list("]")...)
	case p.accept("{"):
		return p.node(opMap, tok, p.list("}")...)
	case p.accept("-"):
		if p.tok.kind == tokenNumber { // after !, where a sign can belong to a number only
			return p.number(tok.pos, "-")
		}
	}
	p.unexpected("a value")
	return &expr{}
}

// call returns the call of a function, or of a macro if it has as many arguments
// as one.
func (p *parser) call(name token, args []*expr, member bool) *expr {
	op := opCall
	switch count := len(args); {
	case !member && name.text == "has" && count == 1:
		if args[0].op != opSelect {
			p.fail(args[0].pos, "has() asks for a field: write has(input.name), or \"name\" in input")
		}
		args[0].op = opHas
		return args[0]
	case member && count == 3 && strings.Contains(" all exists exists_one filter map ", " "+name.text+" "),
		member && count == 4 && name.text == "map":
		op = opMacro
	}
	e := p.node(op, name, args...)
	e.member = member
	return e
}

func (p *parser) number(pos int, sign string) *expr {
	text := p.advance().text
	digits, base := strings.ToLower(text), 10
	if strings.HasPrefix(text, "0x") {
		digits, base = digits[2:], 16
	}
	e := &expr{pos: pos}
	var err error
	if unsigned, ok := strings.CutSuffix(digits, "u"); ok && sign == "" {
		e.value.kind = kindUint
		e.value.num, err = strconv.ParseUint(unsigned, base, 64)
	} else if base == 10 && strings.ContainsAny(digits, ".e") {
		var f float64
		f, err = strconv.ParseFloat(sign+text, 64)
		e.value = Double(f)
	} else {
		var n int64
		n, err = strconv.ParseInt(sign+digits, base, 64)
		e.value = Int(n)
	}
	if err != nil || strings.Contains(text, "_") {
		p.fail(pos, "%s%s is not a number, or out of range", sign, text)
	}
	return e
}
