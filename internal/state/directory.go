// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/internal/wholefile"
)

// layout is the version of the directory. What reads an older one knows how; a newer one
// is refused.
const layout = 1

const (
	manifestName = "state.json"
	lockName     = "lock"
	storeName    = "jetstream" // made by the engine
	streamsPath  = storeName + "/$G/streams"
)

// manifest says what is in a directory, so that what is missing is missed.
type manifest struct {
	Version int      `json:"version"`
	Streams []string `json:"streams"`

	// Blocks are the files with records and their sizes, when the directory was
	// closed. While it is used, or after a crash, there are none.
	Blocks map[string]int64 `json:"blocks"`
}

// directory is where an engine of this process keeps its data. The lock is ours: two
// engines on one directory would both write.
type directory struct {
	path string
	lock *os.File

	mu       sync.Mutex
	manifest manifest
	unkept   []string    // spaces that were made, and that a loss of power would take
	settled  atomic.Bool // there are none
}

// openDirectory locks a directory, and makes it if it is not there.
func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("the directory of the state: %w", err)
	}
	return readDirectory(path)
}

// readDirectory is openDirectory for one that is there, and that may be read-only.
func readDirectory(path string) (*directory, error) {
	d, err := lockDirectory(path)
	if err != nil {
		return nil, err
	}
	if err := d.readManifest(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func lockDirectory(path string) (*directory, error) {
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, syscall.EROFS) {
		lock, err = os.Open(path) // nobody can write there
	}
	if err != nil {
		return nil, fmt.Errorf("the directory of the state: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		lock.Close()
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("another process uses the state in %s: stop it, or give this one a directory of its own", path)
	}
	if err != nil {
		return nil, fmt.Errorf("the state in %s cannot be locked, so it cannot be used safely: %w", path, err)
	}
	return &directory{path: path, lock: lock}, nil
}

// readManifest begins a manifest where the directory is new.
func (d *directory) readManifest() error {
	name := filepath.Join(d.path, manifestName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(d.path, storeName)); err == nil {
			return damaged(d.path, "there is data, but no "+manifestName)
		}
		d.manifest = manifest{Version: layout}
		return nil // it is written before it is used
	}
	if err != nil {
		return fmt.Errorf("the state: %w", err)
	}
	switch err := json.Unmarshal(text, &d.manifest); {
	case err != nil || d.manifest.Version < 1:
		return damaged(d.path, manifestName+" does not say what is there")
	case d.manifest.Version > layout:
		return fmt.Errorf("the state in %s is of a newer toolserver: its version is %d, and this one knows %d; run the newer one, or restore a backup that this one made",
			d.path, d.manifest.Version, layout)
	}
	return nil
}

func (d *directory) writeManifest(m manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := wholefile.Replace(filepath.Join(d.path, manifestName), append(text, '\n')); err != nil {
		return fmt.Errorf("the state: %w", err)
	}
	return syncFile(d.path)
}

// keep has a space noted that is there, before something is written to it.
func (d *directory) keep(stream string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.manifest.Streams, stream) && !slices.Contains(d.unkept, stream) {
		d.unkept = append(d.unkept, stream)
		d.settled.Store(false)
	}
}

// settle makes sure that new spaces outlive a loss of power, which the engine does not,
// and notes them, so that their loss is noted too. It does so for all at once: what
// takes time is each wait for the disk.
func (d *directory) settle() error {
	if d.settled.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	streams := filepath.Join(d.path, streamsPath)
	var paths []string
	for _, stream := range d.unkept {
		paths = append(paths, filepath.Join(streams, stream))
	}
	below, err := treesOf(paths)
	if err != nil {
		return fmt.Errorf("the state: %w", err)
	}
	for up := streams; up != d.path; up = filepath.Dir(up) {
		below = append(below, up)
	}
	if err := syncAll(below); err != nil {
		return fmt.Errorf("the state: %w", err)
	}
	noted := d.manifest
	noted.Streams = slices.Concat(noted.Streams, d.unkept)
	if err := d.writeManifest(noted); err != nil {
		return err
	}
	d.manifest, d.unkept = noted, nil
	d.settled.Store(true)
	return nil
}

// syncTree has everything in a directory reach the disk.
func syncTree(dir string) error {
	paths, err := treesOf([]string{dir})
	if err != nil {
		return err
	}
	return syncAll(paths)
}

// treesOf returns directories and all that is in them.
func treesOf(dirs []string) (paths []string, err error) {
	for _, dir := range dirs {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the engine replaces files of its own
			}
			paths = append(paths, path)
			return err
		}))
	}
	return paths, err
}

// syncAll has files reach the disk, many at once: a file system writes them together.
func syncAll(paths []string) error {
	var group errgroup.Group
	group.SetLimit(32)
	for _, path := range paths {
		group.Go(func() error { return syncFile(path) })
	}
	return group.Wait()
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// use notes that the directory is used.
func (d *directory) use() error {
	d.manifest.Blocks = nil
	d.settled.Store(true)
	return d.writeManifest(d.manifest)
}

// rest notes what the directory has, now that nobody uses it.
func (d *directory) rest() error {
	if err := d.settle(); err != nil {
		return err
	}
	d.manifest.Blocks = make(map[string]int64)
	for _, stream := range d.manifest.Streams {
		dir := filepath.Join(d.path, streamsPath, stream)
		blocks, err := blocksOf(dir)
		if err != nil {
			return fmt.Errorf("the state: %w", err)
		}
		for _, b := range blocks {
			info, err := os.Stat(filepath.Join(dir, blocksName, b.name))
			if err != nil {
				return fmt.Errorf("the state: %w", err)
			}
			d.manifest.Blocks[filepath.Join(stream, blocksName, b.name)] = info.Size()
		}
	}
	return d.writeManifest(d.manifest)
}

func (d *directory) close() error { return d.lock.Close() }

// damaged says that data is not what was written. Nothing is repaired or removed here.
func damaged(where, why string) error {
	return fmt.Errorf("%w: %s: %s; nothing was changed: move the directory away and restore a backup (toolserver state restore), or begin with an empty one", ErrDamaged, where, why)
}
