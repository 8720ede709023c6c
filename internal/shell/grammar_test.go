// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// stubs are the programs of the generated commands. All of them only write down
// how they were called; "ko" fails, the others succeed.
var stubs = []string{"alpha", "beta", "gamma", "ko", "rm", "touch", "cp", "cat", "git", "sort", "ls"}

// A grammar makes random commands that use every trick that a shell has to run a
// program, and end soon whatever the programs do.
type grammar struct {
	*rand.Rand
	vars  *int // variables v0, v1, … that have been assigned
	funcs int  // functions f0, f1, … that have been defined
}

func newGrammar(seed uint64) *grammar {
	return &grammar{Rand: rand.New(rand.NewPCG(seed, 3)), vars: new(int)}
}

// variable returns a new name.
func (g *grammar) variable() string {
	*g.vars++
	return fmt.Sprintf("v%d", *g.vars-1)
}

// pick returns one of choices.
func (g *grammar) pick(choices ...string) string { return choices[g.IntN(len(choices))] }

// script makes a command of several statements.
func (g *grammar) script(depth int) string {
	var b strings.Builder
	for i := range 1 + g.IntN(1+depth) {
		if i > 0 {
			b.WriteString(g.pick("; ", "\n", " ;\n"))
		}
		b.WriteString(g.list(depth))
	}
	return b.String()
}

// list makes an and-or list.
func (g *grammar) list(depth int) string {
	text := g.pipe(depth)
	for g.IntN(4) == 0 {
		text += g.pick(" && ", " || ", "&&", " ||\n") + g.pipe(depth)
	}
	if g.IntN(12) == 0 {
		return "{ " + text + " & } ; wait"
	}
	return text
}

func (g *grammar) pipe(depth int) string {
	text := g.command(depth)
	for g.IntN(6) == 0 {
		text += g.pick(" | ", " |& ", "|") + g.command(depth)
	}
	return g.pick("", "", "", "", "", "! ", "time ") + text
}

