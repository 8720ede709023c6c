// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package skill

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
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
type Set struct {
	dirs []string

	mu       sync.Mutex
	seen     map[string]*found // by the path of the SKILL.md
	all      []*Skill
	wrong    []string
	revision uint64
}

// found is a SKILL.md as it was when it was last read.
type found struct {
	stamp stamp
	skill *Skill // nil where it is wrong
	err   error
}

// A stamp tells a file from what it was before.
type stamp struct {
	size    int64
	changed time.Time
	inode   uint64
}

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
func New(dirs []string) *Set { return &Set{dirs: dirs, seen: make(map[string]*found)} }

// All returns the skills as they are now, by name, and a number that changes when they do.
// What they point to must not be changed.
func (s *Set) All() ([]*Skill, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.all, s.revision
}

// Wrong returns what is wrong with folders and skills, each with its path.
func (s *Set) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.wrong
}

// look reads what is new or changed.
func (s *Set) look() {
	seen := make(map[string]*found)
	var all []*Skill
	var wrong []string
	for _, dir := range s.dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		folders, err := foldersOf(root)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", dir, err))
		}
		for _, folder := range folders {
			path := filepath.Join(dir, folder, fileName)
			f := s.seen[path].renewed(root, dir, folder)
			if f == nil {
				continue // a folder of something else
			}
			seen[path] = f
			same := func(other *Skill) bool { return f.skill != nil && strings.EqualFold(other.Name, f.skill.Name) }
			switch i := slices.IndexFunc(all, same); {
			case f.err != nil:
				wrong = append(wrong, fmt.Sprintf("%s: %v", path, f.err))
			case i >= 0:
				wrong = append(wrong, fmt.Sprintf("%s: there is a skill %s in %s", path, all[i].Name, all[i].path))
			default:
				all = append(all, f.skill)
			}
		}
		root.Close()
	}
	slices.SortFunc(all, func(a, b *Skill) int { return cmp.Compare(a.Name, b.Name) })
	if !slices.Equal(all, s.all) {
		s.revision++
	}
	s.seen, s.all, s.wrong = seen, all, wrong
}

// foldersOf returns the folders that may be skills: the one itself, or those in it.
func foldersOf(root *os.Root) ([]string, error) {
	if _, err := root.Stat(fileName); err == nil {
		return []string{"."}, nil
	}
	entries, err := fs.ReadDir(root.FS(), ".") // sorted
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if info, err := root.Stat(entry.Name()); err == nil && info.IsDir() {
			folders = append(folders, entry.Name())
		}
	}
	if len(folders) > maxSkills {
		return folders[:maxSkills], fmt.Errorf("it has %d folders: only %d are looked at", len(folders), maxSkills)
	}
	return folders, nil
}

// renewed returns a SKILL.md as it is now: f where it is the same; nil where there is none.
func (f *found) renewed(root *os.Root, dir, folder string) *found {
	info, err := root.Stat(filepath.Join(folder, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	next := &found{err: err}
	if err != nil {
		return next
	}
	next.stamp = stamp{size: info.Size(), changed: info.ModTime()}
	if file, ok := info.Sys().(*syscall.Stat_t); ok {
		next.stamp.inode = file.Ino
	}
	if f != nil && f.stamp == next.stamp {
		return f
	}
	text, err := readText(root, filepath.Join(folder, fileName), maxSkill)
	if err == nil {
		name := folder
		if folder == "." {
			name = filepath.Base(dir)
		}
		next.skill, _, err = parse(name, text)
	}
	if err != nil {
		next.err = errors.New(plainError(err))
		return next
	}
	next.skill.dir, next.skill.folder, next.skill.path = dir, folder, filepath.Join(dir, folder)
	return next
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

// readText reads a text file of at most so many bytes.
func readText(root *os.Root, name string, most int64) ([]byte, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold it up
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > most:
		return nil, fmt.Errorf("it has more than %d bytes", most)
	case !isText(text):
		return nil, errors.New("it is no text")
	}
	return text, nil
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
