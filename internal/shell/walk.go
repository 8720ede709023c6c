// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxRounds is how many values of a for loop are followed one by one.
const maxRounds = 32

// stmts follows statements one after the other and returns what is known after
// the last.
func (a *analysis) stmts(list []*syntax.Stmt, s *state) *state {
	ok, fail := a.list(list, s)
	return join(ok, fail)
}

// list follows statements and tells what is known where the last one succeeds and
// where it fails.
func (a *analysis) list(list []*syntax.Stmt, s *state) (ok, fail *state) {
	ok, fail = s, s
	for _, st := range list {
		ok, fail = a.stmt(st, join(ok, fail))
	}
	return ok, fail
}

// stmt follows one statement: what is known afterwards where it succeeds, and
// where it fails. The two may be the same.
func (a *analysis) stmt(st *syntax.Stmt, s *state) (ok, fail *state) {
	a.visited[st] = true
	if a.repeats > 0 {
		a.steps += 1 + int(st.End().Offset()-st.Pos().Offset())/64
	}
	if st.Background || st.Coprocess || st.Disown {
		a.simple(st, s.fork())
		return s, s
	}
	ok, fail = a.simple(st, s)
	if st.Negated {
		return fail, ok
	}
	return ok, fail
}

func (a *analysis) simple(st *syntax.Stmt, s *state) (ok, fail *state) {
	stdin := s.stdin
	a.redirects(st.Redirs, s)
	if _, plain := st.Cmd.(*syntax.CallExpr); !plain {
		s.stdin = input{} // whatever comes first in it may read some of it
	}
	ok, fail = a.command(st.Cmd, s)
	ok.stdin, fail.stdin = stdin, stdin
	if len(st.Redirs) > 0 { // where one fails the command does not even exit
		ok.dead, fail.dead = false, false
	}
	return ok, fail
}

func (a *analysis) command(cmd syntax.Command, s *state) (ok, fail *state) {
	switch cmd := cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		return a.callExpr(cmd, s)
	case *syntax.BinaryCmd:
		return a.binary(cmd, s)
	case *syntax.Block:
		return a.list(cmd.Stmts, s)
	case *syntax.Subshell:
		a.stmts(cmd.Stmts, s.fork())
	case *syntax.IfClause:
		s = a.ifClause(cmd, s)
	case *syntax.WhileClause:
		s = a.while(cmd, s)
	case *syntax.ForClause:
		s = a.forClause(cmd, s)
	case *syntax.CaseClause:
		s = a.caseClause(cmd, s)
	case *syntax.FuncDecl:
		if cmd.Name == nil {
			a.unclear("a function has no name")
		} else {
			a.define(cmd, cmd.Name.Value, s)
		}
	case *syntax.ArithmCmd:
		a.arithmetic(cmd.X, s)
	case *syntax.LetClause:
		for _, x := range cmd.Exprs {
			a.arithmetic(x, s)
		}
	case *syntax.TestClause:
		a.test(cmd.X, s)
	case *syntax.DeclClause:
		a.declare(cmd, s)
	case *syntax.TimeClause:
		if cmd.Stmt != nil {
			return a.stmt(cmd.Stmt, s)
		}
	case *syntax.CoprocClause:
		name := lit("COPROC")
		if cmd.Name != nil {
			name = a.single(cmd.Name, s)
		}
		if !name.known() {
			a.unclear("which variable coproc sets is not known")
		} else if why := a.risk(name.text, word{unknown: true}, s); why != "" {
			a.unclear(why)
		}
		a.stmt(cmd.Stmt, s.fork())
	default:
		a.unclear("it has a form of command that is not known")
	}
	return s, s
}

// binary follows `a && b || c | d`. The tree leans to the left, as deep as the
// list is long, so it is taken down without recursion.
func (a *analysis) binary(cmd *syntax.BinaryCmd, s *state) (ok, fail *state) {
	var rest []*syntax.BinaryCmd
	var first *syntax.Stmt
	for {
		rest = append(rest, cmd)
		first = cmd.X
		next, isBinary := first.Cmd.(*syntax.BinaryCmd)
		if !isBinary || first.Negated || len(first.Redirs) > 0 || first.Background || first.Coprocess || first.Disown {
			break
		}
		a.visited[first] = true
		cmd = next
	}
	if isPipe(rest[len(rest)-1].Op) {
		ok, fail = a.part(first, s, false)
	} else {
		ok, fail = a.stmt(first, s)
	}
	for _, cmd := range slices.Backward(rest) {
		if ok == fail {
			ok, fail = ok.fork(), ok.fork()
		}
		switch cmd.Op {
		case syntax.AndStmt:
			more, less := a.stmt(cmd.Y, ok)
			ok, fail = more, join(fail, less)
		case syntax.OrStmt:
			more, less := a.stmt(cmd.Y, fail)
			ok, fail = join(ok, more), less
		default: // a pipe
			before := join(ok, fail)
			if cmd.Op == syntax.PipeAll { // messages are among them
				a.piped = nil
			}
			ok, fail = a.part(cmd.Y, before, true)
		}
	}
	return ok, fail
}

