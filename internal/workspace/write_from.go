// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// WriteFrom gives a file the content that r has, as [Workspace.WriteFile] does, but need
// not have it in memory.
func (w *Workspace) WriteFrom(path string, r io.Reader, mode fs.FileMode, old Version) (Info, Hash, error) {
	w.touched(path, true)
	f, name, err := w.openParent(path)
	if err != nil {
		return Info{}, Hash{}, err
	}
	defer f.close()
	w.intents.add(f.path)
	var hash Hash
	info, err := f.replace(name, old, func(fd int, was Info) (info Info, err error) {
		info, hash, err = fillFrom(fd, r, mode, was)
		return info, err
	})
	if errors.Is(err, errTempGone) { // r is read
		err = fmt.Errorf("%s: %w", path, ErrChanged)
	}
	return info, hash, err
}

// copies are buffers for contents on their way.
var copies = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// A descriptor is an open file as an [io.Writer].
type descriptor int

func (d descriptor) Write(p []byte) (int, error) { return len(p), writeAll(int(d), p) }

// fillFrom is fill with what r has.
func fillFrom(fd int, r io.Reader, mode fs.FileMode, was Info) (Info, Hash, error) {
	inUse(fd)
	buffer := copies.Get().(*[64 << 10]byte)
	defer copies.Put(buffer)
	sum := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(sum, descriptor(fd)), r, buffer[:]); err != nil {
		return Info{}, Hash{}, err
	}
	info, err := dress(fd, mode, was)
	return info, Hash(sum.Sum(nil)), err
}
