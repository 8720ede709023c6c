// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"sync"
	"time"
)

// maxCached is how many answers a cache has at most.
const maxCached = 10_000

// A cache remembers what was found out about credentials, by their digest. Its zero
// value is empty.
type cache struct {
	mu    sync.RWMutex
	known map[Digest]cached
}

type cached struct {
	principal  Principal
	err        error
	generation int
	until      time.Time
}

// get returns what is known, if it still holds.
func (c *cache) get(d Digest, now time.Time) (cached, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	known, ok := c.known[d]
	return known, ok && now.Before(known.until)
}

// put remembers an answer. Where there are too many, those that hold no more go, and
// then any.
func (c *cache) put(d Digest, answer cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[Digest]cached)
	}
	if len(c.known) >= maxCached {
		now := time.Now()
		for other, known := range c.known {
			if !now.Before(known.until) {
				delete(c.known, other)
			}
		}
		for other := range c.known { // in no order
			if len(c.known) < maxCached*9/10 {
				break
			}
			delete(c.known, other)
		}
	}
	c.known[d] = answer
}
