// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package workspace

import "golang.org/x/sys/unix"

// searchOnly opens a directory to go through it.
const searchOnly = unix.O_RDONLY
