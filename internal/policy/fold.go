// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// fold returns a path as the most careless of file systems would take it: in
// lower case, with look-alike characters as those they look like, without
// characters nobody sees, and without dots and spaces at the end of names. What
// forbids compares folded paths, so that .GIT, .git. and ．git are .git on every
// volume. Where there is nothing to fold, the path itself is returned.
func fold(path string) string {
	if isFolded(path) {
		return path
	}
	var b strings.Builder
	for _, c := range norm.NFKC.String(path) {
		if !unicode.Is(unicode.Cf, c) {
			b.WriteRune(unicode.ToLower(c))
		}
	}
	names := strings.Split(norm.NFKC.String(b.String()), "/")
	for i, name := range names {
		if bare := strings.TrimRight(name, ". "); bare != "" {
			names[i] = bare
		}
	}
	return strings.Join(names, "/")
}

// isFolded reports whether folding would change nothing.
func isFolded(path string) bool {
	for i := range len(path) {
		c := path[i]
		if c >= 0x80 || 'A' <= c && c <= 'Z' {
			return false
		}
		if (c == '.' || c == ' ') && (i+1 == len(path) || path[i+1] == '/') && !dots(path[:i+1]) {
			return false
		}
	}
	return true
}

// dots reports whether the last name of a path is "." or "..".
func dots(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	return name == "." || name == ".."
}

// foldChar folds a character of a pattern.
func foldChar(c rune) string {
	var b strings.Builder
	for _, c := range norm.NFKC.String(string(c)) {
		if !unicode.Is(unicode.Cf, c) {
			b.WriteRune(unicode.ToLower(c))
		}
	}
	return b.String()
}
