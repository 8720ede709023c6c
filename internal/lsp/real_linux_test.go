// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/lsp"
)

// module returns the directory of a module that this one needs.
func module(t testing.TB, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// source returns the directory of a published package, which make sources has fetched.
func source(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(binDir(t), "sources", name)
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("make sources fetches what this is asked about")
	}
	return dir
}

// agree holds answers about symbols of a real module against those of its server, which is
// asked directly.
func agree(t *testing.T, k *kit, d *direct, language string, symbols ...[2]string) {
	t.Helper()
	for _, one := range symbols {
		path, name := one[0], one[1]
		outline, err := k.asker.Outline(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		target := lsp.Target{Path: path}
		for _, s := range outline {
			if s.Name == name {
				target.Line, target.Column = s.Line, s.Column
			}
		}
		d.open(path, language)
		references := k.find(lsp.References, target)
		if len(references) < 2 {
			t.Errorf("%s has %d references", name, len(references))
		}
		equal(t, "references of "+name, references, d.references(path, target.Line, target.Column))
		equal(t, "references of "+name+" by its name", k.find(lsp.References, lsp.Target{Path: path, Symbol: name}), references)
		equal(t, "references of "+name+" by its name alone", k.find(lsp.References, lsp.Target{Symbol: name}), references)
		// The definition of each place where it is used in the file.
		for _, place := range references {
			var line, column int
			if _, err := fmt.Sscanf(strings.TrimPrefix(place, path+":"), "%d:%d", &line, &column); err == nil {
				equal(t, "definition at "+place, k.find(lsp.Definition, lsp.Target{Path: path, Line: line, Column: column}), d.definition(path, line, column))
			}
		}
	}
}

func TestGopls(t *testing.T) {
	k := newKit(t, lsp.Config{}, nil)
	program := k.needs("gopls")
	copyTree(t, module(t, "github.com/aymanbagabas/go-udiff"), k.dir)
	agree(t, k, startDirect(t, k.dir, "", program), "go", [2]string{"diff.go", "Edit"}, [2]string{"unified.go", "toUnified"}, [2]string{"diff.go", "Apply"})
}

// TestBeside: a language server that lies beside toolserver is found where commands find none.
func TestBeside(t *testing.T) {
	t.Parallel()
	beside := t.TempDir()
	program := filepath.Join(binDir(t), "gopls")
	newKit(t, lsp.Config{}, nil).needs("gopls")
	if err := os.Symlink(program, filepath.Join(beside, "gopls")); err != nil {
		t.Fatal(err)
	}
	k := newKit(t, lsp.Config{Beside: beside}, shapes)
	if path, found := k.runners.Find("gopls"); found {
		t.Fatalf("commands find %s, so that nothing is shown", path)
	}
	equal(t, "definition", k.find(lsp.Definition, lsp.Target{Path: "cmd/use/main.go", Line: 6, Symbol: "Total"}), []string{"total.go:4:6"})
}

func TestTypeScript(t *testing.T) {
	k := newKit(t, lsp.Config{}, nil)
	program := k.needs("typescript-language-server")
	copyTree(t, "../../sdk/typescript", k.dir)
	// The first question has the whole answer: nobody has asked before.
	const class = "export class Tries"
	before, _, _ := strings.Cut(k.read("src/calls.ts"), class)
	line := 1 + strings.Count(before, "\n")
	if cold := k.find(lsp.References, lsp.Target{Path: "src/calls.ts", Line: line, Column: len(class)}); len(cold) != 11 {
		t.Errorf("references of Tries, the first question: %q", cold)
	}
	d := startDirect(t, k.dir, `{"disableAutomaticTypingAcquisition":true,"tsserver":{"useSyntaxServer":"never"}}`, program, "--stdio")
	agree(t, k, d, "typescript", [2]string{"src/calls.ts", "Tries"}, [2]string{"src/calls.ts", "lostConnection"}, [2]string{"src/calls.ts", "StreamSignal"})
}

// TestTypeScriptModule asks about 250 files of rxjs.
func TestTypeScriptModule(t *testing.T) {
	t.Parallel()
	k := newKit(t, lsp.Config{}, map[string]string{"tsconfig.json": `{"compilerOptions": {"strict": true, "noEmit": true, "types": []}, "include": ["src/internal"]}`})
	program := k.needs("typescript-language-server")
	copyTree(t, filepath.Join(source(t, "rxjs"), "src", "internal"), filepath.Join(k.dir, "src", "internal"))
	d := startDirect(t, k.dir, `{"disableAutomaticTypingAcquisition":true,"tsserver":{"useSyntaxServer":"never"}}`, program, "--stdio")
	agree(t, k, d, "typescript", [2]string{"src/internal/Subscription.ts", "isSubscription"})
}

func TestPyright(t *testing.T) {
	k := newKit(t, lsp.Config{}, nil)
	program := k.needs("pyright-langserver")
	copyTree(t, "../../sdk/python", k.dir)
	d := startDirect(t, k.dir, "", program, "--stdio")
	agree(t, k, d, "python", [2]string{"toolserver/_calls.py", "Tries"}, [2]string{"toolserver/_calls.py", "lost_connection"}, [2]string{"toolserver/batch.py", "BatchResult"})
}

// TestPyrightModule asks about modules of Python's library.
func TestPyrightModule(t *testing.T) {
	t.Parallel()
	libraries, err := filepath.Glob("/usr/lib/python3.*/logging")
	if err != nil || len(libraries) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no library of Python")
		}
		t.Skip("there is no library of Python")
	}
	k := newKit(t, lsp.Config{}, nil)
	program := k.needs("pyright-langserver")
	for _, name := range []string{"logging", "json"} {
		copyTree(t, filepath.Join(filepath.Dir(libraries[0]), name), filepath.Join(k.dir, name))
	}
	d := startDirect(t, k.dir, "", program, "--stdio")
	agree(t, k, d, "python", [2]string{"logging/handlers.py", "BaseRotatingHandler"}, [2]string{"json/decoder.py", "JSONDecodeError"}, [2]string{"logging/__init__.py", "_checkLevel"})
}

