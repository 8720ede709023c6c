// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/state"
)

// Shared has several servers keep to one rate. The time at which the bucket of a limit will be
// full again is an entry that all of them move on. A server moves it by many calls at once and
// keeps these as tokens for a moment, so that most calls cost no message. Each takes no more
// than there is: together they never exceed the limit, and what idle servers hold is little.
//
// While the entries cannot be reached, each server keeps to its share of the rate.
type Shared struct {
	config SharedConfig

	mu    sync.Mutex
	away  error     // why the entries cannot be reached; nil: they can
	until time.Time // when they are tried again
}

// SharedConfig is what limits are shared by.
type SharedConfig struct {
	// Entries has the times of buckets. Required.
	Entries state.KV

	// Servers returns how many servers share the limits, this one included. Required.
	Servers func() int

	// Changed, if set, is called when the entries cannot be reached, and with nil when they
	// can again.
	Changed func(error)
}

const (
	// leaseShare is the part of a second whose calls are taken at once.
	leaseShare = 10

	// leaseTime is how long tokens are good for. What is not used by then is lost.
	leaseTime = int64(time.Second)

	// askTime is how long a call waits for tokens.
	askTime = 500 * time.Millisecond

	// awayTime is after how long entries that could not be reached are tried again.
	awayTime = time.Second

	// maxAsks is how often a call asks for tokens that others have taken before it.
	maxAsks = 8
)

// NewShared returns limits that several servers share.
func NewShared(config SharedConfig) *Shared { return &Shared{config: config} }

// Away returns why this server keeps to its share; nil where the limits are shared.
func (s *Shared) Away() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

// reachable reports whether the entries are worth a try.
func (s *Shared) reachable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away == nil || time.Now().After(s.until)
}

// reached takes note of how an attempt ended.
func (s *Shared) reached(err error) {
	s.mu.Lock()
	changed := (s.away == nil) != (err == nil)
	s.away, s.until = err, time.Now().Add(awayTime)
	s.mu.Unlock()
	if changed && s.config.Changed != nil {
		s.config.Changed(err)
	}
}

// servers returns how many servers share the limits.
func (s *Shared) servers() int64 { return int64(max(1, s.config.Servers())) }

// A lease is the tokens that a server has of a bucket. The lock of the limiter guards it.
type lease struct {
	tokens  int64
	expires int64         // when they are lost
	refused int64         // until when there are no others
	asking  chan struct{} // closed when those who ask now have an answer; nil where nobody does
}

// holds reports whether there is a token.
func (l *lease) holds(now int64) bool { return l.tokens > 0 && now < l.expires }

// chunk returns how many tokens are taken at once, and how few are worth a message.
func (c *counter) chunk() (most, least int64) {
	most = max(1, min(int64(c.rule.Rate)/leaseShare, c.depth/c.interval))
	return most, max(1, most/2)
}

// entryOf names the entry of the bucket of a key, whoever made either.
func (c *counter) entryOf(space string, k key) string {
	h := sha256.New()
	for _, text := range append([]string{space, c.rule.Name, c.rule.Per.String(), k.principal, k.session}, c.rule.Tools...) {
		h.Write(strconv.AppendInt(nil, int64(len(text)), 10))
		h.Write([]byte(" " + text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// take moves the time of a bucket on by up to most calls, and returns by how many. Where there
// is no room for least, it is 0, and wait is how long until there is.
func (s *Shared) take(entry string, interval, depth, most, least int64) (got, wait int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime) // the tokens are also for those who wait with the caller
	defer cancel()
	for {
		found, err := s.config.Entries.Get(ctx, entry)
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return 0, 0, err
		}
		at, _ := strconv.ParseInt(string(found.Value), 10, 64) // what cannot be read is as good as full
		now := time.Now().UnixNano()
		at = min(max(at, now), now+depth) // further away only where a clock went back
		free := (now + depth - at) / interval
		if free < least {
			return 0, at + least*interval - (now + depth), nil
		}
		got := min(free, most)
		at += got * interval
		_, err = s.config.Entries.Update(ctx, entry, strconv.AppendInt(nil, at, 10), found.Revision, time.Duration(at-now)+time.Minute)
		if err == nil {
			return got, 0, nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return 0, 0, err
		}
		select { // another server was faster
		case <-ctx.Done():
			return 0, int64(leaseTime) / leaseShare, nil
		case <-time.After(rand.N(2 * time.Millisecond)):
		}
	}
}

// lacking is a bucket that a call needs a token of, and of which this server has none.
type lacking struct {
	counter *counter
	lease   *lease
	key     key
}

// ask gets tokens, or learns until when there are none. Of many who ask, one does. No lock is
// held.
func (l *Limiter) ask(of lacking) {
	l.mu.Lock()
	if other := of.lease.asking; other != nil {
		l.mu.Unlock()
		<-other
		return
	}
	done := make(chan struct{})
	of.lease.asking = done
	l.mu.Unlock()
	most, least := of.counter.chunk()
	got, wait, err := l.shared.take(of.counter.entryOf(l.space, of.key), of.counter.interval, of.counter.depth, most, least)
	l.shared.reached(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := int64(time.Since(l.began))
	if !of.lease.holds(now) {
		of.lease.tokens = 0
	}
	of.lease.tokens += got
	if got > 0 {
		of.lease.expires = now + leaseTime
	}
	of.lease.refused = now + wait
	of.lease.asking = nil
	close(done)
}

// askLeased is check.ask of a bucket that servers share.
func (k *check) askLeased(call *Key, now int64) (fits bool) {
	k.lease = k.counter.leaseOf(call, now)
	if k.lease.holds(now) {
		return true
	}
	k.wait = k.lease.refused - now
	if k.wait <= 0 {
		k.lacks = true
		k.wait = cmp.Or(k.counter.interval, 1)
	}
	return false
}

// leaseOf returns the lease of the bucket that a call is taken from.
func (c *counter) leaseOf(call *Key, now int64) *lease {
	found := c.leases.find(c.key(call))
	if found == nil {
		found = c.leases.add(c.key(call), now)
	}
	c.leases.keep(now + leaseTime)
	return found
}

// takeLeased counts a call against tokens, and returns what is to be asked for before they are
// used up.
func (k *check) takeLeased(call *Key, now int64) (soon []lacking) {
	k.lease.tokens--
	most, _ := k.counter.chunk()
	if k.lease.tokens <= most/3 && k.lease.asking == nil && k.lease.refused <= now && most > 1 {
		soon = append(soon, lacking{k.counter, k.lease, k.counter.key(call)})
	}
	return soon
}

// Share has the limiter count together with those of other servers that have the same space.
// It comes before the first call.
func (l *Limiter) Share(with *Shared, space string) { l.shared, l.space = with, space }

// takeShared is take where servers share the limits: it asks for tokens that are missing.
func (l *Limiter) takeShared(rules []*counter, guard LoopLimit, call *Key) (v attempt) {
	for range maxAsks {
		v = attempt{leased: l.shared.reachable()}
		l.take(&v, rules, guard, call, int64(time.Since(l.began)))
		for _, of := range v.soon {
			go l.ask(of)
		}
		if len(v.lacking) == 0 {
			return v
		}
		for _, of := range v.lacking {
			l.ask(of)
		}
	}
	return v // others took what came: it is refused, for a moment
}
