// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/cel"
)

// given are the variables of the tables below.
var given = vars{
	"input": map[string]any{
		"s": "text", "n": int64(5), "f": 2.5, "t": true, "z": nil, "e": "",
		"list": []any{int64(1), "two", 3.0}, "m": map[string]any{"k": "v"},
	},
	"tool.name":      "write_file",
	"effect.argv":    []string{"git", "push"},
	"effect.port":    int64(443),
	"effect.unclear": false,
	"session.labels": map[string]string{"team": "infra"},
}

// TestTrue is a table of what is true, by construct. cel-go says the same.
func TestTrue(t *testing.T) {
	oracle := oracle(t)
	for construct, list := range map[string]string{
		"ints": `
			0x1F == 31 && 007 == 7 && -9223372036854775808 < 0
			7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1
			2 + 3 * 4 == 14 && (2 + 3) * 4 == 20 && 10 - 2 - 3 == 5
			--5 == 5 && ---5 == -5 && 1 - -1 == 2`,
		"uints": `
			7u / 2u == 3u && 0xFFu == 255u && 5U % 3u == 2u
			18446744073709551615u > 9223372036854775807
			dyn(1u) == 1 && dyn(1u) == 1.0`,
		"doubles": `
			.5 == 0.5 && 1e3 == 1000.0 && 1.5E-1 == 0.15
			1.0 / 0.0 > 1e308 && -1.0 / 0.0 < -1e308
			double("NaN") != double("NaN") && !(double("NaN") < 1.0) && !(double("NaN") >= 1.0)`,
		"strings": `
			"a\n\t\\\"'" == 'a\n\t\\"\'' && "\x41\u00e9\U0001F600\101" == "Aé😀A"
			r"\d" == "\\d" && R'\' == "\\" && """a"b""" == 'a"b' && r'''\''' == "\\"
			"a" + "b" == "ab" && "a" < "b" && "B" < "a" && "" < "a"
			size("é😀") == 2 && "é".size() == 1
			"abc".startsWith("a") && "abc".endsWith("bc") && "abc".contains("") && !"abc".contains("d")
			"abc".matches("^a.c$") && matches("abc", "b") && !"abc".matches("^b")`,
		"lists": `
			[1, 2] + [3] == [1, 2, 3] && [] == [] && [1] != [2] && [1, 2,] == [1, 2]
			[1, 2, 3][1] == 2 && effect.argv[0] == "git" && size([]) == 0
			2 in [1, 2] && !(3 in [1, 2]) && "push" in effect.argv && !(1 in [])
			input.list[2] == 3 && [[1], [2]][1][0] == 2 && input.list[1u - 0u] == "two"`,
		"maps": `
			{"a": 1}.a == 1 && {"a": 1}["a"] == 1 && {1: "x"}[1] == "x" && {true: 1}[true] == 1
			{"a": 1, "b": 2} == {"b": 2, "a": 1} && {"a": 1} != {"a": 2} && {} == {}
			"a" in {"a": 1} && !("b" in {"a": 1}) && size({"a": 1}) == 1 && {"a": 1, "a": 2}.a == 2
			{1: 1} == {dyn(1u) == 1 ? 1 : 2: 1} && dyn(1.0) in {1: 2} && {1u: 2}[dyn(1)] == 2
			!(1 in input) && "m" in input`,
		"null": `null == null && input.z == null && input.s != null && !(null in [1, "a"]) && type(null) == null_type`,
		"bools": `
			true && !false && true != false && false < true && !!true
			true || 1 / 0 == 1
			1 / 0 == 1 || true
			!(1 / 0 == 1 && false)
			!(false && input.nope) && (input.nope || true)
			(input.s || true) && !(input.s && false)
			false || false || 1 / 0 == 1 || true
			true ? true : 1 / 0 == 1
			(false ? 1 : 2) == 2 && (true ? (false ? 1 : 2) : 3) == 2 && (false ? 1 : false ? 2 : 3) == 3`,
		"across types": `
			dyn(1) == 1.0 && dyn(1) == 1u && dyn(1.5) != 1 && dyn("1") != 1 && dyn([1]) == [1.0] && dyn({"a": 1}) == {"a": 1u}
			1 < 1.5 && 1u < 2 && -1 < 0u && 1.0 <= 1 && 2u >= 2.0 && 9007199254740993 > 9007199254740991.0
			dyn(1) in [1.0] && dyn(1.0) in [1, 2]`,
		"fields": `
			input.m.k == "v" && input["m"]["k"] == "v" && session.labels.team == "infra" && session.labels["team"] == "infra"
			has(input.s) && !has(input.nope) && has(input.m.k) && !has(input.m.nope) && has(session.labels.team)
			has(input.z) && !has(input.n.x) && !has(input.z.x) && has({"a": null}.a)`,
		"macros": `
			[1, 2].all(x, x > 0) && ![1, 2].all(x, x > 1) && [].all(x, false) && input.m.all(k, k == "k")
			[1, 2].exists(x, x == 2) && ![1].exists(x, x == 2) && session.labels.exists(k, session.labels[k] == "infra")
			[1, 2].exists_one(x, x == 2) && ![2, 2].exists_one(x, x == 2)
			[1, 2].map(x, x * 2) == [2, 4] && [1, 2].map(x, x > 1, x * 2) == [4] && {"a": 1}.map(k, k) == ["a"]
			[1, 2].filter(x, x > 1) == [2] && effect.argv.filter(w, w.startsWith("p")).size() == 1
			[0, 1].exists(x, 1 / x == 1) && ![0, 2].all(x, 1 / x == 1)
			[[1], [2]].exists(x, x.exists(x, x == 2)) && [1].all(x, [2].all(y, x < y))
			input.e.all(x, false)`,
		"conversions": `
			int("-5") == -5 && int(2.9) == 2 && int(-2.9) == -2 && int(5u) == 5
			uint("5") == 5u && uint(2.9) == 2u && uint(5) == 5u
			double("1.5") == 1.5 && double(1) == 1.0 && double(1u) == 1.0
			string(1) == "1" && string(1u) == "1" && string(1.5) == "1.5" && string(1e21) == "1e+21" && string(true) == "true" && string("a") == "a"
			bool("true") && bool("t") && !bool("0") && bool(true)
			type(1) == int && type("") == string && type(input.list) == list && type(input) == map && type(type(1)) == type && type(1) != uint
			type(input.n) == int && type(input.f) == double && type(1) == type(2)`,
		"text": "\n1 // one\n+ 2 == 3\n",
		"names": `
			tool.name == "write_file" && effect.port == 443 && !effect.unclear
			[{"name": "x"}].exists(tool, tool.name == "x") && [1].exists(input, input == 1)
			input.list.size() == 3 && !has(input.if)`,
	} {
		lines := strings.Split(strings.TrimSpace(list), "\n")
		if construct == "text" {
			lines = []string{list}
		}
		for _, text := range lines {
			t.Run(construct+"/"+strings.TrimSpace(text), func(t *testing.T) {
				program, err := env.Compile(text)
				if err != nil {
					t.Fatal(err)
				}
				if holds, err := program.Eval(given); !holds {
					t.Errorf("not true: %v", err)
				}
				agree(t, oracle, text, given)
			})
		}
	}
}

