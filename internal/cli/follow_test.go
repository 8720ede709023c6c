// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestInterruptsThatAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var i interrupts
		for _, test := range []struct {
			after time.Duration
			again bool
		}{{time.Hour, false}, {0, false}, {time.Millisecond, false}, {498 * time.Millisecond, false}, {time.Millisecond, true}, {0, true}, {time.Hour, true}} {
			time.Sleep(test.after)
			if got := i.again(); got != test.again {
				t.Errorf("%s later: %v, want %v", test.after, got, test.again)
			}
		}
	})
}
