// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped throws away what was typed and not read yet: it was typed before
// the question was seen, and so is no answer to it.
func forgetTyped(terminal *os.File) {
	_ = unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH) // what is no terminal has nothing typed
}
