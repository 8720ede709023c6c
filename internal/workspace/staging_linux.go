// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import "golang.org/x/sys/unix"

// syncAll writes all that the file system of an open file has to write.
func syncAll(fd int) error { return retry(func() error { return unix.Syncfs(fd) }) }
