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

// JudgeRules returns what an ignore file in the workspace says about a path: -1
// that it is ignored, 1 that it is wanted, 0 nothing.
func JudgeRules(text, path, name string, dir bool) int {
	switch parseRules(text, "", nil).judge(path, name, dir) {
	case ignored:
		return -1
	case wanted:
		return 1
	}
	return 0
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

// LimitWatches sets how many directories and files an engine may watch. It is
// called before anything is kept in memory.
func (e *Engine) LimitWatches(n int64) { e.shared.watches.max = n }

// LimitOpen sets how many files an engine may keep open. It is called before
// anything is searched.
func (e *Engine) LimitOpen(n int64) { e.shared.opens.kept.max = n }

// LookAfter looks at the files that were opened, after something was done when it
// was known which these are.
func (e *Engine) LookAfter(something func()) {
	e.known.Lock()
	defer e.known.Unlock()
	o := &e.shared.opens
	o.mu.Lock()
	o.drain()
	o.mu.Unlock()
	list := e.memory.suspects(true, -1)
	something()
	e.memory.lookAt(list)
}

// FileTypes is the table of types.
var FileTypes = fileTypes()

// FindLiteral returns where a literal is found, quickly and slowly.
func FindLiteral(text, needle string, fold bool, from int) (int, int) {
	f := newFinder(literal{text: needle, fold: fold})
	return f.index([]byte(text), from), f.indexSlowly([]byte(text), from)
}
