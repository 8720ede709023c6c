// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package span notes what happens below a call for those who trace it. Where
// nobody does, it does nothing: whether, and where spans go, is up to the span that a
// context has already.
package span

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope is who makes the spans.
const scope = "github.com/toolserver/toolserver"

// maxText is how long a text of a span may be, in bytes.
const maxText = 1 << 10

// A Span is one part of a call. The methods of the zero value do nothing.
type Span struct{ span trace.Span }

// Of returns the span that ctx is part of. Who began it ends it.
func Of(ctx context.Context) Span { return Span{trace.SpanFromContext(ctx)} }

// Start begins a span below that of ctx, which may have ended: an execution
// outlives the call that began it. Without one that is exported there is nothing to
// begin.
func Start(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.SpanContext().IsSampled() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, Span{span}
}

// Sampled reports whether the span is exported.
func (s Span) Sampled() bool { return s.span != nil && s.span.SpanContext().IsSampled() }

// Trace returns the id of the trace as it is written; empty if there is none.
func (s Span) Trace() string {
	if s.span == nil || !s.span.SpanContext().HasTraceID() {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Set notes something about the span. Nothing that may be secret belongs there.
func (s Span) Set(key, value string) {
	if s.Sampled() {
		s.span.SetAttributes(attribute.String(key, text(value)))
	}
}

// SetInt is Set for a number.
func (s Span) SetInt(key string, value int) {
	if s.Sampled() {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

// Fail notes that what the span is about did not succeed, and what is known of it
// in a word.
func (s Span) Fail(reason string) {
	if s.Sampled() {
		s.span.SetStatus(codes.Error, text(reason))
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// text returns a text that a collector takes: it refuses everything it is sent
// together with one that is not UTF-8.
func text(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}

// Environ returns the variables by which a program learns of which trace it is
// part; none where there is none.
func Environ(ctx context.Context) []string {
	headers := make(propagation.MapCarrier)
	propagation.TraceContext{}.Inject(ctx, headers)
	var list []string
	for _, key := range []string{"traceparent", "tracestate"} {
		if value := headers[key]; value != "" {
			list = append(list, strings.ToUpper(key)+"="+value)
		}
	}
	return list
}
