// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	celgo "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/toolserver/toolserver/internal/cel"
)

var env = &cel.Env{
	MaxCost: 1_000_000,
	Variables: []cel.Variable{
		{Name: "input", Type: cel.DynType},
		{Name: "tool.name", Type: cel.StringType},
		{Name: "effect.argv", Type: cel.ListType(cel.StringType)},
		{Name: "effect.port", Type: cel.IntType},
		{Name: "effect.unclear", Type: cel.BoolType},
		{Name: "session.labels", Type: cel.MapType(cel.StringType, cel.StringType)},
	},
}

// oracle is cel-go with the same variables.
func oracle(t testing.TB) *celgo.Env {
	t.Helper()
	env, err := celgo.NewEnv(
		celgo.Variable("input", celgo.DynType),
		celgo.Variable("tool.name", celgo.StringType),
		celgo.Variable("effect.argv", celgo.ListType(celgo.StringType)),
		celgo.Variable("effect.port", celgo.IntType),
		celgo.Variable("effect.unclear", celgo.BoolType),
		celgo.Variable("session.labels", celgo.MapType(celgo.StringType, celgo.StringType)),
		celgo.CrossTypeNumericComparisons(true),
		celgo.ParserRecursionLimit(-1),
	)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// vars are variables as both understand them.
type vars map[string]any

func (v vars) Variable(name string) (cel.Value, error) { return cel.Of(v[name]), nil }

// show is Program.Show for what cel-go gives.
func show(v ref.Val) string {
	switch x := v.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return strconv.FormatBool(bool(x))
	case types.Int:
		return strconv.FormatInt(int64(x), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(x), 10) + "u"
	case types.Double:
		return fmt.Sprintf("%gd", float64(x))
	case types.String:
		return strconv.Quote(string(x))
	case *types.Type:
		return x.TypeName()
	case traits.Mapper:
		var parts []string
		for it := x.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			parts = append(parts, show(key)+":"+show(x.Get(key)))
		}
		return "{" + cel.Sorted(parts) + "}"
	case traits.Lister:
		var parts []string
		for it := x.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, show(it.Next()))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return fmt.Sprintf("%T", v)
}

// agree checks that cel-go compiles what we compile, and that both give the same
// value or an error for each of the inputs. It reports whether we compile it.
func agree(t testing.TB, oracle *celgo.Env, text string, inputs ...vars) bool {
	t.Helper()
	ours, err := env.Any(text)
	if err != nil {
		return false
	}
	ast, issues := oracle.Compile(text)
	if issues.Err() != nil {
		t.Errorf("%s\ncompiles, which cel-go does not: %v", text, issues.Err())
		return true
	}
	theirs, err := oracle.Program(ast) // its optimizer changes what some errors become
	if err != nil {
		t.Errorf("%s\ncompiles, which cel-go does not: %v", text, err)
		return true
	}
	for _, input := range inputs {
		got, err := ours.Show(input)
		var want string
		// The order of a map's keys is not defined; ours is one that cel-go has
		// now and then.
		for range 100 {
			value, _, wantErr := theirs.Eval(map[string]any(input))
			if want = fmt.Sprint(wantErr); wantErr == nil {
				want = show(value)
			}
			if got == want || err != nil && wantErr != nil {
				want = got
				break
			}
		}
		if got != want {
			t.Errorf("%s\nwith %v\ngives %s (%v)\ncel-go gives %s", text, input, got, err, want)
		}
	}
	return true
}

