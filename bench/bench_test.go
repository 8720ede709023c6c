// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestShort sees that every figure can be measured. It judges no numbers.
func TestShort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the harness reads /proc")
	}
	if testing.Short() {
		t.Skip("builds and starts servers")
	}
	var out bytes.Buffer
	path := filepath.Join(t.TempDir(), "results", "latest.json")
	if err := run(t.Context(), options{short: true, json: path}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for i, f := range figures {
		if slices.ContainsFunc(r.Notes, func(note string) bool {
			return strings.HasPrefix(note, fmt.Sprintf("figure %d was left out", i+1))
		}) {
			continue
		}
		if !slices.ContainsFunc(r.Rows, func(r row) bool { return r.Figure == i+1 && r.Verdict != "" }) {
			t.Errorf("figure %d, %s, has no verdict", i+1, f.title)
		}
	}
	for _, row := range r.Rows {
		// What is more than without something can come out below 0 where little is measured.
		if row.Rounds == 0 || row.Ratio != nil && (row.Ratio.Median == 0 || row.Ratio.Median < 0 && row.Toolserver.Median > 0) {
			t.Errorf("nothing was measured: %+v", row)
		}
	}
	t.Logf("\n%s", &out)
}

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{7}, spread{7, 7, 7}},
		{[]float64{3, 1, 2}, spread{1.5, 2, 2.5}},
		{[]float64{5, 4, 1, 2, 3}, spread{2, 3, 4}},
	} {
		if got := spreadOf(test.values); got != test.want {
			t.Errorf("spreadOf(%v) = %v, want %v", test.values, got, test.want)
		}
	}
}

// TestRatiosArePaired: a machine that is half as fast in one round must not
// move the ratio.
func TestRatiosArePaired(t *testing.T) {
	s := sides[float64]{subject: []float64{90, 45, 90}, bare: []float64{100, 50, 100}, control: []float64{100, 50, 100}}
	r := s.row("calls", "calls/s", itself, ratioAtLeast(0.9))
	if want := (spread{0.9, 0.9, 0.9}); *r.Ratio != want || r.Verdict != "PASS" {
		t.Errorf("ratio %v, %s", r.Ratio, r.Verdict)
	}
	if want := (spread{1, 1, 1}); *r.Control != want {
		t.Errorf("control %v", r.Control)
	}
}

func TestJudge(t *testing.T) {
	r := row{Toolserver: spread{Median: 24}, Ratio: &spread{Median: 1.3}}
	for _, test := range []struct {
		target          target
		wanted, verdict string
	}{
		{target{}, "", ""},
		{valueAtMost(24), "value <= 24", "PASS"},
		{valueAtMost(23.9), "value <= 23.9", "FAIL"},
		{ratioAtMost(1.3), "ratio <= 1.3", "PASS"},
		{ratioAtLeast(1.4), "ratio >= 1.4", "FAIL"},
	} {
		if got := r.judge(test.target); got.Target != test.wanted || got.Verdict != test.verdict {
			t.Errorf("%+v: %q %q, want %q %q", test.target, got.Target, got.Verdict, test.wanted, test.verdict)
		}
	}
}

// TestInterleave: every step runs once a round, and the steps of a group run
// one right after another.
func TestInterleave(t *testing.T) {
	var order []string
	step := func(name string) step {
		return func(context.Context) error {
			order = append(order, name)
			return nil
		}
	}
	const rounds = 50
	err := interleave(t.Context(), rounds, group{step("a1"), step("a2"), step("a3")}, group{step("b1"), step("b2"), step("b3")})
	if err != nil {
		t.Fatal(err)
	}
	first := make(map[string]bool)
	for round := range slices.Chunk(order, 6) {
		first[round[0]] = true
		for half := range slices.Chunk(round, 3) {
			sorted := slices.Sorted(slices.Values(half))
			if got := sorted[0] + sorted[1] + sorted[2]; got != "a1a2a3" && got != "b1b2b3" {
				t.Errorf("a round ran %v", round)
			}
		}
	}
	if len(order) != 6*rounds || len(first) != 6 {
		t.Errorf("%d steps ran, and %d of 6 were ever first", len(order), len(first))
	}
}

// TestTypescriptTree: what make sources fetches is as large as the figure wants it.
func TestTypescriptTree(t *testing.T) {
	dir, err := typescriptTree(t.Context())
	if errors.Is(err, errMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil || !filepath.IsAbs(dir) {
		t.Errorf("%q, %v", dir, err)
	}
}
