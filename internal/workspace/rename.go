// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameChecked is renameNew where the kernel cannot look and rename in one
// step. A file that appears in between is replaced, never followed.
func renameChecked(fromDir int, from string, toDir int, to string) error {
	var st unix.Stat_t
	err := unix.Fstatat(toDir, to, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		return unix.EEXIST
	}
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	return unix.Renameat(fromDir, from, toDir, to)
}
