// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// A file is what a chain is written to.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// A chain is the end of a log: where the next record goes, and what it follows.
type chain struct {
	path    string
	options Options
	lock    *os.File
	file    file        // nil where there is only a copy
	named   os.FileInfo // of the file
	adrift  bool        // the file lost its name

	pending []byte // lines that are not written
	tip     Head   // of the last line, pending or not
	head    Head   // of the last line that is written

	size       int64 // of what is written whole
	dirty      bool  // there is more in the file than that
	unsynced   bool
	syncFailed bool
	rotateAt   int64
	copyFailed bool
}

// add puts a record at the end, to be written, and sets what makes it a link.
func (c *chain) add(record *Record) {
	record.Seq, record.Prev = c.tip.Seq+1, c.tip.Hash
	if record.Time.IsZero() {
		record.Time = time.Now()
	}
	c.pending = record.appendLine(c.pending)
	c.tip = Head{record.Seq, record.Hash}
}

// stuck reports whether there is something that could not be written.
func (c *chain) stuck() bool { return len(c.pending) > 0 }

// write writes what is pending, all of it or nothing, and begins the next file
// where this one is full.
func (c *chain) write() error {
	if err := c.writePending(); err != nil {
		return err
	}
	if c.file != nil && c.options.MaxBytes > 0 && c.size >= c.rotateAt {
		if err := c.rotate(); err != nil {
			c.options.Logger.Error("the audit log goes on in the same file", zap.Error(err))
			c.rotateAt = c.size + int64(c.options.MaxBytes)
		}
	}
	return nil
}

func (c *chain) writePending() error {
	if len(c.pending) == 0 {
		return nil
	}
	if c.file != nil {
		if err := c.tidy(); err != nil {
			return err
		}
		if _, err := c.file.Write(c.pending); err != nil {
			c.dirty = true
			c.tidy() // now, or before the next attempt
			return err
		}
		c.size += int64(len(c.pending))
		c.unsynced = true
	}
	if c.options.Copy != nil {
		_, err := c.options.Copy.Write(c.pending)
		if err != nil && !c.copyFailed {
			c.options.Logger.Error("the copy of the audit log cannot be written", zap.Error(err))
		}
		c.copyFailed = err != nil
	}
	c.head = c.tip
	if c.pending = c.pending[:0]; cap(c.pending) > 1<<20 {
		c.pending = nil
	}
	return nil
}

// tidy takes away what a failed attempt left in the file.
func (c *chain) tidy() error {
	if !c.dirty {
		return nil
	}
	if err := c.file.Truncate(c.size); err != nil {
		return err
	}
	c.dirty = false
	return nil
}

// sync forces what is written to the disk.
func (c *chain) sync() error {
	if c.file == nil || !c.unsynced {
		return nil
	}
	err := c.file.Sync()
	c.syncFailed = err != nil
	c.unsynced = err != nil
	return err
}

// rotate gives the file the number of its last record as a second name, and
// begins a new one.
func (c *chain) rotate() error {
	c.add(&Record{Step: Rotated})
	if err := c.writePending(); err != nil {
		return err
	}
	if err := c.sync(); err != nil {
		return err
	}
	full := fmt.Sprintf("%s.%012d", c.path, c.head.Seq)
	if err := os.Rename(c.path, full); err != nil {
		return err
	}
	next, err := os.OpenFile(c.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, os.Rename(full, c.path))
	}
	if err := lock(next); err != nil {
		next.Close()
		return errors.Join(err, os.Rename(full, c.path))
	}
	syncDir(c.path)
	c.file.Close()
	c.use(next, 0)
	c.add(&Record{Step: Continued})
	c.forget()
	return c.writePending()
}

