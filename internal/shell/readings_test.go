// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"math/rand/v2"
	"strings"
)

// A readings makes random texts of what shells and parsers are known to read in
// different ways. The program mark is in them as data: in quotes, comments,
// here-documents, patterns. Then the texts are damaged a little, so that some of
// it becomes a command.
type readings struct{ *rand.Rand }

func newReadings(seed uint64) *readings {
	return &readings{rand.New(rand.NewPCG(seed, 13))}
}

func (r *readings) pick(choices ...string) string { return choices[r.IntN(len(choices))] }

// script makes a text.
func (r *readings) script() string {
	text := r.list(2)
	for range max(0, r.IntN(5)-1) {
		text = r.damage(text)
	}
	return text
}

func (r *readings) list(depth int) string {
	var b strings.Builder
	for i := range 1 + r.IntN(3) {
		if i > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString(r.pick("\n", "\n", ";", "; ", "&&", " || ", "|", " # mark\n", "&", " & "))
		}
		b.WriteString(r.command(depth))
	}
	return b.String()
}

// blank is what comes between the parts of a command.
func (r *readings) blank() string {
	if r.IntN(12) > 0 {
		return " "
	}
	return r.pick("\t", "  ", " \\\n", "\\\n", " \\\n ", "\\\n ")
}

func (r *readings) command(depth int) string {
	if depth <= 0 {
		return r.simple(depth)
	}
	in := func() string { return r.list(depth - 1) }
	sep := func() string { return r.pick("\n", "\n", "\n", " # mark\n", "\n\n", "\n# mark\n") }
	switch r.IntN(26) {
	case 0:
		return "( " + in() + r.pick(" )", "\n)", ")", ")# mark\n", ") # mark\n")
	case 1:
		return "{ " + in() + sep() + "}" + r.pick("", " # mark\n", ">x", " >x")
	case 2:
		return "if " + r.simple(depth) + sep() + "then " + in() + sep() + r.pick("", "else "+in()+sep()) + "fi"
	case 3:
		return r.pick("while false", "until true", "while ! :", "until :") + sep() + "do " + in() + sep() + "done"
	case 4:
		return "for i in " + r.word(depth) + " " + r.word(depth) + sep() + "do " + in() + sep() + "done"
	case 5:
		return "for ((i=0;i<1;i++))" + sep() + "do " + in() + sep() + "done"
	case 6:
		return "case " + r.word(depth) + " in" + r.pick(" ", "\n", " # mark\n") + r.pick("", "(") + r.pattern() + ") " + in() + r.pick(";;", "\n;;", ";;&", ";&", " ;; # mark\n") +
			r.pick("", " *) "+in()+"\n;;", "\n"+r.pattern()+"|"+r.pattern()+")\n;;") + r.pick(" ", "\n") + "esac"
	case 7:
		return r.pick("f() {", "function f {", "f () {", "function f () {", "f() # mark\n{") + " " + in() + sep() + "}" + sep() + r.pick(":", "f", "f a")
	case 8:
		return r.pick("f()", "function f()", "f ()") + " ( " + in() + " )" + sep() + r.pick(":", "f")
	case 9:
		return r.pick("coproc ", "coproc N ", "time ", "time -p ", "! ", "time : | ") + r.command(depth-1)
	case 10:
		return "[[ " + r.word(depth) + r.pick(" == ", " != ", " =~ ", " < ", " -nt ", " = ") + r.pick(r.pattern(), r.word(depth)) + r.pick(" ]]", " && -n "+r.word(depth)+" ]]", "\n]]", " || ( ! a ) ]]")
	case 11:
		return "(( " + r.arithmetic(depth) + " ))"
	case 12:
		return "let " + r.pick("x=1", "'x=1'", "\"x=1\"", "x=1+2") + r.pick("", " "+r.word(depth))
	case 13, 14, 15:
		return r.hereDoc(depth)
	case 16:
		return "x=(" + r.word(depth) + r.pick(" ", "\n", " # mark\n", " \\\n") + r.word(depth) + r.pick(")", " )", ")#mark", ") # mark", ")\\\n")
	case 17:
		return r.pick("declare", "export", "local", "typeset", "readonly", "declare -a", "declare -A") + " " + r.pick("x="+r.word(depth), "x+="+r.word(depth), "x=("+r.word(depth)+")", "y=1 z="+r.word(depth))
	case 18:
		return "select i in a; do " + in() + "; break; done <<< 1"
	case 19:
		return r.pick("eval ", "bash -c ", "sh -c ", "command eval ") + "'" + strings.ReplaceAll(in(), "'", `'\''`) + "'"
	case 20:
		return "shopt -s " + r.pick("extglob", "nullglob", "expand_aliases") + "\n" + in()
	case 21:
		return r.pick("alias x=mark", "x[0]=mark", "x+=(mark)", "x[mark]=1", "x=mark", "x= mark=1", "unset 'x[0]'", "trap : EXIT", "set -- mark", "read -r mark <<< x")
	default:
		return r.simple(depth)
	}
}

