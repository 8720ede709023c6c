// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolserver/toolserver/internal/trace"
)

// This file writes OTLP, with the numbers of its fields as
// opentelemetry/proto/trace/v1/trace.proto has them.

// appendRequest appends an ExportTraceServiceRequest.
func appendRequest(b, resource []byte, spans []*trace.Span) []byte {
	return appendMessage(b, 1, func(b []byte) []byte { // ResourceSpans
		b = appendMessage(b, 1, func(b []byte) []byte { return append(b, resource...) })
		return appendMessage(b, 2, func(b []byte) []byte { // ScopeSpans
			b = appendMessage(b, 1, func(b []byte) []byte { // InstrumentationScope
				b = appendText(b, 1, "toolserver")
				return appendText(b, 2, versionText())
			})
			for _, span := range spans {
				b = appendMessage(b, 2, func(b []byte) []byte { return appendSpan(b, span) })
			}
			return b
		})
	})
}

// appendResource appends the fields of a Resource.
func appendResource(b []byte, about []trace.Attribute) []byte {
	for _, a := range about {
		b = appendAttribute(b, 1, a)
	}
	return b
}

const (
	kindServer  = 2 // Span.SpanKind
	statusError = 2 // Status.StatusCode

	// Flags of a span, beside those of its trace.
	flagSampled   = 1
	flagHasRemote = 0x100
	flagIsRemote  = 0x200
)

func appendSpan(b []byte, s *trace.Span) []byte {
	flags := uint32(flagSampled | flagHasRemote)
	b = appendBytes(b, 1, s.TraceID[:])
	b = appendBytes(b, 2, s.ID[:])
	if s.State != "" {
		b = appendText(b, 3, s.State)
	}
	if s.Parent != [8]byte{} {
		flags |= flagIsRemote
		b = appendBytes(b, 4, s.Parent[:])
	}
	b = appendText(b, 5, s.Name)
	b = appendNumber(b, 6, kindServer)
	b = appendTime(b, 7, s.Begin)
	b = appendTime(b, 8, s.End)
	for _, a := range s.Attributes {
		b = appendAttribute(b, 9, a)
	}
	if s.Error != "" {
		b = appendMessage(b, 15, func(b []byte) []byte { // Status
			b = appendText(b, 2, s.Error)
			return appendNumber(b, 3, statusError)
		})
	}
	b = protowire.AppendTag(b, 16, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, flags)
}

// appendAttribute appends a KeyValue.
func appendAttribute(b []byte, field protowire.Number, a trace.Attribute) []byte {
	return appendMessage(b, field, func(b []byte) []byte {
		b = appendText(b, 1, a.Key)
		return appendMessage(b, 2, func(b []byte) []byte { return appendText(b, 1, a.Value) }) // AnyValue
	})
}

// appendMessage appends a message that fields writes.
func appendMessage(b []byte, field protowire.Number, fields func([]byte) []byte) []byte {
	return appendBytes(b, field, fields(nil))
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

// appendText sees to it that the text is one: a collector refuses a whole request
// for a byte that is not.
func appendText(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), strings.ToValidUTF8(value, "\uFFFD"))
}

func appendNumber(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}