// follow goes on in a new file where the one that is written lost its name:
// somebody removed or renamed it, and what is written there may never be seen. A
// file that is in its place must be empty.
func (c *chain) follow() error {
	if c.file == nil || c.named == nil {
		return nil
	}
	there, err := os.Stat(c.path)
	if err == nil && os.SameFile(there, c.named) {
		c.adrift = false
		return nil
	}
	if !c.adrift {
		c.adrift = true
		c.options.Logger.Error("the audit log was removed or renamed, and goes on in a new file", zap.String("file", c.path), zap.Uint64("after", c.head.Seq))
		if !c.stuck() { // it has to be the first in the new file
			c.add(&Record{Step: Continued, Reason: "the file before was removed or renamed by somebody else"})
		}
	}
	if err == nil && there.Size() > 0 {
		return fmt.Errorf("another file was put in the place of %s: move it out of the way", c.path)
	}
	next, err := os.OpenFile(c.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := lock(next); err != nil {
		next.Close()
		return err
	}
	syncDir(c.path)
	err = c.sync()
	if c.file.Close(); err != nil {
		c.options.Logger.Error("the end of the audit log that was removed may not be on the disk", zap.Error(err))
	}
	c.use(next, 0)
	c.adrift = false
	return nil
}

// forget removes full files beyond those that are kept.
func (c *chain) forget() {
	if c.options.Keep == 0 {
		return
	}
	files := fullFiles(c.path)
	for _, name := range files[:max(0, len(files)-c.options.Keep)] {
		if err := os.Remove(name); err != nil {
			c.options.Logger.Error("an old audit log stays", zap.Error(err))
		}
	}
}

// fullFiles returns the files that the one at path goes on from, oldest first.
func fullFiles(path string) []string {
	var files []string
	names, _ := filepath.Glob(escape(path) + ".*")
	for _, name := range names {
		number := name[len(path)+1:]
		if len(number) >= 12 && !slices.ContainsFunc([]byte(number), func(c byte) bool { return c < '0' || c > '9' }) {
			files = append(files, name)
		}
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return files
}

// escape returns a pattern that matches path alone.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// use makes f the file that is written.
func (c *chain) use(f *os.File, size int64) {
	c.named, _ = f.Stat()
	c.file, c.size, c.rotateAt = f, size, int64(c.options.MaxBytes)
	c.unsynced, c.dirty = true, false // its name may not be on the disk
	if c.options.wrap != nil {
		c.file = c.options.wrap(f)
	}
}

func (c *chain) close() error {
	var err error
	if c.file != nil {
		err = c.file.Close()
	}
	if c.lock != nil {
		c.lock.Close() // and with it the lock
	}
	return err
}

// openChain opens the end of a log, and notes that it was opened.
func openChain(path string, options Options) (*chain, error) {
	c := &chain{path: path, options: options}
	if path != "" {
		if err := c.open(); err != nil {
			c.close()
			return nil, err
		}
	} else {
		c.add(&Record{Step: Opened})
	}
	if err := errors.Join(c.write(), c.sync()); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *chain) open() error {
	var err error
	if c.lock, err = lockFile(c.path + ".lock"); err != nil {
		return err
	}
	f, err := os.OpenFile(c.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	c.use(f, 0)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", c.path)
	}
	if err := lock(f); err != nil {
		return err
	}
	last, whole, torn, err := readEnd(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	if whole == 0 {
		syncDir(c.path)
		if last, err = c.before(); err != nil {
			return err
		}
	}
	c.tip = Head{last.Seq, last.Hash}
	c.head, c.size = c.tip, whole
	if whole == 0 && last.Seq > 0 {
		c.add(&Record{Step: Continued})
	}
	if len(torn) > 0 {
		if err := c.putAside(torn, whole); err != nil {
			return err
		}
	}
	opened := Record{Step: Opened}
	if last.Seq > 0 && last.Step != Closed && last.Step != Rotated {
		opened.Reason = "the log was not closed before"
	}
	c.add(&opened)
	return nil
}

// before returns the last record of the files before this one, or none.
func (c *chain) before() (mark, error) {
	files := fullFiles(c.path)
	if len(files) == 0 {
		return mark{}, nil
	}
	name := files[len(files)-1]
	f, err := os.Open(name)
	if err != nil {
		return mark{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return mark{}, err
	}
	last, _, torn, err := readEnd(f, info.Size())
	if err == nil && len(torn) > 0 {
		err = fmt.Errorf("%w: it does not end with a whole record", ErrBroken)
	}
	if err != nil {
		return mark{}, fmt.Errorf("%s: %w", name, err)
	}
	return last, nil
}

// putAside moves the torn end of the file to another one.
func (c *chain) putAside(torn []byte, whole int64) error {
	aside := c.path + ".torn"
	f, err := os.OpenFile(aside, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(torn)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := c.file.Truncate(whole); err != nil {
		return err
	}
	c.options.Logger.Warn("the audit log had a torn end", zap.Int("bytes", len(torn)), zap.String("kept_in", aside))
	c.add(&Record{
		Step: Recovered, Count: uint64(len(torn)),
		Reason: "the file did not end with a whole record; the rest was moved to " + filepath.Base(aside),
	})
	return nil
}

// readEnd returns the last record of a file, how long the file is up to its end,
// and what follows: the beginning of a line.
func readEnd(f io.ReaderAt, size int64) (last mark, whole int64, torn []byte, err error) {
	from := max(0, size-2*maxLine)
	end := make([]byte, size-from)
	if _, err := f.ReadAt(end, from); err != nil && !errors.Is(err, io.EOF) {
		return last, 0, nil, err
	}
	lineEnd := bytes.LastIndexByte(end, '\n')
	torn = end[lineEnd+1:]
	if len(torn) > maxLine || !begun(torn) {
		return last, 0, nil, fmt.Errorf("%w: it does not end with a record", ErrBroken)
	}
	if lineEnd < 0 {
		return last, 0, torn, nil // nothing else, since two lines would fit
	}
	line := end[bytes.LastIndexByte(end[:lineEnd], '\n')+1 : lineEnd]
	last, changed, err := parseLine(line)
	if err == nil && changed {
		err = errors.New("the last record was changed")
	}
	if err != nil {
		return last, 0, nil, fmt.Errorf("%w: the last line: %w; verify it, and move it out of the way", ErrBroken, err)
	}
	return last, from + int64(lineEnd) + 1, torn, nil
}

// begun reports whether a crash can have left this of a line: its beginning, and
// the zeros of blocks that never reached the disk. Anything else is not ours to
// move.
func begun(torn []byte) bool {
	const begin = `{"seq":`
	torn = bytes.TrimRight(torn, "\x00")
	n := min(len(torn), len(begin))
	return string(torn[:n]) == begin[:n]
}

// lockFile makes sure that nobody else writes the log. The file stays when the
// lock is given up: removing it could take the lock of another away.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lock locks a file until it is closed. The log itself is locked too, for another
// server may know it by another name, with another lock file beside it.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// syncDir forces the name of a new file to the disk, where the system can.
func syncDir(path string) {
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		dir.Sync()
		dir.Close()
	}
}
