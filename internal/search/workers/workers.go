// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package workers does things several times at once.
package workers

import (
	"runtime"
	"sync"
)

// Count is how many goroutines search at once.
func Count() int { return min(runtime.GOMAXPROCS(0), 8) }

// Run runs f so many times at once and waits for all of them. A panic in
// one of them becomes a panic of the caller's, who can recover from it.
func Run(n int, f func(i int)) {
	var group sync.WaitGroup
	panics := make([]any, n)
	for i := range n {
		group.Go(func() {
			defer func() { panics[i] = recover() }()
			f(i)
		})
	}
	group.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}
