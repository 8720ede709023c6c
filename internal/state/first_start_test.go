// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/state"
)

// BenchmarkFirstStart is a first start on a new directory, with the spaces of a server and its
// first write.
func BenchmarkFirstStart(b *testing.B) {
	for b.Loop() {
		e, err := state.Open(b.Context(), state.Options{Dir: filepath.Join(b.TempDir(), "state")})
		if err != nil {
			b.Fatal(err)
		}
		var first state.KV
		for _, name := range []string{"server", "sessions", "grants", "calls"} {
			if first, err = e.KV(b.Context(), state.Space{Name: name}); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := e.Log(b.Context(), state.Space{Name: "history"}); err != nil {
			b.Fatal(err)
		}
		if _, err := first.Put(b.Context(), "k", nil, 0); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