// simple makes a command that runs nothing, whatever its words are.
func (r *readings) simple(depth int) string {
	text := r.pick("echo", "echo", "echo", ":", "true", "printf %s", "test", "[ a ] ; :", "read x <<< a", "command echo", "builtin echo", "x=1 echo", "echo a |:", "exec echo", "> x echo", "false")
	for range r.IntN(4) {
		text += r.blank() + r.word(depth)
	}
	switch r.IntN(14) {
	case 0:
		text += r.pick(" >", ">", " >>", " 2>", " &>", " >|", " <>", " 2>&1 >", " {v}>", " >&", "&>>") + r.pick("x", " x", "'mark'", "$'x'", "\"x\"", "x\\\ny")
	case 1:
		text += " <<< " + r.word(depth)
	case 2, 3:
		text += r.pick(" #mark", " # mark", "#mark", " #\\\nmark", " # \\\nmark", ";# mark", "&# mark", " # '\n", " # \"", " # $(", " # `", " # <<E\n", " # mark\\", " #a\\\n mark")
	}
	return text
}

func (r *readings) pattern() string {
	return r.pick("mark", "*mark*", "[mark]", "a", "@(mark|b)", "!(mark)", "?(a|'mark')", "*", "\"mark\"", "'mark'", "$(: mark)", "+([a-z])", "a\\\nb", "${x:-mark}", "(mark)", "a*(b|c)#mark", "$x", "[[:alpha:]]", "[!a]", "#mark", "\\#mark", "a\\ mark", "(a|b)", "~", "<(:)")
}

func (r *readings) arithmetic(depth int) string {
	return r.pick("1", "1+2", "x=1", "x[0]", "16#ff", "$x", "(1)", "1<2", "1?2:3", "\n1", "\"1\"", "'1'", "$(echo 1)", "${x:-1}", "x++", "1 \\\n+2", "1,2", "x<(3)", "~1", "!x", "`echo 1`", "a[$(: mark)]")
}

