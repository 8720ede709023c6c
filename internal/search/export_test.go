// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

// MatchGlob reports whether a glob, as -g takes it, matches a path.
func MatchGlob(pattern, path string, dir bool) (bool, error) {
	o, err := newOverride(pattern)
	if err != nil || o == nil {
		return false, err
	}
	return (dir || !o.dirOnly) && o.glob.Match(path), nil
}

// GrepText returns what is found in a text, and whether it is one.
func GrepText(p Pattern, o Options, text []byte, found func(File)) error {
	q, err := p.compile()
	if err != nil {
		return err
	}
	var out output
	s := newSearcher(q, o, func() bool { return false })
	s.text(text, "f", nil, &out)
	out.each(func(f File) bool {
		found(f)
		return true
	})
	return nil
}

// FileTypes is the table of types.
var FileTypes = fileTypes()

// FindLiteral returns where a literal is found, quickly and slowly.
func FindLiteral(text, needle string, fold bool, from int) (int, int) {
	f := newFinder(literal{text: needle, fold: fold})
	return f.index([]byte(text), from), f.indexSlowly([]byte(text), from)
}
