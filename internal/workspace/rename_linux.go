// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew moves an entry to a name that nothing has yet.
func renameNew(fromDir int, from string, toDir int, to string) error {
	err := unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) { // not on every file system
		return renameChecked(fromDir, from, toDir, to)
	}
	return err
}
