// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import "golang.org/x/sys/unix"

// foreign has nothing to try: 32-bit calls need a 32-bit program.
func foreign(string) error { return unix.ENOSYS }
