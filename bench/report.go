// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// A row is one line of the report.
type row struct {
	Figure     int     `json:"figure"`
	Name       string  `json:"name"`
	Unit       string  `json:"unit"`
	Toolserver spread  `json:"toolserver"`
	Bare       *spread `json:"bare,omitempty"`
	Ratio      *spread `json:"ratio,omitempty"`   // toolserver to bare, by round
	Control    *spread `json:"control,omitempty"` // bare to bare, by round
	Rounds     int     `json:"rounds"`
	Target     string  `json:"target,omitempty"`
	Verdict    string  `json:"verdict,omitempty"` // PASS, FAIL, or empty for information
}

// target is what a row is to reach. The zero value asks for nothing.
type target struct {
	of    string // "ratio", or "value" for toolserver's own
	most  bool   // limit is an upper one
	limit float64
}

func ratioAtLeast(limit float64) target { return target{of: "ratio", limit: limit} }
func ratioAtMost(limit float64) target  { return target{of: "ratio", most: true, limit: limit} }
func valueAtMost(limit float64) target  { return target{of: "value", most: true, limit: limit} }

// judge fills in the target of a row and whether it is reached.
func (r row) judge(t target) row {
	if t.of == "" {
		return r
	}
	value, sign := r.Toolserver.Median, ">="
	if t.of == "ratio" {
		value = r.Ratio.Median
	}
	met := value >= t.limit
	if t.most {
		sign, met = "<=", value <= t.limit
	}
	r.Target, r.Verdict = fmt.Sprintf("%s %s %g", t.of, sign, t.limit), "FAIL"
	if met {
		r.Verdict = "PASS"
	}
	return r
}

// row compares one number of the samples.
func (s *sides[S]) row(name, unit string, pick func(S) float64, t target) row {
	subject, bare, control := column(s.subject, pick), column(s.bare, pick), column(s.control, pick)
	middle, ratio := spreadOf(bare), spreadOf(ratios(subject, bare))
	r := row{
		Name: name, Unit: unit, Rounds: len(subject),
		Toolserver: spreadOf(subject), Bare: &middle, Ratio: &ratio,
	}
	if len(control) > 0 {
		noise := spreadOf(ratios(control, bare))
		r.Control = &noise
	}
	return r.judge(t)
}

// single is a row of one number of toolserver's, without a yardstick.
func single(name, unit string, value float64, t target) row {
	return row{Name: name, Unit: unit, Rounds: 1, Toolserver: spreadOf([]float64{value})}.judge(t)
}

// A report is everything one run found.
type report struct {
	Time    time.Time     `json:"time"`
	Took    time.Duration `json:"took_ns"`
	Short   bool          `json:"short"`
	Machine machine       `json:"machine"`
	Rows    []row         `json:"rows"`
	Notes   []string      `json:"notes,omitempty"`
}

// print writes the report as a table.
func (r *report) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "#\tfigure\tunit\ttoolserver\tbare\tratio [IQR]\tA/A [IQR]\ttarget\tverdict")
	reached, targets := 0, 0
	for _, row := range r.Rows {
		bare := ""
		if row.Bare != nil {
			bare = number(row.Bare.Median)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Figure, row.Name, row.Unit,
			number(row.Toolserver.Median), bare, row.Ratio, row.Control, row.Target, row.Verdict)
		if row.Verdict != "" {
			targets++
		}
		if row.Verdict == "PASS" {
			reached++
		}
	}
	table.Flush()
	fmt.Fprintf(w, "%d of %d targets reached in %s.\n", reached, targets, r.Took.Round(time.Second))
	for _, note := range r.Notes {
		fmt.Fprintln(w, "Note:", note)
	}
}

// String shows a ratio; nothing for one that was not measured.
func (s *spread) String() string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.2f [%.2f–%.2f]", s.Median, s.Q1, s.Q3)
}

// number shows three digits, or all of those before the point.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// save writes the report as JSON.
func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
