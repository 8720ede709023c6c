// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import "golang.org/x/sys/unix"

// searchOnly opens a directory to go through it, also where it may not be read.
const searchOnly = unix.O_PATH
