// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent sees to it that a server does not outlive the harness, even if
// that is killed. Its own process group keeps a Ctrl-C from reaching it before
// the harness has heard of it.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