// command makes one command, simple or compound.
func (g *grammar) command(depth int) string {
	if depth <= 0 {
		return g.simple()
	}
	inner := func() string {
		nested := &grammar{Rand: g.Rand, vars: g.vars, funcs: g.funcs}
		return nested.script(depth - 1)
	}
	word := g.word
	form := g.IntN(48)
	if slices.Contains([]int{10, 15, 17, 24, 31, 33, 40}, form) && g.IntN(6) > 0 {
		form = 25 // eval, xargs, trap, coproc and their like make much unclear
	}
	if g.IntN(60) == 0 {
		return g.hidden()
	}
	switch form {
	case 0:
		return "( " + inner() + "\n)"
	case 1:
		return "{ " + inner() + "\n}"
	case 2:
		return fmt.Sprintf("if %s; then %s\nelif ko; then %s\nelse %s\nfi", g.simple(), inner(), inner(), inner())
	case 3:
		return fmt.Sprintf("for i in %s %s; do %s\ndone", word(), word(), inner())
	case 4:
		return fmt.Sprintf("for i in %s; do %s \"$i\" x$i\ndone", g.plainWord()+" "+g.plainWord(), g.program())
	case 5:
		return fmt.Sprintf("while ko; do %s\ndone", inner())
	case 6:
		name := g.variable()
		return fmt.Sprintf("%s=; until [ -n \"$%[1]s\" ]; do %[1]s=1; %s\ndone", name, inner())
	case 7:
		return fmt.Sprintf("case %s in a*|%s) %s\n;; *) %s\n%s esac", word(), g.plainWord(), inner(), inner(), g.pick(";;", ";&", ";;&"))
	case 8:
		name := fmt.Sprintf("f%d", g.funcs)
		text := fmt.Sprintf("%s %s\n}; %s %s", g.pick(name+"() {", "function "+name+" {"), inner(), name, word())
		g.funcs++
		return "{ " + text + "\n}"
	case 9:
		return fmt.Sprintf("f() { %s \"$1\" $2 \"$@\"; }; f %s %s", g.program(), g.word(), g.plainWord())
	case 10:
		return "eval " + g.quote(inner())
	case 11:
		return g.pick("bash", "sh", "bash -e", "bash --norc") + " -c " + g.quote(inner()) + g.pick("", " x a b")
	case 12:
		return fmt.Sprintf("bash -c %s zero %s %s", g.quote(g.program()+" \"$1\" $2"), g.word(), g.plainWord())
	case 13:
		return g.pick("env ", "env A=1 ", "nice ", "nice -n 3 ", "timeout 5 ", "command ", "env -i PATH=$PATH LOG=$LOG ", "env -u FOO ") + g.call()
	case 14:
		return "find . -maxdepth 0 -exec " + g.call() + g.pick(" \\;", " {} \\;", " {} +")
	case 15:
		return "printf '%s\\n' a b | xargs " + g.pick("", "-n 1 ", "-I{} ") + g.call() + g.pick("", " {}")
	case 16:
		return "( exec " + g.call() + " )"
	case 17:
		return "( trap " + g.quote(g.simple()) + " EXIT; " + g.simple() + " )"
	case 18:
		return fmt.Sprintf("[[ x%s == %s && -n \"$(%s)\" ]]", g.word(), g.plainWord(), g.call())
	case 19:
		return fmt.Sprintf("(( 1 + $(( 2 * %d )) ))", g.IntN(5))
	case 20:
		return fmt.Sprintf("for ((%s=0; %[1]s<2; %[1]s++)); do %s\ndone", g.variable(), inner())
	case 21:
		return fmt.Sprintf("{ %s <<E\ntext $(%s) ${x:-`%s`}\nE\n}", g.program(), g.call(), g.stub())
	case 22:
		return fmt.Sprintf("{ %s <<%s'E'\n%s\n\tx\nE\n}", g.pick("alpha", "bash"), g.pick("", "-"), g.call())
	case 23:
		return fmt.Sprintf("cd %s && { %s > f%d; }", g.pick("d", "./d", "d/../d", "'d'"), g.simple(), g.IntN(3))
	case 24:
		return fmt.Sprintf("coproc { %s; }; wait", g.simple())
	case 25:
		return fmt.Sprintf("{ %s <<%s\n%s $(x) `y` \\$z\nE\n}", g.program(), g.pick(`\E`, `"E"`, `'E'`, `E""`), g.plainWord())
	case 26:
		return fmt.Sprintf("{ %s # %s; rm x\n}", g.call(), g.plainWord())
	case 27:
		return fmt.Sprintf("g() { %s; }; g() ( %s ); g %s", g.call(), g.call(), g.word())
	case 28:
		return fmt.Sprintf("g() { if [ $# -gt 0 ]; then %s \"$1\"; shift; g \"$@\"; fi; }; g %s %s", g.program(), g.plainWord(), g.word())
	case 29:
		name := g.variable()
		return fmt.Sprintf("%s=(%s %s); %s \"${%[1]s[@]}\" ${#%[1]s[@]} \"${%[1]s[0]}\"", name, g.word(), g.word(), g.program())
	case 30:
		name := g.variable()
		return fmt.Sprintf("read -r %s <<< %s; %s \"$%[1]s\"", name, g.word(), g.program())
	case 31:
		name := g.variable()
		return fmt.Sprintf("printf -v %s %s; $%[1]s %s", name, g.stub(), g.word())
	case 32:
		name := g.variable()
		return fmt.Sprintf("%s %s=%s; $%[2]s %s", g.pick("export", "declare", "typeset", "readonly", "declare -x"), name, g.stub(), g.word())
	case 33:
		name := g.variable()
		return fmt.Sprintf("h() { local %s=%s; $%[1]s $1; }; h %s; $%[1]s", name, g.stub(), g.plainWord())
	case 34:
		return fmt.Sprintf("pushd d > /dev/null && { %s > p%d; popd > /dev/null; %s >> q%d; }", g.call(), g.IntN(3), g.call(), g.IntN(3))
	case 35:
		return fmt.Sprintf("( cd d; %s > r%d; cd - > /dev/null; %s > s%d )", g.simple(), g.IntN(3), g.call(), g.IntN(3))
	case 36:
		return fmt.Sprintf("for i in d d/../d .; do ( cd \"$i\" && %s > t%d ); done", g.call(), g.IntN(3))
	case 37:
		return fmt.Sprintf("for i in a b c; do %s $i; [ $i = b ] && %s; %s; done", g.program(), g.pick("break", "continue"), g.call())
	case 38:
		return fmt.Sprintf("command %s; builtin %s; command -v %s", g.call(), "echo "+g.word(), g.stub())
	case 39:
		return "env -S " + g.quote(g.stub()+" a b") + " " + g.word()
	case 40:
		return "printf '%s\\n' a b | xargs sh -c " + g.quote(g.program()+" \"$@\"") + " sh"
	case 41:
		return fmt.Sprintf("find . -name '*.txt' -exec sh -c %s _ {} \\; -o -name d -execdir %s {} +", g.quote(g.program()+" \"$1\""), g.call())
	case 42:
		return fmt.Sprintf("exec {fd}> u%d; %s >&$fd; exec {fd}>&-", g.IntN(3), g.call())
	case 43:
		return fmt.Sprintf("%s 2>&1 > w1 | %s 1>&2 &>> w2; %s <&- >& w3", g.call(), g.call(), g.call())
	case 44:
		return fmt.Sprintf("select i in %s; do %s; break; done <<< 1", g.word(), inner())
	case 45:
		return fmt.Sprintf("set -- %s %s; %s \"$1\" \"$@\"; shift; %s \"$1\"", g.plainWord(), g.plainWord(), g.program(), g.program())
	case 46:
		return fmt.Sprintf("if %s; then k() { %s; }; else k() { %s; }; fi; k", g.stub(), g.call(), g.call())
	default:
		return g.simple()
	}
}

