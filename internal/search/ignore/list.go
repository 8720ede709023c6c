// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package ignore

import "github.com/toolserver/toolserver/internal/workspace"

// A Lister lists directories, one after another.
type Lister struct {
	Entries []Entry // in no order
	Has     Present

	buffer []byte
	path   []byte
}

// An Entry is a file, a directory or a link.
type Entry struct {
	Path, Name string
	Kind       workspace.FileType
}

// List reads what is in a directory.
func (l *Lister) List(d *workspace.Dir, dir string) error {
	if l.buffer == nil {
		l.buffer = make([]byte, 32<<10)
	}
	l.Entries, l.Has = l.Entries[:0], Present{}
	l.path = l.path[:0]
	if dir != "." {
		l.path = append(append(l.path, dir...), '/')
	}
	prefix := len(l.path)
	return d.List(l.buffer, func(name []byte, kind workspace.FileType) bool {
		l.Has.See(name)
		if kind != workspace.Special {
			l.path = append(l.path[:prefix], name...)
			path := string(l.path) // one piece of memory for both
			l.Entries = append(l.Entries, Entry{path, path[prefix:], kind})
		}
		return true
	})
}

// Present says which ignore files a directory has.
type Present struct{ git, gitignore, ignore, rgignore bool }

// Names are what they are called.
var Names = []string{".git", ".gitignore", ".ignore", ".rgignore"}

// See takes note of a name in the directory. It reports whether the name has to
// do with patterns.
func (f *Present) See(name []byte) bool {
	if len(name) < 4 || name[0] != '.' {
		return false
	}
	switch string(name) {
	case ".git":
		f.git = true
	case ".gitignore":
		f.gitignore = true
	case ".ignore":
		f.ignore = true
	case ".rgignore":
		f.rgignore = true
	default:
		return false
	}
	return true
}

// Texts is what the ignore files of a directory say.
type Texts struct {
	Git                                   bool // it is a repository
	Unsure                                bool // a file of them may change without a word
	Gitignore, Ignore, Rgignore, Excludes string
}

// Read reads the patterns of a directory. What cannot be read has none. follow, if
// there is one, is called for each file before it is read, and reports whether
// changes will be told.
func (f Present) Read(d *workspace.Dir, follow func(name string, r workspace.Reader) bool) (t Texts) {
	if f.git {
		t.Git, t.Excludes = true, ReadExclude(d)
	}
	read := func(has bool, name string) string {
		if !has {
			return ""
		}
		text, sure := readPatterns(d, name, follow)
		t.Unsure = t.Unsure || !sure
		return text
	}
	t.Gitignore = read(f.gitignore, ".gitignore")
	t.Ignore = read(f.ignore, ".ignore")
	t.Rgignore = read(f.rgignore, ".rgignore")
	return t
}

// Enter returns the patterns that hold in a directory, which is below where r
// hold.
func (r Patterns) Enter(path string, t Texts) Patterns {
	if t == (Texts{}) {
		return r
	}
	dir := ""
	if path != "." {
		dir = path + "/"
	}
	if t.Git { // another repository: what is above it does not concern it
		r.git, r.exclude = nil, parsePatterns(t.Excludes, dir, nil)
	}
	r.git = parsePatterns(t.Gitignore, dir, r.git)
	r.plain = parsePatterns(t.Ignore, dir, r.plain)
	r.ripgrep = parsePatterns(t.Rgignore, dir, r.ripgrep)
	return r
}

// ReadExclude returns what the repository in a directory excludes.
func ReadExclude(d *workspace.Dir) string {
	git, err := d.OpenDir(".git")
	if err != nil {
		return ""
	}
	defer git.Close()
	info, err := git.OpenDir("info")
	if err != nil {
		return ""
	}
	defer info.Close()
	text, _ := readPatterns(info, "exclude", nil)
	return text
}

// maxRules is how long an ignore file may be; what is longer is none.
const maxRules = 4 << 20

// readPatterns returns the text of an ignore file, and whether it stays that until
// something else is told.
func readPatterns(d *workspace.Dir, name string, follow func(name string, r workspace.Reader) bool) (patterns string, sure bool) {
	r, s, err := d.Open(name)
	if err != nil {
		return "", true
	}
	defer r.Close()
	if sure = follow == nil || follow(name, r); s.Size > maxRules {
		return "", sure
	}
	text := make([]byte, 0, s.Size+512)
	for len(text) <= maxRules {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := r.Read(text[len(text):cap(text)])
		if err != nil || n == 0 {
			break
		}
		text = text[:len(text)+n]
	}
	return string(text), sure
}
