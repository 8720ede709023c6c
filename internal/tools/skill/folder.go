// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package skill

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolserver/toolserver/internal/markdown"
)

// fileName is the file that makes a folder a skill.
const fileName = "SKILL.md"

const (
	maxSkill     = 256 << 10 // bytes of a SKILL.md
	maxDocument  = 1 << 20   // bytes of a document beside it
	maxSkills    = 500       // of a folder of the operator
	maxDocuments = 100       // that are told of
	maxDepth     = 5
)

// A Set has the skills of an operator's folders. Its methods are safe for concurrent use.
type Set struct{ *markdown.Set[*Skill] }

// A Skill is one of an operator's.
type Skill struct {
	Name, Description string
	Tools             []string // that it was written for

	arguments []argument
	dir       string // of the operator
	folder    string // in it
	path      string // of both
}

// New returns the skills of folders. Each has folders of skills in it, or is one.
func New(dirs []string) *Set {
	return &Set{markdown.NewSet(markdown.Format[*Skill]{Name: "a skill", Find: filesOf, Parse: skillOf, MaxBytes: maxSkill}, dirs)}
}

// skillOf makes a skill of its file.
func skillOf(dir, file string, text []byte) (*Skill, string, error) {
	folder := filepath.Dir(file)
	name := folder
	if folder == "." {
		name = filepath.Base(dir)
	}
	s, _, err := parse(name, text)
	if err != nil {
		return nil, "", err
	}
	s.dir, s.folder, s.path = dir, folder, filepath.Join(dir, folder)
	return s, s.Name, nil
}

// filesOf returns the files of what may be skills: the folder itself, or those in it.
func filesOf(root *os.Root) ([]string, error) {
	if _, err := root.Stat(fileName); err == nil {
		return []string{fileName}, nil
	}
	entries, err := fs.ReadDir(root.FS(), ".") // sorted
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if info, err := root.Stat(entry.Name()); err == nil && info.IsDir() {
			files = append(files, filepath.Join(entry.Name(), fileName))
		}
	}
	if len(files) > maxSkills {
		return files[:maxSkills], fmt.Errorf("it has %d folders: only %d are looked at", len(files), maxSkills)
	}
	return files, nil
}

// open opens the folder of a skill, out of which nothing leads.
func (s *Skill) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot(s.folder)
}

// documentsOf returns the files of a skill beside its SKILL.md, and whether there are more.
func documentsOf(folder *os.Root) (names []string, more bool) {
	fs.WalkDir(folder.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		hidden := path != "." && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil || hidden && !entry.IsDir():
			return nil
		case entry.IsDir() && (hidden || strings.Count(path, "/") >= maxDepth):
			return fs.SkipDir
		case entry.IsDir() || path == fileName:
			return nil
		case len(names) == maxDocuments:
			more = true
			return fs.SkipAll
		}
		if info, err := folder.Stat(path); err == nil && info.Mode().IsRegular() {
			names = append(names, path)
		}
		return nil
	})
	return names, more
}
