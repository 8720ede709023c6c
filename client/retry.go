// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Pauses between tries, which double.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// tries are attempts at the same thing.
type tries struct {
	patience time.Duration
	failed   time.Time // the first of the failures since something worked
	next     time.Duration
}

func (c *Client) tries() *tries { return &tries{patience: c.patience} }

// reset says that something worked.
func (t *tries) reset() { t.failed, t.next = time.Time{}, 0 }

// pause waits before the next try. It reports false where there is to be none.
func (t *tries) pause(ctx context.Context) bool {
	if t.failed.IsZero() {
		t.failed, t.next = time.Now(), firstPause
	}
	if time.Since(t.failed) >= t.patience {
		return false
	}
	wait := time.NewTimer(t.next/2 + rand.N(t.next)) // clients of one server come back one by one
	defer wait.Stop()
	t.next = min(2*t.next, maxPause)
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// again does what can be done twice until the connection holds.
func (c *Client) again(ctx context.Context, do func() error) error {
	for t := c.tries(); ; {
		err := do()
		if !lostConnection(err) || !t.pause(ctx) {
			return err
		}
	}
}

// lostConnection reports whether an error says that there is no server, or none that
// takes calls.
func lostConnection(err error) bool { return status.Code(err) == codes.Unavailable }

// notTaken reports whether an error is the server's own word that it did not take the
// call, which it says with when to come back, and not a guess about the connection.
func notTaken(err error) bool { return len(status.Convert(err).Details()) > 0 }
