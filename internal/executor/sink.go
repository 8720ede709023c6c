// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// sink is an execution as its tool sees it.
type sink Execution

// Execution returns the id of the execution.
func (s *sink) Execution() string { return s.ID }

// Emit puts a report into the log.
func (s *sink) Emit(report tools.Report) {
	x := (*Execution)(s)
	if !x.executor.config.Steps.Reports(x, report) {
		return
	}
	if p, ok := report.(tools.Progress); ok {
		x.reportProgress(Progress(p).sendable())
		return
	}
	x.emitting.Lock()
	defer x.emitting.Unlock()
	x.flushProgress()
	switch r := report.(type) {
	case tools.Output:
		for chunk := range slices.Chunk(r.Data, MaxChunk) {
			output := x.log.limits.newOutput(chunk)
			output.Stream, output.Offset = r.Stream, x.offsets[r.Stream]
			x.emit(output)
			x.offsets[r.Stream] += uint64(len(chunk))
		}
		x.executor.outputBytes.Add(uint64(len(r.Data)))
	case tools.Partial:
		r.Content, _ = visibleContent(r.Content)
		if mask := x.executor.config.Mask; mask != nil {
			r.Content = maskedContent(r.Content, mask)
		}
		x.emit(Partial(r).sendable(int(x.executor.config.MaxResultBytes)))
	case tools.UserMessage:
		x.emit(UserMessage(r).sendable())
	case tools.Nested:
		x.emit(Nested(r))
	}
}

// emitInOrder appends an event after the progress that came before it.
func (x *Execution) emitInOrder(body Body) {
	x.emitting.Lock()
	defer x.emitting.Unlock()
	x.flushProgress()
	x.emit(body)
}

// emit appends an event at the pace of the readers, until the execution ends.
func (x *Execution) emit(body Body) { x.log.append(body, time.Now(), x.ending) }

// coalescer joins reports of progress that follow each other too quickly: the
// newest one wins. It is guarded by the execution's mutex.
type coalescer struct {
	last    time.Time // when a report last went into the log
	pending *Progress
	timer   *time.Timer
}

// take returns the report that waits, if any, and stops its timer.
func (c *coalescer) take() *Progress {
	pending := c.pending
	c.pending = nil
	if c.timer != nil {
		c.timer.Stop()
	}
	return pending
}

func (x *Execution) reportProgress(p Progress) {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancel == nil {
		return // the end began
	}
	c := &x.progress
	if wait := x.executor.config.ProgressInterval - now.Sub(c.last); wait > 0 {
		if c.pending == nil {
			c.timer = time.AfterFunc(wait, x.flushProgress)
		}
		c.pending = &p
		return
	}
	c.take() // older than p, and its timer is late
	c.last = now
	x.log.append(p, now, nil)
}

// flushProgress puts the report that waits into the log, so that what comes
// after it gets a higher number.
func (x *Execution) flushProgress() {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if pending := x.progress.take(); pending != nil {
		x.progress.last = now
		x.log.append(*pending, now, nil)
	}
}
