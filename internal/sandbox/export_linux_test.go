// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

// AsOn returns the configuration for a kernel that has an older Landlock.
func (c Config) AsOn(landlock int) Config {
	c.landlockAtMost = landlock
	return c
}

// AgeViews has the views of a space be used long ago.
func (sp *Space) AgeViews() {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, v := range sp.views {
		v.used = v.used.Add(-2 * moment)
	}
}

// Views returns how many views a space has.
func (sp *Space) Views() int {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return len(sp.views)
}
