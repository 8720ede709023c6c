// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

// AsOn returns the configuration for a kernel that has an older Landlock.
func (c Config) AsOn(landlock int) Config {
	c.landlockAtMost = landlock
	return c
}
