// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/lsp"
)

// carts are files in which a method is used, in a directory each; nothing says that they belong
// together.
var carts = map[string]map[string]string{
	"typescript-language-server": {
		"src/cart.ts":   "export class Cart {\n  total(): number {\n    return 1;\n  }\n}\n\nexport class Bill {\n  total(): number {\n    return 2;\n  }\n}\n",
		"src/index.ts":  "export * from \"./cart\";\n",
		"shop/sell.ts":  "import { Cart } from \"../src/cart\";\n\nexport const sold: number = new Cart().total();\n",
		"shop/again.ts": "import { Cart } from \"../src\";\n\nexport function again(c: Cart): number {\n  return c.total();\n}\n",
		"notes/word.ts": "export const note = \"the total of it\";\n",
	},
	"pyright-langserver": {
		"src/cart.py":     "class Cart:\n    def total(self) -> int:\n        return 1\n\n\nclass Bill:\n    def total(self) -> int:\n        return 2\n",
		"src/__init__.py": "from .cart import Bill, Cart\n",
		"shop/sell.py":    "from src.cart import Cart\n\nsold: int = Cart().total()\n",
		"shop/again.py":   "from src import Cart\n\n\ndef again(c: Cart) -> int:\n    return c.total()\n",
		"notes/word.py":   "note = \"the total of it\"\n",
	},
}

// TestFilesNobodyOpened: the first question of a session knows all files that use a name, with
// no project file, by the name alone and by a position.
func TestFilesNobodyOpened(t *testing.T) {
	t.Parallel()
	for program, files := range carts {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			end := ".ts"
			if program == "pyright-langserver" {
				end = ".py"
			}
			fresh := func() *kit {
				k := newKit(t, lsp.Config{}, files)
				k.needs(program)
				return k
			}
			k := fresh()
			found := strings.Join(k.find(lsp.References, lsp.Target{Symbol: "Cart.total"}), "\n")
			has(t, found, "src/cart"+end+":2:", "shop/sell"+end+":3:", "shop/again"+end+":")
			if strings.Contains(found, "notes/") || strings.Contains(found, "cart"+end+":8") {
				t.Errorf("references of others: %s", found)
			}
			callers, err := fresh().asker.Hierarchy(t.Context(), lsp.Callers, lsp.Target{Path: "src/cart" + end, Symbol: "Cart.total"})
			if err != nil || len(callers.List) != 2 {
				t.Errorf("callers: %+v, %v", callers, err)
			}

			change, err := fresh().asker.WhatIf(t.Context(), map[string]string{"src/cart" + end: strings.Replace(files["src/cart"+end], "total", "sum", 1)})
			if err != nil {
				t.Fatal(err)
			}
			var broken []string
			for _, p := range change.New {
				broken = append(broken, p.Path)
			}
			equal(t, "what a change breaks", broken, []string{"shop/again" + end, "shop/sell" + end})

			k = fresh()
			for name, why := range map[string]string{"": "no name", "a b": "no name", "1x": "does not begin with a digit", "a-b": "no name", "class": "reserved word", "total.sum": "no name"} {
				_, err := k.asker.Rename(t.Context(), lsp.Target{Path: "src/cart" + end, Line: 1, Symbol: "Cart"}, name)
				code, text := failure(t, err)
				if code != "no_name" {
					t.Errorf("%q: %s", name, code)
				}
				has(t, text, why)
			}
			edit, err := k.asker.Rename(t.Context(), lsp.Target{Symbol: "Cart.total"}, "sum")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "what a rename changes", edit.Paths(), []string{"shop/again" + end, "shop/sell" + end, "src/cart" + end})
			equal(t, "what has the name beside", edit.Left, []string{"notes/word" + end})
		})
	}
}

// TestPartialRename: a rename is refused where more files have the name than the server can be
// given, and nothing says which of them belong together.
func TestPartialRename(t *testing.T) {
	t.Parallel()
	files := map[string]string{"lib.ts": "export function greet(): void {}\n"}
	for i := range 210 {
		files[fmt.Sprintf("use%03d.ts", i)] = "import { greet } from \"./lib\";\n\ngreet();\n"
	}
	k := newKit(t, lsp.Config{}, files)
	k.needs("typescript-language-server")
	_, err := k.asker.Rename(t.Context(), lsp.Target{Path: "lib.ts", Symbol: "greet"}, "welcome")
	code, text := failure(t, err)
	if code != "partial_rename" {
		t.Errorf("%s: %s", code, text)
	}
	has(t, text, "11 files", "greet", "use199.ts", "tsconfig.json")
	found, err := k.asker.Find(t.Context(), lsp.References, lsp.Target{Path: "lib.ts", Symbol: "greet"})
	if err != nil || found.Unseen != 11 || len(found.List) < 2*199 {
		t.Errorf("%d references, %d files unseen, %v", len(found.List), found.Unseen, err)
	}
	k.write("tsconfig.json", `{"compilerOptions": {"strict": true, "noEmit": true, "types": []}}`)
	edit, err := k.asker.Rename(t.Context(), lsp.Target{Path: "lib.ts", Symbol: "greet"}, "welcome")
	if err != nil || len(edit.Files) != 211 || len(edit.Left) != 0 {
		t.Errorf("with a project: %v", err)
	}
}
