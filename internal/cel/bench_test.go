// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel_test

import (
	"testing"

	celgo "cel.dev/cel-go/cel"
)

// BenchmarkEval compares us with cel-go.
func BenchmarkEval(b *testing.B) {
	oracle := oracle(b)
	input := vars{
		"input":          map[string]any{"path": "internal/cel/cel.go", "n": int64(5), "list": []any{"a", "b", "c", "d"}},
		"tool.name":      "write_file",
		"effect.argv":    []string{"git", "push", "--force"},
		"session.labels": map[string]string{"team": "infra"},
	}
	for name, text := range map[string]string{
		"field":  `input.path.startsWith("internal/")`,
		"and":    `tool.name == "write_file" && has(input.n) && input.n < 10 && session.labels.team == "infra"`,
		"exists": `effect.argv.exists(w, w == "--force")`,
		"in":     `tool.name in ["read_file", "list_files", "write_file"]`,
		"match":  `input.path.matches("^internal/[a-z]+/.*\\.go$")`,
	} {
		b.Run(name+"/ours", func(b *testing.B) {
			program, err := env.Compile(text)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if holds, err := program.Eval(input); !holds {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/cel-go", func(b *testing.B) {
			ast, issues := oracle.Compile(text)
			if issues.Err() != nil {
				b.Fatal(issues.Err())
			}
			program, err := oracle.Program(ast, celgo.EvalOptions(celgo.OptOptimize), celgo.CostLimit(100_000), celgo.InterruptCheckFrequency(64))
			if err != nil {
				b.Fatal(err)
			}
			given := map[string]any(input)
			b.ReportAllocs()
			for b.Loop() {
				if holds, _, err := program.Eval(given); err != nil || holds.Value() != true {
					b.Fatal(err)
				}
			}
		})
	}
}
