// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package soaktest tells tests whether they run in their long form, as in make soak.
package soaktest

import "os"

// Long reports whether they do.
func Long() bool { return os.Getenv("TOOLSERVER_SOAK") != "" }

// Times returns how often to repeat something.
func Times(short, long int) int {
	if Long() {
		return long
	}
	return short
}
