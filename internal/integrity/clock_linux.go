// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"time"

	"golang.org/x/sys/unix"
)

// fileTime returns a time that no file that is written from now on is older than. The
// kernel takes the times of files from a clock of its own, which stands still between
// two ticks: where a busy machine is late with one, that is longer than any margin.
func fileTime() time.Time {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t); err != nil {
		return time.Now()
	}
	return time.Unix(t.Unix())
}