// hereDoc makes a command with a here-document.
func (r *readings) hereDoc(depth int) string {
	delimiter := r.pick("E", "E", "E", "E", "E", "E", "E", "'E'", "'E'", "\"E\"", "\\E", "E''", "\"E\"F", "'E F'", "E\\\nF", "$'E'", "-E", "E#", "'$E'", "\\$E")
	end := strings.NewReplacer("'", "", `"`, "", "\\\n", "", `\`, "").Replace(delimiter)
	if strings.HasPrefix(delimiter, "$'") && r.IntN(2) == 0 {
		end = "E"
	}
	body := ""
	for range r.IntN(4) {
		body += r.pick("mark", " mark", "$(: mark)", "`: mark`", "\\", "E\\", "\\E", "mark\\", "E ", " E", "\tE", "a\\\\", "${x:-mark}", "${x:-'mark'}", "'", "\"", "$((1))", "<(mark)", "$", "$\\", "EF", "#", "mark # \\") + "\n"
	}
	head := r.pick("read x", ":", "{ :; }", "while read x; do :; done", "echo $(:)", "(:)") + " " + r.pick("", "", "2") + r.pick("<<", "<<", "<<-", "<< ") + delimiter + r.pick("", "", "", " # mark", "; echo mark", " | :", " && :", " >x", " <<F", ";# mark", "&", " \\\n a", " # \\")
	tail := r.pick(end, end, end, end, end, end, end, end, "\t"+end, end+" ", end+"\\", "\\\n"+end)
	text := head + "\n" + body + tail + "\n"
	if strings.Contains(head, "<<F") {
		text += "mark\nF\n"
	}
	switch r.IntN(5) {
	case 0:
		return r.pick("echo $("+text+")", "echo \"$("+text+")\"", "echo `"+text+"`", "echo <("+text+")", "echo $("+text+")#mark")
	case 1:
		return r.pick("( "+text+")", "{ "+text+"}")
	}
	return text
}

// word makes a word in which mark is data.
func (r *readings) word(depth int) string {
	if depth < -3 {
		return "mark"
	}
	w := func() string { return r.word(depth - 1) }
	c := func() string { return r.simple(-3 + r.IntN(2)) }
	switch r.IntN(44) {
	case 0:
		return "'mark'"
	case 1:
		return "\"mark\""
	case 2:
		return "$(" + c() + ")" + r.pick("", "", "#mark", "mark")
	case 3:
		return "\"$(" + c() + ")\""
	case 4:
		return "`" + r.pick(": mark", "echo 'mark'", "echo \\\"mark\\\"", ":", "echo \\`: mark\\`", ": # mark", "echo \\$x", "echo '#' mark") + "`" + r.pick("", "#mark")
	case 5:
		return "${x:-" + w() + "}"
	case 6:
		return "\"${x:-" + w() + "}\""
	case 7:
		return "${x" + r.pick("#", "%", "/", "^^", ",,", ":=", ":+", "+", "-", ":?", "//", "##", "@", ":") + r.pick("mark", "a", "'mark'", "Q", "1", " ", "$(: mark)", "}", "\\}", "a/mark", "<(mark)", "\"}\"", "'}'", "#", "*", "E", "P", "A") + "}"
	case 8:
		return "\"${x" + r.pick("#", "%", "/", "^^", ":=", ":+", "+", "-", "//", "##", "@") + r.pick("mark", "'mark'", "'}'", "\"mark\"", "Q", "a/'mark'", "\\}", "'", "$'mark'", "{", "}") + "}\""
	case 9:
		return "$((" + r.arithmetic(depth) + "))" + r.pick("", "#mark")
	case 10:
		return "$'" + r.pick("mark", "a\\'mark", "\\n", "\\\\", "\\x27", "\\cmark", "\\\n") + "'"
	case 11:
		return "$\"" + r.pick("mark", "$(: mark)", "a") + "\""
	case 12:
		return r.pick("<", ">") + "(" + c() + ")" + r.pick("", "#mark")
	case 13:
		return "{mark,b}" + r.pick("", "#mark")
	case 14:
		return r.pick("@", "?", "!", "+", "*") + "(" + r.pick("mark|b", "a", "'mark'", "$(: mark)", "a|@(b|mark)", "a b", "<(mark)", "\"mark\"") + ")" + r.pick("", "#mark")
	case 15:
		return "a\\\nmark"
	case 16:
		return "\"a\\\nmark\""
	case 17:
		return "\\" + r.pick("mark", "#mark", "\\", "'", "\"", "`", "$(: mark)", " mark", "(", ")", ";", "&", "|", "<", ">", "!", "\n")
	case 18:
		return r.pick("a#mark", "#mark", "'a'#mark", "\"a\"#mark", "$x#mark", "${x}#mark", "a=#mark", "=#mark", "[#mark]", "{#mark", "}#mark", "!#mark", "*#mark", "~#mark", "-#mark", ",#mark", "%#mark", "a:#mark")
	case 19:
		return "\"" + r.pick("\\$(mark)", "\\`mark\\`", "'mark'", "a'b", "$", "$ mark", "\\\\", "\\\"mark", "!mark", "#mark", "`: mark`", "$'mark'", "\n# mark\n", "<(mark)", "{mark,b}", "$(: \"mark\")", "$(: 'mark')", "$(: # mark\n)", "${x:-\"mark\"}", "${x:-`: mark`}", "${x#\"mark\"}", "$\\\n(: mark)") + "\""
	case 20:
		return "$" + r.pick("mark", "1mark", "{x}mark", "?mark", "#mark", "$mark", "!mark", "-mark", "@mark", "*mark", "", "[1+1]", "[x]mark", "_mark", "{#x}mark", "{!x}mark", "{x[0]}mark", "{x[@]}mark", "{!mark@}", "{mark[*]}", "{x:1:2}mark", "{x: -1}mark", "{#}mark", "{@:1}mark", "{-}mark", "{x/a}mark")
	case 21:
		return "~" + r.pick("mark", "/mark", "+mark", "")
	case 22:
		return r.pick("[", "[[", "]]", "{", "}", "!", "time", "if", "coproc", "in", "do", "done", "case", "esac", "function", "select", "then", "fi")
	case 23:
		return "x=mark"
	case 24:
		return r.pick("x=", "x+=", "x[0]=", "--x=") + w()
	case 25:
		return w() + w()
	default:
		return r.pick("mark", "a", "-n", "1", "x", "mark", "a.b")
	}
}

// damage changes a text a little.
func (r *readings) damage(text string) string {
	at := r.IntN(len(text) + 1)
	switch r.IntN(6) {
	case 0, 1:
		return text[:at] + r.pick(" ", "\n", "\\", "'", "\"", "`", "$", "(", ")", "{", "}", ";", "&", "|", "<", ">", "#", "!", "=", "[", "]", "*", "\t", "@", "?", "~", "-", "+", ":", "/", "%", ",") + text[at:]
	case 2:
		return text[:at] + r.pick("\\\n", "\\\n", "$(", "${", "$((", "((", "))", "[[ ", " ]]", "<(", ">(", "<<E\n", "\nE\n", "$'", "$\"", ";;", "&&", "||", "|&", "<<<", " mark ", "; mark", "\nmark\n", "=(", " #", "#\\\n", "()", "in ", "do ", "done", "fi", "esac", "${x:-", "@(", "\\\\\n", "&>", ">&", "$[", "<<'E'\n", "<<-E\n\t", "coproc ", "time ", "function ") + text[at:]
	case 3:
		if at < len(text) {
			return text[:at] + text[at+1:]
		}
	case 4: // something twice
		end := min(len(text), at+1+r.IntN(6))
		to := r.IntN(len(text) + 1)
		return text[:to] + text[at:end] + text[to:]
	default: // two swapped
		if at > 0 && at < len(text) {
			return text[:at-1] + text[at:at+1] + text[at-1:at] + text[at+1:]
		}
	}
	return text
}
