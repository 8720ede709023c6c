// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"sync"
	"time"
)

// quiet is how long nothing must come before a little that is held back is shown:
// a prompt may end with it.
const quiet = 40 * time.Millisecond

// A Live is a [MaskStream] that somebody looks at while it is written. One
// goroutine writes.
type Live struct {
	give   func(masked []byte, raw int)
	beside *Live // nil without

	mu    sync.Mutex // held while something is given
	mask  *MaskStream
	out   []byte
	timer *time.Timer // nil until it is needed
}

// Live returns a stream that gives what is masked away, with how many bytes it
// was made of. give keeps nothing of it, and is called by one goroutine at a time.
func (m *Masker) Live(give func(masked []byte, raw int)) *Live {
	return &Live{give: give, mask: m.Stream()}
}

// Beside has two streams of one program keep their order: a little that one holds
// back is shown before the other goes on. It comes before the first Write.
func (l *Live) Beside(other *Live) { l.beside, other.beside = other, l }

// Write masks a piece.
func (l *Live) Write(chunk []byte) {
	if l.beside != nil {
		l.beside.release() // while nothing is locked here, for the other does the same
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = l.mask.Append(l.out[:0], chunk)
	l.give(l.out, len(chunk))
	if cap(l.out) > maxKept {
		l.out = nil
	}
	switch {
	case !l.mask.releases():
	case l.timer == nil:
		l.timer = time.AfterFunc(quiet, l.release)
	default:
		l.timer.Reset(quiet)
	}
}

func (l *Live) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mask.releases() {
		l.give(l.mask.Release(nil), 0)
	}
}

// Close gives away what is held back.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.give(l.mask.Flush(l.out[:0]), 0)
}
