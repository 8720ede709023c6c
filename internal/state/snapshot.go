// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
)

// Snapshot calls f with every entry below a prefix, as [KV.Watch] does, and returns when these
// were all.
func Snapshot(ctx context.Context, kv KV, prefix string, f func(Entry)) error {
	watching, done := context.WithCancel(ctx)
	defer done()
	complete := false
	err := kv.Watch(watching, prefix, func(e Entry) {
		switch {
		case complete: // what follows are changes
		case e.Key == "":
			complete = true
			done()
		case !e.Deleted:
			f(e)
		}
	})
	switch {
	case complete:
		return nil
	case errors.Is(err, ErrWatchCut):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
