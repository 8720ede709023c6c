// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toolserver/toolserver/internal/state"
)

// TestNearlyFull: a bucket of which 80 percent are used is told of, once until it has room again.
func TestNearlyFull(t *testing.T) {
	t.Parallel()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	kv, err := engine.KV(t.Context(), state.Space{Name: "small", MaxBytes: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.WarnLevel)
	w := watchUsage(engine, prometheus.NewRegistry(), zap.New(core))
	w.Close() // the test looks itself
	check := func(size, want int) {
		t.Helper()
		if _, err := kv.Put(t.Context(), "k", make([]byte, size), 0); err != nil {
			t.Fatal(err)
		}
		list, err := engine.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w.check(list)
		}
		if got := logs.FilterMessageSnippet("nearly full").Len(); got != want {
			t.Errorf("with %d bytes it was told %d times, want %d", size, got, want)
		}
	}
	check(5<<10, 0)
	check(85<<10, 1)
	check(5<<10, 1)
	check(85<<10, 2)
}
