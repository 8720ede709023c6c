// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"os"

	"golang.org/x/sys/unix"
)

// nameless makes a file that never has a name, where the file system can.
func nameless(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
}