// shapes is a small module in which every question has an answer.
var shapes = map[string]string{
	"go.mod": "module example.com/shapes\n\ngo 1.21\n",
	"shape.go": `package shapes

import "math"

// A Shape has an area.
type Shape interface {
	Area() float64
}

// A Circle is round. Ünïcödé 🙂 before a name: columns are characters.
type Circle struct{ Radius float64 }

// Area returns the area of the circle.
func (c Circle) Area() float64 { return math.Pi * c.Radius * c.Radius }

var /* 🙂🙂 */ Unit = Circle{Radius: 1}
`,
	"total.go": `package shapes

// Total returns the sum of areas.
func Total(shapes []Shape) (sum float64) {
	for _, s := range shapes {
		sum += s.Area()
	}
	return sum
}

func Twice(shapes []Shape) float64 { return Total(shapes) + Total(shapes) }
`,
	"cmd/use/main.go": `package main

import "example.com/shapes"

func main() {
	println(shapes.Total([]shapes.Shape{shapes.Unit}))
}
`,
}

// TestGoplsAnswers: every operation, by gopls.
func TestGoplsAnswers(t *testing.T) {
	k := newKit(t, lsp.Config{}, shapes)
	k.needs("gopls")
	equal(t, "definition", k.find(lsp.Definition, lsp.Target{Path: "cmd/use/main.go", Line: 6, Symbol: "Total"}), []string{"total.go:4:6"})
	equal(t, "definition behind characters of several units", k.find(lsp.References, lsp.Target{Symbol: "Unit"}), []string{"cmd/use/main.go:6:45", "shape.go:16:14"})
	equal(t, "the same by its column", k.find(lsp.References, lsp.Target{Path: "shape.go", Line: 16, Column: 14}), []string{"cmd/use/main.go:6:45", "shape.go:16:14"})
	equal(t, "implementation", k.find(lsp.Implementation, lsp.Target{Path: "shape.go", Symbol: "Shape"}), []string{"shape.go:11:6"})
	equal(t, "type definition", k.find(lsp.TypeDefinition, lsp.Target{Symbol: "Unit"}), []string{"shape.go:11:6"})
	library, err := k.asker.Find(t.Context(), lsp.Definition, lsp.Target{Path: "shape.go", Line: 14, Symbol: "Pi"})
	if err != nil || len(library.List) != 1 || !strings.HasSuffix(library.List[0].Path, "/src/math/const.go") || !strings.Contains(library.List[0].Text, "3.14159") {
		t.Errorf("definition in a library: %v, %v", library, err)
	}

	hover, err := k.asker.Hover(t.Context(), lsp.Target{Path: "cmd/use/main.go", Line: 6, Symbol: "Total"})
	if err != nil {
		t.Fatal(err)
	}
	has(t, hover.Text, "func shapes.Total(shapes []shapes.Shape) (sum float64)", "sum of areas")
	signature, err := k.asker.Signature(t.Context(), lsp.Target{Path: "total.go", Line: 11, Column: 51})
	if err != nil {
		t.Fatal(err)
	}
	has(t, signature.Text, "Total(shapes []Shape) (sum float64)")
	completions, err := k.asker.Completions(t.Context(), lsp.Target{Path: "shape.go", Line: 14, Column: 53})
	if err != nil || len(completions.List) == 0 || completions.List[0].Label != "Radius" || completions.List[0].Kind != "field" {
		t.Errorf("completions: %+v, %v", completions, err)
	}
	symbols, err := k.asker.Outline(t.Context(), "shape.go")
	if err != nil {
		t.Fatal(err)
	}
	var outline []string
	for _, s := range symbols {
		outline = append(outline, strings.Repeat(" ", s.Depth)+s.Kind+" "+s.Name)
	}
	equal(t, "outline", outline, []string{"interface Shape", " method Area", "struct Circle", " field Radius", "method (Circle).Area", "variable Unit"})

	callers, err := k.asker.Hierarchy(t.Context(), lsp.Callers, lsp.Target{Symbol: "Total"})
	if err != nil {
		t.Fatal(err)
	}
	var who []string
	for _, s := range callers.List {
		who = append(who, s.Name)
	}
	equal(t, "callers", who, []string{"main", "Twice"})
	callees, err := k.asker.Hierarchy(t.Context(), lsp.Callees, lsp.Target{Path: "total.go", Symbol: "Twice"})
	if err != nil || len(callees.List) != 1 || callees.List[0].Name != "Total" || len(callees.List[0].Sites) != 2 {
		t.Errorf("callees: %+v, %v", callees, err)
	}
	types, err := k.asker.Hierarchy(t.Context(), lsp.Subtypes, lsp.Target{Path: "shape.go", Symbol: "Shape"})
	if err != nil || len(types.List) != 1 || types.List[0].Name != "Circle" {
		t.Errorf("subtypes: %+v, %v", types, err)
	}

	_, err = k.asker.Find(t.Context(), lsp.Definition, lsp.Target{Symbol: "Area"})
	code, text := failure(t, err)
	if code != "ambiguous_symbol" {
		t.Errorf("%s: %s", code, text)
	}
	has(t, text, "shape.go:7:2", "shape.go:14:17", "Circle.Area")
	equal(t, "qualified", k.find(lsp.Definition, lsp.Target{Symbol: "Circle.Area"}), []string{"shape.go:14:17"})
	_, err = k.asker.Find(t.Context(), lsp.Definition, lsp.Target{Path: "total.go", Symbol: "Totel"})
	_, text = failure(t, err)
	has(t, text, "no symbol Totel", "Did you mean Total?")
	for _, outside := range []lsp.Target{{Path: "total.go", Line: 12, Column: 1}, {Path: "total.go", Line: 2, Column: 2}, {Path: "total.go", Line: -1, Column: 1}, {Path: "total.go", Line: 1, Column: 0}} {
		if _, err := k.asker.Find(t.Context(), lsp.Definition, outside); err == nil {
			t.Errorf("%+v is a position", outside)
		} else if code, _ := failure(t, err); code != "no_such_position" {
			t.Errorf("%+v: %v", outside, err)
		}
	}
}

