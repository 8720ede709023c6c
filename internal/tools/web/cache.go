// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// copied is what was fetched.
type copied struct {
	url    *url.URL // that answered
	hops   []string
	status int
	header http.Header
	body   []byte
	cut    bool
	at     time.Time
}

// recent is for how long a page is shown on from what was fetched, without asking again.
const recent = 15 * time.Minute

// caches are the pages that sessions have fetched. Sessions of different principals may have
// the same id, and none sees the pages of another.
type caches struct {
	most int64 // bytes of a session

	mu       sync.Mutex
	sessions map[tools.Session]*cache
}

// cache has the pages of one session, the oldest first.
type cache struct {
	size  int64
	pages []cached
}

type cached struct {
	address string
	*copied
}

func newCaches(most int64) *caches {
	return &caches{most: most, sessions: make(map[tools.Session]*cache)}
}

// find returns what a session has of an address; nil where it has nothing.
func (c *caches) find(env tools.Env, address string) *copied {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.sessions[env.Session]
	if kept == nil {
		return nil
	}
	for _, page := range kept.pages {
		if page.address == address {
			return page.copied
		}
	}
	return nil
}

// keep keeps what was fetched until the session ends, or newer pages need the room.
func (c *caches) keep(env tools.Env, address string, page *copied) {
	size := int64(len(page.body))
	if env.Session == nil || size > c.most || strings.Contains(strings.ToLower(page.header.Get("Cache-Control")), "no-store") {
		return
	}
	c.mu.Lock()
	kept := c.sessions[env.Session]
	first := kept == nil
	if first {
		kept = new(cache)
		c.sessions[env.Session] = kept
	}
	if i := slices.IndexFunc(kept.pages, func(p cached) bool { return p.address == address }); i >= 0 {
		kept.remove(i)
	}
	kept.pages = append(kept.pages, cached{address, page})
	kept.size += size
	for kept.size > c.most || len(kept.pages) > 256 {
		kept.remove(0)
	}
	c.mu.Unlock()
	if forget := func() { c.forget(env.Session) }; first && !env.Session.AfterClose(forget) {
		forget()
	}
}

func (k *cache) remove(i int) {
	k.size -= int64(len(k.pages[i].body))
	k.pages = slices.Delete(k.pages, i, i+1)
}

func (c *caches) forget(session tools.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, session)
}
