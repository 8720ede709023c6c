// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// intents is a note of the directories in which files are written. It is kept
// outside the workspace, one file for each workspace, made with the first write
// and removed when the last who writes it is done. A process that was killed
// leaves it, and with it where to look for temporary files; nothing else has to
// be searched. Where no note can be made, files are written all the same.
type intents struct {
	path string

	mu    sync.Mutex
	file  *os.File // nil before the first write
	known map[string]bool
}

// maxIntents bounds the directories that are remembered in memory. Beyond, one
// is noted again whenever it is written to.
const maxIntents = 10_000

// openIntents returns the note of a workspace, after it has removed what was
// left behind where an older one says.
func openIntents(state string, w *Workspace) *intents {
	sum := sha256.Sum256([]byte(w.dir))
	i := &intents{path: filepath.Join(state, "writes-"+hex.EncodeToString(sum[:12])), known: make(map[string]bool)}
	old, err := os.OpenFile(i.path, os.O_RDWR, 0)
	if err != nil {
		return i
	}
	w.sweep(old)
	i.file = old
	i.close() // and remove it, unless somebody else uses it
	i.file = nil
	return i
}

// begin makes the note, or joins those who use it.
func (i *intents) begin() error {
	if err := os.MkdirAll(filepath.Dir(i.path), 0o700); err != nil {
		return err
	}
	for {
		file, err := os.OpenFile(i.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		ok, err := lockNote(file, i.path)
		if ok {
			i.file = file
			return nil
		}
		file.Close()
		if err != nil {
			return err
		}
		// It was removed by who was done with it just now.
	}
}

// lockNote shares the lock of a note, and reports whether the file still is the
// note.
func lockNote(file *os.File, path string) (bool, error) {
	if err := retry(func() error { return unix.Flock(int(file.Fd()), unix.LOCK_SH) }); err != nil {
		return false, err
	}
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(mine, now), nil
}

func (i *intents) lock(how int) error {
	return retry(func() error { return unix.Flock(int(i.file.Fd()), how) })
}

// add notes that files are written in a directory.
func (i *intents) add(dir string) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known[dir] || i.file == nil && i.begin() != nil {
		return
	}
	if _, err := fmt.Fprintf(i.file, "%q\n", dir); err == nil && len(i.known) < maxIntents {
		i.known[dir] = true
	}
}

// close removes the note, unless somebody else uses it.
func (i *intents) close() error {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.file == nil {
		return nil
	}
	if i.lock(unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = os.Remove(i.path)
	}
	return i.file.Close()
}

// sweep removes the temporary files that nobody writes any more, in the
// directories that a note names.
func (w *Workspace) sweep(note io.Reader) {
	seen := make(map[string]bool)
	lines := bufio.NewScanner(note)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		dir, err := strconv.Unquote(string(bytes.TrimSpace(lines.Bytes())))
		if err != nil || seen[dir] || !filepath.IsLocal(dir) {
			continue
		}
		seen[dir] = true
		f, err := w.openFolder(dir)
		if err != nil {
			continue
		}
		f.sweep()
		f.close()
	}
}

// sweep removes the temporary files of a directory. Who writes one keeps it
// locked.
func (f folder) sweep() {
	names, _, err := f.names(1 << 20)
	if err != nil {
		return
	}
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix) {
			continue
		}
		fd, err := openat(f.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if !errors.Is(err, unix.EWOULDBLOCK) {
			_ = unix.Unlinkat(f.fd, name, 0)
		}
		unix.Close(fd)
	}
}