// TestErrors is what compiles and has no answer.
func TestErrors(t *testing.T) {
	oracle := oracle(t)
	for text, want := range map[string]string{
		`9223372036854775807 + effect.port > 0`:         "overflow",
		`-9223372036854775807 - effect.port > 0`:        "overflow",
		`9223372036854775807 * effect.port > 0`:         "overflow",
		`-(-9223372036854775807 - 1) > 0`:               "overflow",
		`(-9223372036854775807 - 1) / -1 > 0`:           "overflow",
		`(-9223372036854775807 - 1) % -1 == 0`:          "overflow",
		`0u - 1u > 0u`:                                  "overflow",
		`18446744073709551615u + 1u > 0u`:               "overflow",
		`18446744073709551615u * 2u > 0u`:               "overflow",
		`1 / 0 == 1`:                                    "division by zero",
		`1u % 0u == 1u`:                                 "division by zero",
		`input.n / (input.n - 5) == 1`:                  "division by zero",
		`int(input.f * 1e300) > 0`:                      "overflow",
		`uint(-input.n) > 0u`:                           "overflow",
		`int(input.s) == 1`:                             "type conversion",
		`bool(input.s)`:                                 "type conversion",
		`int(input.t) == 1`:                             "no such overload",
		`string(input.list) == ""`:                      "no such overload",
		`input.nope == 1`:                               "no such key: nope",
		`input["nope"] == 1`:                            "no such key: nope",
		`session.labels.nope == "x"`:                    "no such key: nope",
		`input.m.k.x == 1`:                              "no such key: x",
		`has(input.nope.x)`:                             "no such key: nope",
		`has(input.list.x)`:                             "no such overload",
		`input.list[3] == 1`:                            "out of bounds",
		`input.list[-1] == 1`:                           "out of bounds",
		`input.list["x"] == 1`:                          "no such overload",
		`input.list[input.f] == 1`:                      "no such overload",
		`input.n[0] == 1`:                               "no such overload",
		`input.n + 1.0 == 6.0`:                          "no such overload",
		`input.s + 1 == 1`:                              "no such overload",
		`input.list < input.list`:                       "no such overload",
		`input.n < input.s`:                             "no such overload",
		`1 in input.s`:                                  "no such overload",
		`!input.s`:                                      "no such overload",
		`-input.s == 1`:                                 "no such overload",
		`size(input.n) == 1`:                            "no such overload",
		`input.n.contains("5")`:                         "no such overload",
		`input.n.startsWith("x")`:                       "no such overload",
		`"x".matches(input.s + "(")`:                    "missing closing )",
		`input.s && true`:                               "no such overload",
		`input.s || false`:                              "no such overload",
		`(input.s ? 1 : 2) == 1`:                        "no such overload",
		`input.n.all(x, true)`:                          "no such overload",
		`input.s.exists(x, true)`:                       "no such overload",
		`[0, 2].exists(x, 1 / x == 1)`:                  "division by zero",
		`[0, 1].all(x, 1 / x == 1)`:                     "division by zero",
		`[0, 1].exists_one(x, 1 / x == 1)`:              "division by zero",
		`[0, 1].map(x, 1 / x) == [1]`:                   "division by zero",
		`[0, 1].filter(x, 1 / x == 1) == [1]`:           "division by zero",
		`[1 / 0] == [1]`:                                "division by zero",
		`{"a": 1 / 0} == {"a": 1}`:                      "division by zero",
		`input.z < 1`:                                   "no such overload",
		`input.list.all(x, x > 0 && x.nope)`:            "no such",
		`[input["s"]].exists(x, x == 1 || int(x) == 5)`: "no such overload",
		`input.s`:      "neither true nor false",
		`[input.z][0]`: "neither true nor false",
	} {
		t.Run(text, func(t *testing.T) {
			program, err := env.Compile(text)
			if err != nil {
				t.Fatal(err)
			}
			if holds, err := program.Eval(given); err == nil || holds || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, %v: want %s", holds, err, want)
			}
			agree(t, oracle, text, given)
		})
	}
}

