// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package command

import "os"

func openNoLinks(path string) (*os.File, error) { return os.Open(path) }

type fileIdentity int64

func identity(path string) (fileIdentity, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return fileIdentity(info.ModTime().UnixNano()), nil
}

func pristine(string) bool { return false }