// TestGoplsKnowsChanges: what is written, by whomever, is known to the next question; what
// would be written is judged, and nobody else sees it.
func TestGoplsKnowsChanges(t *testing.T) {
	k := newKit(t, lsp.Config{}, shapes)
	k.needs("gopls")
	problems := func(paths ...string) (list []string) {
		t.Helper()
		found, err := k.asker.Diagnostics(t.Context(), paths...)
		if err != nil {
			t.Fatal(err)
		}
		if found.Late {
			t.Error("the answer is late")
		}
		for _, p := range found.List {
			list = append(list, p.Location.String()+" "+p.Severity+": "+p.Message)
		}
		return list
	}
	equal(t, "at first", problems("total.go", "shape.go"), nil)
	total := shapes["total.go"]

	// A change that is not written: of this file, and of one that uses it.
	broken := strings.ReplaceAll(total, "Total(", "Sum(")
	change, err := k.asker.WhatIf(t.Context(), map[string]string{"total.go": broken})
	if err != nil {
		t.Fatal(err)
	}
	if len(change.New) != 1 || change.New[0].Path != "cmd/use/main.go" || len(change.Fixed) != 0 {
		t.Errorf("what if: %+v", change)
	} else {
		has(t, change.New[0].Message, "undefined: shapes.Total")
	}
	equal(t, "afterwards", problems("total.go", "cmd/use/main.go"), nil)
	change, err = k.asker.WhatIf(t.Context(), map[string]string{"new.go": "package shapes\n\nvar x = Total(1)\n"})
	if err != nil || len(change.New) == 0 || change.New[0].Path != "new.go" {
		t.Errorf("what if there were a new file: %+v, %v", change, err)
	}
	equal(t, "afterwards", problems("total.go"), nil)

	// Changes that are: of an open file, of others, of new and gone ones and of directories.
	k.write("total.go", strings.Replace(total, "sum += s.Area()", "sum += s.Aria()", 1))
	has(t, strings.Join(problems("total.go"), "\n"), "total.go:6:12 error: s.Aria undefined")
	k.write("more.go", "package shapes\n\ntype Square struct{ Side float64 }\n\nfunc (s Square) Area() float64 { return s.Side * s.Side }\n")
	k.write("total.go", total)
	equal(t, "with another", k.find(lsp.Implementation, lsp.Target{Path: "shape.go", Symbol: "Shape"}), []string{"more.go:3:6", "shape.go:11:6"})
	if err := os.Remove(filepath.Join(k.dir, "more.go")); err != nil {
		t.Fatal(err)
	}
	equal(t, "without it", k.find(lsp.Implementation, lsp.Target{Path: "shape.go", Symbol: "Shape"}), []string{"shape.go:11:6"})
	k.write("deep/er/a.go", "package er\n\nimport \"example.com/shapes\"\n\nvar U = shapes.Unit\n")
	equal(t, "in a new directory", k.find(lsp.References, lsp.Target{Path: "shape.go", Symbol: "Unit"}), []string{"cmd/use/main.go:6:45", "deep/er/a.go:5:16", "shape.go:16:14"})
	if err := os.Rename(filepath.Join(k.dir, "deep"), filepath.Join(k.dir, "flat")); err != nil {
		t.Fatal(err)
	}
	equal(t, "in one that moved", k.find(lsp.References, lsp.Target{Path: "shape.go", Symbol: "Unit"}), []string{"cmd/use/main.go:6:45", "flat/er/a.go:5:16", "shape.go:16:14"})
}