// hidden makes a command that bash runs where it does not look like one. Nearly
// all of it is unclear.
func (g *grammar) hidden() string {
	program := g.stub()
	code := "a[$(" + program + ")]"
	integer := g.pick("RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "OPTIND", "EPOCHSECONDS", "BASHPID", "UID", "SHLVL")
	filled := g.pick("REPLY", "MAPFILE", "BASH_REMATCH", "OPTARG", "PIPESTATUS", "FUNCNAME", "COPROC", "DIRSTACK", "_")
	switch g.IntN(18) {
	case 0:
		return "jobs " + g.pick("-x ", "-lx ", "-- ") + g.call()
	case 1:
		return fmt.Sprintf("%s '%s'", g.pick("declare -a", "declare -A", "typeset -a", "readonly -a"), "w=([0]=$("+program+"))")
	case 2:
		return fmt.Sprintf("w='($(%s))'; declare %s %s=\"$w\"", program, g.pick("-a", "-A", ""), g.variable())
	case 3:
		return fmt.Sprintf("( w='($(%s))'; declare -a y; declare y=\"$w\" )", program)
	case 4:
		return fmt.Sprintf("( %s='%s' )", integer, code)
	case 5:
		return fmt.Sprintf("( for %s in '%s'; do :; done )", integer, code)
	case 6:
		return fmt.Sprintf("( read %s <<< '%s' )", integer, code)
	case 7:
		return fmt.Sprintf("( printf -v %s %%s '%s' )", integer, code)
	case 8:
		return fmt.Sprintf("( %s %s='%s' )", g.pick("export", "declare", "declare -i"), integer, code)
	case 9:
		return fmt.Sprintf("( %s='%s' %s )", integer, code, g.pick("alpha", ":", "eval :"))
	case 10:
		fills := g.pick("read <<< "+program, "mapfile -t <<< "+program, "[[ "+program+" =~ .* ]]", "getopts a: o -a "+program, ": "+program)
		return fmt.Sprintf("( %s=ls; %s; $%[1]s a )", filled, fills)
	case 11:
		return g.pick("bash", "sh") + " -c $'echo a \\\\\\r\\n" + program + "'"
	case 12:
		return "eval $'cat <<E\\r\\nE\\n" + program + " <<X\\nE\\r\\nbeta\\nX'"
	case 13:
		reads := g.pick("read x", "read -n 3 x", "mapfile -n 1 x")
		return fmt.Sprintf("%s <<< $'alpha <<E\\n%s\\nE'", g.pick("{ "+reads+"; bash; }", "( "+reads+"; sh )", "bash -c '"+reads+"; bash'"), program)
	case 14:
		return fmt.Sprintf("bash <<< $'read x\\nalpha <<E\\n%s\\nE'", program)
	case 15:
		return fmt.Sprintf("echo %s | alpha $(bash) <<< beta", program)
	case 16:
		return fmt.Sprintf("( cd d && OLDPWD=$HOME && cd - > /dev/null && %s > o9 )", program)
	default:
		return fmt.Sprintf("( f() { W=%s; }; trap f DEBUG; eval 'W=beta; $W a' )", program)
	}
}

// simple makes a command of words, with assignments and redirections.
func (g *grammar) simple() string {
	switch g.IntN(14) {
	case 0:
		name := g.variable()
		return name + "=" + g.plainWord() + "; " + g.program() + " $" + name + " \"${" + name + "}x\""
	case 1:
		name := g.variable()
		return name + "=" + g.stub() + "; $" + name + " " + g.word()
	case 2:
		return "B=" + g.word() + " " + g.call()
	case 3:
		return g.call() + g.pick(" > ", " >> ", " >| ", " &> ", " 2> ", " <> ") + g.pick("o1", "d/o2", "'o 3'", "o\\4", "$'o\\x35'", "d/../o6", "~/o7", "o{8,}")
	case 4:
		return g.call() + " <<< " + g.word()
	case 5:
		return g.call() + " <(" + g.call() + ") " + g.pick("", "> >("+g.call()+")")
	case 6:
		return "echo " + g.word() + " " + g.word()
	case 7:
		return "test -n " + g.plainWord()
	default:
		return g.call()
	}
}

// call makes a program with words.
func (g *grammar) call() string {
	text := g.program()
	for range g.IntN(4) {
		text += g.pick(" ", " ", " ", " ", "  ", "\t", "\t", " \\\n") + g.word() // the last leaves commands unclear, and is rare
	}
	return text
}

// stub names a stub: mostly one whose words mean nothing.
func (g *grammar) stub() string {
	if g.IntN(8) > 0 {
		return stubs[g.IntN(4)]
	}
	return g.pick(stubs...)
}

// program names a stub, in one of many ways.
func (g *grammar) program() string {
	name := g.stub()
	switch g.IntN(300) {
	case 0, 23, 24, 25, 26, 27, 28, 29, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
		return g.quote(name)
	case 1, 20, 21, 22:
		return "{" + name + "," + g.plainWord() + "}"
	case 2:
		return "$UNSET " + name
	case 3:
		return "${UNSET:-" + name + "}"
	case 4:
		return `"$UNSET"` + name
	case 5:
		return name[:1] + "$@" + name[1:]
	default:
		return name
	}
}

// plainWord makes a word without anything special.
func (g *grammar) plainWord() string {
	return g.pick("a", "b.txt", "-x", "--long=1", "dir/file", "a=b", "3")
}

// word makes a word.
func (g *grammar) word() string {
	form := g.IntN(46)
	if (form == 27 || form == 28 || form == 31 || form == 43) && g.IntN(8) > 0 {
		form = 39 // so do backslashes in backquotes, arithmetic on what a command prints, and quotes in quoted expansions
	}
	switch form {
	case 40:
		return "\"$(" + g.stub() + " <<E\ntext $(" + g.stub() + " a) ')\nE\n)\""
	case 41:
		return "$(case a in a) " + g.stub() + ";; (b) " + g.stub() + ";; esac)"
	case 42:
		return "${UNSET:-${UNSET:-$(" + g.stub() + ")}}"
	case 43:
		return "\"${UNSET:-'a b'}\"\"${UNSET-$(" + g.stub() + " \"}\")}\""
	case 44:
		return "\"$(" + g.stub() + " '\"' \"'\" \\\" \\')\""
	case 45:
		return "$(<a.txt)"
	case 20:
		return "\"${UNSET:-\"a b\"}\""
	case 21:
		return "\"$( ( " + g.stub() + " " + g.plainWord() + " ) )\""
	case 22:
		return "$( # a comment ) `\n" + g.stub() + ")"
	case 23:
		return "a\"b\"'c'\\d"
	case 24:
		return "\"\\$(x) \\`y\\` \\\\ \\q\""
	case 25:
		return "a#b"
	case 26:
		return "${UNSET/x/$(" + g.stub() + ")}"
	case 27:
		return "\"`" + g.stub() + " \\\"a b\\\" 'c'`\""
	case 28:
		return "`" + g.stub() + " \\`" + g.stub() + "\\``"
	case 29:
		return "\"$'x'\""
	case 30:
		return "${UNSET:-$(" + g.stub() + ")}$(" + g.stub() + " \"$(" + g.stub() + " 'it)s')\")"
	case 31:
		return "\"$((1 + 0$(" + g.stub() + ")))\""
	case 0:
		return "$(" + g.stub() + " " + g.plainWord() + ")"
	case 1:
		return "\"`" + g.stub() + " a`\""
	case 2:
		return "*.txt"
	case 3:
		return "[ab].t?t"
	case 4:
		return "{" + g.plainWord() + "," + g.quote("x y") + ",{c,d}}e"
	case 5:
		return "~/h"
	case 6:
		return "$((1+2))"
	case 7:
		return "\"$UNSET\""
	case 8:
		return "${UNSET-" + g.plainWord() + "}${UNSET+b}"
	case 9:
		return "${#UNSET}"
	case 10:
		return "\"$@\""
	case 11:
		return "{1..3}"
	case 12:
		return "$?"
	case 13:
		return "${UNSET:=$(" + g.stub() + ")}"
	case 14:
		return "\"$(" + g.stub() + " \"" + g.plainWord() + "\")\""
	case 15:
		if *g.vars > 0 {
			return fmt.Sprintf(g.pick("$v%d", "\"$v%d\"", "${v%d}", "x${v%d:-y}"), g.IntN(*g.vars))
		}
		return "''"
	case 16:
		return g.quote(g.pick("a b", "$x", "it's", "`x`", "back\\slash", "new\nline", "ta\tb", "*", "~", "{a,b}", "#", "a;b", "\"", "\\", "=x", "!"))
	case 17:
		return g.plainWord() + "{a,b}$UNSET{c,d}"
	case 18:
		return "$HOME/x"
	case 19:
		return "$'\\141\\x62\\u0063\\'\\n'"
	default:
		return g.plainWord()
	}
}

// quote writes text so that the shell reads it as one word, in a random mixture
// of the ways to quote.
func (g *grammar) quote(text string) string {
	if text == "" {
		return g.pick("''", `""`, "$''")
	}
	if g.IntN(2) == 0 || len(text) > 40 {
		return "'" + strings.ReplaceAll(text, "'", g.pick(`'\''`, `'"'"'`)) + "'"
	}
	var b strings.Builder
	for len(text) > 0 {
		n := 1 + g.IntN(min(len(text), 5))
		part := text[:n]
		text = text[n:]
		switch g.IntN(4) {
		case 0:
			b.WriteString("'" + strings.ReplaceAll(part, "'", `'\''`) + "'")
		case 1:
			b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(part) + `"`)
		case 2:
			b.WriteString("$'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "a", `\x61`, "b", `\142`).Replace(part) + "'")
		default:
			for _, c := range part {
				if c == '\n' {
					b.WriteString("$'\\n'")
				} else {
					b.WriteString(`\` + string(c))
				}
			}
		}
	}
	return b.String()
}
