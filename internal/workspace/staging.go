// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A Staging writes very many files, which would wait for the disk twice for each one
// by one. Files are written beside where they will be, some hundred of them; all go
// to the disk at once, and only then get their names, so that a crash leaves each of
// them whole or not at all. That directories have those names is made sure of at the
// end. It is not safe for concurrent use.
type Staging struct {
	ws      *Workspace
	named   func(path string)            // told of each file that has its name
	refused func(path string, err error) // told of files that got none; nil where that is an error

	folders map[string]folder // open
	staged  []stagedFile
	paths   map[string]bool // of those
	dirs    map[string]bool // with entries that may not be on the disk
}

// stagedFile is a file that has no name yet.
type stagedFile struct {
	path   string
	folder folder
	fd     int // open, since its lock tells that it is in use
	temp   string
	was    Info // what it replaces
}

// maxStaged bounds how many files wait for their names: each is open, and so is
// its directory.
const maxStaged = 256

// fewFiles is up to how many are sent to the disk one by one. Beyond, all that
// the file system has to write is, which may be more.
const fewFiles = 16

// Stage returns an empty staging, which calls named when a file gets its name. Where
// refused is not nil, it is called with files that cannot get one, because somebody else
// has changed what is there, and the staging takes the locks it needs, while files get
// their names; otherwise whoever uses it holds a lock.
func (w *Workspace) Stage(named func(path string), refused func(path string, err error)) *Staging {
	return &Staging{
		ws: w, named: named, refused: refused,
		folders: make(map[string]folder), paths: make(map[string]bool), dirs: make(map[string]bool),
	}
}

// sync sends the entries of a directory to the disk: at the end, or now where
// nobody waits for one.
func (s *Staging) sync(f folder) error {
	if s == nil {
		return f.sync()
	}
	s.dirs[f.path] = true
	return nil
}

// Has reports whether a file was written that has no name yet.
func (s *Staging) Has(path string) bool { return s.paths[path] }

// Stat tells of an entry, by the path of a directory that [Workspace.Resolve]
// returned and a name in it.
func (s *Staging) Stat(dir, name string) (Info, error) {
	if s.Has(filepath.Join(dir, name)) {
		if err := s.Install(); err != nil {
			return Info{}, err
		}
	}
	f, err := s.folder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, nil
	}
	if err != nil {
		return Info{}, err
	}
	return f.lstat(name)
}

// Write writes a new file.
func (s *Staging) Write(path string, data []byte, mode fs.FileMode) (Info, error) {
	return s.write(path, Version{}, func(fd int, was Info) (Info, error) { return fill(fd, data, mode, was) })
}

// WriteFrom gives a file the content that r has. old tells of the file that is
// replaced, as Stat has just told.
func (s *Staging) WriteFrom(path string, r io.Reader, mode fs.FileMode, old Info) (info Info, hash Hash, err error) {
	info, err = s.write(path, old.Version, func(fd int, was Info) (info Info, err error) {
		info, hash, err = fillFrom(fd, r, mode, was)
		return info, err
	})
	return info, hash, err
}

func (s *Staging) write(path string, old Version, fill func(fd int, was Info) (Info, error)) (Info, error) {
	s.ws.touched(path, true)
	f, err := s.folder(filepath.Dir(path))
	if err != nil {
		return Info{}, err
	}
	was := Info{} // a name that is taken meanwhile is not given a second time
	if old.exists || s.refused == nil {
		if was, err = f.replaceable(filepath.Base(path), old); err != nil {
			return Info{}, err
		}
	}
	temp, fd, err := f.temporary()
	if err != nil {
		return Info{}, explain(path, err)
	}
	info, err := fill(fd, was)
	if err != nil {
		unix.Close(fd)
		_ = unix.Unlinkat(f.fd, temp, 0)
		return Info{}, explain(path, err)
	}
	s.staged, s.paths[path] = append(s.staged, stagedFile{path: path, folder: f, fd: fd, temp: temp, was: was}), true
	return info, nil
}

// Full reports whether so many files wait for their names that they have to be given
// theirs before the next is written.
func (s *Staging) Full() bool { return len(s.staged) >= maxStaged }

// folder returns a directory that stays open until the files in it have their
// names.
func (s *Staging) folder(dir string) (folder, error) {
	f, open := s.folders[dir]
	if open {
		return f, nil
	}
	if len(s.folders) >= maxStaged {
		if err := s.installAll(); err != nil {
			return folder{}, err
		}
	}
	f, err := s.ws.openFolder(dir)
	if err != nil {
		return folder{}, err
	}
	s.folders[dir] = f
	s.ws.intents.add(dir)
	return f, nil
}

