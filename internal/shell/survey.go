// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A survey is what one look over a whole script tells before it is followed. The
// value of a variable is used only where there is one place that gives it one, so
// that the order in which loops and functions run does not matter.
type survey struct {
	sites    map[string]int  // places that assign a variable; 2 means several
	numeric  map[string]bool // false for a variable that gets anything but numbers
	loopVars []string        // variables whose one place is in a loop, with a value of its own each time

	blind bool // variables may change in ways that cannot be followed
	shift bool // positional parameters change
	stray bool // the directory changes in a loop
	move  bool // the directory changes

	arrays bool // there may be an array
}

// changers are commands that run text, or change variables in ways that are not
// followed. A script that has one of them is not followed as far as variables go.
var changers = []string{"eval", ".", "source", "trap", "alias", "nameref", "shopt", "enable", "let", "compgen", "complete", "coproc", "fc", "bind"}

// takers are commands that give a value to variables named by their words.
var takers = []string{"read", "printf", "mapfile", "readarray", "getopts", "unset", "wait", "export", "declare", "typeset", "local", "readonly"}

// movers change the directory.
var movers = []string{"cd", "pushd", "popd"}

// surveyOf surveys a script.
func surveyOf(file *syntax.File, text string) *survey {
	v := &survey{}
	if !strings.ContainsAny(text, "={$") && !strings.Contains(text, "do") {
		v.blind, v.shift, v.move, v.arrays = true, true, true, true // no assignment, no loop: nothing to follow
		return v
	}
	v.sites, v.numeric = make(map[string]int), make(map[string]bool)
	l := surveyor{survey: v}
	l.node(file)
	// A text that is run later can change the directory too.
	v.stray = l.moves[inLoop] || l.loops && (l.moves[inFunc] || v.blind)
	v.arrays = v.arrays || v.blind
	return v
}

type position int

const (
	atTop position = iota
	inLoop
	inFunc
)

// A surveyor walks the tree of a script. It keeps where it is: inside a subshell,
// loops around it do not matter to the directory.
type surveyor struct {
	*survey
	loop, fn, dir position
	locals        []string // of the function at hand
	loops         bool
	moves         [3]bool
}

func (l *surveyor) node(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		saved := *l
		switch n := n.(type) {
		case *syntax.WhileClause:
			l.loops = true
			l.inside(inLoop, n.Cond, n.Do)
		case *syntax.ForClause:
			l.loops = true
			switch loop := n.Loop.(type) {
			case *syntax.WordIter:
				l.assigned(loop.Name.Value, false, 1)
				for _, item := range loop.Items {
					l.node(item)
				}
			case *syntax.CStyleLoop:
				for _, x := range []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post} {
					if x != nil {
						l.node(x)
					}
				}
			}
			l.inside(inLoop, n.Do)
		case *syntax.FuncDecl:
			l.fn, l.dir, l.locals = inFunc, inFunc, nil
			l.node(n.Body)
		case *syntax.Subshell:
			l.dir = atTop
			l.stmts(n.Stmts)
		case *syntax.CmdSubst:
			l.dir = atTop
			l.stmts(n.Stmts)
		case *syntax.ProcSubst:
			l.dir = atTop
			l.stmts(n.Stmts)
		case *syntax.Assign:
			l.assign(n)
			return true
		case *syntax.DeclClause:
			l.declare(n)
		case *syntax.CallExpr:
			l.call(n)
			return true
		case *syntax.BinaryArithm:
			if assigning(n.Op) {
				l.arithmName(n.X)
			}
			return true
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				l.arithmName(n.X)
			}
			return true
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				l.assigned(n.Param.Value, false, 2)
			}
			return true
		case *syntax.Redirect:
			if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
				l.assigned(strings.Trim(n.N.Value, "{}"), false, 2)
			}
			return true
		case *syntax.CoprocClause, *syntax.LetClause:
			l.blind = true
			return true
		default:
			return true
		}
		loops, moves := l.loops, l.moves
		loop, fn, dir, locals := saved.loop, saved.fn, saved.dir, saved.locals
		l.loop, l.fn, l.dir, l.locals, l.loops, l.moves = loop, fn, dir, locals, loops, moves
		return false
	})
}

func (l *surveyor) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		l.node(st)
	}
}

func (l *surveyor) inside(place position, lists ...[]*syntax.Stmt) {
	l.loop, l.dir = place, place
	for _, list := range lists {
		l.stmts(list)
	}
}