// TestDoesNotCompile is what is refused, with where and why.
func TestDoesNotCompile(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "column 1: Syntax error: want a value here, not the end",
		"input.path ==":                    "column 14: Syntax error: want a value here, not the end",
		"(1 == 1":                          `column 8: Syntax error: want ) here, not the end`,
		"1 == 1)":                          `column 7: Syntax error: want an operator or the end here, not ")"`,
		"true true":                        `column 6: Syntax error: want an operator or the end here, not "true"`,
		"input.list[0 == 1":                "want ] here",
		"[1, 2":                            "want ] here",
		"{1: 2":                            "want } here",
		"{1}":                              "want : here",
		"true ? 1":                         "want : here",
		"size(1,)":                         "want an argument here",
		"input. == 1":                      "want a name here",
		"input.in == 1":                    "want a name here",
		"input.?a == 1":                    "want a name here",
		".input == 1":                      "want a value here",
		"!-effect.port":                    "want a value here",
		"-!true":                           "want a value here",
		"true ? true ? 1 : 2 : 3":          `want : here, not "?"`,
		"input = 1":                        `column 7: Syntax error: '=' means nothing here: write ==`,
		"true & false":                     "write &&",
		"true | false":                     "write ||",
		"true; false":                      "';' means nothing here",
		"é == 1":                           "'é' means nothing here",
		"'abc":                             "the string does not end: close it with '",
		"'a\nb' == ''":                     "column 1: Syntax error: the string does not end on its line",
		"true &&\n  'a":                    "line 2, column 3: Syntax error: the string does not end",
		`"é" + "\q" == ""`:                 `column 8: Syntax error: no such escape`,
		`"\400" == ""`:                     "no such escape",
		`"\ud800" == ""`:                   "no such escape",
		`"\u12" == ""`:                     "no such escape",
		`b"x" == b"x"`:                     "bytes are not supported: use a string",
		"input.`a-b` == 1":                 `names in backquotes are not supported: write input["name"]`,
		"9223372036854775808 > 0":          "is not a number, or out of range",
		"1_0.5 == 10.5":                    "1_0.5 is not a number",
		"1x == 1":                          "1x is not a number",
		"1e999 > 0.0":                      "is not a number, or out of range",
		"-1u < 0u":                         "-1u is not a number",
		"if == 1":                          "if is a word that CEL reserves",
		"tool.nme == 'x'":                  "column 5: undeclared reference to 'tool.nme' (did you mean 'tool.name'?)",
		"tool == 'x'":                      "undeclared reference to 'tool' (did you mean 'tool.name'?)",
		"nope":                             "column 1: undeclared reference to 'nope'",
		"input.s.startWith('x')":           "column 9: undeclared reference to 'startWith' (did you mean 'startsWith'?)",
		"input.s.lowerAscii() == 'x'":      "undeclared reference to 'lowerAscii'",
		"timestamp('x') == null":           "timestamp() is not supported",
		"startsWith('a', 'b')":             "startsWith is not called like this",
		"1.startsWith('a')":                "column 3: startsWith does not take (int, string), but (string, string)",
		"'a'.startsWith(1)":                "startsWith does not take (string, int), but (string, string)",
		"tool.name == 1":                   "column 11: == does not take (string, int)",
		"tool.name == null":                "== does not take (string, null_type)",
		"1 + 'a' == 2":                     "+ does not take (int, string), but (double, double) or (int, int) or (list, list) or (string, string) or (uint, uint)",
		"1 + 1u == 2":                      "+ does not take (int, uint)",
		"1 == 1.0":                         "== does not take (int, double)",
		"5.0 % 2.0 == 1.0":                 "% does not take (double, double), but (int, int) or (uint, uint)",
		"!1":                               "! does not take (int), but (bool)",
		"-'a' == 1":                        "- does not take (string)",
		"size(1) == 1":                     "size does not take (int)",
		"size() == 1":                      "size does not take ()",
		"'a'.matches() == true":            "matches does not take (string)",
		"effect.argv['x'] == 'a'":          "[] does not take (list(string), string)",
		"effect.argv.exists(w, w == 1)":    "== does not take (string, int)",
		"session.labels[1] == 'x'":         "[] does not take (map(string, string), int)",
		"1 in [1, 2][0]":                   "in does not take (int, int)",
		"tool.name.x == 1":                 "column 10: a string has no field x: only a map has",
		"tool.name && true":                "column 5: this gives string: want bool",
		"(true ? 1 : 'a') == 1":            "?: does not take (bool, int, string)",
		"1.all(x, true)":                   "all goes through a list or the keys of a map, not a int",
		"[1].all(1, true)":                 "all wants a name for the element first, as in all(x, x > 1)",
		"[1].all(a.b, true)":               "all wants a name",
		"[1].all(x, 1)":                    "this gives int: want bool",
		"[1].all(x)":                       "column 5: all is not called like this",
		"[1].all(int, true)":               "int is a type: take another name",
		"[int].all(x, x == int)":           "x would stand for a type, which is not supported",
		"has(input)":                       "has() asks for a field",
		"has(input['x'])":                  "has() asks for a field",
		"has(tool.name)":                   "undeclared reference to 'tool'",
		"{1.5: 1} == {}":                   "a key of type double: want a string, an int, a uint or a bool",
		"{input.s: 1} == {}":               "a key of type dyn",
		"{1: 1, 'a': 2} == {}":             "a key of type string beside one of type int: want one type",
		"int('x') == 1":                    "this can never be evaluated: type conversion error",
		"int(input['n']) == 1":             "write int(dyn(…))",
		"tool.name.matches('(')":           "missing closing )",
		"tool.name.matches('(a{999}){2}')": "invalid repeat count",
		"tool.name":                        "gives string: want true or false",
		"effect.argv":                      "gives list(string): want true or false",
		"Msg{a: 1} == 1":                   "want an operator or the end here",
		"\xff":                             "is not UTF-8",
		"tool.name.matches('" + strings.Repeat("(abcdefgh){9}", 20) + "')": "over the limit",
		strings.Repeat("(", 65) + "true" + strings.Repeat(")", 65):         "too deep",
		strings.Repeat("[", 65) + strings.Repeat("]", 65) + " == []":       "too deep",
		"input" + strings.Repeat(".a", 65):                                 "too deep",
		"1" + strings.Repeat(" + 1", 65) + " == 1":                         "too deep",
		strings.Repeat("[1].all(x, ", 5) + "true" + strings.Repeat(")", 5): "macros are nested too deep",
		strings.Repeat(" ", 4097):                                          "has 4097 bytes: at most 4096",
	} {
		t.Run(text[:min(len(text), 40)], func(t *testing.T) {
			if _, err := env.Compile(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// A chain of && or || is as long as the text may be.
func TestLongChain(t *testing.T) {
	program, err := env.Compile("false" + strings.Repeat("||false", 500) + "||true")
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := program.Eval(given); !holds {
		t.Error(err)
	}
}

// Whatever the input, an evaluation ends soon and says that it is over the
// limit; nothing absorbs that.
func TestCost(t *testing.T) {
	env := &cel.Env{Variables: env.Variables, MaxCost: 100_000}
	long := strings.Repeat("x", 1<<19)
	numbers, strs, patterns := make([]any, 1000), make([]any, 1000), make([]any, 200)
	object := make(map[string]any)
	for i := range numbers {
		numbers[i], strs[i] = int64(i), long
		object[strings.Repeat("k", i)] = numbers
	}
	for i := range patterns {
		patterns[i] = strings.Repeat(`\pL{99}`, 100)
	}
	deep := any("x")
	for range 10_000 {
		deep = []any{deep}
	}
	input := vars{"input": map[string]any{"s": long, "l": numbers, "strs": strs, "patterns": patterns, "o": object, "deep": deep},
		"effect.unclear": true}
	for _, text := range []string{
		`input.l.all(a, input.l.all(b, input.l.all(c, a + b + c >= 0)))`,
		`input.l.exists(a, input.l.exists(b, a + b < 0)) || true`,
		`input.l.map(a, input.l.map(b, a)).size() > 0`,
		`input.l.map(a, input.l + input.l).size() > 0`,
		`input.l.filter(a, input.l.exists_one(b, b == a)).size() > 0`,
		`input.l.all(a, a in input.l)`,
		`input.strs.all(a, a == input.s)`,
		`input.strs.all(a, a + a != "")`,
		`input.strs.map(a, a + input.s).size() > 0`,
		`input.strs.all(a, size(a) > 0)`,
		`input.strs.all(a, a < a || true)`,
		`input.strs.all(a, a.startsWith(a))`,
		`input.strs.all(a, a.contains("y") || true)`,
		`input.s.contains(input.s + "y")`,
		`input.s.matches("(x+x+)+y")`,
		`input.patterns.all(p, "x".matches(p) || true)`,
		`input.strs.all(a, int(a) == 1 || true)`,
		`input.l.all(a, input.o == input.o)`,
		`input.l.all(a, input.o.all(k, k in input.o))`,
		`input.l.all(a, input.deep == input.deep)`,
		`input.l.all(a, a == 5 ? true : input.l == input.l) ? effect.unclear : effect.unclear`,
	} {
		t.Run(text, func(t *testing.T) {
			program, err := env.Compile(text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := program.Eval(input); !errors.Is(err, cel.ErrCost) {
				t.Errorf("%v", err)
			}
		})
	}
	// What people write does not come near.
	for _, text := range []string{
		`size(input.s) > 100000`, `input.s.contains("secret") == false`, `input.l.all(x, x >= 0)`, `input.deep == input.deep`,
	} {
		program, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := program.Eval(input); !holds {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An error of the host is the error of the evaluation, unless it does not matter.
func TestHostError(t *testing.T) {
	for text, want := range map[string]bool{`input.x == 1`: false, `input.x == 1 || true`: true} {
		program, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		holds, err := program.Eval(broken{})
		if holds != want || errors.Is(err, errBroken) == want {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Variable(string) (cel.Value, error) { return cel.Value{}, errBroken }

func TestNoAllocations(t *testing.T) {
	program, err := env.Compile(`input.m.k.startsWith("v") && tool.name in ["read_file", "write_file"] && input.list.exists(x, x == 1)`)
	if err != nil {
		t.Fatal(err)
	}
	if count := testing.AllocsPerRun(100, func() { program.Eval(given) }); count > 0 {
		t.Errorf("%v allocations", count)
	}
}
