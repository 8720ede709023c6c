// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package workspace

// renameNew moves an entry to a name that nothing has yet.
func renameNew(fromDir int, from string, toDir int, to string) error {
	return renameChecked(fromDir, from, toDir, to)
}