// TestOthersAnswer: problems, changes that are not written, renames and edits, by servers
// that tell of problems when they are asked, and by those that tell by themselves.
func TestOthersAnswer(t *testing.T) {
	for _, of := range []struct{ program, path, text, wrong, message, user, use string }{
		{
			"typescript-language-server", "lib.ts", "export function greet(name: string): string {\n  return `é🙂 ${name}`;\n}\n", "export function greet(name: string): number {\n  return `é🙂 ${name}`;\n}\n",
			"not assignable to type 'number'", "use.ts", "import { greet } from \"./lib\";\n\n/* 🙂🙂 */ export const hello: string = greet(\"you\");\n",
		},
		{
			"pyright-langserver", "lib.py", "def greet(name: str) -> str:\n    return f\"é🙂 {name}\"\n", "def greet(name: str) -> int:\n    return f\"é🙂 {name}\"\n",
			"not assignable to return type \"int\"", "use.py", "from lib import greet\n\nhello: str = \"🙂🙂\" + greet(\"you\")\n",
		},
	} {
		t.Run(of.program, func(t *testing.T) {
			k := newKit(t, lsp.Config{}, map[string]string{of.path: of.text, of.user: of.use, "tsconfig.json": `{"compilerOptions": {"strict": true, "noEmit": true, "types": []}, "include": ["*.ts"]}`})
			k.needs(of.program)
			problems, err := k.asker.Diagnostics(t.Context(), of.path, of.user)
			if err != nil || len(problems.List) > 0 || problems.Late {
				t.Errorf("at first: %+v, %v", problems, err)
			}
			change, err := k.asker.WhatIf(t.Context(), map[string]string{of.path: of.wrong})
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, p := range change.New {
				all = append(all, p.Location.String()+" "+p.Severity+" "+p.Message)
			}
			has(t, strings.Join(all, "\n"), of.path+":2:", " error ", of.message, of.user+":3:")
			if problems, err = k.asker.Diagnostics(t.Context(), of.path, of.user); err != nil || len(problems.List) > 0 {
				t.Errorf("afterwards: %+v, %v", problems, err)
			}
			k.write(of.path, of.wrong)
			if problems, err = k.asker.Diagnostics(t.Context(), of.path); err != nil || len(problems.List) == 0 {
				t.Errorf("of a file that was changed: %+v, %v", problems, err)
			}
			k.write(of.path, of.text)
			edit, err := k.asker.Rename(t.Context(), lsp.Target{Path: of.path, Symbol: "greet"}, "welcome")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "what a rename changes", edit.Paths(), []string{of.path, of.user})
			if _, err := edit.Apply(k.env, "code"); err != nil {
				t.Fatal(err)
			}
			if got := k.read(of.user); got != strings.ReplaceAll(of.use, "greet", "welcome") {
				t.Errorf("after the rename: %s", got)
			}
			equal(t, "definition", k.find(lsp.Definition, lsp.Target{Path: of.user, Line: 3, Symbol: "welcome"}), k.find(lsp.Definition, lsp.Target{Path: of.path, Symbol: "welcome"}))
		})
	}
}

