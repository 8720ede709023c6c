// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"
	"sync"
	"sync/atomic"
)

// chunk is the memory of one piece of output, which the log and its readers
// share. When nobody holds it any more it is used again: much output would
// otherwise keep the garbage collector busy with nothing else.
type chunk struct {
	holders atomic.Int32
	pool    *sync.Pool // of *chunk
	bytes   [MaxChunk]byte
}

// smallChunk is the size below which output gets memory of its own.
const smallChunk = MaxChunk / 2

// newOutput copies data into an output that the caller holds.
func (l *logLimits) newOutput(data []byte) Output {
	if len(data) < smallChunk {
		return Output{Data: slices.Clone(data)}
	}
	c, ok := l.chunks.Get().(*chunk)
	if !ok {
		c = &chunk{pool: &l.chunks}
	}
	c.holders.Store(1)
	return Output{Data: c.bytes[:copy(c.bytes[:], data)], chunk: c}
}

// retain adds a holder.
func (o Output) retain() {
	if o.chunk != nil {
		o.chunk.holders.Add(1)
	}
}

// Release gives the data back: it must not be used any more. A reader that does
// not call it loses nothing; the memory is then collected instead of used again.
func (o Output) Release() {
	if o.chunk != nil && o.chunk.holders.Add(-1) == 0 {
		o.chunk.pool.Put(o.chunk)
	}
}
