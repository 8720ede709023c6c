// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package wholefile writes the small files in which the server keeps what outlives it: a
// crash leaves the old one or the new one.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace gives a file its content, as a whole or not at all, and makes its directory.
// Nobody but the server's user may read either.
func Replace(name string, content []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // unless it was renamed
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}

// Cause returns what an error of a file says, without where the file is: that is
// nobody's business who calls a tool.
func Cause(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	if failed, ok := errors.AsType[*os.LinkError](err); ok {
		return failed.Err
	}
	return err
}
