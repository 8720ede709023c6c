// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package command

import "os"

func openNoLinks(path string) (*os.File, error) { return os.Open(path) }

func identity(info os.FileInfo) int64 { return info.ModTime().UnixNano() }

func pristine(string) bool { return false }