// TestGoplsLoadsModules: a part of this very module, whose dependencies are in the module
// cache of the machine. Where they are not to be had, gopls is heard.
func TestGoplsLoadsModules(t *testing.T) {
	part := func(config lsp.Config) *kit {
		k := newKit(t, config, nil)
		k.needs("gopls")
		copyTree(t, "../strictyaml", filepath.Join(k.dir, "internal/strictyaml"))
		copyTree(t, "../nearest", filepath.Join(k.dir, "internal/nearest"))
		for _, name := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile("../../" + name)
			if err != nil {
				t.Fatal(err)
			}
			k.write(name, string(text))
		}
		return k
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	const path = "internal/strictyaml/strictyaml.go"
	use := lsp.Target{Path: path, Line: 57, Symbol: "ParseBytes"}

	k := part(lsp.Config{GoModules: strings.TrimSpace(string(cache))})
	found, err := k.asker.Find(t.Context(), lsp.Definition, use)
	if err != nil || found.Trouble != "" || len(found.List) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if at := found.List[0]; at.Path != filepath.Join(module(t, "github.com/goccy/go-yaml"), "parser/parser.go") || !strings.HasPrefix(at.Text, "func ParseBytes(") {
		t.Errorf("%+v", at)
	}
	if problems, err := k.asker.Diagnostics(t.Context(), path); err != nil || len(problems.List) > 0 {
		t.Errorf("%+v, %v", problems, err)
	}

	k = part(lsp.Config{})
	problems, err := k.asker.Diagnostics(t.Context(), path)
	for err == nil && problems.Late { // a machine that is busy
		problems, err = k.asker.Diagnostics(t.Context(), path)
	}
	if err != nil || problems.Indexing != "" || len(problems.List) == 0 {
		t.Fatalf("without modules: %+v, %v", problems, err)
	}
	has(t, problems.Trouble+problems.List[0].Message, "no required module provides package")
}
