// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Toolserver-exec stands between toolserver and the commands it runs. The
// server starts it; there is no use in starting it by hand.
package main

import (
	"os"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

func main() {
	if err := helper.Main(); err != nil {
		os.Stderr.WriteString("toolserver-exec: " + err.Error() + "\n")
		os.Exit(1)
	}
}