func isPipe(op syntax.BinCmdOperator) bool { return op == syntax.Pipe || op == syntax.PipeAll }

// part follows one command of a pipe. It runs in a shell of its own, unless it is
// the last and lastpipe is set: both are true afterwards.
func (a *analysis) part(st *syntax.Stmt, s *state, reads bool) (ok, fail *state) {
	t := s.fork()
	if reads {
		t.stdin = input{found: a.piped}
	} else {
		a.piped = nil
	}
	from := a.piped
	a.printed = nil
	after := join(a.stmt(st, t))
	a.piped = a.prints(st, s, from)
	after.stdin = s.stdin
	s = join(s, after)
	return s, s
}

func (a *analysis) ifClause(cmd *syntax.IfClause, s *state) *state {
	ok, fail := a.list(cmd.Cond, s)
	if len(cmd.Cond) == 0 { // an else
		return a.stmts(cmd.Then, s)
	}
	if ok == fail {
		fail = ok.fork()
	}
	then := a.stmts(cmd.Then, ok)
	if cmd.Else == nil {
		return join(then, fail)
	}
	return join(then, a.ifClause(cmd.Else, fail))
}

// enterLoop forgets what differs from round to round.
func (a *analysis) enterLoop(s *state) {
	if a.survey.stray {
		s.dirs, s.old, s.stack = nil, nil, nil
		a.moved(s)
	}
	s.forget(a.survey.loopVars...)
}

func (a *analysis) while(cmd *syntax.WhileClause, s *state) *state {
	a.enterLoop(s)
	ok, fail := a.list(cmd.Cond, s)
	if ok == fail {
		fail = ok.fork()
	}
	if cmd.Until {
		ok, fail = fail, ok
	}
	after := a.stmts(cmd.Do, ok)
	a.enterLoop(after)
	return join(fail, after)
}

func (a *analysis) forClause(cmd *syntax.ForClause, s *state) *state {
	switch loop := cmd.Loop.(type) {
	case *syntax.CStyleLoop:
		for i, x := range []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post} {
			if i == 1 {
				a.enterLoop(s)
			}
			if x != nil {
				a.arithmetic(x, s)
			}
		}
		after := a.stmts(cmd.Do, s.fork())
		a.enterLoop(after)
		return join(s, after)
	case *syntax.WordIter:
		items := a.fields(loop.Items, s)
		return a.rounds(cmd, loop.Name.Value, items, s)
	}
	a.unclear("it has a form of loop that is not known")
	return s
}

// rounds follows a loop over words: one by one where they are known.
func (a *analysis) rounds(cmd *syntax.ForClause, name string, items []word, s *state) *state {
	if reason := a.risk(name, word{unknown: true}, s); reason != "" {
		a.unclear(reason)
	}
	loop := cmd.Loop.(*syntax.WordIter)
	unknown := slices.ContainsFunc(items, func(w word) bool { return w.unknown || w.pipe })
	if unknown || cmd.Select || !loop.InPos.IsValid() || len(items) > maxRounds || !a.follows(name) || a.steps > maxSteps {
		a.enterLoop(s)
		s.forget(name)
		after := a.stmts(cmd.Do, s.fork())
		a.enterLoop(after)
		after.forget(name)
		return join(s, after)
	}
	a.repeats++
	after := s
	for _, item := range items {
		t := after.fork()
		a.enterLoop(t)
		t.set(name, item)
		after = join(after, a.stmts(cmd.Do, t))
	}
	a.repeats--
	after = after.fork()
	a.enterLoop(after)
	after.forget(name)
	return after
}

func (a *analysis) caseClause(cmd *syntax.CaseClause, s *state) *state {
	a.single(cmd.Word, s)
	after := s.fork()
	var through *state
	for _, item := range cmd.Items {
		for _, pattern := range item.Patterns {
			a.single(pattern, s)
		}
		t := s.fork()
		if through != nil {
			t = join(t, through)
		}
		t = a.stmts(item.Stmts, t.fork())
		through = nil
		if item.Op != syntax.Break {
			through = t
		}
		after = join(after, t)
	}
	return after
}

