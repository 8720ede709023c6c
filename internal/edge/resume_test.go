// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestKeptBytes: what is kept is bounded, at the cost of the session that has most.
func TestKeptBytes(t *testing.T) {
	k := newStreams(time.Hour)
	k.limit = 10_000
	open := func(session, id string) *request {
		who := new(request)
		if err := k.Open(context.WithValue(t.Context(), requestKey{}, who), session, id); err != nil {
			t.Fatal(err)
		}
		return who
	}
	send := func(session, id string, bytes int) {
		if err := k.Append(t.Context(), session, id, make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	has := func(session, id string, after int) error {
		_, err := k.after(session, id, after)
		return err
	}
	open("small", "")
	open("small", "call")
	send("small", "call", 1000)
	open("large", "")
	for i := range 100 {
		id := fmt.Sprint(i)
		who := open("large", id)
		send("large", id, 1000)
		who.answered.Store(true)
		k.left("large", id, false)
	}
	if k.bytes > k.limit || len(k.sessions["large"].ended) > maxKeptEnded {
		t.Errorf("%d bytes, %d streams that have ended", k.bytes, len(k.sessions["large"].ended))
	}
	if err := has("small", "call", -1); err != nil {
		t.Errorf("of the session with little: %v", err)
	}
	if err := has("large", "0", -1); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("the oldest of the other: %v", err)
	}
	open("large", "long")
	for range 3 * maxKeptEvents {
		send("large", "long", 1)
	}
	if n := len(k.sessions["large"].streams["long"].events); n > maxKeptEvents {
		t.Errorf("a stream of %d events", n)
	}
	if err := has("large", "long", 5); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("its first events: %v", err)
	}
	if err := has("large", "long", 3*maxKeptEvents-2); err != nil {
		t.Errorf("its last event: %v", err)
	}
	for range 3 * maxKeptEvents { // nobody ever listens to what is not about a call
		send("small", "", 1)
	}
	if err := has("small", "", -1); err != nil {
		t.Errorf("a stream that is opened anew: %v", err)
	}
	for session := range k.sessions {
		k.SessionClosed(t.Context(), session)
	}
	if k.bytes != 0 || len(k.sessions) != 0 {
		t.Errorf("%d bytes of %d sessions are left", k.bytes, len(k.sessions))
	}
}
