// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cli

import "os"

// forgetTyped does nothing: systems differ in how it is done.
func forgetTyped(*os.File) {}
