// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// It starts with every probe and makes one thread work: how many processors
// there are is nothing to find out, and no files to keep open.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Toolserver-exec stands between toolserver and the commands it runs. The
// server starts it; there is no use in starting it by hand.
package main

import (
	"os"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

func main() {
	if err := helper.Execute(os.Args[1:]); err != nil {
		os.Stderr.WriteString("toolserver-exec: " + err.Error() + "\n")
		os.Exit(1)
	}
}
