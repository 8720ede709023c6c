// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

// TestConditionsKeepTheirMeaning is a table of conditions and what they were
// asked about, with the answers that the evaluator before cel-go gave.
func TestConditionsKeepTheirMeaning(t *testing.T) {
	data, err := os.ReadFile("testdata/conditions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	answers, refused := make(map[string]int), make(map[string]bool)
	for line := range bytes.Lines(data) {
		var row struct {
			When    string
			Input   json.RawMessage
			Tool    string
			Argv    []string
			Port    int
			Unclear bool
			Labels  map[string]string
			Want    string
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		answers[row.Want]++
		when, err := compileCondition(row.When)
		if err != nil && row.Want == "error" {
			refused[row.When] = true // an error of constants is told when it is read
			continue
		}
		if err != nil {
			t.Errorf("%s\ndoes not compile: %v", row.When, err)
			continue
		}
		effect := tools.Effect{Kind: tools.RunsProgram, Argv: row.Argv, Port: row.Port}
		if row.Unclear {
			effect.Unclear = "it is not known"
		}
		holds, _, err := when.holds(new(facts), &Subject{Input: row.Input, Spec: &tools.Spec{Name: row.Tool}, Labels: row.Labels}, &effect)
		got := fmt.Sprint(holds)
		if err != nil {
			got = "error"
		}
		if got != row.Want {
			t.Errorf("%s\nwith %s\ngives %s (%v): want %s", row.When, line, got, err, row.Want)
		}
	}
	if len(refused) != 1 || !refused["bool(dyn(null))"] {
		t.Errorf("these do not compile: %v", refused)
	}
	if answers["true"] < 200 || answers["false"] < 200 || answers["error"] < 200 {
		t.Errorf("the table has too few of some answers: %v", answers)
	}
}

// TestConditionExtensions has what is in CEL's library and its extensions.
func TestConditionExtensions(t *testing.T) {
	for _, text := range []string{
		`input.s.lowerAscii() == "text" && "a,b".split(",") == ["a", "b"] && ["a", "b"].join("-") == "a-b" && "abc".substring(1) == "bc"`,
		`"a.b".replace(".", "/") == "a/b" && "abc".indexOf("c") == 2 && " a ".trim() == "a" && "%s-%d".format(["a", 1]) == "a-1"`,
		`math.greatest(1, 2) == 2 && math.least([3, 1]) == 1 && math.abs(-1) == 1`,
		`sets.contains(effect.argv, ["git"]) && sets.intersects([1, 2], [2]) && sets.equivalent([1, 1], [1])`,
		`cidr("10.0.0.0/8").containsIP(ip("10.1.2.3")) && isIP(input.ip) && ip(input.ip).isLoopback()`,
		`isIP(effect.host) && cidr("10.0.0.0/8").containsIP(effect.host) && !(isIP("") && cidr("10.0.0.0/8").containsIP(""))`,
		`timestamp("2026-01-02T03:04:05Z").getFullYear() == 2026 && duration("90s") > duration("1m")`,
		`timestamp(input.at) < timestamp("2027-01-01T00:00:00Z") && b"a" == bytes("a")`,
	} {
		t.Run(text, func(t *testing.T) {
			when, err := compileCondition(text)
			if err != nil {
				t.Fatal(err)
			}
			call := Subject{Input: json.RawMessage(`{"s":"TEXT","ip":"127.0.0.1","at":"2026-05-06T07:08:09Z"}`), Spec: new(tools.Spec)}
			if holds, _, err := when.holds(new(facts), &call, &tools.Effect{Argv: []string{"git", "push"}, Host: "10.1.2.3"}); !holds {
				t.Errorf("not true: %v", err)
			}
		})
	}
}

// TestConditionsThatDoNotCompile is what is refused, with where and why.
func TestConditionsThatDoNotCompile(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "column 1: Syntax error",
		"input.path ==":                    "column 14: Syntax error",
		"true &&\n  'a":                    "line 2, column 3: Syntax error",
		"nope":                             "column 1: undeclared reference to 'nope'",
		"tool.nme == 'x'":                  "column 5: undeclared reference to 'tool.nme' (did you mean 'tool.name'?)",
		"input.s.startWith('x')":           "column 18: undeclared reference to 'startWith' (did you mean 'startsWith'?)",
		"tool.name == 1":                   "column 11: found no matching overload",
		"nope1 == 1 || nope2 == 2":         "column 1: undeclared reference to 'nope1'; column 15: undeclared reference to 'nope2'",
		"tool.name.matches('(')":           "missing closing )",
		"timestamp('x') == timestamp('y')": "timestamp",
		"int('x') == 1":                    "can never be evaluated",
		"tool.name":                        "gives string: want true or false",
		"effect.argv":                      "gives list(string): want true or false",
		"tool.name.matches('" + strings.Repeat("(abcdefgh){9}", 20) + "')": "limit of 1000",
		strings.Repeat("(", 65) + "true" + strings.Repeat(")", 65):         "recursion",
		strings.Repeat("[1].all(x, ", 5) + "true" + strings.Repeat(")", 5): "nesting",
		strings.Repeat(" ", 4097): "has 4097 bytes: at most 4096",
		"\xff":                    "column 1: ",
	} {
		t.Run(text[:min(len(text), 40)], func(t *testing.T) {
			if _, err := compileCondition(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestConditionCost has inputs of a model for which an evaluation would take long
// or much memory: it ends soon and says that it is over the limit, and nothing
// absorbs that.
func TestConditionCost(t *testing.T) {
	list := func(n int, element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	long := strings.Repeat("x", 1<<19)
	inputs := map[string]json.RawMessage{
		"l":    json.RawMessage(`{"l":` + list(1000, "1") + `,"s":"` + long + `"}`),
		"strs": json.RawMessage(`{"strs":` + list(1000, `"`+long[:500]+`"`) + `,"s":"` + long + `"}`),
		"many": json.RawMessage(`{"many":` + list(100_000, `""`) + `,"s":"` + long + `"}`),
		"two":  json.RawMessage(`{"two":"` + long[:1<<18] + `y","s":"` + long + `"}`),
	}
	for text, input := range map[string]string{
		`input.l.all(a, input.l.all(b, input.l.all(c, a + b + c >= 0)))`: "l",
		`input.l.exists(a, input.l.exists(b, a + b < 0)) || true`:        "l",
		`input.l.map(a, input.l.map(b, a)).size() > 0`:                   "l",
		`input.l.all(a, input.s + input.s != "")`:                        "l",
		`input.l.all(a, input.s == input.s + "x" || true)`:               "l",
		`input.strs.all(a, input.s.contains(a) || true)`:                 "strs",
		`input.s.matches("(x+x+)+y")`:                                    "l",
		`input.s.matches(input.two)`:                                     "two",
		`input.s.replace("x", input.two) != ""`:                          "two",
		`input.s.replace("", input.two) != ""`:                           "two",
		`input.many.join(input.s) != ""`:                                 "many",
		`input.s.indexOf(input.two) == -1`:                               "two",
		`sets.contains(input.many, input.many)`:                          "many",
	} {
		t.Run(text, func(t *testing.T) {
			when, err := compileCondition(text)
			if err != nil {
				t.Fatal(err)
			}
			spent := new(facts)
			_, _, err = when.holds(spent, &Subject{Input: inputs[input], Spec: new(tools.Spec)}, &tools.Effect{})
			if !errors.Is(err, errCost) && (err == nil || !strings.Contains(err.Error(), "limit")) {
				t.Errorf("%v, for %d", err, spent.spent)
			}
		})
	}
	// What people write does not come near.
	for text, input := range map[string]string{
		`size(input.s) > 100000`:                             "l",
		`!input.s.contains("secret")`:                        "l",
		`input.l.all(x, x >= 0)`:                             "l",
		`!input.s.lowerAscii().contains("secret")`:           "l",
		`input.strs.all(x, x.startsWith("x") && x != "y")`:   "strs",
		`input.many == input.many && input.many.size() > 10`: "many",
	} {
		when, err := compileCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if holds, _, err := when.holds(new(facts), &Subject{Input: inputs[input], Spec: new(tools.Spec)}, &tools.Effect{}); !holds {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An evaluation of a plain condition makes little garbage.
func TestConditionAllocations(t *testing.T) {
	when, err := compileCondition(`input.path.startsWith("v") && tool.name in ["read_file", "write_file"]`)
	if err != nil {
		t.Fatal(err)
	}
	call := Subject{Input: json.RawMessage(`{"path":"v"}`), Spec: &tools.Spec{Name: "read_file"}}
	shared := new(facts)
	count := testing.AllocsPerRun(100, func() {
		if holds, _, err := when.holds(shared, &call, &tools.Effect{}); !holds {
			t.Fatal(err)
		}
		shared.spent = 0
	})
	t.Logf("%v allocations", count)
	if count > 20 {
		t.Errorf("%v allocations: a condition is compiled once", count)
	}
}
