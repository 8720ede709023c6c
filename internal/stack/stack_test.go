// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"runtime/metrics"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/stack"
)

// TestGrow holds what many goroutines have as stacks against what they asked for.
func TestGrow(t *testing.T) {
	const goroutines = 2000
	for name, test := range map[string]struct {
		grow  func()
		bytes uint64
	}{
		"8K":  {stack.GrowTo8K, 8 << 10},
		"16K": {stack.GrowTo16K, 16 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			before := stacks()
			var grown, ended sync.WaitGroup
			release := make(chan struct{})
			for range goroutines {
				grown.Add(1)
				ended.Go(func() {
					test.grow()
					grown.Done()
					<-release
				})
			}
			grown.Wait()
			each := (stacks() - before) / goroutines
			close(release)
			ended.Wait()
			if each < test.bytes*9/10 || each > test.bytes*3/2 {
				t.Errorf("a stack has %d bytes, want about %d", each, test.bytes)
			}
		})
	}
}

func stacks() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
