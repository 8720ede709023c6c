// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolserver/toolserver/internal/trace"
)

// traceClient sends spans to an OpenTelemetry collector. It writes them itself:
// decisions 12 and 28.
type traceClient struct {
	config   otlpConfig
	resource []byte // what each request says of this server
	conn     *grpc.ClientConn
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

// newTraceClient readies a connection, which is made when there is something to
// send. about is what is told of this server.
func newTraceClient(config otlpConfig, about []trace.Attribute) (*traceClient, error) {
	security := insecure.NewCredentials()
	if config.tls != nil {
		security = credentials.NewTLS(config.tls)
	}
	calls := []grpc.CallOption{grpc.MaxRetryRPCBufferSize(maxResend)}
	if config.gzip {
		calls = append(calls, grpc.UseCompressor(gzip.Name))
	}
	conn, err := grpc.NewClient(config.target,
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
	return &traceClient{config, appendResource(nil, about), conn}, err
}

// export sends spans and waits until the collector has them. That it refused
// some is an error, too.
func (c *traceClient) export(ctx context.Context, spans []*trace.Span) error {
	ctx = metadata.NewOutgoingContext(ctx, c.config.headers)
	if c.config.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, c.config.timeout)
		defer cancel()
		ctx = limited
	}
	request, response := appendRequest(nil, c.resource, spans), []byte(nil)
	err := c.conn.Invoke(ctx, exportMethod, &request, &response, grpc.ForceCodecV2(asBytes{}))
	if err == nil {
		err = partialSuccess(response)
	}
	if err != nil {
		return fmt.Errorf("traces export: %w", err)
	}
	return nil
}

// asBytes is a codec for messages that are written already.
type asBytes struct{}

func (asBytes) Name() string { return proto.Name }

func (asBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (asBytes) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// partialSuccess reads an ExportTraceServiceResponse, whose one field is an
// ExportTracePartialSuccess, and returns what it complains about, if anything.
func partialSuccess(response []byte) error {
	var message []byte
	for len(response) > 0 {
		number, kind, n := protowire.ConsumeField(response)
		if n < 0 {
			return fmt.Errorf("answer of the collector: %w", protowire.ParseError(n))
		}
		if number == 1 && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(response)
			message, _ = protowire.ConsumeBytes(response[tag:])
		}
		response = response[n:]
	}
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
