// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package nearest finds the names that a wrong one was most likely meant to be.
package nearest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	maxNames = 3
	maxBytes = 64 // of a name: longer ones are not compared
)

// Hint asks whether one of some names was meant, as the end of a message: "; did you
// mean this or that?". It is empty where there are none.
func Hint(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// Missing says that there is nothing of a kind with a name, what was meant perhaps, and what
// there is.
func Missing(kind, name string, known []string) string {
	there := "There are none."
	if len(known) > 0 {
		there = "There are: " + strings.Join(known[:min(len(known), 30)], ", ") + "."
	}
	return fmt.Sprintf("There is no %s %.64q%s %s", kind, name, cmp.Or(Hint(Names(name, known)), "."), there)
}

// Names returns those of known that name is most likely a misspelling of:
// at most three, best first. Upper and lower case count as the same, and two
// swapped letters as one mistake.
func Names(name string, known []string) []string {
	if len(name) > maxBytes {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	wrong := []rune(strings.ToLower(name))
	for _, k := range known {
		right := []rune(strings.ToLower(k))
		longer := max(len(wrong), len(right))
		distance := editDistance(wrong, right)
		// Words of one letter that differ have nothing in common.
		if distance <= max(1, longer/3) && distance < max(1, longer) {
			near = append(near, candidate{k, distance})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })

	var names []string
	for _, c := range near[:min(len(near), maxNames)] {
		if c.distance > 0 && near[0].distance == 0 {
			break // what differs in case only is what was meant
		}
		names = append(names, c.name)
	}
	return names
}

// editDistance counts the letters to insert, remove, replace or swap with
// their neighbour to make b of a.
func editDistance(a, b []rune) int {
	// row[j] is the distance between the first letters of a and the first j
	// of b; above and above2 are the rows of one and two letters less of a.
	above2, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		above2, above, row = above, row, above2
		row[0] = i + 1
		for j := range b {
			replace := above[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above2[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