// installAll is Install that closes the directories also where no file waits.
func (s *Staging) installAll() error {
	if len(s.staged) > 0 {
		return s.Install()
	}
	s.Discard()
	return nil
}

// Mkdirs makes the directories of a path that are missing, and returns them.
func (s *Staging) Mkdirs(path string) (made []string, err error) {
	if _, open := s.folders[path]; open {
		return nil, nil
	}
	return s.ws.mkdirs(path, s)
}

// Mkdir is [Workspace.Mkdir].
func (s *Staging) Mkdir(path string, mode fs.FileMode) (made []string, err error) {
	return s.ws.mkdir(path, mode, s)
}

// Symlink makes a link. Something that is there already is [ErrExists].
func (s *Staging) Symlink(target, path string) error {
	s.ws.touched(path, true)
	f, name, err := s.ws.openParent(path)
	if err != nil {
		return err
	}
	defer f.close()
	if err := unix.Symlinkat(target, f.fd, name); err != nil {
		return explain(path, err)
	}
	return s.sync(f)
}

// Install gives files their names, once all of them are on the disk. Those it
// cannot give one are gone.
func (s *Staging) Install() error {
	if len(s.staged) == 0 {
		return nil
	}
	defer s.Discard()
	if err := s.flush(); err != nil {
		return err
	}
	if s.refused != nil {
		defer s.ws.Lock(slices.Collect(maps.Keys(s.paths))...)()
	}
	var failed []error
	for _, file := range s.staged {
		if err := file.folder.install(file.temp, filepath.Base(file.path), file.was); err != nil {
			err = explain(file.path, err)
			if s.refused != nil {
				s.refused(file.path, err)
				continue
			}
			failed = append(failed, err)
			continue
		}
		s.named(file.path)
		s.dirs[file.folder.path] = true
	}
	return errors.Join(failed...)
}

// Discard removes what has no name yet.
func (s *Staging) Discard() {
	for _, file := range s.staged {
		_ = unix.Unlinkat(file.folder.fd, file.temp, 0) // of those that have one it fails
		unix.Close(file.fd)
	}
	for _, f := range s.folders {
		f.close()
	}
	s.staged = s.staged[:0]
	clear(s.paths)
	clear(s.folders)
}

// flush sends the content of all files to the disk.
func (s *Staging) flush() error {
	if len(s.staged) > fewFiles && syncAll(s.staged[0].fd) == nil {
		// All are on the file system of the first, but for those below a mount.
		return s.flushElsewhere()
	}
	return s.each(func(stagedFile) bool { return true })
}

func (s *Staging) flushElsewhere() error {
	home, err := deviceOf(s.staged[0].fd)
	if err != nil {
		return err
	}
	return s.each(func(file stagedFile) bool {
		device, err := deviceOf(file.folder.fd)
		return err != nil || device != home
	})
}

func deviceOf(fd int) (uint64, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(fd, &st) })
	return uint64(st.Dev), err //nolint:unconvert // the type differs between systems
}

// each sends files to the disk one by one.
func (s *Staging) each(which func(stagedFile) bool) error {
	for _, file := range s.staged {
		if !which(file) {
			continue
		}
		if err := retry(func() error { return unix.Fsync(file.fd) }); err != nil {
			return explain(file.path, err)
		}
	}
	return nil
}

// Finish gives the last files their names, and makes sure that all names last.
func (s *Staging) Finish() error {
	if err := s.Install(); err != nil {
		return err
	}
	home, all := s.ws.syncAll(len(s.dirs))
	var failed []error
	for dir := range s.dirs {
		f, err := s.ws.openFolder(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue // a later step has removed or moved it
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if device, err := deviceOf(f.fd); !all || err != nil || device != home {
			failed = append(failed, f.sync())
		}
		f.close()
	}
	clear(s.dirs)
	return errors.Join(failed...)
}

// syncAll syncs the whole file system of the workspace and returns its device, where so many
// directories wait for a sync that this is cheaper than one sync each.
func (w *Workspace) syncAll(waiting int) (device uint64, done bool) {
	if waiting <= fewFiles {
		return 0, false
	}
	_ = w.control(func(dir uintptr) {
		var err error
		device, err = deviceOf(int(dir))
		done = err == nil && syncAll(int(dir)) == nil
	})
	return device, done
}
