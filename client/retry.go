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

// Waits between tries, which double.
const (
	firstWait = 100 * time.Millisecond
	maxWait   = 2 * time.Second
)

// retries are attempts at the same thing.
type retries struct {
	patience time.Duration
	failed   time.Time // the first of the failures since something worked
	next     time.Duration
}

func (c *Client) retries() *retries { return &retries{patience: c.patience} }

// reset says that something worked.
func (r *retries) reset() { r.failed, r.next = time.Time{}, 0 }

// wait waits before the next try. It reports false where there is to be none.
func (r *retries) wait(ctx context.Context) bool {
	if r.failed.IsZero() {
		r.failed, r.next = time.Now(), firstWait
	}
	if time.Since(r.failed) >= r.patience {
		return false
	}
	timer := time.NewTimer(r.next/2 + rand.N(r.next)) // clients of one server come back one by one
	defer timer.Stop()
	r.next = min(2*r.next, maxWait)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// again does what can be done twice until the connection holds.
func (c *Client) again(ctx context.Context, do func() error) error {
	for r := c.retries(); ; {
		err := do()
		if !lostConnection(err) || !r.wait(ctx) {
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
