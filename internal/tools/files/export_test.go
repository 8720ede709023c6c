// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import "fmt"

// GoOutline returns the outline of a Go file, an entry a line.
func GoOutline(text string) []string {
	var lines []string
	for _, e := range goOutline(text) {
		lines = append(lines, fmt.Sprintf("%d-%d %s", e.first, e.last, e.text))
	}
	return lines
}
