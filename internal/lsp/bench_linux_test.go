// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/lsp"
)

// BenchmarkGopls compares warm answers about a real module with those of gopls itself: the
// aim is 1.3 times its time.
func BenchmarkGopls(b *testing.B) {
	k := newKit(b, lsp.Config{}, nil)
	program := k.needs("gopls")
	copyTree(b, module(b, "github.com/aymanbagabas/go-udiff"), k.dir)
	d := startDirect(b, k.dir, "", program)
	const path, line, column = "diff.go", 16, 6 // type Edit
	d.open(path, "go")
	target := lsp.Target{Path: path, Line: line, Column: column}
	for _, r := range []lsp.Relation{lsp.Definition, lsp.References} {
		b.Run(string(r), func(b *testing.B) {
			directly := func() []string {
				if r == lsp.References {
					return d.references(path, line, column)
				}
				return d.definition(path, line, column)
			}
			equal(b, string(r), k.find(r, target), directly())
			for range 100 { // both are done with what they do at first
				k.find(r, target)
				directly()
			}
			// One after the other, so that what else the machine does is the same for both.
			var ours, theirs []time.Duration
			for b.Loop() {
				begun := time.Now()
				directly()
				theirs = append(theirs, time.Since(begun))
				begun = time.Now()
				k.find(r, target)
				ours = append(ours, time.Since(begun))
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			mine, direct := ours[len(ours)/2], theirs[len(theirs)/2]
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(mine.Microseconds()), "µs-asked")
			b.ReportMetric(float64(direct.Microseconds()), "µs-directly")
			b.ReportMetric(float64(mine)/float64(direct), "ratio")
		})
	}
}
