// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package wholefile writes files such as those in which the server keeps what outlives it: a
// crash leaves the old one or the new one.
package wholefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace gives a file its content, as a whole or not at all, and makes its directory.
// Nobody but the server's user may read either.
func Replace(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return Write(name, func(to io.Writer) error { _, err := to.Write(content); return err })
}

// Write is Replace for a directory that is there, with what write writes.
func Write(name string, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	temp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // unless it was renamed
	if err := errors.Join(write(temp), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), name); err != nil {
		return err
	}
	if opened, err := os.Open(dir); err == nil { // so that the name outlives a crash, too
		opened.Sync()
		opened.Close()
	}
	return nil
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
