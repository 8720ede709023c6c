// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// tuneGC lets a small heap grow further between collections than Go would by
// itself: by gcSlack, but to seven times its size at most. A server has little
// that lives and makes much that does not, so it would otherwise spend its time
// collecting. A large heap is collected as Go does by default. Whoever set GOGC
// or GOMEMLIMIT knows better.
func tuneGC() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(maxGCPercent)
		afterNextGC(new(gcTuner))
	}
}

const (
	gcSlack      = 64 << 20
	minGCPercent = 100
	maxGCPercent = 600
)

// gcTuner is garbage from the moment it is made: its finalizer runs after each
// collection, and makes it live once more.
type gcTuner struct{ percent int }

func afterNextGC(t *gcTuner) { runtime.SetFinalizer(t, (*gcTuner).tune) }

func (t *gcTuner) tune() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	live := max(sample[0].Value.Uint64(), 1)
	percent := int(min(max(gcSlack*100/live, minGCPercent), maxGCPercent))
	if percent != t.percent {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	afterNextGC(t)
}