// assigned notes a place that assigns a variable.
func (l *surveyor) assigned(name string, number bool, times int) {
	if before, ok := l.numeric[name]; ok {
		number = number && before
	}
	l.numeric[name] = number
	if l.fn == inFunc && !slices.Contains(l.locals, name) {
		times = 2
	}
	l.sites[name] = min(l.sites[name]+times, 2)
}

func (l *surveyor) arithmName(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		if name, ok := plainText(w); ok {
			l.assigned(name, true, 2)
			return
		}
	}
	l.blind = true // a[i]++ and the like
}

func (l *surveyor) assign(n *syntax.Assign) {
	if n.Name == nil {
		return
	}
	times := 1
	if n.Append || n.Index != nil || n.Array != nil {
		times = 2
	}
	l.arrays = l.arrays || n.Index != nil || n.Array != nil
	number, static := false, n.Value == nil
	if n.Value != nil {
		var text string
		if text, static = plainText(n.Value); static {
			number = isNumber(text)
		} else if len(n.Value.Parts) == 1 {
			_, number = n.Value.Parts[0].(*syntax.ArithmExp)
		}
	}
	l.assigned(n.Name.Value, number && times == 1, times)
	if l.loop == inLoop && !static && !number {
		l.loopVars = append(l.loopVars, n.Name.Value)
	}
}

func (l *surveyor) declare(n *syntax.DeclClause) {
	local := n.Variant.Value == "local" || l.fn == inFunc && n.Variant.Value != "export" && n.Variant.Value != "readonly"
	keeps := n.Variant.Value == "export" || n.Variant.Value == "readonly" // a bare name keeps its value
	for _, arg := range n.Args {
		switch {
		case arg.Name != nil && arg.Naked && keeps:
			continue
		case arg.Name == nil: // an option, or who knows
			text := ""
			if arg.Value != nil {
				text, _ = plainText(arg.Value)
			}
			l.arrays = l.arrays || text == "" || strings.ContainsAny(text, "aA")
			if strings.Trim(text, "-xgraA") != "" || text == "" || strings.Contains(text, "g") {
				l.blind = true
			}
		case local:
			l.locals = append(slices.Clip(l.locals), arg.Name.Value)
		}
		l.node(arg)
	}
	if n.Variant.Value == "nameref" {
		l.blind = true
	}
}

func (l *surveyor) call(n *syntax.CallExpr) {
	first := true // the word may name a command of the shell
	for i, w := range n.Args {
		text, static := staticText(w)
		if slices.Contains(movers, text) {
			l.moves[l.dir], l.move = true, true
		}
		if text == "shift" || text == "set" {
			l.shift = true
		}
		switch {
		case !static || !first:
		case slices.Contains(changers, text):
			l.blind = true
		case slices.Contains(takers, text):
			l.arrays = l.arrays || text == "mapfile" || text == "readarray"
			l.takes(n.Args[i+1:])
		}
		first = first && (text == "command" || text == "builtin" || text == "-p" || text == "--")
	}
}

// takes notes the variables that a command like read may change: all that its
// words could name.
func (l *surveyor) takes(args []*syntax.Word) {
	for _, w := range args {
		text, static := staticText(w)
		if !static {
			l.blind = true
			return
		}
		l.arrays = l.arrays || strings.HasPrefix(text, "-") || strings.Contains(text, "[")
		name, _, _ := strings.Cut(text, "=")
		name, _, _ = strings.Cut(name, "[")
		l.assigned(strings.TrimSuffix(name, "+"), false, 2)
	}
	l.assigned("REPLY", false, 2)
	l.assigned("OPTARG", false, 2)
}

// staticText returns the text of a word that no expansion changes.
func staticText(w *syntax.Word) (string, bool) {
	if text, plain := plainText(w); plain {
		return text, true
	}
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			for i := 0; i < len(part.Value); i++ {
				if part.Value[i] == '\\' && i+1 < len(part.Value) {
					i++
				}
				b.WriteByte(part.Value[i])
			}
		case *syntax.SglQuoted:
			text := part.Value
			if part.Dollar {
				var ok bool
				if text, ok = decodeANSI(text); !ok {
					return "", false
				}
			}
			b.WriteString(text)
		case *syntax.DblQuoted:
			for _, inner := range part.Parts {
				l, ok := inner.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(unquoteIn(l.Value, "$`\"\\"))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// assigning reports whether an operator of arithmetic changes its left side.
func assigning(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}
