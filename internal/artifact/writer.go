// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// A Writer writes one artifact. What cannot be kept is counted and left out;
// Write never fails, for a command must not fail because of it. Its methods are
// safe for concurrent use.
type Writer struct {
	store *Store
	kept  *storedArtifact
	mu    sync.Mutex // held over each Write: what is written stays in order
}

const removed = "it was removed while it was written"

// Write keeps as much of p as there is room for.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, k := w.store, w.kept
	s.mu.Lock()
	if k.file == nil {
		s.mu.Unlock()
		return len(p), nil
	}
	k.info.Written += uint64(len(p))
	offset := int64(k.info.Size)
	var room int64
	switch {
	case k.info.Incomplete != "" || len(p) == 0:
	case k.gone:
		k.info.Incomplete = removed
	default:
		room, k.info.Incomplete = s.reserve(k, int64(len(p)))
	}
	s.mu.Unlock()
	if room == 0 {
		return len(p), nil
	}

	n, err := k.file.WriteAt(p[:room], offset)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.gone {
		n = 0
	}
	k.info.Size += uint64(n)
	s.charge(k, int64(n)-room) // what is not kept costs nothing
	if err != nil {
		k.info.Incomplete = reason(err)
	}
	return len(p), nil
}

// reason says why a file could not be written, without its name.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk of the server is full"
	default:
		return "the server could not write its file"
	}
}

// Info returns what there is by now.
func (w *Writer) Info() Info {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return w.kept.info
}

// Close ends the artifact and returns what is kept of it. From then on its time
// runs. Closing it again changes nothing.
func (w *Writer) Close() Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	info, first := w.close()
	if first && !info.Expires.IsZero() {
		w.store.record(w.kept)
	}
	return info
}

// close is Close, and reports whether it was the first.
func (w *Writer) close() (info Info, first bool) {
	s, k := w.store, w.kept
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.file == nil {
		return k.info, false
	}
	if err := k.file.Close(); err != nil && k.info.Incomplete == "" {
		k.info.Incomplete = reason(err)
	}
	k.file = nil
	if k.gone {
		k.info.Incomplete = removed
		return k.info, true
	}
	k.info.Complete = k.info.Incomplete == ""
	k.info.Expires = time.Now().Add(s.config.TTL)
	if s.expiry == nil {
		s.watch()
	}
	return k.info, true
}
