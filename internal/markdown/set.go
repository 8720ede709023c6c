// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Format is what the files of a [Set] are.
type Format[T any] struct {
	Name string // such as "a skill"

	// Find returns the files of a folder that may be of the format, sorted. An error is told,
	// and what comes with it is looked at all the same.
	Find func(root *os.Root) (files []string, err error)

	// Parse makes something of a file of a folder, and returns the name it has.
	Parse func(dir, file string, text []byte) (T, string, error)

	MaxBytes int64 // of a file
}

// A Set has what the files of folders say, as they are by now. Its methods are safe for
// concurrent use.
type Set[T any] struct {
	format Format[T]
	dirs   []string

	mu       sync.Mutex
	seen     map[string]*found[T] // by the path of the file
	all      []*found[T]
	values   []T
	wrong    []string
	revision uint64
}

// found is a file as it was when it was last read.
type found[T any] struct {
	path  string
	stamp stamp
	name  string
	value T
	err   error
}

// A stamp tells a file from what it was before.
type stamp struct {
	size    int64
	changed time.Time
	inode   uint64
}

// NewSet returns what folders have of a format.
func NewSet[T any](format Format[T], dirs []string) *Set[T] {
	return &Set[T]{format: format, dirs: dirs, seen: make(map[string]*found[T])}
}

// Dirs returns the folders.
func (s *Set[T]) Dirs() []string { return s.dirs }

// All returns what there is now, by name, and a number that changes when it does. The slice
// must not be changed.
func (s *Set[T]) All() ([]T, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.values, s.revision
}

// Wrong returns what is wrong with folders and files, each with its path.
func (s *Set[T]) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.wrong
}

// refresh reads what is new or changed.
func (s *Set[T]) refresh() {
	seen := make(map[string]*found[T])
	var all []*found[T]
	var wrong []string
	for _, dir := range s.dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		files, err := s.format.Find(root)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", dir, err))
		}
		for _, file := range files {
			path := filepath.Join(dir, file)
			f := s.renewed(s.seen[path], root, dir, file)
			if f == nil {
				continue // a folder of something else
			}
			seen[path] = f
			same := func(other *found[T]) bool { return strings.EqualFold(other.name, f.name) }
			switch i := slices.IndexFunc(all, same); {
			case f.err != nil:
				wrong = append(wrong, fmt.Sprintf("%s: %v", path, f.err))
			case i >= 0:
				wrong = append(wrong, fmt.Sprintf("%s: there is %s %s in %s", path, s.format.Name, all[i].name, all[i].path))
			default:
				all = append(all, f)
			}
		}
		root.Close()
	}
	slices.SortFunc(all, func(a, b *found[T]) int { return cmp.Compare(a.name, b.name) })
	if !slices.Equal(all, s.all) {
		s.revision++
		s.values = make([]T, len(all))
		for i, f := range all {
			s.values[i] = f.value
		}
	}
	s.seen, s.all, s.wrong = seen, all, wrong
}

// renewed returns a file as it is now: f where it is the same; nil where there is none.
func (s *Set[T]) renewed(f *found[T], root *os.Root, dir, file string) *found[T] {
	info, err := root.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	next := &found[T]{err: err, path: filepath.Join(dir, file)}
	if err != nil {
		return next
	}
	next.stamp = stamp{size: info.Size(), changed: info.ModTime()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		next.stamp.inode = stat.Ino
	}
	if f != nil && f.stamp == next.stamp {
		return f
	}
	text, err := Read(root, file, s.format.MaxBytes)
	if err == nil {
		next.value, next.name, err = s.format.Parse(dir, file, text)
	}
	if err != nil {
		next.err = errors.New(PlainError(err))
	}
	return next
}
