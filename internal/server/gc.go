// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	gcPercent   = 400     // a server has little that lives and makes much that does not
	memoryLimit = 1 << 30 // above it, memory is worth more than time

	restInterval = 10 * time.Second
	restBytes    = 1 << 20 // allocated in restInterval at most: probes, timers, a call now and then
)

// setGC says how the garbage collector of a server works, unless whoever
// started it did.
func setGC() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent)
		debug.SetMemoryLimit(memoryLimit)
	}
}

// freeAtRest gives the memory that work took back to the system, once after
// each time of work: the collector of an idle process has no reason to run.
func freeAtRest(ctx context.Context) {
	tick := time.NewTicker(restInterval)
	defer tick.Stop()
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for before, freed := uint64(0), false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		rests := now-before <= restBytes
		if rests && !freed {
			debug.FreeOSMemory()
		}
		before, freed = now, rests
	}
}
