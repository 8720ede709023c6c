// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// traceClient sends spans to an OpenTelemetry collector. It does without the
// collector's generated code, which links an HTTP gateway: decision 12.
type traceClient struct {
	config otlpConfig
	conn   *grpc.ClientConn
}

const exportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// exportPolicy sends again after the codes that OTLP calls retryable, which is
// also what a collector out of reach comes to. The last attempt is before the
// default timeout of a batch, so that the error is the collector's and not the
// clock's. RESOURCE_EXHAUSTED is retryable only if the collector says when to
// come back, which a policy cannot tell.
const exportPolicy = `{"methodConfig": [{
	"name": [{"service": "opentelemetry.proto.collector.trace.v1.TraceService"}],
	"retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.5s", "maxBackoff": "5s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"]
	}
}]}`

// maxResend is the largest batch that is kept to be sent again. gRPC's default
// is less than a full batch of spans may have.
const maxResend = 16 << 20

// Start readies the connection, which is made when there is something to send.
func (c *traceClient) Start(context.Context) error {
	security := insecure.NewCredentials()
	if c.config.tls != nil {
		security = credentials.NewTLS(c.config.tls)
	}
	calls := []grpc.CallOption{grpc.MaxRetryRPCBufferSize(maxResend)}
	if c.config.gzip {
		calls = append(calls, grpc.UseCompressor(gzip.Name))
	}
	conn, err := grpc.NewClient(c.config.target,
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultServiceConfig(exportPolicy),
		grpc.WithDisableServiceConfig(), // of the resolver: ours is the only one
		grpc.WithDefaultCallOptions(calls...),
		grpc.WithUserAgent("toolserver/"+versionText()),
		grpc.WithConnectParams(grpc.ConnectParams{
			// No longer than between attempts, or they would fail without trying.
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
	c.conn = conn
	return err
}

// Stop closes the connection, also under calls that still run.
func (c *traceClient) Stop(context.Context) error { return c.conn.Close() }

// UploadTraces sends spans and waits until the collector has them. That it
// refused some is an error, too.
func (c *traceClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx = metadata.NewOutgoingContext(ctx, c.config.headers)
	if c.config.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, c.config.timeout)
		defer cancel()
		ctx = limited
	}
	// On the wire these are ExportTraceServiceRequest, and the one field of
	// ExportTraceServiceResponse as the bytes it has.
	request, response := &tracepb.TracesData{ResourceSpans: spans}, new(wrapperspb.BytesValue)
	if err := c.conn.Invoke(ctx, exportMethod, request, response); err != nil {
		return err
	}
	return partialSuccess(response.GetValue())
}

// partialSuccess reads an ExportTracePartialSuccess and returns what it
// complains about, if anything.
func partialSuccess(message []byte) error {
	var rejected uint64
	var reason string
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("answer of the collector: %w", protowire.ParseError(n))
		}
		message = message[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			rejected, n = protowire.ConsumeVarint(message)
		case number == 2 && kind == protowire.BytesType:
			reason, n = protowire.ConsumeString(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("answer of the collector: %w", protowire.ParseError(n))
		}
		message = message[n:]
	}
	if rejected == 0 && reason == "" {
		return nil
	}
	return fmt.Errorf("the collector rejected %d spans: %s", int64(rejected), reason)
}
