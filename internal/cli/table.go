// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// A table is rows of cells, with cells of a column below each other. On a terminal
// its lines are cut to the width.
type table struct {
	out   *Stream
	text  bytes.Buffer
	cells *tabwriter.Writer
}

// NewTable returns a table with heads over its columns, or with none.
func NewTable(out *Stream, heads ...string) *table {
	t := &table{out: out}
	t.cells = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	if len(heads) > 0 {
		t.Row(heads...)
	}
	return t
}

func (t *table) Row(cells ...string) { fmt.Fprintln(t.cells, strings.Join(cells, "\t")) }

// Flush writes the table.
func (t *table) Flush() error {
	if err := t.cells.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(t.text.String()) {
		line = strings.TrimRight(line, " \n")
		if t.out.terminal {
			line = fit(line, t.out.width())
		}
		if _, err := fmt.Fprintln(t.out, line); err != nil {
			return err
		}
	}
	return nil
}

// timeText tells a time, and how long ago it was.
func timeText(t *timestamppb.Timestamp, now time.Time) string {
	at := t.AsTime()
	return fmt.Sprintf("%s, %s ago", at.Local().Format(time.DateTime), ageText(now.Sub(at)))
}
