// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package span_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/toolserver/toolserver/internal/span"
)

// TestNobodyTraces proves that spans cost nothing where nobody wants them.
func TestNobodyTraces(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		below, s := span.Start(ctx, "run")
		s.Set("key", "value")
		s.SetInt("number", 1)
		s.Fail("failed")
		s.End()
		if below != ctx || s.Sampled() || s.Trace() != "" || span.Of(ctx).Trace() != "" {
			t.Error("there is a span")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if env := span.Environ(ctx); env != nil {
		t.Errorf("environment %q", env)
	}
}

// TestTextsAreSendable proves that no text of a span is one that a collector
// refuses, or without end.
func TestTextsAreSendable(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	ctx, root := provider.Tracer("test").Start(t.Context(), "call")
	root.End() // what happens below goes on
	for _, value := range []string{"a\xffb", strings.Repeat("x", 5000), strings.Repeat("é", 5000), "x" + strings.Repeat("é", 5000)} {
		_, s := span.Start(ctx, "run")
		s.Set("key", value)
		s.Fail(value)
		s.End()
	}
	ended := spans.Ended()[1:]
	if len(ended) != 4 {
		t.Fatalf("%d spans, want 4", len(ended))
	}
	for _, s := range ended {
		value := s.Attributes()[0].Value.AsString()
		if !utf8.ValidString(value) || len(value) > 1100 || value == "" || s.Status().Code != codes.Error || s.Status().Description != value {
			t.Errorf("%q, %v", value, s.Status())
		}
		if s.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Error("it is not below the call")
		}
	}
	if got := ended[0].Attributes()[0].Value.AsString(); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}

func TestEnviron(t *testing.T) {
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(tracetest.NewSpanRecorder()))
	ctx, root := provider.Tracer("test").Start(context.Background(), "call")
	id := root.SpanContext()
	want := []string{"TRACEPARENT=00-" + id.TraceID().String() + "-" + id.SpanID().String() + "-01"}
	if got := span.Environ(ctx); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