// TestAgreesWithCELGo compares us with cel-go on random expressions.
func TestAgreesWithCELGo(t *testing.T) {
	const count = 2_000
	oracle, compiled := oracle(t), 0
	for seed := range uint64(count) {
		g := generator{rand.New(rand.NewPCG(seed, 1)), nil}
		text := g.expression()
		if agree(t, oracle, text, g.variables(), g.variables(), g.variables()) {
			compiled++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d of %d compiled", compiled, count)
	if compiled < count/3 {
		t.Errorf("only %d of %d expressions compile", compiled, count)
	}
}

// FuzzAgreesWithCELGo is the same for any seed.
func FuzzAgreesWithCELGo(f *testing.F) {
	oracle := oracle(f)
	f.Fuzz(func(t *testing.T, seed, stream uint64) {
		g := generator{rand.New(rand.NewPCG(seed, stream)), nil}
		text := g.expression()
		agree(t, oracle, text, g.variables(), g.variables(), g.variables())
	})
}

// FuzzText compares us with cel-go on any text.
func FuzzText(f *testing.F) {
	oracle := oracle(f)
	for seed := range uint64(200) {
		g := generator{rand.New(rand.NewPCG(seed, 2)), nil}
		f.Add(g.expression())
	}
	for _, text := range []string{`"\x41\u00e9\U0001F600\101\n"`, `r'\n' + R"x"`, "'''a\r\nb'''", `"""a"b"""`, "1 // one\n+ 2", `0x1Fu`, `1.5e-3`, `- - 1`, `!!true`, `b"x"`} {
		f.Add(text)
	}
	g := generator{rand.New(rand.NewPCG(1, 3)), nil}
	one, two := g.variables(), g.variables()
	f.Fuzz(func(t *testing.T, text string) {
		agree(t, oracle, text, one, two)
	})
}

// A generator makes expressions of which most have types that fit.
type generator struct {
	*rand.Rand
	locals []string
}

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) expression() string {
	if g.IntN(3) == 0 {
		return g.of(g.one("int", "uint", "double", "string", "list", "map", "dyn", "type"), 4)
	}
	return g.of("bool", 5)
}

var scalars = []string{"bool", "int", "uint", "double", "string"}

// of returns an expression of a type, most of the time.
func (g *generator) of(kind string, depth int) string {
	if g.IntN(25) == 0 {
		kind = g.one("bool", "int", "uint", "double", "string", "list", "map", "dyn", "null", "type")
	}
	if depth <= 0 {
		return g.leaf(kind)
	}
	if g.IntN(12) == 0 {
		return fmt.Sprintf("(%s ? %s : %s)", g.of("bool", depth-1), g.of(kind, depth-1), g.of(kind, depth-1))
	}
	if g.IntN(14) == 0 {
		return fmt.Sprintf("[%s, %s][%s]", g.of(kind, depth-1), g.of(kind, depth-1), g.of("int", depth-2))
	}
	if g.IntN(14) == 0 {
		return g.one("!!", "--", "") + g.one("input", "input.a", "input.b", `{"a": `+g.of(kind, depth-1)+`}`) + g.one(".a", ".b", `["a"]`, `["b"]`, "[0]", ".list[0]")
	}
	sub := func(kind string) string { return g.of(kind, depth-1) }
	binary := func(kind string, signs ...string) string {
		return fmt.Sprintf("(%s %s %s)", sub(kind), g.one(signs...), sub(kind))
	}
	convert := func(name string) string { return name + "(" + sub(g.one(append(scalars, "dyn")...)) + ")" }
	switch kind {
	case "bool":
		switch g.IntN(12) {
		case 0, 1:
			return binary("bool", "&&", "||", "&&", "||", "==", "<")
		case 2:
			return sub("bool") + g.one(" && ", " || ") + sub("bool") + g.one(" && ", " || ") + sub("bool")
		case 3:
			kind := g.one("int", "uint", "double", "string", "list", "map", "dyn", "type", "null")
			return binary(kind, "==", "!=")
		case 4:
			return binary(g.one("int", "uint", "double", "string", "dyn"), "<", "<=", ">", ">=", "==", "!=")
		case 5:
			return fmt.Sprintf("%s %s %s", sub(g.one("int", "uint", "double")), g.one("<", "<=", ">", ">="), sub(g.one("int", "uint", "double")))
		case 6:
			return fmt.Sprintf("(%s in %s)", sub(g.one("int", "string", "dyn", "double")), sub(g.one("list", "map", "dyn")))
		case 7:
			return fmt.Sprintf("%s.%s(%s)", sub("string"), g.one("contains", "startsWith", "endsWith"), sub("string"))
		case 8:
			return fmt.Sprintf("%s.matches(%s)", sub("string"), g.one(`"^a"`, `"b+$"`, `"(a|é)*"`, `"."`, sub("string")))
		case 9:
			return fmt.Sprintf("has(%s.%s)", sub(g.one("map", "dyn", "dyn")), g.one("a", "b", "list"))
		case 10:
			return g.macro(g.one("all", "exists", "exists_one"), sub(g.one("list", "map", "dyn")), "bool", depth)
		}
		return g.one("!"+g.leaf("bool"), "!("+sub("bool")+")", convert("bool"))
	case "int":
		if g.IntN(4) == 0 {
			return g.one("size("+sub(g.one("string", "list", "map", "dyn"))+")", sub(g.one("string", "list", "map", "dyn"))+".size()",
				"-("+sub("int")+")", convert("int"))
		}
		return binary("int", "+", "-", "*", "/", "%")
	case "uint":
		return g.one(binary("uint", "+", "-", "*", "/", "%"), convert("uint"))
	case "double":
		return g.one(binary("double", "+", "-", "*", "/"), convert("double"), "-("+sub("double")+")")
	case "string":
		return g.one(binary("string", "+"), convert("string"))
	case "list":
		switch g.IntN(5) {
		case 0:
			return g.macro("map", sub(g.one("list", "list", "list")), g.one("int", "string", "dyn"), depth)
		case 1:
			return g.macro("filter", sub("list"), "bool", depth)
		case 2:
			return binary("list", "+")
		}
		var parts []string
		kind := g.one("int", "string", "dyn", "double")
		for range g.IntN(4) {
			parts = append(parts, sub(kind))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case "map":
		key, value := g.one("int", "string", "uint", "bool"), g.one("int", "string", "dyn")
		var parts []string
		for range g.IntN(4) {
			parts = append(parts, g.leaf(key)+": "+sub(value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case "type":
		return "type(" + sub(g.one("int", "string", "dyn", "list", "map", "type", "null")) + ")"
	case "dyn":
		if g.IntN(2) == 0 {
			return "dyn(" + sub(g.one("bool", "int", "uint", "double", "string", "list", "map", "null", "type")) + ")"
		}
	}
	return g.leaf(kind)
}

// macro goes through a range. What comes out of the keys of a map has no order.
func (g *generator) macro(name, over, kind string, depth int) string {
	local := g.one("x", "y", "tool", "input")
	g.locals = append(g.locals, local)
	defer func() { g.locals = g.locals[:len(g.locals)-1] }()
	if name == "map" && g.IntN(3) == 0 {
		return fmt.Sprintf("%s.map(%s, %s, %s)", over, local, g.of("bool", depth-2), g.of(kind, depth-2))
	}
	return fmt.Sprintf("%s.%s(%s, %s)", over, name, local, g.of(kind, depth-2))
}

func (g *generator) leaf(kind string) string {
	if len(g.locals) > 0 && g.IntN(3) == 0 {
		return g.one(g.locals...)
	}
	if g.IntN(6) == 0 {
		kind = "dyn"
	}
	switch kind {
	case "bool":
		return g.one("true", "false", "effect.unclear")
	case "int":
		return g.one("0", "1", "-1", "2", "5", "0x10", "effect.port", "9223372036854775807", "-9223372036854775808", "9007199254740993")
	case "uint":
		return g.one("0u", "1u", "7U", "18446744073709551615u")
	case "double":
		return g.one("0.0", "1.0", "-1.5", "2e3", ".5", "1e300", `double("NaN")`, `double("-inf")`, "9007199254740992.0")
	case "string":
		return g.one(`""`, `"a"`, `'b'`, `"é\n"`, `"5"`, `"1.5"`, `"true"`, "tool.name", `r"\d"`, `"""x"""`, `"("`, "string(effect.port)", "effect.argv[0]", "session.labels.a")
	case "list":
		return g.one("[]", "[1, 2]", `["a", "b"]`, `[1, "a", null]`, "effect.argv", "[[1], []]", "[1.0, 2u]")
	case "map":
		return g.one("{}", `{"a": 1}`, `{1: "a", 2: "b"}`, "session.labels", `{"a": {"b": [1]}}`, "{1u: 2}", "{true: null}")
	case "null":
		return "null"
	case "type":
		return g.one("int", "string", "list", "map", "null_type", "type", "bool", "double", "uint")
	}
	return g.one("input", "input.a", "input.b", "input.list", `input["a"]`, "input.list[0]", "input.list[1].a", `input["b"]["a"]`)
}

func (g *generator) variables() vars {
	return vars{
		"input":          map[string]any{"a": g.value(3), "b": g.value(3), "list": []any{g.value(2), g.value(2)}},
		"tool.name":      g.one("", "a", "ab", "tool"),
		"effect.argv":    []string{"a", "b"}[:g.IntN(3)],
		"effect.port":    int64(g.IntN(3) * 443),
		"effect.unclear": g.IntN(2) == 0,
		"session.labels": map[string]string{g.one("a", "b"): g.one("a", "5")},
	}
}

// value returns something that JSON could have been.
func (g *generator) value(depth int) any {
	switch g.IntN(12) {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2, 3:
		return int64(g.IntN(5) - 1)
	case 4:
		return []float64{0.5, 1, -2, 1e300}[g.IntN(4)]
	case 5, 6:
		return g.one("", "a", "ab", "é", "5", "true", "(")
	case 7, 8:
		list := []any{}
		for range g.IntN(depth + 1) {
			list = append(list, g.value(depth-1))
		}
		return list
	}
	m := map[string]any{}
	for _, key := range []string{"a", "b", "list"} {
		if depth > 0 && g.IntN(2) == 0 {
			m[key] = g.value(depth - 1)
		}
	}
	return m
}