// substitution follows $(…) and its kind.
func (a *analysis) substitution(cmd *syntax.CmdSubst, s *state) {
	if cmd.Backquotes && a.escapes(cmd) {
		a.unclear("a backquoted command has backslashes in it, which change what it means")
	}
	t := s.fork()
	t.stdin = input{} // words are expanded before redirections
	if cmd.TempFile || cmd.ReplyVar {
		a.unclear("it has a form of substitution that is not known")
	}
	a.stmts(cmd.Stmts, t)
}

// counts reports whether a substitution is a number: what wc prints of its input.
func (s *state) counts(cmd *syntax.CmdSubst) bool {
	if len(cmd.Stmts) != 1 || len(cmd.Stmts[0].Redirs) > 0 || cmd.Stmts[0].Background {
		return false
	}
	pipe, ok := cmd.Stmts[0].Cmd.(*syntax.BinaryCmd)
	if !ok || pipe.Op != syntax.Pipe || len(pipe.Y.Redirs) > 0 {
		return false
	}
	last, ok := pipe.Y.Cmd.(*syntax.CallExpr)
	if !ok || len(last.Args) != 2 || len(last.Assigns) > 0 || len(s.funcs["wc"].bodies) > 0 {
		return false
	}
	name, _ := plainText(last.Args[0])
	option, _ := plainText(last.Args[1])
	return name == "wc" && (option == "-l" || option == "-w" || option == "-c" || option == "-m")
}

// escapes reports whether there is a backslash in the text of a substitution.
func (a *analysis) escapes(cmd *syntax.CmdSubst) bool {
	from, to := cmd.Left.Offset(), cmd.Right.Offset()
	if int(to) > len(a.source) || from > to {
		return true
	}
	return strings.Contains(a.source[from:to], `\`)
}

// redirects follows redirections, which open files before the command runs.
func (a *analysis) redirects(list []*syntax.Redirect, s *state) {
	for _, r := range list {
		if r.N != nil && len(r.N.Value) > 2 && r.N.Value[0] == '{' {
			if why := a.takesName(lit(r.N.Value[1:len(r.N.Value)-1]), s); why != "" {
				a.unclear(why)
			}
		}
		input0 := r.N == nil || r.N.Value == "0"
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			text := a.hereDoc(r.Hdoc, s, hasQuotes(r.Word))
			if input0 {
				s.stdin = input{text: text.text, known: text.known()}
				if r.Op == syntax.DashHdoc { // tabs at the beginning of lines are dropped
					s.stdin.known = text.known() && !strings.Contains(text.text, "\\\n")
					s.stdin.text = strings.ReplaceAll(strings.TrimLeft(text.text, "\t"), "\n\t", "\n")
					s.stdin.known = s.stdin.known && !strings.Contains(s.stdin.text, "\n\t")
				}
			}
		case syntax.WordHdoc:
			text := a.single(r.Word, s)
			if input0 {
				s.stdin = input{text: text.text, known: text.known()}
			}
		default:
			words := a.fields([]*syntax.Word{r.Word}, s)
			target := anything
			if len(words) == 1 {
				target = words[0]
			}
			if input0 {
				s.stdin = input{}
			}
			a.redirect(r, target, s)
		}
	}
}

// hasQuotes reports whether any part of a word is quoted.
func hasQuotes(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(part syntax.WordPart) bool {
		switch part := part.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			return true
		case *syntax.Lit:
			return strings.Contains(part.Value, `\\`)
		}
		return false
	})
}

func (a *analysis) redirect(r *syntax.Redirect, target word, s *state) {
	p := paths{a, s}
	switch r.Op {
	case syntax.RdrIn:
		p.opens(target, false)
	case syntax.DplIn:
		if target.known() && !isFD(target.text) {
			p.opens(target, false)
		}
	case syntax.DplOut:
		if target.known() && isFD(target.text) || target.number {
			return
		}
		if !target.known() || strings.Trim(target.text, plainLetters+"/") != "" {
			// bash takes `>&x` for `&>x` once it has expanded x, and expands it again.
			a.unclear("the word behind >& is expanded twice")
			a.add(guess(target.likelyText(), "the word behind >& is expanded twice")[1:]...)
		}
		p.opens(target, true)
	case syntax.RdrInOut:
		p.opens(target, false)
		p.opens(target, true)
	default: // >, >>, >|, &>, &>> and whatever is new
		p.opens(target, true)
	}
}

// isFD reports whether the target of >& is a descriptor.
func isFD(text string) bool {
	if len(text) > 1 && text[len(text)-1] == '-' {
		text = text[:len(text)-1]
	}
	return text == "-" || isNumber(text) && text[0] != '-'
}
